//! A source in which there is nothing to copy: an empty directory looks just as one whose disk is not mounted.
//!
//! A run that copied nothing from it and said "done" would be believed. So it is said, and nothing is made.

use std::time::Instant;

use crate::copy::before::prepare::open_source;
use crate::copy::job::CopyJob;
use crate::copy::report::{Counts, Ending, Report};
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::sys::{Dir, DirListing};
use crate::tree::dirs::SourceDir;

impl CopyJob {
    /// The report of a run whose source is empty although that was not allowed; it makes nothing.
    ///
    /// # Errors
    /// The source cannot be opened or listed.
    pub(crate) fn of_nothing(&self, started: Instant, stop: &Stop) -> Result<Option<Report>> {
        let (source, file) = open_source(&self.source)?;
        Ok(match self.finds_nothing(&source, file.is_some())? {
            Some(why) => {
                let report = Report::dry(Counts::default(), stop, started.elapsed());
                Some(Report { ending: Ending::Nothing(why), ..report })
            }
            None => None,
        })
    }

    /// That the source is empty, if it is and that was not allowed.
    pub(crate) fn finds_nothing(&self, source: &Dir, is_file: bool) -> Result<Option<Error>> {
        let fail = |error| Error::io("list", &self.source, error);
        if self.allow_empty || is_file || !DirListing::is_empty(source).map_err(fail)? {
            return Ok(None);
        }
        let finding =
            "the source is empty; is its disk mounted? if it is meant to be, give --allow-empty";
        Ok(Some(Error::finding("copy anything of", &self.source, finding)))
    }

    /// That a whole run came upon nothing that it was to copy, if that was not allowed. Directories alone are
    /// something.
    fn found_nothing(&self, counts: &Counts, source: Option<&Dir>) -> Option<Error> {
        let source = source.filter(|_| !self.allow_empty && self.shard.is_none())?;
        if counts.seen > 0 || !counts.is_whole() {
            return None;
        }
        let finding = match &self.names {
            Some(names) if names.is_empty() => {
                "the list of names has none; if that is meant, give --allow-empty"
            }
            None if !self.filter.is_empty() => {
                "nothing in the source matches --include and --exclude; if that is meant, give --allow-empty"
            }
            // It was not when the run began. What cannot be listed now was told.
            _ => return self.finds_nothing(source, false).ok().flatten(),
        };
        Some(Error::finding("copy anything of", &self.source, finding))
    }

    /// How a whole run of `source`, if that is a directory, ended that was given up because it is `broken`, or was not.
    pub(crate) fn ending(
        &self,
        counts: &Counts,
        stop: &Stop,
        broken: Option<Error>,
        source: Option<&SourceDir>,
    ) -> Ending {
        let ending = Ending::of(counts, stop, broken);
        match (ending, self.found_nothing(counts, source.map(|source| &source.handle))) {
            (Ending::Complete, Some(nothing)) => Ending::Nothing(nothing),
            (ending, _) => ending,
        }
    }
}
