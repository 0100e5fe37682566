//! What the chain of a content tells of a copy: that it is that content, or where it is not.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use crate::chain::damage::Damage;
use crate::error::Error;
use crate::hash::Digest;
use crate::hash::chain::Chain;
use crate::hash::multibuffer::Backend;
use crate::io::link_check::{ChainedContent, LinkCheck, LinkReads};
use crate::io::read_back::HashedFrom;
use crate::sys::{self, Dir, Medium, is_on_turning_disk};
use crate::transfer::context::Context;

/// Smaller copies are hashed as a whole as fast.
const LEAST_LINKED: u64 = 8 << 20;

/// A copy that should have a content of which there may be a chain.
pub struct ChainedCopy<'a> {
    pub context: &'a Context<'a>,
    pub file: &'a File,
    /// The directory that it is in.
    pub dir: Option<&'a Dir>,
    /// The digest that it should have.
    pub digest: &'a Digest,
    /// The chain of that, if it is at hand.
    pub chain: Option<&'a Chain>,
}

/// Steers a check, and counts for it.
#[derive(Clone, Copy)]
pub struct CheckControl<'a> {
    pub is_to_stop: &'a (dyn Fn() -> bool + Sync),
    /// Called with the number of bytes of each read.
    pub on_read: &'a (dyn Fn(u64) + Sync),
}

impl ChainedCopy<'_> {
    /// Where the copy was read from, if it is of `size` and all its links hold: then it has the digest. `None` if
    /// that is not so, the chain is not known, or the run is to stop: reading it as a whole will tell.
    pub fn prove<'m>(
        &self,
        size: u64,
        medium: impl FnOnce() -> io::Result<Medium<'m>>,
        control: CheckControl<'_>,
    ) -> Option<HashedFrom> {
        let (chain, _) = match size >= LEAST_LINKED {
            true => self.chain(size).filter(|(_, chained)| *chained == size)?,
            false => return None,
        };
        let medium = medium().ok()?;
        let bad = self.check(&chain, size, &medium, control)?;
        let from = if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache };
        // One that grew meanwhile has more than its links.
        let is_as_large = || Dir::stat_file(self.file).is_ok_and(|now| now.size == size);
        let ends = || sys::ends_at(self.file, size).unwrap_or(false);
        (bad.is_empty() && is_as_large() && ends()).then_some(from)
    }

    /// Adds to `error` where the copy differs, if its chain is known.
    pub fn with_place(&self, error: Error) -> Error {
        match self.locate() {
            Some(damage) => error.with_note(format!(" ({damage})")),
            None => error,
        }
    }

    fn locate(&self) -> Option<Damage> {
        let stat = Dir::stat_file(self.file).ok()?;
        let (chain, size) = self.chain(stat.size)?;
        let medium = Medium::of(self.file, &stat).ok()?;
        let is_to_stop = || self.context.control.stop.is_urgent();
        let control = CheckControl { is_to_stop: &is_to_stop, on_read: &|_| () };
        let bad = self.check(&chain, size, &medium, control)?;
        medium.finish();
        Some(Damage::new(&chain, size, stat.size, &bad)).filter(Damage::says_something)
    }

    /// The chain, and the size of what it is of; one that is at hand is of a content of `size`.
    fn chain(&self, size: u64) -> Option<(Cow<'_, Chain>, u64)> {
        match self.chain {
            Some(chain) => Some((Cow::Borrowed(chain), size)),
            None => {
                let (chain, size) = self.context.shared.states?.chain(self.digest)?;
                Some((Cow::Owned(chain), size))
            }
        }
    }

    /// The links that do not hold, if they can be checked.
    fn check(
        &self,
        chain: &Chain,
        size: u64,
        medium: &Medium<'_>,
        control: CheckControl<'_>,
    ) -> Option<Vec<u64>> {
        // What the kernel reads ahead is one sequence, and so is what a disk that turns reads fast.
        let in_order = !medium.is_direct() || self.dir.is_some_and(is_on_turning_disk);
        let check = LinkCheck {
            content: ChainedContent { chain, size, digest: self.digest },
            medium,
            reads: LinkReads::ByLinks { in_order },
            backend: Backend::One,
            is_to_stop: control.is_to_stop,
            on_read: control.on_read,
        };
        check.run(self.context.control.helpers).ok()?
    }
}
