//! Bytes to values and back: no files, no threads.
