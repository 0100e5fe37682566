//! The error type: deed, path and cause, always together.
//!
//! An error that says only "permission denied" sends its reader hunting. There is deliberately no
//! `From<io::Error>`: a bare `?` on I/O does not compile, so each call of the system says what was
//! being done and to what. The path is kept as it is and escaped only when shown.

use std::{borrow::Cow, fmt, io, path::Path, path::PathBuf};

use crate::path::Shown;

/// An error with the deed that failed, the path it concerns and the system's own reason.
#[derive(Debug)]
pub struct Error {
    deed: &'static str,
    path: PathBuf,
    cause: Cause,
    note: String,
    is_of_all: bool,
}

/// The note behind the error of a copy that is made anew.
const COPIED_ANEW: &str = "; it is copied anew";

/// Why a deed failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The system said so.
    Io(io::Error),
    /// We say so: what was found is not what must hold.
    Finding(Cow<'static, str>),
}

impl Error {
    /// The system refused `deed` on `path`. `deed` completes the sentence "cannot …".
    pub fn io(deed: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self {
            deed,
            path: path.as_ref().to_path_buf(),
            cause: Cause::Io(cause),
            note: String::new(),
            is_of_all: false,
        }
    }

    /// We refuse `deed` on `path` because of what was found there.
    pub fn finding(
        deed: &'static str,
        path: impl AsRef<Path>,
        finding: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            deed,
            path: path.as_ref().to_path_buf(),
            cause: Cause::Finding(finding.into()),
            note: String::new(),
            is_of_all: false,
        }
    }

    /// Adds something the reader should know besides; follows the cause as it is.
    pub fn with_note(mut self, note: impl AsRef<str>) -> Self {
        self.note.push_str(note.as_ref());
        self
    }

    /// The same of another deed, of which that was a part.
    pub fn of_deed(self, deed: &'static str) -> Self {
        Self { deed, ..self }
    }

    /// The same of another path, which the reader knows.
    pub fn of_path(self, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// The same of an output as a whole, so that any number of entries have it.
    pub fn of_all(self) -> Self {
        Self { is_of_all: true, ..self }
    }

    /// True if it is of an output as a whole.
    pub fn is_of_all(&self) -> bool {
        self.is_of_all
    }

    /// Further information for the reader.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The deed that failed; completes the sentence "cannot …".
    pub fn deed(&self) -> &'static str {
        self.deed
    }

    /// The same of a copy that did not read as it was written, and is made anew.
    pub fn of_copied_anew(self) -> Self {
        self.with_note(COPIED_ANEW)
    }

    /// True if it is of such a copy.
    pub fn is_of_copied_anew(&self) -> bool {
        self.note.ends_with(COPIED_ANEW)
    }

    /// True if it is about attributes that go with a file's content, as permissions, and not about the content.
    pub fn is_about_attributes(&self) -> bool {
        const OTHERS: [&str; 3] =
            ["read the attributes of", "copy all of", "copy the access list of"];
        self.deed.starts_with("set ") || OTHERS.contains(&self.deed)
    }

    /// True if the system said that there is no such entry.
    pub fn is_of_absent(&self) -> bool {
        matches!(&self.cause, Cause::Io(cause) if cause.kind() == io::ErrorKind::NotFound)
    }

    /// The path as the system knows it: print it through [`Shown`] only.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The system's error, or the rule that was broken.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Why it failed, in words, and what the reader should know besides.
    pub fn reason(&self) -> String {
        format!("{}{}", self.cause, self.note)
    }

    /// The system's error number, when the system was the cause.
    pub fn errno(&self) -> Option<i32> {
        match &self.cause {
            Cause::Io(cause) => cause.raw_os_error(),
            Cause::Finding(_) => None,
        }
    }

    /// The kind of the system's error, when the system was the cause.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match &self.cause {
            Cause::Io(cause) => Some(cause.kind()),
            Cause::Finding(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}{}", self.deed, Shown::path(&self.path), self.cause, self.note)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Io(cause) => cause.fmt(f),
            Cause::Finding(finding) => f.write_str(finding),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(cause) => Some(cause),
            Cause::Finding(_) => None,
        }
    }
}

/// Says what was being done, and to what, where the system refused; and takes for no error what is none.
pub trait Deed<T> {
    /// The system refused `deed` on `path`. `deed` completes the sentence "cannot …".
    ///
    /// # Errors
    /// Fails with the system's error.
    fn deed(self, deed: &'static str, path: impl AsRef<Path>) -> Result<T>;

    /// The same where the path is put together for the error alone.
    ///
    /// # Errors
    /// Fails with the system's error.
    fn deed_at<P: AsRef<Path>>(self, deed: &'static str, path: impl FnOnce() -> P) -> Result<T>;

    /// `None` where there is nothing of that name, which is an answer and no error.
    ///
    /// # Errors
    /// Fails with any other error of the system.
    fn if_there(self) -> io::Result<Option<T>>;

    /// `None` where something has that name already, which is an answer and no error.
    ///
    /// # Errors
    /// Fails with any other error of the system.
    fn unless_taken(self) -> io::Result<Option<T>>;
}

impl<T> Deed<T> for io::Result<T> {
    fn deed(self, deed: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| Error::io(deed, path, error))
    }

    fn deed_at<P: AsRef<Path>>(self, deed: &'static str, path: impl FnOnce() -> P) -> Result<T> {
        self.map_err(|error| Error::io(deed, path(), error))
    }

    fn if_there(self) -> io::Result<Option<T>> {
        answer(self, io::ErrorKind::NotFound)
    }

    fn unless_taken(self) -> io::Result<Option<T>> {
        answer(self, io::ErrorKind::AlreadyExists)
    }
}

/// `None` in place of an error of this kind.
fn answer<T>(result: io::Result<T>, none: io::ErrorKind) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == none => Ok(None),
        result => result.map(Some),
    }
}

/// True for the system's word that there is nothing of a name, nor a directory that it could be in.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The result of fallible functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_deed_path_and_cause() {
        let error = Error::io("read", "a\nb", io::Error::from_raw_os_error(5));
        assert!(error.to_string().starts_with("cannot read \"a\\nb\": "), "{error}");
        assert_eq!(error.errno(), Some(5));
        let error = Error::finding("copy", "x", "it changed");
        assert_eq!(error.to_string(), "cannot copy x: it changed");
        assert_eq!(error.errno(), None);
    }
}
