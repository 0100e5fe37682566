//! Several directories as copies of one tree: of a file that is bad in one, which of the others holds it
//! as it should be?
//!
//! Only bad files are remembered, by their names. When the check is over the manifests are read once more
//! for what they list under these, so nothing is hashed twice: a file that another directory lists with
//! the same digest, and that was not found bad there, is good there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::mem::size_of;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::Digest;
use crate::manifest::{Entries, Parsed, Utf16Reader};
use crate::path::RelPath;
use crate::sys::stat::Identity;
use crate::verify::finding::{Finding, Verdict};
use crate::verify::target::Target;

/// Names of bad files that are remembered, and what is known of them; bytes. A disk that failed as a whole
/// has no need of a word for each of its files.
const MOST: usize = 4 << 20;

/// A manifest that can be read once more.
pub struct Again {
    /// What it is the manifest of.
    pub target: Arc<Target>,
    /// The open file; where it is read does not matter.
    pub manifest: File,
}

/// Where a file that is bad somewhere stands; directories as they were given.
#[derive(Debug)]
pub struct Comparison {
    /// Its name below each of them.
    pub path: RelPath,
    /// Where it is bad, and in which way: `differs`, `missing`, `not a regular file` or `unreadable`.
    pub bad: Vec<(&'static str, PathBuf)>,
    /// Where it has the digest that is listed where it is bad.
    pub good: Vec<PathBuf>,
    /// Where another digest is listed, or two.
    pub other: Vec<PathBuf>,
}

/// What is known of the copies.
#[derive(Debug)]
pub struct Copies {
    /// How many directories there are.
    number: usize,
    places: Vec<(Identity, PathBuf)>,
    /// Bad files, and each as it is in each of the places.
    bad: BTreeMap<RelPath, Vec<At>>,
    weight: usize,
    left_out: u64,
}

/// A file in one of the places.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    bad: Option<&'static str>,
    listed: Listed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listed {
    #[default]
    Nowhere,
    As(Digest),
    Unclear,
}

impl Copies {
    /// Nothing is known of so many directories.
    pub fn new(number: usize) -> Self {
        Self { number, places: Vec::new(), bad: BTreeMap::new(), weight: 0, left_out: 0 }
    }

    /// Notes a file that is bad.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        let Finding::File { path, verdict, .. } = finding else { return };
        let how = match verdict {
            Verdict::Good(_) | Verdict::Refused(_) => return,
            Verdict::Differs(_) => "differs",
            Verdict::Missing | Verdict::NotThrough(_) => "missing",
            Verdict::NotAFile(_) => "not a regular file",
            Verdict::Unreadable(_) => "unreadable",
        };
        let place = self.place(target);
        if !self.bad.contains_key(path) {
            let weight = path.as_bytes().len() + size_of::<(RelPath, Vec<At>)>();
            let weight = weight + self.number * size_of::<At>();
            if self.weight + weight > MOST {
                self.left_out += 1;
                return;
            }
            self.weight += weight;
            self.bad.insert(path.clone(), Vec::new());
        }
        if let Some(at) = self.bad.get_mut(path).and_then(|known| at(known, place)) {
            at.bad.get_or_insert(how);
        }
    }

    /// The number of a target's directory.
    fn place(&mut self, target: &Target) -> usize {
        let known = self.places.iter().position(|(id, _)| *id == target.root_id);
        known.unwrap_or_else(|| {
            self.places.push((target.root_id, target.root.clone()));
            self.places.len() - 1
        })
    }

    /// Tells of each bad file how it is in the other directories, as the manifests have it, and of how many
    /// that is not known. In a manifest that is not dircopy's own `\` is taken for `/`, if `convert`, in
    /// names that are not bad as they are.
    pub fn compare(
        mut self,
        manifests: Vec<Again>,
        convert: bool,
        stop: &Stop,
        mut tell: impl FnMut(Finding),
    ) {
        let mut roots: Vec<Identity> = Vec::new();
        for Again { target, .. } in &manifests {
            if !roots.contains(&target.root_id) {
                roots.push(target.root_id);
            }
        }
        if roots.len() < 2 || self.bad.is_empty() {
            return;
        }
        for again in manifests {
            if let Err(error) = self.look_up(again, convert, stop) {
                return tell(Finding::Broken(error));
            }
        }
        if stop.is_requested() {
            return;
        }
        for (path, known) in std::mem::take(&mut self.bad) {
            if let Some(comparison) = self.comparison(path, &known, &roots) {
                tell(Finding::Compared(comparison));
            }
        }
        if self.left_out > 0 {
            tell(Finding::NotCompared(self.left_out));
        }
    }

    /// Notes what a manifest lists of the bad files.
    fn look_up(&mut self, again: Again, convert: bool, stop: &Stop) -> Result<()> {
        let Again { target, mut manifest } = again;
        let place = self.place(&target);
        let fail = |error| Error::io("read once more the manifest", &target.manifest, error);
        manifest.seek(SeekFrom::Start(0)).map_err(fail)?;
        let mut entries = Entries::new(Utf16Reader::new(manifest));
        while let Some(entry) = entries.next_entry().map_err(fail)? {
            if stop.is_requested() {
                break;
            }
            let Parsed::Record(record) = entry.parsed else { continue };
            if !entry.ended && target.ours.is_some() {
                continue;
            }
            let Ok(mut path) = RelPath::parse(record.name) else { continue };
            if convert && !self.bad.contains_key(&path) {
                let turn = |&byte: &u8| if byte == b'\\' { b'/' } else { byte };
                let turned: Vec<u8> = path.as_bytes().iter().map(turn).collect();
                let Ok(turned) = RelPath::parse(&turned) else { continue };
                path = turned;
            }
            if let Some(at) = self.bad.get_mut(&path).and_then(|known| at(known, place)) {
                at.listed = match at.listed {
                    Listed::Nowhere => Listed::As(record.digest),
                    Listed::As(digest) if digest == record.digest => continue,
                    _ => Listed::Unclear,
                };
            }
        }
        Ok(())
    }

    /// What there is to say of a file; nothing if only one directory knows of it: then these are no copies
    /// of each other.
    fn comparison(&self, path: RelPath, known: &[At], roots: &[Identity]) -> Option<Comparison> {
        let (mut bad, mut good, mut other) = (Vec::new(), Vec::new(), Vec::new());
        let wanted = |listed: Listed| {
            let is_wanted = |at: &At| at.bad.is_some() && at.listed == listed;
            matches!(listed, Listed::As(_)) && known.iter().any(is_wanted)
        };
        let mut places: Vec<_> = known.iter().zip(&self.places).collect();
        // As they were given, not as something was found in them.
        places.sort_by_key(|(_, (id, _))| roots.iter().position(|root| root == id));
        for (at, (_, root)) in places {
            match (at.bad, at.listed) {
                (Some(how), _) => bad.push((how, root.clone())),
                (None, Listed::Nowhere) => {}
                (None, listed) if wanted(listed) => good.push(root.clone()),
                (None, _) => other.push(root.clone()),
            }
        }
        (bad.len() + good.len() + other.len() > 1).then_some(Comparison { path, bad, good, other })
    }
}

/// What is known of a file in a place.
fn at(known: &mut Vec<At>, place: usize) -> Option<&mut At> {
    if known.len() <= place {
        known.resize(place + 1, At::default());
    }
    known.get_mut(place)
}
