//! What a person sees while a run goes on: a row for each output and one for the file in hand, or a line.

pub mod bar;
mod hanging;
mod layout;
mod rate;
pub mod snapshot;
pub mod view;
