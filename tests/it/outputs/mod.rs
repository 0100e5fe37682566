//! One read of the source for several outputs.

mod apart;
mod open_to_all;
mod options;
mod replug;
mod span;
mod span_model;
mod span_series;
mod span_turns;
mod together;
mod worth;
