//! The look before a bag is made: whether it can hold the source, and whether what its payload has already is of
//! this source.
//!
//! The text files of a bag are UTF-8 and list files alone, so a name that is not UTF-8 cannot be in them, and a
//! symbolic link is none. A payload has what the lists have and nothing else, so what is there and not in the source
//! would make it no bag.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::copy::before::prepare::Prepared;
use crate::copy::job::CopyJob;
use crate::copy::mirror::search::DepartureSearch;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::path::Shown;
use crate::sys;
use crate::tree::found::{Batch, WalkEvent, WalkItem};
use crate::tree::walk::most_levels;

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

    fn refuse(&self, job: &CopyJob, why: &str) -> Result<()> {
        if self.number == 0 {
            return Ok(());
        }
        let (number, names) = (self.number, names(self.number, &self.examples));
        let finding = format!("{number} of its entries {why}: {names}; nothing was touched");
        Err(Error::finding("make a bag of", &job.source, finding))
    }
}

/// Some of many paths.
fn names(number: u64, examples: &[PathBuf]) -> String {
    let shown: Vec<String> = examples.iter().map(|path| Shown::path(path).to_string()).collect();
    let more = match number - examples.len() as u64 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// What a walk of the source found that a bag cannot hold.
#[derive(Default)]
pub struct Fit {
    no_text: Misfits,
    links: Misfits,
}

impl Fit {
    /// Takes what the walk came upon.
    pub fn take(&mut self, found: WalkEvent, stop: &Stop) -> ControlFlow<()> {
        match found {
            WalkEvent::Files(batch) => self.files(&batch),
            WalkEvent::Item(WalkItem::HardLink(output, entry)) => {
                if !is_text(output.rel.join(&entry.name).as_bytes()) {
                    self.no_text.add(|| output.path_of(&entry.name));
                }
            }
            WalkEvent::Item(WalkItem::Symlink(source, _, entry)) => {
                self.links.add(|| source.path_of(&entry.name));
            }
            // The copy says what it is.
            WalkEvent::Item(_) => {}
        }
        if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Takes files of one directory.
    pub fn files(&mut self, batch: &Batch) {
        for entry in &batch.files {
            if !is_text(batch.source.rel.join(&entry.name).as_bytes()) {
                self.no_text.add(|| batch.source.path_of(&entry.name));
            }
        }
    }

    /// Refuses a source that a bag cannot hold.
    ///
    /// # Errors
    /// It is one.
    pub fn judge(&self, job: &CopyJob) -> Result<()> {
        let why = "have names that are not UTF-8, which the lists of a bag cannot have (rename them, or copy without \
                   --bag)";
        self.no_text.refuse(job, why)?;
        let why = "are symbolic links, which a bag cannot hold (give --follow-links or --no-links)";
        self.links.refuse(job, why)
    }
}

fn is_text(path: &[u8]) -> bool {
    std::str::from_utf8(path).is_ok()
}

/// Refuses a payload that has what the source has not. `prepared` is of the payload, as in a dry run.
///
/// # Errors
/// It has, or the two cannot be compared.
pub fn refuse_strangers(job: &CopyJob, prepared: &Prepared, stop: &Stop) -> Result<()> {
    let Prepared { source, output, file, .. } = prepared;
    if file.is_some() {
        return Ok(());
    }
    let search = DepartureSearch {
        source,
        output,
        classifier: job.classifier(),
        is_listed: &|_| false,
        all: true,
        last: None,
        tell_other: &|_| (),
        most_levels: most_levels(sys::open_file_limit()),
        stop,
    };
    let found = search.run()?;
    if found.is_empty() {
        return Ok(());
    }
    let examples = found.examples();
    let examples: Vec<PathBuf> = examples.iter().map(|path| output.path_below(path)).collect();
    let names = names(found.items, &examples);
    let finding = format!(
        "its payload has what the source has not: {names}; move it away, or make a new bag; nothing was touched"
    );
    Err(Error::finding("go on with the bag", output.path(), finding))
}
