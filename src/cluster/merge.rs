//! Merging manifests of one tree, or of parts of it, into one: every name once, in the order of a walk, in bounded
//! memory.
//!
//! Nothing is decided: two digests for one name, a line that cannot be read and digests of two algorithms are named,
//! and then there is no list.

use std::{fs, fs::File, io, io::ErrorKind, path::Path, path::PathBuf};

use crate::{
    error::Deed, error::Error, error::Result, event::Event, event::EventObserver, hash::Algorithm,
    hash::Digest, manifest::Entries, manifest::Entry, manifest::Fault, manifest::ManifestName,
    manifest::Parsed, manifest::Readers, manifest::Utf16Reader, manifest::lists, path::RelPath,
    path::Shown, path::directory_of, staged::write_whole, sys, sys::Attributes, sys::Dir,
    sys::Uninterrupted, sys::stat::Stat, tree::PathRecord, tree::RecordReader, tree::SortedRecords,
    tree::Sorter, tree::by_path,
};

const DEED: &str = "merge manifests into";

const READ: &str = "merge the manifest";

/// Number of bytes of lines that are written at a time.
const LINES: usize = 256 << 10;

/// Manifests that become one.
#[derive(Clone, Debug)]
pub struct MergeLists {
    pub inputs: Vec<PathBuf>,
    /// The new one; nothing has this name.
    pub output: PathBuf,
}

/// The result of merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergedLists {
    /// Names that are listed.
    pub names: u64,
    /// Lines that were there already, with the same digest.
    pub repeated: u64,
    /// Names with two digests.
    pub contradicted: u64,
    /// Lines that cannot be read, or whose name leads out.
    pub malformed: u64,
    pub interrupted: Option<usize>,
}

/// The records of all inputs on their way to be sorted.
struct InputLines<'a> {
    observer: &'a EventObserver<'a>,
    sorter: Sorter,
    /// The algorithm of the digests, and the input that has the first.
    algorithm: Option<(Algorithm, PathBuf)>,
    readers: Readers,
    merged: MergedLists,
}

/// A line with where it came from.
struct FoundLine {
    path: Vec<u8>,
    digest: Vec<u8>,
    /// The number of the input, and that of the line.
    input: usize,
    line: u64,
}

