//! Streams: inputs of any kind to every output.

mod endpoints;
mod proof;
mod states;
