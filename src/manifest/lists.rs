//! Further lists beside a manifest: of other algorithms, and in the forms of other programs.
//!
//! Each is a file of its own, called as the manifest but for its ending, and gets its lines when the manifest gets
//! them. What a form cannot hold is not written into it, and the one who asks is told so.

use serde::{Deserialize, Serialize};

use crate::{hash::Algorithm, hash::Algorithms, hash::Digest, hash::Digests, manifest::line};

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListFormat {
    /// The lists of `sha256sum` and its kin: one for each algorithm.
    Gnu,
    /// Lines that name their algorithm, as BSD's programs and `sha256sum --tag` write them: one list for all.
    Bsd,
    /// The list of `hashdeep`, with those of MD5, SHA-1 and SHA-256 that are asked for.
    Hashdeep,
    /// A history of ASC MHL 2, of which each run writes a generation.
    History,
    /// A legacy Media Hash List (1.1).
    LegacyMhl,
    /// One in each directory for each algorithm, as `sha256sum` and its kin write them.
    Dirs,
    /// One beside each file for each algorithm.
    Sides,
}

impl ListFormat {
    /// True if it is a Media Hash List, which is written when the run is complete.
    pub fn is_mhl(self) -> bool {
        matches!(self, ListFormat::History | ListFormat::LegacyMhl)
    }

    /// True if its lists are among the files.
    pub fn is_near(self) -> bool {
        matches!(self, ListFormat::Dirs | ListFormat::Sides)
    }

    /// True if it holds the digests of every algorithm.
    fn holds_all(self) -> bool {
        !matches!(self, ListFormat::Hashdeep | ListFormat::History | ListFormat::LegacyMhl)
    }
}

/// The form of a run's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Gnu,
    Bsd,
    Hashdeep,
    /// Tells of all files until the lists among them are written, and lists these then: those of directories, …
    Dirs,
    /// … or those beside files.
    Sides,
    /// For the run itself, which makes a Media Hash List of it in the end.
    Kept,
}

/// The algorithms that `hashdeep` knows, in the order of its columns.
const OF_HASHDEEP: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256];

/// `hashdeep` reads lines into so many bytes.
const MOST_OF_HASHDEEP: usize = 2046;

/// A list that a run writes beside its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListKind {
    form: Form,
    algorithms: Algorithms,
}

/// The facts that a list has of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its size in bytes.
    pub size: u64,
    pub digests: Digests,
    /// True if it was read in this run.
    pub is_read: bool,
}

impl Form {
    /// The ending of the name of a list of this form, behind the point.
    pub fn suffix(self, algorithms: Algorithms) -> &'static str {
        match self {
            Form::Gnu => algorithms.proof().suffix(),
            Form::Bsd => "bsd",
            Form::Hashdeep => "hashdeep",
            Form::Dirs => "dirs",
            Form::Sides => "sides",
            Form::Kept => "mhl",
        }
    }

    /// True if its lists are among the files; then the one beside the manifest is a list of these.
    pub fn is_near(self) -> bool {
        matches!(self, Form::Dirs | Form::Sides)
    }

    /// The name of the list in a directory, or of the one beside the file `name`.
    pub fn near_name(self, algorithm: Algorithm, name: &[u8]) -> Vec<u8> {
        let of = algorithm.name();
        match self {
            Form::Sides => [name, b".", of.as_bytes()].concat(),
            _ => format!("{}SUMS", of.to_ascii_uppercase()).into_bytes(),
        }
    }

    /// True if a list among the files, of this form, may have the name.
    pub fn may_name(self, name: &[u8]) -> bool {
        Algorithm::listed().any(|algorithm| match self {
            Form::Sides => name.ends_with(&self.near_name(algorithm, b"")),
            _ => name == self.near_name(algorithm, b""),
        })
    }
}

impl ListKind {
    /// The lists of a run that computes `algorithms`, beside the manifest, which is of the one that proves.
    pub fn all(algorithms: Algorithms, formats: &[ListFormat]) -> Vec<Self> {
        let mut lists = Vec::new();
        // What no other list holds stands in one of its own.
        let is_all = formats.iter().any(|format| format.holds_all());
        for &format in formats {
            let form = match format {
                ListFormat::Gnu => {
                    let others = algorithms.without(algorithms.proof()).iter();
                    lists.extend(others.map(Self::gnu));
                    continue;
                }
                ListFormat::Bsd => Form::Bsd,
                ListFormat::Hashdeep => {
                    let others = algorithms.without(algorithms.proof()).iter();
                    let others = others.filter(|it| !is_all && !OF_HASHDEEP.contains(it));
                    lists.extend(others.map(Self::gnu));
                    Form::Hashdeep
                }
                ListFormat::Dirs => Form::Dirs,
                ListFormat::Sides => Form::Sides,
                ListFormat::History | ListFormat::LegacyMhl => continue,
            };
            lists.push(Self { form, algorithms });
        }
        lists.dedup();
        lists
    }

