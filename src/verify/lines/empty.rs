//! Manifests that list nothing, and when that is amiss.
//!
//! Mostly a list that lists nothing is cut off, or not a list. A manifest that is what the last run of this user wrote
//! says that this run found no file, as one of many generations may. It proves nothing where it is all that is checked.

use std::sync::Arc;

use crate::verify::archive::part::PartOf;
use crate::verify::finding::Finding;
use crate::verify::target::Target;

/// What was read so far, as to whether it lists something.
#[derive(Default)]
pub struct EmptyManifests {
    /// Whether one lists something.
    any_lists: bool,
    /// Those that list nothing and are what a run wrote.
    recorded: Vec<Arc<Target>>,
    /// The first generation of a history, and whether none so far lists anything.
    generations: Option<(Arc<Target>, bool)>,
}

impl EmptyManifests {
    /// Notes a manifest that was read, which is what a run wrote if `is_recorded`; a finding if it has to list
    /// something and does not.
    pub fn note(
        &mut self,
        target: &Arc<Target>,
        is_empty: bool,
        is_recorded: bool,
    ) -> Option<Finding> {
        self.any_lists |= !is_empty;
        if let PartOf::Generation { .. } = target.part {
            self.generations.get_or_insert((Arc::clone(target), true)).1 &= is_empty;
        }
        if !is_empty || target.part.may_be_empty() {
            return None;
        }
        if is_recorded {
            self.recorded.push(Arc::clone(target));
            return None;
        }
        Some(Finding::Nothing)
    }

    /// What is to be told when all were read.
    pub fn findings(self) -> impl Iterator<Item = (Arc<Target>, Finding)> {
        let Self { any_lists, recorded, generations } = self;
        let finding = move || if any_lists { Finding::NoneFound } else { Finding::Nothing };
        let history = generations.filter(|(_, is_empty)| *is_empty);
        let history = history.map(|(target, _)| (target, Finding::Nothing));
        recorded.into_iter().map(move |target| (target, finding())).chain(history)
    }
}
