//! Whether the lists of an output can hold the source: its names, and nothing but files.

use std::path::PathBuf;

use crate::copy::job::CopyJob;
use crate::error::{Error, Result};
use crate::path::Shown;
use crate::tree::found::{Batch, WalkEvent, WalkItem};

/// So many are named.
const MOST_EXAMPLES: usize = 5;

/// What a bag cannot hold: how many, and the first of them.
#[derive(Default)]
struct Misfits {
    number: u64,
    examples: Vec<PathBuf>,
}

impl Misfits {
    fn add(&mut self, path: impl FnOnce() -> PathBuf) {
        self.number += 1;
        if self.examples.len() < MOST_EXAMPLES {
            self.examples.push(path());
        }
    }

    fn refuse(&self, job: &CopyJob, deed: &'static str, why: &str) -> Result<()> {
        if self.number == 0 {
            return Ok(());
        }
        let number = self.number;
        let names = Shown::first_of(number, self.examples.iter().map(|path| Shown::path(path)));
        let finding = format!("{number} of its entries {why}: {names}; nothing was touched");
        Err(Error::finding(deed, &job.source, finding))
    }
}

/// What the lists of an output can hold.
#[derive(Clone, Copy, Debug)]
pub struct FitRules {
    /// What is refused; completes the sentence "cannot …".
    pub deed: &'static str,
    /// Whether a path can be listed.
    pub holds: fn(&[u8]) -> bool,
    /// Why a source with other names is refused …
    pub names: &'static str,
    /// … and why one with symbolic links.
    pub links: &'static str,
}

/// What a walk of the source found that the lists of an output cannot hold.
pub struct Fit {
    rules: FitRules,
    bad_names: Misfits,
    links: Misfits,
}

impl Fit {
    /// Nothing yet.
    pub fn new(rules: FitRules) -> Self {
        Self { rules, bad_names: Misfits::default(), links: Misfits::default() }
    }

    /// Takes what the walk came upon.
    pub fn take(&mut self, found: &WalkEvent) {
        match found {
            WalkEvent::Files(batch) => self.files(batch),
            WalkEvent::Item(WalkItem::HardLink(output, entry)) => {
                if !(self.rules.holds)(output.rel.join(&entry.name).as_bytes()) {
                    self.bad_names.add(|| output.path_of(&entry.name));
                }
            }
            WalkEvent::Item(WalkItem::Symlink(source, _, entry)) => {
                self.links.add(|| source.path_of(&entry.name));
            }
            // The copy says what it is.
            WalkEvent::Item(_) => {}
        }
    }

    /// Takes files of one directory.
    pub fn files(&mut self, batch: &Batch) {
        for entry in &batch.files {
            if !(self.rules.holds)(batch.source.rel.join(&entry.name).as_bytes()) {
                self.bad_names.add(|| batch.source.path_of(&entry.name));
            }
        }
    }

    /// Refuses a source that does not fit.
    ///
    /// # Errors
    /// It is one.
    pub fn judge(&self, job: &CopyJob) -> Result<()> {
        let FitRules { deed, names, links, .. } = self.rules;
        self.bad_names.refuse(job, deed, names)?;
        self.links.refuse(job, deed, links)
    }
}
