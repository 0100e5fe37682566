//! The entries that have left the source and are still at the output: few pieces, because a directory that goes with
//! everything in it is one.

use std::{
    collections::BTreeMap, collections::HashMap, collections::HashSet, ffi::OsStr, ffi::OsString,
    hash::BuildHasher, hash::RandomState, io, io::Read, path::Path, sync::OnceLock, thread::sleep,
    time::Duration,
};

use crate::{
    error::Error, error::Result, event::Stop, hash::Algorithm, hash::Digest, hash::Sha256,
    hash::hex, io::ReadBack, manifest::Entries, manifest::Parsed, path::RelPath, state::Knowledge,
    state::PrivateDir, state::Row, state::RowWriter, state::Trace, state::Unsettled, sys, sys::Dir,
    sys::ListedEntry, sys::Medium, sys::name_from_bytes, sys::stat::Identity, sys::stat::Kind,
    sys::stat::Stat, tree::Classifier, tree::Inclusion, tree::LastDir, tree::Step, tree::TreePass,
    tree::dirs::open_source_below, tree::pass::each_below, volume::alike::form_of,
    volume::alike::sameness,
};

/// Bytes of names that are kept; departures beyond these go in a later run.
const MOST_BYTES: usize = 24 << 20;

/// Memory for a name besides its own bytes.
const EACH: usize = 96;

/// Number of examples that are named when a run is refused.
const MOST_EXAMPLES: usize = 5;

/// By what the piece at `path` below `root` is known again, with all that is in it: the numbers of directories, and
/// the sizes and times too of what else is there. What killed runs left is no part of it, as it is removed before. Nor
/// is the change time of a file with several names, which changes when another of these is moved, or of the piece: a
/// power cut may undo its move and not that (btrfs).
///
/// # Errors
/// It cannot be looked through.
pub fn trace_of(root: &Dir, path: &RelPath, stop: &Stop) -> io::Result<String> {
    let (above, last) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
    let above = root.open_below(&above)?;
    let (name, trace) = (name_from_bytes(last)?, |path: &[u8], stat: &Stat| {
        let changed = (stat.links == 1 && !path.is_empty()).then_some(stat.ctime);
        let times = (stat.kind != Kind::Dir).then_some((stat.size, stat.mtime, changed));
        let text = format!("{:?} {:?} {times:?} ", stat.kind, stat.id.ino);
        let Sha256(sum) = Sha256::of(&[text.as_bytes(), path]);
        u128::from_le_bytes(std::array::from_fn(|at| sum[at]))
    });
    let stat = above.stat(name, false)?;
    // A sum, because directories are listed in no order.
    let mut sum = trace(b"", &stat);
    if stat.kind == Kind::Dir {
        let is_whole = each_below(&above.open_dir(name, false)?, stop, &mut |seen| {
            let entry = seen.map_err(|(_, error)| error)?;
            if !sys::is_part_name(entry.name) {
                let stat = entry.stat().map_err(|(_, error)| error)?;
                sum = sum.wrapping_add(trace(entry.path.as_bytes(), &stat));
            }
            io::Result::Ok(entry.kind == Kind::Dir)
        })?;
        is_whole.then_some(()).ok_or(io::ErrorKind::Interrupted)?;
    }
    Ok(hex::text(&sum.to_le_bytes()))
}

/// An entry of the output that goes, a directory with everything in it.
#[derive(Debug)]
pub struct DepartedItem {
    pub name: OsString,
    /// Files and links in it, or itself.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The entries that have left the source.
#[derive(Debug, Default)]
pub struct Departures {
    /// The items by the directory that they are in.
    dirs: BTreeMap<RelPath, Vec<DepartedItem>>,
    held: usize,
    /// The paths by what those that are alike have in common; made when it is first asked for.
    by_form: OnceLock<HashMap<Vec<u8>, Vec<RelPath>>>,
    /// Directories that have left the source and have part files or journals in them.
    pub with_leftovers: Vec<RelPath>,
    /// Entries of the source that are not to be copied or are of another kind here; searched for on request.
    pub unfit: Vec<RelPath>,
    /// Directories in which nothing can be changed, because they are protected; searched for on request.
    pub protected: Vec<RelPath>,
    /// The error that a file system was mounted in the source last time, and not even its directory is there now.
    pub missed: Option<Box<Error>>,
    /// True if there may be more unfit entries than these.
    pub may_lack_unfit: bool,
    /// Number of items that were too many to be kept.
    pub postponed: u64,
    /// Files and links that go.
    pub entries: u64,
    /// Number of pieces, of which some may be empty directories.
    pub items: u64,
    /// Files and links that are in the source and at the output.
    pub present: u64,
    /// Number of entries without a counterpart in the source that stay, because no earlier run listed them.
    pub others: u64,
    /// Number of those that go and were never in the source: no run made them. …
    pub planted: u64,
    /// … The first of them.
    pub planted_first: Vec<RelPath>,
}

impl Departures {
    /// Nothing has left the source, which has all `present` files and links of the output.
    pub fn none(present: u64) -> Self {
        Self { present, ..Self::default() }
    }

