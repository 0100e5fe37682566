//! Checking large files by the chains that stand beside their manifest.
//!
//! That all links hold proves the listed digest. If one does not, the file or the chain is bad: the file is
//! then read as a whole, and only that decides. The chain says where a file differs that was found to.

use crate::chain::damage::Damage;
use crate::event::Progress;
use crate::hash::Digest;
use crate::hash::multibuffer::Backend;
use crate::io::link_check::{ChainedContent, Helpers, LinkCheck, LinkReads};
use crate::io::read_back::HashedFrom;
use crate::sys::Medium;
use crate::verify::target::Target;
use crate::verify::work::found::ListedFile;
use crate::verify::work::until::Until;

/// Smaller files are hashed side by side with others, which gains as much.
const LEAST_LINKED: u64 = 8 << 20;

/// Checks files by their links.
pub struct LinkChecker<'a> {
    pub helpers: &'a Helpers,
    /// How links are read.
    pub reads: LinkReads,
    pub backend: Backend,
    pub progress: &'a Progress,
}

/// What came of checking a file by its links.
pub enum Linked {
    /// All hold: the file has the listed digest.
    Good(HashedFrom),
    /// The file is to be read as a whole. Its links were read, and it differs there, if it does.
    Bad(Damage),
    /// The file is to be read as a whole.
    Unknown,
    /// The run is to stop.
    Stopped,
}

impl LinkChecker<'_> {
    /// Checks a file if there is a chain of what it should have, and it is large enough to gain by it.
    pub fn check(&self, target: &Target, file: &ListedFile<'_>, until: Until<'_>) -> Linked {
        if file.found.size() < LEAST_LINKED {
            return Linked::Unknown;
        }
        let name = |shown: &mut Vec<u8>| shown.extend_from_slice(file.path.as_bytes());
        let in_hand = self.progress.take_in_hand(file.found.size(), name);
        let told = |bytes| self.progress.advance(bytes, in_hand.as_deref());
        match self.run(target, file, &told, until, true) {
            // One that grew meanwhile has more than its links.
            Some((damage, from)) if damage.bytes == 0 && file.found.is_still_as_large() => {
                Linked::Good(from)
            }
            Some((damage, _)) => Linked::Bad(damage),
            None if until.is_over() => Linked::Stopped,
            None => Linked::Unknown,
        }
    }

    /// Where a file differs that has not the listed digest, as far as that is known.
    pub fn locate(
        &self,
        target: &Target,
        file: &ListedFile<'_>,
        until: Until<'_>,
    ) -> Option<Damage> {
        self.run(target, file, &|_| (), until, false).map(|(damage, _)| damage)
    }

    /// Where a file differs from its chain, and where it was read from; that only of a file of the right size if
    /// it is to be `of_size`.
    fn run(
        &self,
        target: &Target,
        file: &ListedFile<'_>,
        on_read: &(dyn Fn(u64) + Sync),
        until: Until<'_>,
        of_size: bool,
    ) -> Option<(Damage, HashedFrom)> {
        let digest: &Digest = file.digest;
        let (chain, size) = target.chain(digest)?;
        if of_size && size != file.found.size() {
            return None;
        }
        let medium = match self.reads {
            LinkReads::SideBySide => Medium::any(&file.found.file),
            LinkReads::ByLinks { .. } => file.found.medium().ok()?,
        };
        let reads = match self.reads {
            // The kernel reads ahead of one sequence.
            LinkReads::ByLinks { in_order: false } => {
                LinkReads::ByLinks { in_order: !medium.is_direct() }
            }
            reads => reads,
        };
        let is_to_stop = || until.is_over();
        let content = ChainedContent { chain: &chain, size, digest };
        let check = LinkCheck {
            content,
            medium: &medium,
            reads,
            backend: self.backend,
            is_to_stop: &is_to_stop,
            on_read,
        };
        // What cannot be read is found out when it is read as a whole.
        let bad = check.run(self.helpers).unwrap_or(None)?;
        let from = if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache };
        Some((Damage::new(&chain, size, file.found.size(), &bad), from))
    }
}
