//! Checkpoints while writers run, through crashes, faults and damage.

mod faults;
mod fuzzy;
mod house;
