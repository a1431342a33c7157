//! Tests of the server over real sockets.

mod batches;
mod common;
mod copy;
mod cursors;
mod deep;
mod driver;
mod encodings;
mod extended;
mod fairness;
mod frames;
mod login;
mod malformed;
mod moves;
mod notify;
mod pipelines;
mod replies;
mod sessions;
mod tools;
