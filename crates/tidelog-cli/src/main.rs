//! The tidelog command.
fn main() {}
