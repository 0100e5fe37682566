//! What is asked of an output with generations.

use std::time::Duration;

use crate::copy::generations::keep::KeepRule;
use crate::copy::mirror::options::MostDepartures;

/// How an output has generations.
#[derive(Clone, Debug)]
pub struct Generations {
    /// Which stay; all without.
    pub keep: Option<KeepRule>,
    /// If more has left the source since the last one, the run is refused.
    pub most: MostDepartures,
    /// Others may enter an output that is made now, as the umask has it.
    pub open: bool,
    /// Trash that is older is removed after a complete run.
    pub keep_trash: Option<Duration>,
}
