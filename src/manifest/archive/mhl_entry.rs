//! An entry of a Media Hash List, put together from its elements.

use crate::hash::{Algorithm, Digest};
use crate::manifest::Fault;
use crate::manifest::other_name::OtherName;

/// Elements of an entry that have no digest, whatever is in them.
const NO_DIGESTS: [&str; 6] =
    ["size", "creationdate", "lastmodificationdate", "hashdate", "metadata", "comment"];

/// The least characters of a digest.
const LEAST_DIGEST: usize = 8;

/// Which list it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Unknown,
    /// ASC MHL 2: a generation.
    Generation,
    /// The generations of a history.
    Chain,
    /// MHL 1.
    Legacy,
}

/// What an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A file.
    File,
    /// A generation of a history further below.
    Reference,
    /// A generation of this history, by its number.
    Generation(u64),
}

/// A file that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MhlEntry {
    /// What it is.
    pub named: Named,
    /// Its path, not checked.
    pub path: String,
    /// What it was called in earlier generations.
    pub previous: Option<String>,
    /// The digests that may be used, one of each algorithm, the strongest first.
    pub digests: Vec<Digest>,
    /// The name of a digest that cannot be computed here.
    pub other: Option<OtherName>,
}

impl MhlEntry {
    /// The strongest digest that may be used.
    pub fn digest(&self) -> Option<Digest> {
        self.digests.first().copied()
    }
}

/// What stands at a place of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MhlPiece {
    /// A file.
    Entry(MhlEntry),
    /// A pattern of files that the history leaves out, as gitignore(5) has them.
    Ignored(String),
    /// What is wrong.
    Fault(Fault),
}

/// An entry of which not all was read.
#[derive(Default)]
pub struct Pending {
    path: Option<String>,
    previous: Option<String>,
    digests: Vec<Digest>,
    /// The name of a digest that cannot be computed here.
    other: Option<OtherName>,
    /// Whether there is one of any kind.
    has_digest: bool,
    /// The name of the part that is being read, if it is none that such lists have.
    pub unusual: Option<OtherName>,
    /// Whether the digest that is being read failed.
    pub is_failed: bool,
    pub sequence: Option<u64>,
    pub fault: Option<&'static str>,
}

impl Pending {
    /// Ends the entry; nothing of it is left.
    pub fn finish(&mut self, named: Named) -> Option<MhlPiece> {
        let Pending { path, previous, mut digests, other, has_digest, fault, .. } =
            std::mem::take(self);
        // The table has the strongest first.
        digests.sort_by_key(Digest::algorithm);
        let fault = match (fault, &path) {
            (Some(why), _) => Some(Fault::Form(why)),
            (None, None) => Some(Fault::NoName),
            (None, Some(_)) if !has_digest => Some(Fault::Form("an entry has no digest")),
            (None, Some(_)) => None,
        };
        Some(match (fault, path) {
            (None, Some(path)) => {
                MhlPiece::Entry(MhlEntry { named, path, previous, digests, other })
            }
            (fault, _) => MhlPiece::Fault(fault.unwrap_or(Fault::NoName)),
        })
    }

    /// Takes an element of an entry.
    pub fn part(&mut self, dialect: Dialect, name: &'static str, text: &str) {
        let algorithm = match (dialect, name) {
            (Dialect::Legacy, "file") | (Dialect::Generation | Dialect::Chain, "path") => {
                if self.path.replace(text.to_owned()).is_some() {
                    self.fault = Some("an entry has two paths");
                }
                return;
            }
            (Dialect::Generation, "previousPath") => {
                self.previous = Some(text.to_owned());
                return;
            }
            (_, "md5") => Algorithm::Md5,
            (_, "sha1") => Algorithm::Sha1,
            (Dialect::Generation | Dialect::Chain, "c4") => Algorithm::C4,
            (Dialect::Generation, "xxh128") => Algorithm::Xxh128,
            (Dialect::Generation, "xxh3") => Algorithm::Xxh3,
            (Dialect::Generation, "xxh64") | (Dialect::Legacy, "xxhash64be" | "xxhash64") => {
                Algorithm::Xxh64
            }
            (Dialect::Legacy, "xxhash") => return self.unknown("XXH32"),
            (Dialect::Legacy, "null") => return self.unknown("null"),
            (_, "sha256") => return self.unknown("SHA-256, which no such list has"),
            (_, "sha512") => return self.unknown("SHA-512, which no such list has"),
            (_, "blake3") => return self.unknown("BLAKE3, which no such list has"),
            (_, "") => return self.unusual_part(text),
            _ => return,
        };
        self.has_digest = true;
        if self.is_failed {
            return;
        }
        let digest = match name {
            "xxhash64" => turned(text.trim_ascii()),
            _ => Digest::parse(algorithm, text.trim_ascii().as_bytes()),
        };
        match digest {
            None => self.fault = Some("a digest is not of the form that its name says"),
            Some(digest) => {
                let same = self.digests.iter().find(|it| it.algorithm() == digest.algorithm());
                match same {
                    None => self.digests.push(digest),
                    Some(same) if *same == digest => {}
                    Some(_) => self.fault = Some("an entry has two digests of one algorithm"),
                }
            }
        }
    }

    fn unknown(&mut self, name: &'static str) {
        self.has_digest = true;
        self.other = Some(name.into());
    }

    /// Takes an element that such lists do not have: it may be a digest, by an algorithm of that name.
    fn unusual_part(&mut self, text: &str) {
        let Some(name) = self.unusual.take() else { return };
        let text = text.trim_ascii();
        let is_of_digest = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        let is_digest = text.len() >= LEAST_DIGEST && text.bytes().all(is_of_digest);
        if is_digest && !NO_DIGESTS.contains(&name.as_str()) {
            self.has_digest = true;
            self.other = self.other.or((!self.is_failed).then_some(name));
        }
    }
}

/// A digest of `xxhash64`, which has its last byte first.
fn turned(text: &str) -> Option<Digest> {
    let value = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16)?;
    let text = format!("{:016x}", value.swap_bytes());
    Digest::parse(Algorithm::Xxh64, text.as_bytes())
}