    /// Adds what goes of the directory `dir`.
    pub fn add(&mut self, dir: RelPath, items: Vec<DepartedItem>) {
        let mut kept = Vec::new();
        for item in items {
            self.items += 1;
            self.entries += item.entries;
            let size = item.name.len() + EACH;
            if self.held + size > MOST_BYTES {
                self.postponed += 1;
                continue;
            }
            self.held += size;
            kept.push(item);
        }
        kept.sort_unstable_by(|a, b| a.name.as_encoded_bytes().cmp(b.name.as_encoded_bytes()));
        if !kept.is_empty() {
            self.held += dir.as_bytes().len() + EACH;
            self.dirs.insert(dir, kept);
        }
    }

    /// Notes that what is at `path`, and goes, was made by no run.
    pub fn add_planted(&mut self, path: RelPath) {
        self.planted += 1;
        if self.planted_first.len() < MOST_EXAMPLES {
            self.planted_first.push(path);
        }
    }

    /// Notes that part files or journals are in the directory `dir`, which has left the source.
    pub fn add_leftovers(&mut self, dir: RelPath) {
        if self.has_room_for(&dir) {
            self.with_leftovers.push(dir);
        }
    }

    /// Takes the room for a path, if there is any.
    fn has_room_for(&mut self, path: &RelPath) -> bool {
        let size = path.as_bytes().len() + EACH;
        let has_room = self.held + size <= MOST_BYTES;
        self.held += if has_room { size } else { 0 };
        has_room
    }

    /// Notes that what is at `path` is in the way of a copy.
    pub fn add_unfit(&mut self, path: RelPath) {
        if self.has_room_for(&path) { self.unfit.push(path) } else { self.may_lack_unfit = true }
    }

    /// Notes that the directory at `path` is protected.
    pub fn add_protected(&mut self, path: RelPath) {
        match self.has_room_for(&path) {
            true => self.protected.push(path),
            false => self.may_lack_unfit = true,
        }
    }

    /// True if nothing has left the source.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// The items that go, by directory.
    pub fn dirs(&self) -> impl Iterator<Item = (&RelPath, &[DepartedItem])> {
        self.dirs.iter().map(|(dir, items)| (dir, &**items))
    }

    /// All pieces, by their paths.
    pub fn paths(&self) -> impl Iterator<Item = RelPath> {
        self.dirs().flat_map(|(dir, items)| items.iter().map(|item| dir.join(&item.name)))
    }

    /// The first of them.
    pub fn examples(&self) -> Vec<RelPath> {
        self.paths().take(MOST_EXAMPLES).collect()
    }

    /// True if the file at `path`, or a directory above it, goes.
    pub fn covers(&self, path: &RelPath) -> bool {
        self.piece_over(path, None).is_some()
    }

    /// The piece that is the file at `path`, or has it in it; by another spelling too, below the root of the `output`.
    pub fn piece_over(&self, path: &RelPath, output: Option<&Dir>) -> Option<RelPath> {
        let mut path = path.clone();
        while let Some((above, _)) = path.split() {
            let piece = self.piece_at(&path, output);
            if piece.is_some() {
                return piece;
            }
            path = above;
        }
        None
    }

    /// The piece that is at `path`. What cannot be looked at is not another spelling of one.
    fn piece_at(&self, path: &RelPath, output: Option<&Dir>) -> Option<RelPath> {
        let (above, name) = path.split()?;
        let by_name = |item: &DepartedItem| item.name.as_encoded_bytes().cmp(name);
        let has = |items: &Vec<DepartedItem>| items.binary_search_by(by_name).is_ok();
        if self.dirs.get(&above).is_some_and(has) {
            return Some(path.clone());
        }
        let output = output?;
        let all = self.by_form.get_or_init(|| {
            let mut all: HashMap<_, Vec<_>> = HashMap::new();
            self.paths()
                .for_each(|path| all.entry(form_of(path.as_bytes())).or_default().push(path));
            all
        });
        let is_one = |goes: &&RelPath| is_respelled(output, path, goes).unwrap_or(false);
        all.get(&form_of(path.as_bytes()))?.iter().find(is_one).cloned()
    }

