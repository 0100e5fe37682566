//! Lists held against the first of them without the data that they are of: what is missing, extra, changed, or has
//! another name.
//!
//! All names are sorted in bounded memory, those that only one list has once more by their digests, and what was found
//! once more by name.

use std::{
    collections::VecDeque, ffi::OsStr, io, path::Path, path::PathBuf,
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    error::Error, error::Result, event::Event, event::EventObserver, event::Stop, hash::Algorithm,
    hash::Algorithms, hash::Digest, hash::hex, manifest::ManifestName, path::Shown,
    state::DatedName, state::PrivateDir, state::UNFINISHED, state::private_dir::NAME,
    state::private_dir::TRASH, sys, sys::Uninterrupted, tree::PathRecord, tree::SortedRecords,
    tree::Sorter, tree::by_path, tree::by_words, verify::Finding, verify::ManifestAt,
    verify::ManifestLine, verify::ManifestLines, verify::Meaning, verify::PartOf, verify::Rival,
    verify::TargetSpec, verify::expand,
};

const DEED: &str = "compare the list";

/// Of so many files with one content, missing under their names, others are looked for under other names. A tree may
/// have millions of empty files.
const MOST_ALIKE: usize = 1000;

/// Lists to compare.
#[derive(Clone, Debug, Default)]
pub struct DiffJob {
    /// Lists of any program, or directories that have one; each is held against the first. `-` is standard input.
    pub lists: Vec<PathBuf>,
    /// Taken off the front of the names that begin with it.
    pub strip: Vec<u8>,
    /// Where private directories are kept, if not in the directories.
    pub state: Option<PathBuf>,
}

/// A difference between the first list and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference<'a> {
    /// The first list alone has the name, and the other has the content nowhere else.
    Missing,
    /// The other list alone has the name.
    Extra,
    /// Both have the name, with different digests.
    Changed,
    /// The other list has the content under this name, which the first has not.
    Renamed(&'a [u8]),
    /// Both have the name, and no digest by the same algorithm.
    Incomparable,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffReport {
    /// Names in the first list.
    pub names: u64,
    /// Names that every list has with the same content.
    pub same: u64,
    /// The algorithms by which that was seen.
    pub by: Algorithms,
    pub missing: u64,
    pub extra: u64,
    pub changed: u64,
    pub renamed: u64,
    pub incomparable: u64,
    /// Lines, or whole lists, that could not be read, and names with two digests in one list.
    pub unusable: u64,
    /// Lists of directories that may not be of what is there.
    pub doubtful: u64,
    pub interrupted: Option<usize>,
}

/// Hears of a difference: the list, the name, and what it is.
pub type DiffListener<'a> = dyn Fn(&Path, &[u8], Difference<'_>) + 'a;

/// Hears of a file: the number of the list, its name, and its digests there.
type ListedListener<'a> = dyn FnMut(usize, &[u8], &[Digest]) -> io::Result<()> + 'a;

/// A name as one list has it.
#[derive(Clone, Debug, Default)]
struct Listed {
    /// Smaller for a newer generation of a history, which counts alone.
    age: usize,
    digests: Vec<Digest>,
    is_contradicted: bool,
}

/// A comparison on its way.
struct Comparing<'a> {
    job: &'a DiffJob,
    observer: &'a EventObserver<'a>,
    sorter: Sorter,
    /// The algorithms that each list has.
    algorithms: Vec<Algorithms>,
    /// True if a list could not be read at all: what it lacks says nothing.
    is_lost: bool,
    report: DiffReport,
}

impl DiffReport {
    /// True if there is a difference, or what may be one.
    pub fn is_different(&self) -> bool {
        self.missing + self.extra + self.changed + self.renamed + self.incomparable > 0
    }
}

impl DiffJob {
    /// Compares them and tells each difference, in the order of a walk.
    ///
    /// # Errors
    /// What is sorted can be neither kept nor read.
    pub fn run(
        &self,
        observer: &EventObserver<'_>,
        listen: &DiffListener<'_>,
    ) -> Result<DiffReport> {
        PrivateDir::look_for(self.state.as_deref())?;
        let (mut comparing, names) = self.read_names(observer)?;
        if comparing.is_lost {
            return Ok(comparing.report);
        }
        let fail = |error| Error::io("sort the names of", self.first(), error);
        let ran = comparing.compare(&names);
        let found =
            ran.and_then(|(found, single)| comparing.rename(found, single)).map_err(fail)?;
        comparing.tell(&found, listen).map_err(fail)?;
        comparing.report.interrupted = observer.stop.requested();
        Ok(comparing.report)
    }

