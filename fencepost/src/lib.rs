//! Fencepost, the engine as a library.
