//! What is asked of a mirror.

use std::fmt;
use std::time::Duration;

/// How an output is made a mirror of its source.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Files that no manifest of an earlier run lists go too.
    pub all: bool,
    /// If more has left the source, the run is refused.
    pub most: MostDepartures,
    /// Trash that is older is removed after a complete run; none is without.
    pub keep_trash: Option<Duration>,
}

/// How much may leave an output in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MostDepartures {
    /// So many files and links.
    Number(u64),
    /// So many of a hundred files and links at the output.
    Percent(u64),
}

impl Default for MostDepartures {
    fn default() -> Self {
        Self::Percent(50)
    }
}

impl MostDepartures {
    /// Whether `departed` of `all` entries may go.
    pub fn allows(self, departed: u64, all: u64) -> bool {
        match self {
            Self::Number(most) => departed <= most,
            Self::Percent(most) => u128::from(departed) * 100 <= u128::from(all) * u128::from(most),
        }
    }
}

impl fmt::Display for MostDepartures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_may_go_by_default() {
        let half = MostDepartures::default();
        assert!(half.allows(0, 0) && half.allows(1, 2) && !half.allows(2, 3));
        let none = MostDepartures::Number(0);
        assert!(none.allows(0, 5) && !none.allows(1, 5));
        assert!(MostDepartures::Percent(100).allows(u64::MAX, u64::MAX));
    }
}