    /// Takes the names of all lists, by path.
    fn read_names<'a>(
        &'a self,
        observer: &'a EventObserver<'a>,
    ) -> Result<(Comparing<'a>, SortedRecords)> {
        let mut comparing = Comparing {
            job: self,
            observer,
            sorter: Sorter::new(by_path),
            algorithms: vec![Algorithms::default(); self.lists.len()],
            is_lost: false,
            report: DiffReport::default(),
        };
        for (number, list) in self.lists.iter().enumerate() {
            comparing.read(number, list)?;
        }
        let sorted = std::mem::replace(&mut comparing.sorter, Sorter::new(by_path));
        let fail = |error| Error::io("sort the names of", self.first(), error);
        Ok((comparing, sorted.finish().map_err(fail)?))
    }

    /// Hands out the files of each list, by its number: a name, and its digests in it, those of the newest generation
    /// of a history; but for what may be removed. Returns how many lines, or whole lists, cannot be used; a name with
    /// two digests is none of these.
    ///
    /// # Errors
    /// What is sorted can be neither kept nor read, or `see` failed.
    pub(crate) fn each_file(
        &self,
        observer: &EventObserver<'_>,
        see: &mut ListedListener<'_>,
    ) -> Result<u64> {
        let (mut comparing, names) = self.read_names(observer)?;
        let hand_out = |path: &[u8], of_name: &[Option<Listed>]| {
            let is_kept = !may_be_removed(path);
            for (number, listed) in of_name.iter().enumerate() {
                match listed {
                    Some(listed) if listed.is_contradicted => comparing.contradicted(number, path),
                    Some(listed) if is_kept => see(number, path, &listed.digests)?,
                    _ => {}
                }
            }
            Ok(())
        };
        let fail = |error| Error::io("sort the names of", self.first(), error);
        each_name(&names, self.lists.len(), &observer.stop, hand_out).map_err(fail)?;
        Ok(comparing.report.unusable)
    }

    fn first(&self) -> &Path {
        self.list(0)
    }

    fn list(&self, number: usize) -> &Path {
        self.lists.get(number).map_or(Path::new(""), PathBuf::as_path)
    }
}

