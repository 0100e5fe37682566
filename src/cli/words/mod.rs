//! What single words of the command line stand for: sizes, and names of outputs with `{date}`, labels and UUIDs.

pub mod engine;
pub mod output_name;
pub mod size;
