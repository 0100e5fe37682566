//! What the user calls an end of a stream, and whether a stream is meant at all.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::path::directory_of;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{Dir, StreamEnd};

/// An end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Standard input or output, whichever it is: `-`.
    Standard,
    /// What is at this path.
    Path(PathBuf),
}

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Self {
        match path.as_os_str() == "-" {
            true => Endpoint::Standard,
            false => Endpoint::Path(path.to_path_buf()),
        }
    }
}

impl Endpoint {
    /// As the user wrote it.
    pub fn path(&self) -> &Path {
        match self {
            Endpoint::Standard => Path::new("-"),
            Endpoint::Path(path) => path,
        }
    }

    /// What the system says of it as an input; of what it points to, if it is a link.
    pub fn stat_input(&self) -> io::Result<Stat> {
        match self {
            Endpoint::Standard => Ok(*StreamEnd::standard_input()?.stat()),
            Endpoint::Path(path) => stat(path),
        }
    }
}

/// Whether a stream is meant, rather than a copy of a tree or of a file into a directory: an end is `-`, an
/// input is a FIFO or a device, there are several inputs, or a file goes where something other than a
/// directory is.
pub fn is_stream(inputs: &[Endpoint], outputs: &[Endpoint]) -> bool {
    let kind = |endpoint: &Endpoint| stat(endpoint.path()).map(|stat| stat.kind).ok();
    match inputs {
        _ if inputs.iter().chain(outputs).any(|endpoint| *endpoint == Endpoint::Standard) => true,
        [input] => match kind(input) {
            Some(Kind::Fifo | Kind::Device) => true,
            Some(Kind::File) => outputs.iter().filter_map(kind).any(|kind| kind != Kind::Dir),
            _ => false,
        },
        _ => true,
    }
}

/// What is at a path; of what it points to, if that is a link.
pub fn stat(path: &Path) -> io::Result<Stat> {
    match path.file_name().filter(|_| !names_directory(path)) {
        Some(name) => Dir::open(directory_of(path))?.stat(name, true),
        None => Dir::open(path)?.stat_self(),
    }
}

/// Whether a path can only be that of a directory.
pub fn names_directory(path: &Path) -> bool {
    let ends_so = |path: &OsStr| {
        path.as_encoded_bytes()
            .last()
            .is_some_and(|last| std::path::is_separator(char::from(*last)))
    };
    ends_so(path.as_os_str()) || path.file_name().is_none() || path.ends_with(".")
}
