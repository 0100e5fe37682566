//! What archives become: lists, and what was found of them before.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::manifest::archive::bag::Declaration;
use crate::path::directory_of;
use crate::sys::stat::{Identity, Kind};
use crate::sys::{Dir, Uninterrupted};
use crate::verify::finding::{Finding, Findings};
use crate::verify::target::{ManifestAt, Target, TargetSpec};

/// What is to be checked.
#[derive(Default)]
pub struct Expanded {
    /// The lists.
    pub specs: Vec<TargetSpec>,
    /// The bags among what was asked for.
    pub bags: Vec<Bag>,
    /// What was found of archives before their lists were read.
    pub findings: Vec<Findings>,
}

/// A bag, as far as it is no list.
#[derive(Debug)]
pub struct Bag {
    /// Its `bagit.txt` and its directory.
    pub target: Arc<Target>,
    /// Which directory it is.
    pub id: Identity,
    /// The names of the manifests of its payload that can be checked.
    pub manifests: Vec<String>,
    /// The names of those that cannot, by algorithms that are not known here.
    pub unknown: Vec<String>,
    /// What `bagit.txt` says.
    pub declaration: Declaration,
    /// The bytes and files that its payload has by its `Payload-Oxum`.
    pub oxum: Option<(u64, u64)>,
}

impl Expanded {
    /// Adds a finding about an archive.
    pub fn found(&mut self, target: &Arc<Target>, finding: Finding) {
        self.findings.push(Findings::new(target, vec![finding]));
    }

    /// Adds that something of it cannot be used.
    pub fn unusable(&mut self, target: &Arc<Target>, error: Error) {
        self.found(target, Finding::Unusable(error));
    }
}

/// The directory of the archive that a specification is of: with a file, `above` levels above the one it is in.
pub fn root_of(spec: &TargetSpec, above: usize) -> PathBuf {
    match &spec.manifest {
        Some(ManifestAt::File(path)) => {
            let mut dir = directory_of(path);
            (0..above).for_each(|_| dir = directory_of(dir));
            dir.to_owned()
        }
        _ => spec.dir.clone().unwrap_or_else(|| ".".into()),
    }
}

/// Opens a regular file in `dir`, not through a link.
///
/// # Errors
/// There is none.
pub fn open(dir: &Dir, name: &str) -> io::Result<File> {
    if dir.stat(name.as_ref(), false)?.kind != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let file = dir.open_file(name.as_ref(), false)?;
    match Dir::stat_file(&file)?.kind {
        Kind::File => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Reads what `input` begins with, up to `most` bytes.
///
/// # Errors
/// It cannot be read.
pub fn read_begin(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Uninterrupted(input).take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads what `input` has, if it is not more than `most` bytes.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn read_short(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_begin(input, most + 1)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long to be one")),
        false => Ok(bytes),
    }
}
