//! One read of the source for several outputs.

mod options;
mod together;
