//! What a stream is refused for before anything is written, and looking at that without running it.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::stream::job::{Placed, StreamJob};
use crate::stream::listing::Listing;
use crate::stream::named::{Named, stat};
use crate::stream::place::{FilePlace, Place};
use crate::sys;
use crate::sys::stat::{Identity, Kind};
use crate::transfer::verifier::unprovable;

impl StreamJob {
    /// Looks whether the job would be refused, or an input would be missing, and opens and makes nothing.
    ///
    /// # Errors
    /// Why the job would be refused, or which input would be missing.
    pub fn check(&self) -> Result<()> {
        self.refuse_proof()?;
        self.refuse_ends()?;
        let placed = self.place(&|named| Place::look(named, self.policy))?;
        self.keep_apart(&placed)?;
        self.refuse_nothing_to_prove(&placed)?;
        self.inputs.iter().try_for_each(look_at)
    }

    /// Refuses ends that are not what they are called.
    pub(super) fn refuse_ends(&self) -> Result<()> {
        let path = Named::Standard;
        if self.inputs.contains(&path) && sys::was_closed_at_start(0) {
            return Err(Error::finding("read", path.path(), "standard input is closed"));
        }
        if self.manifest.as_deref() == Some(path.path()) {
            let finding = "it goes into a file (./- is one of that name)";
            return Err(Error::finding("write the manifest to", path.path(), finding));
        }
        Ok(())
    }

    /// Refuses to prove what cannot be proven.
    pub(super) fn refuse_proof(&self) -> Result<()> {
        match self.verify.and_then(|_| unprovable(self.sync, self.algorithm)) {
            Some(why) => Err(Error::finding("prove", "the stream", why)),
            None => Ok(()),
        }
    }

    /// Refuses to prove what goes nowhere but into what is open.
    pub(super) fn refuse_nothing_to_prove(&self, placed: &Placed) -> Result<()> {
        let is_open = |(place, _): &(Place, _)| matches!(place, Place::Open(_));
        if self.verify.is_some() && placed.outputs.iter().all(is_open) {
            let why = "no output is a file that could be read back; leave out --verify";
            return Err(Error::finding("prove", "the stream", why));
        }
        Ok(())
    }

    /// Refuses outputs that are one another or an input. Returns the files that no input may be.
    pub(super) fn keep_apart(&self, placed: &Placed) -> Result<HashSet<Identity>> {
        let mut files: Vec<(&FilePlace, PathBuf)> = Vec::new();
        let listing = match &placed.manifest {
            Some(Listing::File(place)) => Some(place),
            _ => None,
        };
        let both = placed.outputs.iter().flat_map(|(place, beside)| [Some(place), beside.as_ref()]);
        let places = both.flatten().filter_map(|place| match place {
            Place::File(place) => Some(place),
            _ => None,
        });
        for place in places.chain(listing) {
            let path = place.path();
            if files.iter().any(|(other, _)| other.is_same(place)) {
                return Err(Error::finding("write twice to", path, "each needs a file of its own"));
            }
            files.push((place, path));
        }
        if self.outputs.iter().filter(|named| **named == Named::Standard).count() > 1 {
            return Err(Error::finding("write twice to", "-", "there is one standard output"));
        }
        let id = |place: &FilePlace| place.there.filter(|stat| stat.kind == Kind::File);
        let there = files.iter().filter_map(|(place, _)| id(place)).map(|stat| stat.id);
        let open = placed.outputs.iter().filter_map(|(place, _)| place.identity());
        // Those behind links, too, and those that stay as they are.
        let named = self.outputs.iter().filter_map(|named| stat(named.path()).ok());
        let named = named.filter(|stat| stat.kind == Kind::File).map(|stat| stat.id);
        let taken: HashSet<Identity> = there.chain(open).chain(named).collect();
        for named in &self.inputs {
            if let Ok(stat) = named.stat_input()
                && stat.kind == Kind::File
                && taken.contains(&stat.id)
            {
                return Err(is_output(named));
            }
        }
        Ok(taken)
    }
}

/// Refuses an input that is not there, or may not be read.
pub(super) fn look_at(named: &Named) -> Result<()> {
    let Named::Path(path) = named else { return Ok(()) };
    let stat = named.stat_input().map_err(|error| Error::io("open", path, error))?;
    match stat.kind {
        Kind::Dir => Err(Error::finding("read", path, "it is a directory")),
        Kind::Socket => Err(Error::finding("read", path, "it is a socket")),
        _ => sys::may_read(path).map_err(|error| Error::io("open", path, error)),
    }
}

/// Says that an input is an output.
pub(super) fn is_output(named: &Named) -> Error {
    Error::finding("read", named.path(), "this input file is an output file")
}