impl Comparing<'_> {
    fn unusable(&mut self, error: &Error) {
        self.report.unusable += 1;
        (self.observer.listen)(&Event::Failed(error));
    }

    /// A name has two digests in one list.
    fn contradicted(&mut self, number: usize, path: &[u8]) {
        let finding = format!("{} is listed with two digests", Shown::bytes(path));
        self.unusable(&Error::finding(DEED, self.job.list(number), finding));
    }

    /// Takes the names of a list.
    fn read(&mut self, number: usize, list: &Path) -> Result<()> {
        let is_dir = list.is_dir();
        let manifest = match list.as_os_str() == "-" {
            true => ManifestAt::StandardInput,
            false => ManifestAt::File(list.to_path_buf()),
        };
        let spec = TargetSpec {
            manifest: (!is_dir).then_some(manifest),
            dir: is_dir.then(|| list.to_path_buf()),
            root: None,
            state: self.job.state.clone(),
            part: PartOf::Alone,
            is_written: false,
        };
        let expanded = expand(vec![spec]);
        let found = expanded.findings.into_iter().flat_map(|findings| findings.found);
        for error in found.filter_map(|finding| unreadable(list, finding)) {
            self.unusable(&error);
        }
        self.is_lost |= expanded.specs.is_empty();
        // The chain of a history, and the tag files of a bag, are not of what it holds.
        let is_one = expanded.specs.len() == 1;
        let is_wanted = |spec: &TargetSpec| match spec.part {
            PartOf::Alone => is_one,
            PartOf::Bag(bag) => !bag.is_tag,
            PartOf::Generation { .. } => true,
        };
        let mut parts = expanded.specs.into_iter().filter(is_wanted).peekable();
        let root = parts.peek().map(TargetSpec::names_start_at);
        for (age, part) in parts.enumerate() {
            if root != Some(part.names_start_at()) {
                let why = "it has histories of directories below it: compare each by itself";
                return Err(Error::finding(DEED, list, why));
            }
            self.read_part(number, age, &part)?;
        }
        Ok(())
    }

    fn read_part(&mut self, number: usize, age: usize, part: &TargetSpec) -> Result<()> {
        let opened = match part.open() {
            Ok(opened) => opened,
            Err((_, error)) => {
                self.unusable(&error);
                self.is_lost = true;
                return Ok(());
            }
        };
        let is_doubt = |rival: &Rival| {
            !matches!(rival, Rival::Listed(_) | Rival::Superseding(_) | Rival::Dropped(_))
        };
        if opened.found.unfinished.is_some() || opened.found.rivals.iter().any(is_doubt) {
            let finding = "it may not be of what is there now, as `dircopy verify` says in full: run the copy again, or \
                           name the list itself";
            let error = Error::finding(DEED, &opened.target.manifest, finding);
            self.report.doubtful += 1;
            (self.observer.listen)(&Event::Warning(&error));
        }
        let age = if matches!(part.part, PartOf::Generation { .. }) { age } else { 0 };
        let list = &opened.target.manifest;
        let fail = |error| Error::io(DEED, list, error);
        let mut lines = ManifestLines::new(&opened.target, Uninterrupted(opened.found.manifest));
        let mut is_empty = !part.part.may_be_empty();
        while let Some(meaning) = lines.next_line().map_err(fail)? {
            if self.observer.stop.is_requested() {
                return Ok(());
            }
            let (path, digests) = match meaning {
                Meaning::File(line) if line.is_reference => continue,
                Meaning::File(ManifestLine { path, digest, further, .. }) => {
                    (path, [digest].into_iter().chain(further).collect())
                }
                Meaning::Unhashed(_, path, _) => (path, Vec::new()),
                Meaning::Fault(finding) => {
                    if let Some(error) = unreadable(list, finding) {
                        self.unusable(&error);
                    }
                    continue;
                }
                Meaning::Nothing
                | Meaning::Renamed(..)
                | Meaning::Beside(..)
                | Meaning::LeftOut(_) => continue,
            };
            is_empty = false;
            self.observer.progress.entries.fetch_add(1, Relaxed);
            let stripped = path.as_bytes().strip_prefix(&self.job.strip[..]);
            let stripped = stripped.filter(|it| !it.is_empty()).unwrap_or(path.as_bytes());
            let below = part.part.bag().and_then(|_| stripped.strip_prefix(b"data/"));
            self.add(number, age, &digests, below.unwrap_or(stripped)).map_err(fail)?;
        }
        if is_empty {
            self.is_lost = true;
            self.unusable(&Error::finding(DEED, list, "it lists no file"));
        }
        Ok(())
    }

    fn add(
        &mut self,
        number: usize,
        age: usize,
        digests: &[Digest],
        path: &[u8],
    ) -> io::Result<()> {
        let mut words = format!("{number} {age}");
        for digest in digests {
            words += &format!(" {digest:?}");
            self.algorithms[number] = self.algorithms[number].with(digest.algorithm());
        }
        self.sorter.add(words, path)
    }

    /// Goes through the names; returns differences, and what only one of two lists has, by its digest.
    fn compare(&mut self, names: &SortedRecords) -> io::Result<(Sorter, Sorter)> {
        let (mut found, mut single) = (Sorter::new(by_path), Sorter::new(by_words));
        let (lists, stop) = (self.job.lists.len(), &self.observer.stop);
        each_name(names, lists, stop, |path, of_name| {
            self.judge(path, of_name, &mut found, &mut single)
        })?;
        Ok((found, single))
    }

    /// Holds the name of the other lists against that of the first.
    fn judge(
        &mut self,
        path: &[u8],
        lists: &[Option<Listed>],
        found: &mut Sorter,
        single: &mut Sorter,
    ) -> io::Result<()> {
        let Some((first, others)) = lists.split_first() else { return Ok(()) };
        self.report.names += u64::from(first.is_some());
        for (number, listed) in lists.iter().enumerate() {
            if listed.as_ref().is_some_and(|it| it.is_contradicted) {
                self.contradicted(number, path);
            }
        }
        let mut is_same = first.is_some();
        for (number, other) in (1..).zip(others) {
            let (listed, side) = match (first, other) {
                (None, None) => continue,
                (Some(one), Some(other)) => {
                    let told = match one.compare(other) {
                        Some(Ok(algorithm)) => {
                            self.report.by = self.report.by.with(algorithm);
                            continue;
                        }
                        Some(Err(())) => "changed",
                        None => "incomparable",
                    };
                    is_same = false;
                    found.add(format!("{number} {told}"), path)?;
                    continue;
                }
                (Some(listed), None) => (listed, "0"),
                (None, Some(_)) if is_own(path) => continue,
                (None, Some(listed)) => (listed, "1"),
            };
            is_same = false;
            let common = self.common(number);
            let digest = listed.digests.iter().find(|digest| Some(digest.algorithm()) == common);
            let digest = digest.map_or_else(String::new, Digest::to_string);
            single.add(format!("{digest} {number} {side}"), path)?;
        }
        self.report.same += u64::from(is_same);
        Ok(())
    }

    /// The strongest algorithm that both the first list and this one have.
    fn common(&self, number: usize) -> Option<Algorithm> {
        let other = self.algorithms.get(number)?;
        let first = self.algorithms.first()?;
        first.iter().find(|algorithm| other.has(*algorithm))
    }

    /// Finds contents that have another name; returns all differences.
    fn rename(&mut self, mut found: Sorter, single: Sorter) -> io::Result<SortedRecords> {
        let sorted = single.finish()?;
        let (mut records, mut group) = (sorted.reader(), String::new());
        let mut missing: VecDeque<Vec<u8>> = VecDeque::new();
        while let Some((words, path)) = records.next_record()?.map(PathRecord::told) {
            let (key, side) = words.rsplit_once(' ').unwrap_or_default();
            let (digest, number) = key.rsplit_once(' ').unwrap_or_default();
            if key != group {
                tell_missing(&mut found, &group, &mut missing)?;
                key.clone_into(&mut group);
            }
            match side {
                "0" if digest.is_empty() || missing.len() == MOST_ALIKE => {
                    found.add(format!("{number} missing"), path)?;
                }
                "0" => missing.push_back(path.to_vec()),
                _ => match missing.pop_front().filter(|_| !digest.is_empty()) {
                    Some(old) => {
                        found.add(format!("{number} renamed {}", hex::text(path)), &old)?
                    }
                    None => found.add(format!("{number} extra"), path)?,
                },
            }
        }
        tell_missing(&mut found, &group, &mut missing)?;
        found.finish()
    }

    /// Tells and counts the differences.
    fn tell(&mut self, found: &SortedRecords, listen: &DiffListener<'_>) -> io::Result<()> {
        let mut records = found.reader();
        while let Some((words, path)) = records.next_record()?.map(PathRecord::told) {
            let mut words = words.split(' ');
            let number = words.next().and_then(|it| it.parse().ok()).unwrap_or_default();
            let (what, report) = (words.next().unwrap_or_default(), &mut self.report);
            let new = words.next().and_then(|it| hex::parse(it.as_bytes())).unwrap_or_default();
            let (count, difference) = match what {
                "missing" => (&mut report.missing, Difference::Missing),
                "extra" => (&mut report.extra, Difference::Extra),
                "changed" => (&mut report.changed, Difference::Changed),
                "incomparable" => (&mut report.incomparable, Difference::Incomparable),
                _ => (&mut report.renamed, Difference::Renamed(&new)),
            };
            *count += 1;
            listen(self.job.list(number), path, difference);
        }
        Ok(())
    }
}