    /// The pieces that `list` names, or something in them; not all of them once `stop` says so.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn named_in(
        &self,
        list: impl Read,
        output: Option<&Dir>,
        stop: &Stop,
    ) -> io::Result<HashSet<RelPath>> {
        let (mut entries, mut found) = (Entries::of_all(list), HashSet::new());
        // The lines of a directory stand together.
        let mut last: Option<(RelPath, Option<RelPath>)> = None;
        while let Some(entry) = entries.next_entry()? {
            let Parsed::Record(record) = entry.parsed else { continue };
            let Ok(path) = RelPath::parse(record.name) else { continue };
            let Some((above, _)) = path.split() else { continue };
            let piece = match &last {
                Some((dir, piece)) if *dir == above => piece,
                _ if stop.is_requested() => break,
                _ => {
                    let piece = self.piece_over(&above, output);
                    &last.insert((above, piece)).1
                }
            };
            found.extend(piece.clone().or_else(|| self.piece_at(&path, output)));
        }
        Ok(found)
    }
}

/// True if `path` leads to what is listed at `other`, and nothing is listed at `path`.
fn is_respelled(root: &Dir, path: &RelPath, other: &RelPath) -> io::Result<bool> {
    let stat = |path: &RelPath| -> io::Result<Stat> {
        let (above, name) = path.split().ok_or(io::ErrorKind::NotFound)?;
        root.open_below(&above)?.stat(name_from_bytes(name)?, false)
    };
    if sameness(&stat(path)?) != sameness(&stat(other)?) {
        return Ok(false);
    }
    let mut dir = root.try_clone()?;
    for name in path.components() {
        let name = name_from_bytes(name)?;
        if !dir.lists(name)? {
            return Ok(true);
        }
        match dir.open_dir(name, false) {
            Ok(below) => dir = below,
            // The last one, mostly.
            Err(_) => break,
        }
    }
    Ok(false)
}

// The effect of removing old trash on files that stay: each name that is removed changes the change time of the file
// that had it, so that no record would prove the living file any longer.
//
// The time just before and just after is noted of each such file. If the record has the first and the file has the
// second, nothing else happened to it, and the record gets a newer row. What is not noted is read by the next run.

/// Number of files whose times are noted, in about 80 MiB.
const MOST_LOST: usize = 1 << 20;

/// Longer than a step of any file system's clock: what changes later shows.
const STEP: Duration = Duration::from_millis(25);

/// Files that lost a name and have another.
#[derive(Debug, Default)]
pub struct LostNames {
    /// The trace with which each was found first, and the one with which it was left.
    files: HashMap<Identity, (Trace, Trace)>,
}

impl LostNames {
    /// Removes what is called `name` from `dir`, and notes what that does to a file with further names.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&mut self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let Some((id, before, file)) = self.look(dir, name) else { return dir.remove(name) };
        dir.remove(name)?;
        match (Dir::stat_file(&file), self.files.get_mut(&id)) {
            // It was left as it was found now: only names went meanwhile.
            (Ok(after), Some((_, left))) if *left == before => *left = Trace::of(&after),
            (Ok(after), None) => drop(self.files.insert(id, (before, Trace::of(&after)))),
            (_, Some(_)) => drop(self.files.remove(&id)),
            (Err(_), None) => {}
        }
        Ok(())
    }

    /// A file that keeps another name; `None` if there is nothing to note.
    fn look(&self, dir: &Dir, name: &OsStr) -> Option<(Identity, Trace, std::fs::File)> {
        let has_others = |it: &Stat| it.kind == Kind::File && it.links > 1;
        let there = dir.stat(name, false).ok().filter(has_others)?;
        if self.files.len() >= MOST_LOST && !self.files.contains_key(&there.id) {
            return None;
        }
        let file = dir.open_file(name, false).ok()?;
        let now = Dir::stat_file(&file).ok().filter(has_others)?;
        Some((now.id, Trace::of(&now), file))
    }

    /// The row of a file as it is now, if since `row` was written it lost names and nothing else happened to it.
    fn renewed(&self, row: Row, there: &Stat) -> Option<Row> {
        let (before, left) = self.files.get(&there.id)?;
        let is_alike = (before.ino, before.size, before.mtime) == (left.ino, left.size, left.mtime);
        let is_it = row.sure && row.trace == *before && left.is_of(there);
        (is_it && is_alike).then_some(Row { trace: *left, ..row })
    }

    /// Adds newer rows to the record of `tree`, for its files that lost names.
    ///
    /// # Errors
    /// They cannot be recorded; then the next run reads those files.
    pub fn record(&self, tree: &TreeRecord<'_>, stop: &Stop) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        sleep(STEP);
        let TreeRecord { root, path, private, proof } = *tree;
        let fail = |error| Error::io("record which files lost names in", private.path(), error);
        let is_to_stop = || stop.is_requested();
        let (known, _) = Knowledge::load(Some(private), root, path, &|_| false, &is_to_stop);
        let known = known.proving_with(proof);
        let mut record = RowWriter::create(private, known.next_number()).map_err(fail)?;
        let mut last = LastDir::default();
        known.unsettled(&is_to_stop, |path, Unsettled { remembered, trusted, further, .. }| {
            let there = last.stat(root, path, false).ok().filter(|_| trusted && !remembered.late);
            let row = there.zip(remembered.row);
            match row.and_then(|(there, row)| self.renewed(row, &there)) {
                Some(row) => record.add(&row, &further, path).map_err(fail),
                None => Ok(()),
            }
        })?;
        record.close().map_err(fail)
    }
}

