//! The look before a bag is made: whether it can hold the source, and whether what its payload has already is of
//! this source.
//!
//! The text files of a bag are UTF-8 and list files alone, so a name that is not UTF-8 cannot be in them, and a
//! symbolic link is none. A payload has what the lists have and nothing else, so what is there and not in the source
//! would make it no bag.

use std::path::PathBuf;

use crate::copy::before::fit::FitRules;
use crate::copy::before::prepare::Prepared;
use crate::copy::job::CopyJob;
use crate::copy::mirror::search::DepartureSearch;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::path::Shown;
use crate::sys;
use crate::tree::walk::most_levels;

/// What a bag can hold.
pub const OF_BAGS: FitRules = FitRules {
    deed: "make a bag of",
    holds: |path| std::str::from_utf8(path).is_ok(),
    names: "have names that are not UTF-8, which the lists of a bag cannot have (rename them, or copy without --bag)",
    links: "are symbolic links, which a bag cannot hold (give --follow-links or --no-links)",
};

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
        unfit: false,
        last: None,
        deed: "go on with",
        if_meant: "",
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
    let names = Shown::first_of(found.items, examples.iter().map(|path| Shown::path(path)));
    let finding = format!(
        "its payload has what the source has not: {names}; move it away, or make a new bag; nothing was touched"
    );
    Err(Error::finding("go on with the bag", output.path(), finding))
}
