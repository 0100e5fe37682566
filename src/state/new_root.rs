//! That a run made the root of an output, and has not given it the source's permissions yet: `new-root` in the private
//! directory.
//!
//! A new root is closed to all others until everything in it is done. Should the run not come to its end, the note
//! tells the next one that it was not the user who closed it.

use std::io::{self, Read};

use crate::state::private_dir::PrivateDir;
use crate::sys::{self, Uninterrupted};

const FILE: &str = "new-root";

const HEAD: &str = "dircopy new root 1";

/// Longer notes are not read.
const MOST_BYTES: u64 = 4 << 10;

/// The note.
pub struct NewRoot;

impl NewRoot {
    /// Notes it. It need not be durable: without it the root stays closed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(private: &PrivateDir) -> io::Result<()> {
        private.write(FILE.as_ref(), false, |file| {
            let text = format!("{HEAD} {}\n", private.mark().of_file(file).text());
            sys::write_all(&*file, text.as_bytes())
        })
    }

    /// Whether it is noted of this very output.
    pub fn is_noted(private: &PrivateDir) -> bool {
        let Ok(Some((file, _))) = private.dir().open_ours(FILE.as_ref()) else { return false };
        let expected = format!("{HEAD} {}\n", private.mark().of_file(&file).text());
        let mut text = String::new();
        let read = Uninterrupted(file).take(MOST_BYTES).read_to_string(&mut text);
        read.is_ok() && text == expected
    }

    /// The root has its permissions.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn forget(private: &PrivateDir) -> io::Result<()> {
        private.forget(FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn it_is_of_one_output_and_is_forgotten() {
        let ((_root, _, private), (_other_root, _, other)) = (scratch(), scratch());
        assert!(!NewRoot::is_noted(&private));
        NewRoot::note(&private).unwrap();
        assert!(NewRoot::is_noted(&private));
        std::fs::copy(private.path().join(FILE), other.path().join(FILE)).unwrap();
        assert!(!NewRoot::is_noted(&other));
        NewRoot::forget(&private).unwrap();
        NewRoot::forget(&private).unwrap();
        assert!(!NewRoot::is_noted(&private));
    }
}
