//! Bad files of histories, which are checked and not healed: why, and what makes them whole.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::manifest::archive::mhl::is_chain;
use crate::path::Shown;
use crate::verify::{Finding, PartOf, Target, Verdict};

/// Counts them.
#[derive(Default)]
pub struct Unhealed(AtomicU64);

impl Unhealed {
    /// Counts a finding that is of no list that trees are healed by, and returns what is to be told of it.
    pub fn note(&self, target: &Target, finding: &Finding) -> Option<Finding> {
        let Finding::File { path, verdict, .. } = finding else { return None };
        if matches!(verdict, Verdict::Good(_) | Verdict::Refused(_)) {
            return None;
        }
        self.0.fetch_add(1, Relaxed);
        let (path, why) = (path.clone(), remedy(target));
        Some(Finding::NotHealed { path, why, lost: None })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Why a bad file that such a list has is not healed, and what to do.
fn remedy(target: &Target) -> String {
    let list = Shown::path(&target.manifest);
    match target.part {
        PartOf::Generation { .. } => format!(
            "nothing is healed by a history; give the one of its generations that is to hold, as in --manifest {list}"
        ),
        PartOf::Alone if is_chain(target.manifest.as_os_str().as_encoded_bytes()) => {
            "what its history consists of is not healed; put back the directory \"ascmhl\" of a good copy".to_owned()
        }
        PartOf::Alone | PartOf::Bag(_) => format!("{list} could not be read once more"),
    }
}
