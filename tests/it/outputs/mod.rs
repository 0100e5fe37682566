//! One read of the source for several outputs.

mod apart;
mod options;
mod replug;
mod together;
mod worth;
