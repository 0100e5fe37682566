//! What else is looked for in a file that was read: further digests that are listed of it, and the other algorithm that
//! the list may mean.

use std::io::Seek;

use crate::error::Error;
use crate::hash::Digest;
use crate::verify::archive::part::PartOf;
use crate::verify::finding::Verdict;
use crate::verify::target::Target;
use crate::verify::work::check::Checker;
use crate::verify::work::found::ListedFile;

impl Checker<'_> {
    /// Hashes files and judges them; with each, how many bytes it had. `None` if asked to stop, or if it took too
    /// long.
    pub fn read(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
    ) -> Option<Vec<(Verdict, u64)>> {
        let mut results = self.read_as_listed(target, files)?;
        // There it is said by which algorithm a digest is.
        let may_be_other = target.ours.is_none() && target.part == PartOf::Alone;
        for (file, result) in files.iter().zip(&mut results) {
            match (&result.0, file.digest.alike()) {
                (Verdict::Good(_), _) => self.read_further(target, file, result)?,
                // Of two algorithms whose digests look alike, the list may mean the other.
                (Verdict::Differs(..), Some(digest)) if may_be_other => {
                    // What was read once stands at its end; one that cannot be read again stays as it is.
                    if (&file.found.file).rewind().is_ok()
                        && let Some(good @ (Verdict::Good(_), _)) =
                            self.read_by(target, file, &digest)?
                    {
                        *result = good;
                    }
                }
                _ => {}
            }
        }
        Some(results)
    }

    /// Holds a file against the other digests that are listed of it: all must be right.
    fn read_further(
        &mut self,
        target: &Target,
        file: &ListedFile<'_>,
        result: &mut (Verdict, u64),
    ) -> Option<()> {
        for digest in file.further {
            if let Err(error) = (&file.found.file).rewind() {
                let error = Error::io("read again", target.path_of(file.path), error);
                result.0 = Verdict::Unreadable(error);
                return Some(());
            }
            match self.read_by(target, file, digest)? {
                Some((Verdict::Good(_), _)) => {}
                Some(bad) => {
                    *result = bad;
                    return Some(());
                }
                None => return None,
            }
        }
        Some(())
    }

    /// Reads a file once more, by another digest.
    fn read_by(
        &mut self,
        target: &Target,
        file: &ListedFile<'_>,
        digest: &Digest,
    ) -> Option<Option<(Verdict, u64)>> {
        let other = ListedFile { digest, further: &[], ..*file };
        Some(self.read_each(target, &[other], false, None)?.pop())
    }
}
