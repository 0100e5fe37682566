//! Errors, crashes and races: nothing half-done under a final name, nothing touched outside the output.

mod durable;
mod elsewhere;
mod faults;
mod handed_over;
mod hanging;
mod held;
mod interruptions;
mod limits;
mod lists;
mod lost_writes;
mod mirror;
mod miscomputed;
mod nothing;
mod powercut;
mod races;
mod refusals;
mod stated;
mod swapped;
mod sweep;
