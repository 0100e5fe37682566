//! What tells one list or tree at a place from another: when it was made, its bytes, and whose runs made it.

use std::{fs::File, io, path::Path};

use crate::{
    error::{Deed, Error, Result},
    hash::Algorithm,
    io::ReadBack,
    manifest::{ManifestName, Stamp, lists::is_span_index},
    state::PrivateDir,
    sys::{Dir, Medium},
};

/// The error about an index.
const INDEX: &str = "it is the index of a span, which says what is on other disks and is no place: give these disks, \
                     or the manifest of each";

/// When the run began that made a list, by its name; 0 if that does not tell, or is still to come.
pub fn time_of_list(list: &Path) -> u32 {
    let name = list.file_name().and_then(ManifestName::of_any);
    let time = name.filter(|name| !name.is_ahead()).map(|name| name.time().as_second());
    time.and_then(|time| u32::try_from(time).ok()).unwrap_or(0)
}

/// The name of the run that made a list, by that of the list: it may have made several of the same disk.
pub fn name_of_run(list: &Path) -> Option<String> {
    Some(format!("run {}", list.file_name().and_then(Stamp::of_list)?))
}

/// Refuses the index of a span as the list of a place: what it has is on other disks.
///
/// # Errors
/// It is one, or cannot be read.
pub fn refuse_index(list: &Path, file: &File) -> Result<()> {
    match is_span_index(file).deed("read the list", list)? {
        true => Err(Error::finding("take the list", list, INDEX)),
        false => Ok(()),
    }
}

/// The name of a list by its bytes.
///
/// # Errors
/// It cannot be read.
pub fn sum_of(file: &File) -> io::Result<String> {
    let hashed = ReadBack::new().hash(Medium::any(file), Algorithm::Sha256, || false, |_| ())?;
    let digest = hashed.and_then(|hashed| hashed.digest).ok_or(io::ErrorKind::Interrupted)?;
    Ok(format!("list {digest}"))
}

/// The name of a tree by the secret of its runs, if one is known; a disk that was copied as a whole has it, too.
pub fn name_of_runs(root: &Dir, path: &Path, state: Option<&Path>) -> Option<String> {
    let private = PrivateDir::consult(root, path, state).ok()??;
    let secret = private.known_secret().ok()??;
    Some(format!("runs {:?}", secret.of_receipts()))
}
