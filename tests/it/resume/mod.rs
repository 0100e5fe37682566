//! Interrupted runs, and going on after them.

mod exchanged;
mod interrupt;
mod kill;
mod large_files;
mod leftovers;
mod rescue;
mod rescue_heal;