impl Listed {
    /// Reads what was noted of a name, with the number of the list.
    fn parse(words: &str) -> Option<(usize, Self)> {
        let mut words = words.split(' ');
        let (number, age) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let digest = |word: &str| {
            let (algorithm, text) = word.split_once(':')?;
            Digest::parse(Algorithm::named(algorithm)?, text.as_bytes())
        };
        let digests = words.map(digest).collect::<Option<_>>()?;
        Some((number, Self { age, digests, is_contradicted: false }))
    }

    /// Adds what another line of the list says. A newer generation counts alone.
    fn join(&mut self, other: Self) {
        if other.age != self.age {
            if other.age < self.age {
                *self = other;
            }
            return;
        }
        for digest in other.digests {
            match self.digests.iter().find(|known| known.algorithm() == digest.algorithm()) {
                Some(known) => self.is_contradicted |= *known != digest,
                None => self.digests.push(digest),
            }
        }
    }

    /// The algorithm by which this is the same content, or that it is another; `None` if no digests can be compared.
    fn compare(&self, other: &Self) -> Option<std::result::Result<Algorithm, ()>> {
        let mut same = None;
        for (one, other) in
            self.digests.iter().flat_map(|one| other.digests.iter().map(move |it| (one, it)))
        {
            // Of which of two algorithms a digest is cannot always be seen.
            let is_same =
                one == other || one.alike() == Some(*other) || other.alike() == Some(*one);
            if is_same {
                same = same.or(Some(Ok(one.algorithm())));
            } else if one.algorithm() == other.algorithm() {
                return Some(Err(()));
            }
        }
        same
    }
}

