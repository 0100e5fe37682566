//! The files of a run as its manifest lists them, with their sizes; of many only their directories.

use std::{collections::BTreeMap, io, io::Read, path::Path, path::PathBuf};

use maud::{Markup, html};

use crate::{
    cli::record::log::JsonName, cli::report, cli::report::counted, cli::report::name_of,
    cli::report::number, cli::report::receipt_read::Receipt, cli::report::size, hash::Algorithm,
    hash::Hashed, hash::hex, manifest::Entries, manifest::ManifestName, manifest::Parsed,
    path::RelPath, sys, sys::Dir, sys::PlainUse, tree::LastDir,
};

/// More files than this are shown by directory, so that the page stays light. Not tuned.
const MOST_FILES: usize = 2000;

/// Number of files up to which their sizes are asked for.
const MOST_SIZES: u64 = 100_000;

/// A digest with more digits than this is broken into lines, on paper too.
const SHORT_DIGEST: usize = 64;

/// Number of directories that are told apart.
const MOST_DIRECTORIES: usize = 500;

/// A manifest that is larger is not read; bytes.
const MOST_BYTES: u64 = 4 << 30;

/// The files that a manifest lists.
#[derive(Default)]
struct FileList {
    /// The algorithm of its digests.
    algorithm: Algorithm,
    files: Vec<(RelPath, String, Option<u64>)>,
    directories: BTreeMap<Vec<u8>, Total>,
    total: Total,
}

#[derive(Clone, Copy, Default)]
struct Total {
    files: u64,
    bytes: u64,
    /// Files whose sizes are not in `bytes`.
    unknown: u64,
}

impl Total {
    fn add(&mut self, size: Option<u64>) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size.unwrap_or(0));
        self.unknown += u64::from(size.is_none());
    }
}

/// The section about the files of a copy.
pub fn section(receipt: &Receipt) -> Markup {
    // An output that has everything comes before one that has not.
    let (complete, others): (Vec<_>, Vec<_>) =
        receipt.outputs.kept.iter().partition(|output| output.is_complete());
    let listed = complete.into_iter().chain(others).find_map(|output| {
        let manifest = output.manifest.as_ref().filter(|manifest| manifest.finished)?;
        Some((manifest.name(), manifest.sha256.as_ref()?.0.clone()))
    });
    let Some((name, digest)) = listed else { return html! {} };
    let path = path_of(&name, receipt.working_directory.as_ref());
    html! {
        section {
            h2 { "Files" }
            @match path.ok_or_else(|| io::ErrorKind::NotFound.into()).and_then(|path| read(&path, &digest)) {
                Ok(list) => (listing(&list, &name)),
                Err(why) => p .quiet {
                    "The files are not listed here, because the manifest " (report::name(&name))
                    " cannot be used where this page is made: " (report::text(&why.to_string())) "."
                },
            }
        }
    }
}

/// Where a name of the receipt is on this machine.
fn path_of(name: &JsonName, working_directory: Option<&JsonName>) -> Option<PathBuf> {
    let path = |name: &JsonName| {
        let raw = name.path_bytes.as_ref().and_then(|hex| hex::parse(hex.0.as_bytes()));
        let raw = raw.unwrap_or_else(|| name.path.0.clone().into_bytes());
        Some(PathBuf::from(sys::name_from_bytes(&raw).ok()?))
    };
    let relative = path(name)?;
    match relative.is_absolute() {
        true => Some(relative),
        false => Some(path(working_directory?)?.join(relative)),
    }
}

/// The files that the manifest lists, if it is the one that the receipt has the digest of.
fn read(path: &Path, digest: &str) -> io::Result<FileList> {
    let Some(name) = path.file_name().and_then(ManifestName::parse) else {
        return Err(io::Error::other("it has not the name of a manifest"));
    };
    let root = Dir::open(crate::path::directory_of(path))?;
    let mut file = sys::open_plain(path, PlainUse::Read)?.take(MOST_BYTES);
    let mut input = Hashed::new(&mut file, Algorithm::Sha256);
    let (mut list, mut last) = (FileList::default(), LastDir::default());
    list.algorithm = name.algorithm();
    let mut entries = Entries::of_all(&mut input);
    while let Some(entry) = entries.next_entry()? {
        let Parsed::Record(record) = entry.parsed else { continue };
        let Ok(path) = RelPath::parse(record.name) else { continue };
        let wants_size = list.total.files < MOST_SIZES;
        let size = wants_size.then(|| last.stat(&root, &path, false).ok()).flatten();
        list.add(path, record.digest.to_string(), size.map(|stat| stat.size));
    }
    let now = input.digest().map(|digest| digest.to_string());
    if file.limit() == 0 || now.as_deref() != Some(digest) {
        return Err(io::Error::other("it is not the manifest that the receipt has the digest of"));
    }
    list.files.sort_by(|(one, ..), (other, ..)| one.as_bytes().cmp(other.as_bytes()));
    Ok(list)
}

impl FileList {
    fn add(&mut self, path: RelPath, digest: String, size: Option<u64>) {
        self.total.add(size);
        let directory = directory(&path);
        let is_known = self.directories.contains_key(&directory);
        let directory = match is_known || self.directories.len() < MOST_DIRECTORIES {
            true => directory,
            false => b"(other directories)".to_vec(),
        };
        self.directories.entry(directory).or_default().add(size);
        if self.files.len() < MOST_FILES {
            self.files.push((path, digest, size));
        }
    }
}

/// The first two directories that a path is in.
fn directory(path: &RelPath) -> Vec<u8> {
    let Some((above, _)) = path.split() else { return Vec::new() };
    above.components().take(2).collect::<Vec<_>>().join(&b'/')
}

fn listing(list: &FileList, manifest: &JsonName) -> Markup {
    let Total { files, bytes, unknown } = list.total;
    let shown =
        |bytes: Option<u64>| html! { @match bytes { Some(bytes) => (size(bytes)), None => "–" } };
    html! {
        p {
            (counted(files, "file"))
            @if unknown < files { ", " (size(bytes)) }
            @if unknown > 0 { " (the size of " (number(unknown)) " is not known)" }
            ", as " (report::name(manifest)) " lists them. Sizes are those at the output when this page was made."
        }
        @if files > MOST_FILES as u64 {
            table .files {
                thead { tr { th { "Directory" } th .number { "Files" } th .number { "Size" } } }
                tbody {
                    @for (directory, total) in &list.directories {
                        tr {
                            td { @if directory.is_empty() { "(top)" } @else { (name_of(directory)) } }
                            td .number { (number(total.files)) }
                            td .number { (shown((total.unknown == 0).then_some(total.bytes))) }
                        }
                    }
                }
            }
        } @else {
            table .files {
                thead { tr { th { "File" } th .number { "Size" } th { (list.algorithm.shown()) } } }
                tbody {
                    @for (path, digest, bytes) in &list.files {
                        tr {
                            td { (name_of(path.as_bytes())) }
                            td .number { (shown(*bytes)) }
                            td .digest .long[digest.len() > SHORT_DIGEST] data-label=(list.algorithm.shown()) { (digest) }
                        }
                    }
                }
            }
        }
    }
}
