//! Interrupted runs, and going on after them.

mod interrupt;
mod kill;
mod large_files;
