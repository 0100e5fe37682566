//! Outputs with a memory: what has left the source leaves a mirror, into the trash; generations keep every night.

mod departures;
mod generations;
mod misnamed;
mod mounted;
mod moves;
mod neighbours;
mod newest;
mod powercut;
mod random_source;
mod renamed;
mod rot;
mod snapshots;
mod source_changes;
mod spelling;
mod strict;
mod trash;
mod unchanged;
mod unrecorded;
