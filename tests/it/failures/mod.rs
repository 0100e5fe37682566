//! Errors, crashes and races: nothing half-done under a final name, nothing touched outside the output.

mod durable;
mod elsewhere;
mod faults;
mod hanging;
mod limits;
mod mirror;
mod powercut;
mod races;
mod refusals;
mod sweep;
