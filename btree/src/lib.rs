//! Ordered index with fence keys.