impl MergeLists {
    /// Merges them. Unless everything is in order there is no output.
    ///
    /// # Errors
    /// It was refused, or the output cannot be written.
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<MergedLists> {
        let fail = |error| Error::io(DEED, &self.output, error);
        if fs::symlink_metadata(&self.output).if_there().map_err(fail)?.is_some() {
            let finding = "there is something of that name, and it is never replaced";
            return Err(Error::finding(DEED, &self.output, finding));
        }
        let dir = Dir::open_named(directory_of(&self.output)).map_err(fail)?;
        let name = self.output.file_name().ok_or_else(|| fail(ErrorKind::InvalidInput.into()))?;
        let mut gathered = InputLines {
            observer,
            sorter: Sorter::new(by_path),
            algorithm: None,
            readers: Readers::default(),
            merged: MergedLists::default(),
        };
        for (number, input) in self.inputs.iter().enumerate() {
            gathered.read(number, input)?;
        }
        let InputLines { sorter, algorithm, readers, mut merged, .. } = gathered;
        merged.interrupted = observer.stop.requested();
        let (Some((algorithm, _)), true) = (algorithm, merged.is_sound()) else {
            return Ok(merged);
        };
        let sorted = sorter.finish().map_err(fail)?;
        let fill = |file: &mut File| {
            sys::let_read(file, |group| readers.mode(group))?;
            self.write(algorithm, &sorted, file, &mut merged, observer)?;
            // What is not in order gets no name.
            if merged.is_sound() { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
        };
        match write_whole(&dir, name, false, false, fill) {
            Err(error) if merged.is_sound() => Err(fail(error)),
            _ => Ok(merged),
        }
    }

    /// Writes each name once, and tells of those with two digests.
    fn write(
        &self,
        algorithm: Algorithm,
        sorted: &SortedRecords,
        file: &File,
        merged: &mut MergedLists,
        observer: &EventObserver<'_>,
    ) -> io::Result<()> {
        let (mut records, mut text) = (sorted.reader(), Vec::new());
        let mut last: Option<FoundLine> = None;
        while let Some(found) = FoundLine::next(&mut records)? {
            match &last {
                Some(last) if last.path == found.path => {
                    match last.digest == found.digest {
                        true => merged.repeated += 1,
                        false => {
                            merged.contradicted += 1;
                            let error = self.contradiction(last, &found);
                            (observer.listen)(&Event::Failed(&error));
                        }
                    }
                    continue;
                }
                _ => {}
            }
            merged.names += 1;
            let digest = Digest::parse(algorithm, &found.digest).ok_or(ErrorKind::InvalidData)?;
            lists::write_path(&mut text, &digest, &found.path);
            if text.len() >= LINES {
                sys::write_all(file, &text)?;
                text.clear();
                merged.interrupted = observer.stop.requested();
                if merged.interrupted.is_some() {
                    return Ok(());
                }
            }
            last = Some(found);
        }
        sys::write_all(file, &text)
    }

    fn contradiction(&self, first: &FoundLine, second: &FoundLine) -> Error {
        let at = |found: &FoundLine| {
            let input = self.inputs.get(found.input).map_or(Path::new(""), PathBuf::as_path);
            format!("line {} of {}", found.line, Shown::path(input))
        };
        let finding = format!(
            "{} is listed with two digests: {} and {}",
            Shown::bytes(&first.path),
            at(first),
            at(second)
        );
        Error::finding(DEED, &self.output, finding)
    }
}

impl MergedLists {
    /// True if there is a list.
    pub fn is_sound(&self) -> bool {
        self.contradicted + self.malformed == 0 && self.interrupted.is_none()
    }
}

impl InputLines<'_> {
    /// Takes the lines of an input.
    fn read(&mut self, number: usize, input: &Path) -> Result<()> {
        let fail = |error| Error::io(READ, input, error);
        let file = File::open(input).map_err(fail)?;
        let stat = Dir::stat_file(&file).map_err(fail)?;
        // What cannot be asked for its access list is its owner's alone.
        let permitted = Attributes::read(&file).map_or(0o600, |it| it.permitted());
        let mode = stat.mode & permitted;
        self.readers.join(Readers::of(Some(&Stat { mode, ..stat })));
        let ours = input.file_name().and_then(ManifestName::parse);
        let mut entries = Entries::of_all(Utf16Reader::new(Uninterrupted(file)));
        while let Some(entry) = entries.next_entry().map_err(fail)? {
            if self.observer.stop.is_requested() {
                return Ok(());
            }
            let Entry { number: line, ended, parsed, .. } = entry;
            let named = match parsed {
                Parsed::Comment | Parsed::Blank => continue,
                // The name may have been longer.
                _ if !ended && ours.is_some() => Err("it is cut off and says nothing".into()),
                Parsed::Malformed(fault) => Err(fault.to_string()),
                Parsed::Unhashed { algorithm, .. } => {
                    Err(Fault::OtherAlgorithm(algorithm).to_string())
                }
                Parsed::Record(found) => match RelPath::parse(found.name) {
                    Ok(path) => Ok((path, found.digest)),
                    Err(fault) => Err(fault.to_string()),
                },
            };
            let (path, digest) = match named {
                Ok(named) => named,
                Err(why) => {
                    self.merged.malformed += 1;
                    let error = Error::finding(READ, input, format!("line {line}: {why}"));
                    (self.observer.listen)(&Event::Failed(&error));
                    continue;
                }
            };
            let digest = ours.map_or(digest, |ours| digest.in_list_of(ours.algorithm()));
            self.check_algorithm(digest.algorithm(), input, line)?;
            self.observer.progress.entries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let words = format!("{digest} {number} {line}");
            self.sorter.add(words, path.as_bytes()).map_err(fail)?;
        }
        Ok(())
    }

    /// Refuses digests of two algorithms: no program would check the list.
    fn check_algorithm(&mut self, found: Algorithm, input: &Path, line: u64) -> Result<()> {
        let first = self.algorithm.get_or_insert_with(|| (found, input.to_path_buf()));
        if first.0 == found {
            return Ok(());
        }
        let finding = format!(
            "the digest on line {line} is {}, and {} has {}: merge manifests of one algorithm at a time",
            found.shown(),
            Shown::path(&first.1),
            first.0.shown()
        );
        Err(Error::finding(READ, input, finding))
    }
}

impl FoundLine {
    fn next(records: &mut RecordReader) -> io::Result<Option<Self>> {
        let Some(record) = records.next_record()? else { return Ok(None) };
        let parse = || {
            let (text, path) = PathRecord::told(record);
            let mut words = text.split(' ');
            let digest = words.next()?.as_bytes().to_vec();
            let (input, line) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Self { path: path.to_vec(), digest, input, line })
        };
        parse().map(Some).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}