    fn gnu(algorithm: Algorithm) -> Self {
        Self { form: Form::Gnu, algorithms: Algorithms::default().with(algorithm) }
    }

    /// True if it would hold no digest at all.
    pub fn is_without_digests(self) -> bool {
        self.form == Form::Hashdeep && self.columns().next().is_none()
    }

    /// The form of a run's own notes, with these digests of each file: a record for each, which [`KeptFile`] reads.
    pub fn kept(algorithms: Algorithms) -> Self {
        Self { form: Form::Kept, algorithms }
    }

    /// True if it is for the run itself, and has no name.
    pub fn is_kept(self) -> bool {
        self.form == Form::Kept
    }

    /// Its form.
    pub fn form(self) -> Form {
        self.form
    }

    /// The algorithms that it lists.
    pub fn algorithms(self) -> Algorithms {
        self.algorithms
    }

    /// The ending of its name, behind the point.
    pub fn suffix(self) -> &'static str {
        self.form.suffix(self.algorithms)
    }

    /// Every ending that a list beside a manifest of `proof` can have.
    pub fn suffixes(proof: Algorithm) -> impl Iterator<Item = &'static str> {
        let others = Algorithm::listed().filter(move |algorithm| *algorithm != proof);
        others.map(Algorithm::suffix).chain(["bsd", "hashdeep", "dirs", "sides"])
    }

    /// The text before the first line.
    pub fn head(self) -> String {
        match self.form {
            Form::Gnu | Form::Bsd | Form::Dirs | Form::Sides | Form::Kept => String::new(),
            Form::Hashdeep => {
                let names: Vec<&str> = self.columns().map(Algorithm::name).collect();
                format!("%%%% HASHDEEP-1.0\n%%%% size,{},filename\n", names.join(","))
            }
        }
    }

    fn columns(self) -> impl Iterator<Item = Algorithm> {
        OF_HASHDEEP.into_iter().filter(move |algorithm| self.algorithms.has(*algorithm))
    }

    /// The path in a line that only readers of this kind of list know; none in others.
    pub fn path_in(self, line: &[u8]) -> Option<&[u8]> {
        let columns = match self.form {
            Form::Hashdeep => self.columns().count(),
            _ => return None,
        };
        let at = memchr::memchr_iter(b',', line).nth(columns)?;
        let path = &line[at + 1..];
        Some(path.strip_prefix(b"./").unwrap_or(path))
    }

    /// Appends what it says of the file at `path`; nothing, and false, if it cannot hold the name.
    pub fn write(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> bool {
        let start = out.len();
        let written = match self.form {
            Form::Gnu => self.write_gnu(out, content, path),
            // The lists among the files get their lines from these.
            Form::Bsd | Form::Dirs | Form::Sides => self.write_bsd(out, content, path),
            Form::Hashdeep => self.write_hashdeep(out, content, path),
            Form::Kept => self.write_kept(out, content, path),
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

    fn write_kept(self, out: &mut Vec<u8>, content: &Content, path: &[u8]) -> Option<()> {
        let read = if content.is_read { "read" } else { "known" };
        out.extend_from_slice(format!("{read} {}", content.size).as_bytes());
        for algorithm in self.algorithms.iter() {
            out.push(b' ');
            content.digests.of(algorithm)?.write(out);
        }
        out.push(b'\n');
        out.extend_from_slice(path);
        out.push(0);
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

/// The notes of a run about a file for its Media Hash List, as a record that ends with NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// True if it was read in this run.
    pub is_read: bool,
    /// Its size in bytes.
    pub size: u64,
    /// In the order of the algorithms.
    pub digests: Vec<Digest>,
}

impl KeptFile {
    /// Reads what stands before the path in a record.
    pub fn parse(fields: &str, algorithms: Algorithms) -> Option<Self> {
        let mut words = fields.split(' ');
        let is_read = words.next()? == "read";
        let size = words.next()?.parse().ok()?;
        let digest = |algorithm| Digest::parse(algorithm, words.next()?.as_bytes());
        let digests = algorithms.iter().map(digest).collect::<Option<_>>()?;
        Some(Self { is_read, size, digests })
    }
}

fn is_one_line(path: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', path).is_none()
}