/// Goes through the names of so many lists: each with what every list says of it.
fn each_name(
    names: &SortedRecords,
    lists: usize,
    stop: &Stop,
    mut see: impl FnMut(&[u8], &[Option<Listed>]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut records, mut path) = (names.reader(), Vec::new());
    let mut of_name: Vec<Option<Listed>> = vec![None; lists];
    while !stop.is_requested() {
        let record = records.next_record()?.map(PathRecord::told);
        if record.is_none_or(|(_, next)| next != path) {
            see(&path, &of_name)?;
            of_name = vec![None; lists];
        }
        let Some((words, next)) = record else { break };
        path = next.to_vec();
        if let Some((number, listed)) = Listed::parse(words)
            && let Some(known) = of_name.get_mut(number)
        {
            known
                .get_or_insert_with(|| Listed { age: listed.age, ..Listed::default() })
                .join(listed);
        }
    }
    Ok(())
}

/// What has no other name comes to its end.
fn tell_missing(
    found: &mut Sorter,
    group: &str,
    missing: &mut VecDeque<Vec<u8>>,
) -> io::Result<()> {
    let number = group.rsplit_once(' ').map_or("", |(_, number)| number);
    missing.drain(..).try_for_each(|path| found.add(format!("{number} missing"), &path))
}

/// True for what runs leave at an output beside the copy, which is in no list.
pub(super) fn is_own(path: &[u8]) -> bool {
    let first = path.split(|&byte| byte == b'/').next().unwrap_or_default();
    let is_alone = first.len() == path.len();
    sys::name_from_bytes(first).is_ok_and(|name| {
        name == NAME
            || is_alone
                && (ManifestName::of_any(name).is_some() || ManifestName::of_beside(name).is_some())
    })
}

/// True for what a later run may remove: trash, generations that are not finished and parts of killed runs, which a
/// list of all that a cloud has names too. On Windows a backslash stands between names.
fn may_be_removed(path: &[u8]) -> bool {
    kept_in(path, |byte| matches!(byte, b'/' | b'\\'), |_| true).is_some()
}

/// True for the name of a directory in which a later run may remove whatever is there: trash, and a generation that is
/// not finished.
pub(super) fn is_passing(name: &OsStr) -> bool {
    let of_part = || DatedName::parse(name.to_str()?.strip_suffix(UNFINISHED)?);
    name == TRASH || of_part().is_some()
}

/// The part of a path in a source that is what runs keep there, or is called so: all private in its root, trash, a
/// generation that is not finished, a part file.
pub fn kept_by_runs(path: &[u8]) -> Option<&[u8]> {
    kept_in(path, |byte| byte == b'/', |begin| begin == 0)
}

/// The first part of a path that runs may remove. Bytes between names are told by `is_between`, and a private directory
/// counts whose name `may_begin` there.
fn kept_in(
    path: &[u8],
    is_between: impl Fn(u8) -> bool,
    may_begin: impl Fn(usize) -> bool,
) -> Option<&[u8]> {
    let mut begin = 0;
    for name in path.split(|byte| is_between(*byte)) {
        let end = begin + name.len();
        let is_kept = |name: &OsStr| {
            name == NAME && may_begin(begin)
                || is_passing(name)
                || end == path.len() && sys::is_part_name(name)
        };
        if sys::name_from_bytes(name).is_ok_and(is_kept) {
            return Some(&path[..end]);
        }
        begin = end + 1;
    }
    None
}

/// The reason why a part of a list, or all of it, cannot be read.
fn unreadable(list: &Path, finding: Finding) -> Option<Error> {
    let finding = match finding {
        Finding::Malformed { line, fault } => format!("line {line}: {fault}"),
        Finding::Refused { line, name, why } => {
            format!("line {line}: {why}: {}", Shown::bytes(&name))
        }
        Finding::Torn { line, .. } => format!("line {line} is cut off and says nothing"),
        Finding::Unusable(error) | Finding::Incomplete(error) | Finding::Unsearched(error) => {
            return Some(error);
        }
        _ => return None,
    };
    Some(Error::finding(DEED, list, finding))
}
