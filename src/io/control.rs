//! What steers the threads of a run while they read and write, and where they count what they do.

use crate::event::timing::Timings;
use crate::event::{Gate, Progress, Stop};
use crate::io::link_check::Helpers;
use crate::io::rate_limit::RateLimit;
use crate::io::resident::Residency;

/// The controls and counters that the threads of a run share.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// How far the run is.
    pub progress: &'a Progress,
    /// Whether it is to stop.
    pub stop: &'a Stop,
    /// How fast the source may be read.
    pub rate: Option<&'a RateLimit>,
    /// Where its time goes.
    pub timings: &'a Timings,
    /// How much of large files stays in memory.
    pub resident: &'a Residency,
    /// Threads that may help to check a large copy.
    pub helpers: &'a Helpers,
    /// Asked before anything is made or changed at the output.
    pub gate: &'a Gate<'a>,
}
