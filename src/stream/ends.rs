//! What became of the outputs, told as it happens.

use crate::error::Error;
use crate::event::{Done, Event, EventListener, Progress};
use crate::io::read_back::HashedFrom;
use crate::stream::named::Named;

/// What is said where a thread ended as it never should.
pub const DIED: &str = "its thread died; this is a defect of dircopy";

/// What became of an output.
#[derive(Debug)]
pub enum Fate {
    /// The file stands, and is durable if that is asked for.
    Stands {
        /// Whether something gave way for it.
        replaced: bool,
        /// Where it was read back from, if it was.
        proof: Option<HashedFrom>,
        /// What could not be done about it.
        warnings: Vec<Error>,
    },
    /// Everything was written to what was open.
    Passed,
    /// Who read from it went away before the end.
    Closed,
    /// The run was to stop; what of it could not be removed.
    Stopped(Vec<Error>),
    /// What was there stays, for this reason.
    Left(&'static str),
    /// It failed.
    Failed(Error),
    /// It was not on its medium as it was written.
    Unproven(Error),
}

impl Fate {
    /// Whether the output has everything.
    pub fn is_whole(&self) -> bool {
        matches!(self, Fate::Stands { .. } | Fate::Passed)
    }
}

/// The outputs of a run in the order in which they were given, with what became of those that are done.
pub struct Ends<'a> {
    names: &'a [Named],
    fates: Vec<Option<Fate>>,
    listen: &'a EventListener<'a>,
    progress: &'a Progress,
}

impl<'a> Ends<'a> {
    /// Nothing became of any yet.
    pub fn new(names: &'a [Named], listen: &'a EventListener<'a>, progress: &'a Progress) -> Self {
        Self { names, fates: names.iter().map(|_| None).collect(), listen, progress }
    }

    /// Notes and tells what became of one.
    pub fn settle(&mut self, number: usize, fate: Fate) {
        let Some(named) = self.names.get(number) else { return };
        let path = named.path().as_os_str().as_encoded_bytes();
        match &fate {
            Fate::Stands { replaced, warnings, .. } => {
                warnings.iter().for_each(|error| (self.listen)(&Event::Warning(error)));
                let done = if *replaced { Done::Replaced } else { Done::Copied };
                (self.listen)(&Event::Stands(path, done));
            }
            Fate::Left(why) => (self.listen)(&Event::Left(path, why)),
            Fate::Failed(error) | Fate::Unproven(error) => self.tell(error),
            Fate::Stopped(stays) => {
                stays.iter().for_each(|error| (self.listen)(&Event::Warning(error)));
            }
            Fate::Passed | Fate::Closed => {}
        }
        if let Some(place) = self.fates.get_mut(number) {
            *place = Some(fate);
        }
    }

    /// Notes and tells that the thread of one died.
    pub fn died(&mut self, number: usize) {
        if let Some(named) = self.names.get(number) {
            self.settle(number, Fate::Failed(Error::finding("finish", named.path(), DIED)));
        }
    }

    /// Tells of a failure.
    pub fn tell(&self, error: &Error) {
        self.progress.failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (self.listen)(&Event::Failed(error));
    }

    /// Whether there is an output left of which nothing became yet.
    pub fn are_open(&self) -> bool {
        self.fates.iter().any(Option::is_none)
    }

    /// The outputs with what became of them.
    pub fn all(&self) -> impl Iterator<Item = (&Named, Option<&Fate>)> {
        self.names.iter().zip(&self.fates).map(|(named, fate)| (named, fate.as_ref()))
    }

    /// What became of them; `None` of one that nobody settled.
    pub fn into_fates(self) -> Vec<Option<Fate>> {
        self.fates
    }
}
