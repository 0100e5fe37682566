//! Further lists beside a manifest: of other algorithms, and in the forms of other programs.
//!
//! Each is a file of its own, called as the manifest but for its ending, and gets its lines when the manifest gets
//! them. What a form cannot hold is not written into it, and the one who asks is told so.

use crate::hash::{Algorithm, Algorithms, Digests};
use crate::manifest::line;

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// What `sha256sum` and its kin write: a list for each algorithm.
    Gnu,
    /// Lines that name their algorithm, as BSD's programs and `sha256sum --tag` write them: one list for all.
    Bsd,
    /// That of `hashdeep`, with those of MD5, SHA-1 and SHA-256 that are asked for.
    Hashdeep,
}

/// The algorithms that `hashdeep` knows, in the order of its columns.
const OF_HASHDEEP: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256];

/// `hashdeep` reads lines into so many bytes.
const MOST_OF_HASHDEEP: usize = 2046;

/// A list that a run writes beside its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListKind {
    format: ListFormat,
    algorithms: Algorithms,
}

/// What a list is to say of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its size in bytes.
    pub size: u64,
    pub digests: Digests,
}

impl ListKind {
    /// The lists of a run that computes `algorithms`, beside the manifest, which is of the one that proves.
    pub fn all(algorithms: Algorithms, formats: &[ListFormat]) -> Vec<Self> {
        let mut lists = Vec::new();
        for &format in formats {
            match format {
                ListFormat::Gnu => {
                    let others = algorithms.without(algorithms.proof()).iter();
                    let one = |algorithm| Self {
                        format,
                        algorithms: Algorithms::default().with(algorithm),
                    };
                    lists.extend(others.map(one));
                }
                ListFormat::Bsd | ListFormat::Hashdeep => lists.push(Self { format, algorithms }),
            }
        }
        lists.dedup();
        lists
    }

    /// What its name ends with, behind the point.
    pub fn suffix(self) -> &'static str {
        match self.format {
            ListFormat::Gnu => self.algorithms.proof().suffix(),
            ListFormat::Bsd => "bsd",
            ListFormat::Hashdeep => "hashdeep",
        }
    }

    /// Every ending that a list beside a manifest of `proof` can have.
    pub fn suffixes(proof: Algorithm) -> impl Iterator<Item = &'static str> {
        let others = Algorithm::listed().filter(move |algorithm| *algorithm != proof);
        others.map(Algorithm::suffix).chain(["bsd", "hashdeep"])
    }

    /// What stands before the first line.
    pub fn head(self) -> String {
        match self.format {
            ListFormat::Gnu | ListFormat::Bsd => String::new(),
            ListFormat::Hashdeep => {
                let names: Vec<&str> = self.columns().map(Algorithm::name).collect();
                format!("%%%% HASHDEEP-1.0\n%%%% size,{},filename\n", names.join(","))
            }
        }
    }

    fn columns(self) -> impl Iterator<Item = Algorithm> {
        OF_HASHDEEP.into_iter().filter(move |algorithm| self.algorithms.has(*algorithm))
    }

    /// Appends what it says of the file at `path`; nothing, and false, if it cannot hold the name.
    pub fn write(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> bool {
        let start = out.len();
        let written = match self.format {
            ListFormat::Gnu => self.write_gnu(out, content, path),
            ListFormat::Bsd => self.write_bsd(out, content, path),
            ListFormat::Hashdeep => self.write_hashdeep(out, content, path),
        };
        if written.is_none() {
            out.truncate(start);
        }
        written.is_some()
    }

    fn write_gnu(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        let digest = content.digests.of(self.algorithms.proof())?;
        line::write_for_program(out, &digest, path).then_some(())
    }

    fn write_bsd(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        for algorithm in self.algorithms.iter() {
            line::write_tagged(out, &content.digests.of(algorithm)?, path, true);
        }
        Some(())
    }

    fn write_hashdeep(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        let start = out.len();
        out.extend_from_slice(content.size.to_string().as_bytes());
        for algorithm in self.columns() {
            out.push(b',');
            content.digests.of(algorithm)?.write(out);
        }
        // As `hashdeep -rl .` names them.
        out.extend_from_slice(b",./");
        out.extend_from_slice(path);
        out.push(b'\n');
        (is_one_line(path) && out.len() - start <= MOST_OF_HASHDEEP).then_some(())
    }
}

fn is_one_line(path: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', path).is_none()
}
