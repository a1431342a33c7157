//! Chained associative hopscotch hash table.
