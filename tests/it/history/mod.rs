//! Outputs with a memory: what has left the source leaves a mirror, into the trash; generations keep every night.

mod day;
mod departures;
mod generations;
mod mounted;
mod moves;
mod neighbours;
mod nights;
mod powercut;
mod renamed;
mod snapshots;
mod spelling;
mod strict;
mod trash;
mod unchanged;
mod unrecorded;
