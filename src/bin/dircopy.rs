//! The `dircopy` program.
fn main() {}
