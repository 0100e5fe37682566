//! Finding, reading and hashing the files that lines name.

pub mod check;
pub mod collector;
mod folded;
mod found;
mod further;
pub mod linked;
pub mod look_ahead;
pub mod made_states;
pub mod threads;
mod until;
pub mod worker;
