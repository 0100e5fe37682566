//! Outputs with a memory: what has left the source leaves a mirror, into the trash; generations keep every night.

mod departures;
mod generations;
mod renamed;
mod snapshots;
mod trash;
