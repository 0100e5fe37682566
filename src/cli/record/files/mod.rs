//! The files that a run records itself in: where they go, how they appear, and which old ones go.

pub mod destination;
pub mod rotation;