/// A tree whose record is to have newer rows.
#[derive(Clone, Copy)]
pub struct TreeRecord<'a> {
    pub root: &'a Dir,
    pub path: &'a Path,
    pub private: &'a PrivateDir,
    /// The algorithm that its run proved with.
    pub proof: Algorithm,
}

// Renamed files among those that have left the source: a file that is there under another name has not left.
//
// A departed file and a new one are taken for the same if size and time are. Of those pairs a random sample is read,
// and if the content of one is not what was recorded, none counts: a ransomed tree, whose files have new names and new
// content, is stopped also where its files kept size and time.

/// Number of departed files that are remembered, in about 100 MiB.
const MOST_FILES: usize = 1 << 20;

/// Number of pairs that are read, …
const SAMPLE: usize = 16;

/// … but no further one after so many bytes.
const SAMPLE_BYTES: u64 = 256 << 20;

/// The directories and records that moved files are searched in.
pub struct MovedFiles<'a> {
    pub source: &'a Dir,
    pub output: &'a Dir,
    pub known: &'a Knowledge,
    pub departures: &'a Departures,
    pub classifier: Classifier<'a>,
    /// The algorithm that the run proves with.
    pub proof: Algorithm,
    pub stop: &'a Stop,
}

/// Size and second of a file.
type Look = (u64, i64);

/// The results of the search so far.
#[derive(Default)]
struct MovesFound {
    departed: HashMap<Look, Alike>,
    /// Number of departed files that have a new name.
    moved: u64,
    /// Some of those, by a random number.
    sample: BTreeMap<u64, (RelPath, Look)>,
    random: RandomState,
}

/// Departed files that look alike.
#[derive(Default)]
struct Alike {
    /// Number of departed files without a new name yet.
    left: u64,
    /// The beginnings of their digests.
    digests: Vec<u32>,
}

impl MovedFiles<'_> {
    /// Number of files renamed; 0 if one of the sample is another file.
    ///
    /// # Errors
    /// Something cannot be read, so nothing is known.
    pub fn count(&self) -> io::Result<u64> {
        let mut found = MovesFound { departed: self.departed(), ..MovesFound::default() };
        if found.departed.is_empty() {
            return Ok(0);
        }
        let selection = self.classifier.selection;
        let trees = [(self.source, selection.follow_links), (self.output, false)];
        let mut pass = TreePass::over(trees, selection.filter.root())?;
        while let Some(step) = pass.step(self.stop)? {
            match step {
                Step::Entry(top, ListedEntry { name, .. }) => {
                    let [Some(source), output] = &top.dirs else { continue };
                    // A link that leads nowhere, or what was removed a moment ago.
                    let Ok(stat) = source.stat(&name, selection.follow_links) else { continue };
                    let (path, is_dir) = (top.rel.join(&name), stat.kind == Kind::Dir);
                    match selection.filter.judge(path.as_bytes(), is_dir, top.state) {
                        Inclusion::Out => {}
                        inclusion if is_dir && selection.enters(source, &stat)? => {
                            top.subdirs.push((name, inclusion));
                        }
                        _ if stat.kind == Kind::File && !has(output.as_ref(), &name) => {
                            found.take(path, &stat);
                        }
                        _ => {}
                    }
                }
                Step::Into(top, name, inclusion) => {
                    let [Some(source), output] = &top.dirs else { continue };
                    let source = source.open_dir(&name, selection.follow_links)?;
                    let output = output.as_ref().and_then(|it| it.open_dir(&name, false).ok());
                    // A link that leads back is the walk's to name.
                    let _ = pass.enter(name, [Some(source), output], inclusion);
                }
                _ => {}
            }
        }
        Ok(if self.proves(&found)? { found.moved } else { 0 })
    }

    /// The files that have left the source, by size and time.
    fn departed(&self) -> HashMap<Look, Alike> {
        let (mut departed, mut number) = (HashMap::<_, Alike>::new(), 0);
        // What was read until an error is as good.
        let _ = self.known.unsettled(&|| self.stop.is_requested(), |path, unsettled| {
            let row = unsettled.remembered.row.filter(|row| row.digest.algorithm() == self.proof);
            if let Some(row) = row.filter(|_| number < MOST_FILES && self.departures.covers(path)) {
                number += 1;
                let alike = departed.entry((row.trace.size, row.trace.mtime.secs)).or_default();
                alike.left += 1;
                alike.digests.push(beginning(&row.digest));
            }
            Ok(())
        });
        departed
    }

    /// True if each file of the sample has the content of a departed one.
    fn proves(&self, found: &MovesFound) -> io::Result<bool> {
        let (mut read_back, mut bytes, follow) =
            (ReadBack::new(), 0, self.classifier.selection.follow_links);
        for (path, look) in found.sample.values() {
            let Some((above, name)) = path.split().filter(|_| bytes < SAMPLE_BYTES) else { break };
            let dir = open_source_below(self.source, &above, follow)?;
            let file = dir.open_file(sys::name_from_bytes(name)?, follow)?;
            let is_to_stop = || self.stop.is_requested();
            let read = read_back.hash(Medium::any(&file), self.proof, is_to_stop, |_| ())?;
            let digest = read.and_then(|read| read.digest);
            let alike = found.departed.get(look).zip(digest);
            if !alike.is_some_and(|(alike, it)| alike.digests.contains(&beginning(&it))) {
                return Ok(false);
            }
            bytes += look.0;
        }
        Ok(true)
    }
}

impl MovesFound {
    /// Takes a new file for a departed one, if one looks like it.
    fn take(&mut self, path: RelPath, stat: &Stat) {
        let look = (stat.size, stat.mtime.secs);
        let Some(alike) = self.departed.get_mut(&look).filter(|alike| alike.left > 0) else {
            return;
        };
        alike.left -= 1;
        self.moved += 1;
        if stat.size > 0 {
            self.sample.insert(self.random.hash_one(path.as_bytes()), (path, look));
        }
        if self.sample.len() > SAMPLE {
            self.sample.pop_last();
        }
    }
}

fn beginning(digest: &Digest) -> u32 {
    digest.bytes().iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// True if something is called `name` in `dir`.
fn has(dir: Option<&Dir>, name: &OsStr) -> bool {
    dir.is_some_and(|dir| dir.stat(name, false).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_directory_goes_with_it() {
        let mut departures = Departures::default();
        let item = |name: &str| DepartedItem { name: name.into(), entries: 1, bytes: 1 };
        departures.add(RelPath::root(), vec![item("z"), item("b")]);
        departures.add(RelPath::parse(b"a").unwrap(), vec![item("x")]);
        for (path, covered) in [
            ("z", true),
            ("b/c/d", true),
            ("a", false),
            ("a/x", true),
            ("a/x/y", true),
            ("c", false),
        ] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            assert_eq!(departures.covers(&path), covered, "{path:?}");
        }
        let paths: Vec<_> = departures.paths().map(|it| it.as_bytes().to_vec()).collect();
        assert_eq!(paths, [b"b".to_vec(), b"z".to_vec(), b"a/x".to_vec()]);
    }
    /// A directory that goes stays as a whole if a list names anything in it.
    #[test]
    fn a_list_names_pieces() {
        let mut departures = Departures::default();
        let item = |name: &str| DepartedItem { name: name.into(), entries: 1, bytes: 1 };
        departures.add(RelPath::root(), vec![item("b"), item("z")]);
        departures.add(RelPath::parse(b"a").unwrap(), vec![item("x"), item("y")]);
        let names = ["a/w", "a/x", "b/c/d", "b/c/e", "zz"];
        let list: String = names.iter().map(|it| format!("{}  {it}\n", "0".repeat(64))).collect();
        let named = departures.named_in(list.as_bytes(), None, &Stop::default()).unwrap();
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        assert_eq!(named, HashSet::from(["a/x", "b"].map(path)));
    }
}
