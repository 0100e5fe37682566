//! Media Hash Lists of what a run copied: histories of ASC MHL 2, of which each run writes a generation, and legacy
//! lists.
//!
//! A run (`run`) looks first whether such a list can hold the source, which histories there are
//! (`histories`), whether one was touched (`one_history`, `own_mark`), and what they say (`known`); what it is to write
//! stands in its `role`. The tree is copied as any; what is listed of its files is kept aside. When all of
//! it is durable, that is held against the output (`tree`) and the histories (`join`), the digests of directories are
//! computed (`dir_hashes`), and the lists are written (`seal`, `write`), in bounded memory because everything is sorted
//! by path (`records`).

mod histories;
mod join;
pub mod one_history;
mod write_generations;

use std::{collections::BTreeSet, ffi::OsStr, fs::File, io, path::Path, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::copy::media::one_history::{HistoryRoot, MediaRole, left_out, listed, patterns};
use crate::manifest::archive::mhl::{CHAIN, HISTORY, OF_LEGACY, is_history, number_of};
use crate::{
    copy::CopyJob, copy::Prepared, copy::Report, copy::before::check::Fit,
    copy::before::check::FitRules, copy::list_file::ListFile, copy::list_file::ListWriting,
    copy::media::histories::Histories, copy::media::histories::HistorySides,
    copy::media::histories::OwnMark, copy::media::join::Join, copy::media::join::sorted,
    copy::media::write_generations::OpenLists, copy::run::OutputRun, error::Deed, error::Error,
    error::Result, event::Event, event::Stop, hash::Algorithm, hash::Algorithms, hash::Digest,
    manifest::Creator, manifest::HashAction, manifest::KeptFile, manifest::ListFormat,
    manifest::MediaEntry, manifest::MhlWriter, manifest::archive::mhl_writer::is_text,
    path::RelPath, state::Secret, sys, sys::Dir, sys::PartOwner, sys::stat::Kind, sys::stat::Time,
    tree::Batch, tree::EntryBelow, tree::Filter, tree::Inclusion, tree::JoinReader,
    tree::PathRecord, tree::Patience, tree::RecordOrder, tree::SortedRecords, tree::Sorter,
    tree::WalkEvent, tree::by_path, tree::pass::Unlisted, tree::pass::each_below,
};

// A run that writes a Media Hash List: what it refuses first, and what it has to know before the tree is copied.

/// The chains of histories, which are gone on with and not copied.
const CHAINS: &str = "**/ascmhl/ascmhl_chain.xml";

/// The files that a Media Hash List can hold.
const OF_MEDIA: FitRules = FitRules {
    deed: "write a Media Hash List of",
    holds: is_text,
    names: "have names that XML cannot hold, so that no Media Hash List can have them (rename them, leave them out by \
            --exclude, or take --format gnu, which has every name)",
    links: "are symbolic links, which a Media Hash List cannot hold (give --follow-links or --no-links)",
};

impl OutputRun<'_> {
    /// Copies, and writes the list.
    ///
    /// # Errors
    /// The job was refused, and nothing was touched.
    pub(crate) fn copy_with_media_list(&self, form: ListFormat) -> Result<Report> {
        let Self { job, observer, .. } = *self;
        let started = Timestamp::now();
        job.check_options()?;
        let stop = &observer.stop.of_one();
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let wait = job.wait && !job.dry_run;
        let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
        patience.until_free(&job.output, job.state.as_deref())?;
        let prepared = job.prepare(true, patience)?;
        let mut found = self.look_at_source(&prepared)?;
        let asked = listed(form, job.options.further.with(job.options.algorithm));
        let mut role = MediaRole { algorithms: asked, histories: None, started };
        let mut filter = job.options.selection.filter.clone();
        if form == ListFormat::History {
            let output = prepared.output.handle.as_ref();
            if let Some(root) = output.map(|dir| HistoryRoot { dir, path: &job.output }) {
                let wrong = |why| Error::finding("look for histories in", root.path, why);
                let ours = left_out(&patterns(&[], &[])).map_err(wrong)?;
                let all = list(root.dir, root.path, &ours, stop)?;
                found.extend(all.map(|all| all.histories).unwrap_or_default());
            }
            let histories = job.histories(&prepared, &found, stop)?;
            histories.hold()?;
            role.algorithms =
                histories.algorithms(asked).deed("go on with the histories at", &job.output)?;
            let of_root = histories.all.get(&RelPath::root());
            let of_root = of_root.map(|it| it.patterns.as_slice()).unwrap_or_default();
            let wrong = |why| Error::finding("go on with the history of", &job.source, why);
            left_out(&patterns(of_root, &[])).map_err(wrong)?;
            role.histories = Some(histories);
            let wrong = |why| Error::finding("leave out the chains of", &job.source, why);
            filter = filter.without(&[CHAINS.to_owned()]).map_err(wrong)?;
        }
        let mut job = CopyJob { media: Some(Arc::new(role)), ..job.clone() };
        job.options.selection.filter = filter;
        self.with(&job).copy_or_tell()
    }

    /// Refuses a source that no such list can hold; returns which of its directories have histories.
    fn look_at_source(&self, prepared: &Prepared) -> Result<BTreeSet<RelPath>> {
        let (mut fit, mut found) = (Fit::new(OF_MEDIA), BTreeSet::new());
        self.walk_source(prepared, |event| {
            fit.take(event);
            if let WalkEvent::Files(batch) = event {
                found.extend(history_of(batch));
            }
        });
        fit.judge(self.job)?;
        Ok(found)
    }
}

impl CopyJob {
    /// Reads the histories at these directories of both sides.
    fn histories(
        &self,
        prepared: &Prepared,
        found: &BTreeSet<RelPath>,
        stop: &Stop,
    ) -> Result<Histories> {
        let output = prepared.output.handle.as_ref();
        let output = output.map(|dir| HistoryRoot { dir, path: &self.output });
        let source = HistoryRoot { dir: &prepared.source.handle, path: &self.source };
        let mark = prepared.secret.as_ref().map(OwnMark::by);
        Histories::read(HistorySides { source, output, mark }, found, stop)
    }

    /// Looks at the history of the whole tree; finding those of directories in it takes a walk.
    ///
    /// # Errors
    /// It cannot be gone on with.
    pub(crate) fn check_history(&self, prepared: &Prepared) -> Result<()> {
        let Prepared { source, output, file, .. } = prepared;
        let chain = RelPath::of(&Path::new(HISTORY).join(CHAIN));
        let takes_part = file.is_none() && !self.options.selection.filter.leaves_out(&chain);
        let is_any = takes_part && has_history(&source.handle)
            || output.handle.as_ref().is_some_and(has_history);
        if !is_any || self.media_format() != Some(ListFormat::History) {
            return Ok(());
        }
        self.histories(prepared, &BTreeSet::from([RelPath::root()]), &Stop::default()).map(drop)
    }
}

/// The directory that has a history, if these are the files of one.
fn history_of(batch: &Batch) -> Option<RelPath> {
    let path = batch.source.rel.path();
    let (above, name) = path.split()?;
    let is_of_one =
        |name: &OsStr| *name == *CHAIN || name.to_str().is_some_and(|it| number_of(it).is_some());
    let is_one = || batch.files.iter().any(|entry| is_of_one(&entry.name));
    (name == HISTORY.as_bytes() && is_one()).then_some(above)
}

// What is at the output: files, directories, and the histories among them, as far as no pattern leaves them out.

/// So many histories may be in one tree.
const MOST_HISTORIES: usize = 10_000;

/// A tree that was listed.
pub struct FoundTree {
    /// Directories and files by path, as [`FoundEntry`] has them.
    pub entries: SortedRecords,
    /// The directories that have a history.
    pub histories: BTreeSet<RelPath>,
}

/// An entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEntry {
    /// The size of a file; a directory has none.
    pub size: Option<u64>,
    pub modified: Time,
}

/// Lists what is in `root`, which is at `path`. None if the run is to stop.
///
/// # Errors
/// A directory cannot be listed, or there are too many histories.
pub fn list(root: &Dir, path: &Path, ignored: &Filter, stop: &Stop) -> Result<Option<FoundTree>> {
    let fail = |error| Error::io("list", path, error);
    let (mut sorter, mut histories) = (sorter(by_path), BTreeSet::new());
    let modified = root.stat_self().map_err(fail)?.mtime;
    sorter.add_json(&FoundEntry { size: None, modified }, b"").map_err(fail)?;
    let is_whole = each_below(root, stop, &mut |entry| {
        let unlisted = |(at, error): Unlisted| Error::io("list", at.full_path(path), error);
        let entry = entry.map_err(unlisted)?;
        let stat = entry.stat().map_err(unlisted)?;
        let EntryBelow { dir, above, name, path: at, .. } = entry;
        let is_dir = stat.kind == Kind::Dir;
        // A link in the place of one is refused when it is opened.
        if *name == *HISTORY && (stat.kind == Kind::Symlink || is_dir && has_history(dir)) {
            histories.insert(above.path());
            if histories.len() > MOST_HISTORIES {
                return Err(Error::finding("list the histories in", path, "there are too many"));
            }
        }
        let is_out = ignored.judge(at.as_bytes(), is_dir, Inclusion::In) == Inclusion::Out;
        if is_out || !matches!(stat.kind, Kind::Dir | Kind::File) {
            return Ok(false);
        }
        let found = FoundEntry { size: (!is_dir).then_some(stat.size), modified: stat.mtime };
        sorter.add_json(&found, at.as_bytes()).map_err(fail)?;
        Ok(is_dir)
    })?;
    if !is_whole {
        return Ok(None);
    }
    let entries = sorter.finish().map_err(fail)?;
    Ok(Some(FoundTree { entries, histories }))
}

fn has_history(dir: &Dir) -> bool {
    dir.open_dir(HISTORY.as_ref(), false).is_ok_and(|history| is_history(&history))
}

// The end of a run that writes a Media Hash List: what it kept of its files is held against the output and the
// histories, and the lists are written.

const DEED: &str = "write the Media Hash List of";

/// Something that is told while lists are written.
pub struct MediaFinding {
    pub error: Error,
    /// True if a file differs from its history.
    pub is_failed: bool,
}

/// The means of a run to write its Media Hash List.
pub struct MediaSeal<'a> {
    pub role: &'a MediaRole,
    pub job: &'a CopyJob,
    pub stop: &'a Stop,
    /// Whose part files are made.
    pub parts: PartOwner,
    /// The mark of the generations of this output.
    pub mark: Option<OwnMark>,
    /// The permissions of lists.
    pub mode: u32,
}

impl<'a> MediaSeal<'a> {
    /// The writer of a job's lists, if it has any, for their owner only; by the `secret` of the output.
    pub fn of(
        job: &'a CopyJob,
        stop: &'a Stop,
        parts: PartOwner,
        secret: Option<&Secret>,
    ) -> Option<Self> {
        let (role, mark) = (job.media.as_deref()?, secret.map(OwnMark::by));
        Some(Self { role, job, stop, parts, mark, mode: 0o600 })
    }

    /// Writes the list at `root` by what the run `kept` of its files; returns where it is, if there was anything to
    /// write.
    ///
    /// # Errors
    /// It cannot be written. What was there stays.
    pub fn run(
        &self,
        root: HistoryRoot<'_>,
        kept: File,
        tell: &mut dyn FnMut(MediaFinding),
    ) -> Result<Option<PathBuf>> {
        let kept = sorted(kept).deed(DEED, root.path)?;
        match &self.role.histories {
            Some(histories) => self.generations(root, histories, &kept, tell),
            None => {
                let warn = &mut |error| tell(MediaFinding { error, is_failed: false });
                write(self.role, self.writing(), root, &kept, warn)
            }
        }
    }

    fn writing(&self) -> MediaWriting<'_> {
        let Self { job, stop, parts, mode, .. } = *self;
        let lists = ListWriting {
            parts,
            algorithms: Algorithms::default().with(Algorithm::C4),
            durable: job.options.sync,
            verify: job.options.verify,
            stop: Some(stop),
        };
        MediaWriting { lists, mode }
    }

    fn generations(
        &self,
        root: HistoryRoot<'_>,
        histories: &Histories,
        kept: &SortedRecords,
        tell: &mut dyn FnMut(MediaFinding),
    ) -> Result<Option<PathBuf>> {
        let of_root = histories.all.get(&RelPath::root()).map(|it| it.patterns.as_slice());
        let ignored = patterns(of_root.unwrap_or_default(), &[]);
        let wrong = |why| Error::finding(DEED, root.path, why);
        let filter = left_out(&ignored).map_err(wrong)?;
        let Some(mut found) = list(root.dir, root.path, &filter, self.stop)? else {
            return Ok(None);
        };
        // The chains of those that came with this copy are not there yet.
        found.histories.extend(histories.all.keys().cloned());
        let join =
            Join::new(self.role, histories, root.path, &filter, kept).deed(DEED, root.path)?;
        let joined =
            join.run(&found, &mut |error| tell(MediaFinding { error, is_failed: true }))?;
        if joined.missing > 0 {
            let finding = format!(
                "{} of the files that it lists are not there: {}",
                joined.missing,
                joined.examples.join(", ")
            );
            let error = Error::finding("find all that is in the history of", root.path, finding);
            tell(MediaFinding { error, is_failed: false });
        }
        let lists = OpenLists {
            role: self.role,
            with: self.writing(),
            mark: self.mark,
            root,
            histories,
            creator: creator(self.role.started),
            ignored: &ignored,
            stack: Vec::new(),
            written: None,
        };
        lists.write(&joined)
    }
}

/// So many bytes are sorted at a time: several are at work, beside what the run holds.
const PIECE: usize = 1 << 20;

/// Sorts records of files and directories.
pub fn sorter(order: RecordOrder) -> Sorter {
    Sorter::with_pieces_of(PIECE, order)
}

// Media Hash Lists as they are written: the generations of histories, and legacy lists.

// A Media Hash List while it is written.

/// The means to write lists, and their permissions.
#[derive(Clone, Copy)]
pub struct MediaWriting<'a> {
    pub lists: ListWriting<'a>,
    pub mode: u32,
}

impl MediaWriting<'_> {
    /// Gives a list its name, in place of what has it if it `replaces` that; returns its C4 digest.
    ///
    /// # Errors
    /// It cannot be written, or is not on its medium as it was written: it is removed.
    pub fn publish(self, mut list: ListFile<'_>, replaces: bool) -> Result<Digest> {
        if !list.end(|_| self.mode)? {
            let stopped = Err(io::ErrorKind::Interrupted.into());
            return stopped.deed("read back", list.path());
        }
        list.publish(replaces)?;
        list.persist_name()?;
        Ok(list.digests()?.proof)
    }
}

// Dates, names and orders as Media Hash Lists have them, and who writes them.

/// A name of a directory is no longer than this in the name of a list; bytes.
const MOST_NAME: usize = 180;

/// Who writes the lists of a run that began then.
pub fn creator(started: Timestamp) -> Creator {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|it| std::env::var(it).ok());
    let text = |text: String| if is_text(text.as_bytes()) { text } else { String::new() };
    Creator {
        host: text(sys::host_name()),
        user: text(user.unwrap_or_else(|| "unknown".into())),
        started: date(started),
        finished: date(Timestamp::now()),
    }
}

/// The path below the directory `rel`, as text.
pub fn below<'p>(path: &'p [u8], rel: &RelPath) -> Option<&'p str> {
    let rest = match rel.is_root() {
        true => path,
        false => path.strip_prefix(rel.as_bytes())?.strip_prefix(b"/")?,
    };
    std::str::from_utf8(rest).ok().filter(|text| !text.is_empty() && is_text(rest))
}

/// The name of a directory, as the name of its lists has it.
pub fn folder(path: &Path) -> String {
    let whole = path.canonicalize();
    let name = whole.as_deref().unwrap_or(path).file_name().unwrap_or_default();
    let name = name.to_string_lossy().replace(|c: char| c.is_control() || "/\\:".contains(c), "_");
    let mut end = name.len().min(MOST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { "root".into() } else { name[..end].to_owned() }
}

/// Where an algorithm stands in the order of a schema.
pub fn place(algorithm: Algorithm, order: &[Algorithm]) -> usize {
    order.iter().position(|it| *it == algorithm).unwrap_or(order.len())
}

/// The digests in the order of a schema.
pub fn ordered(digests: &[Digest], order: &[Algorithm]) -> Vec<Digest> {
    let mut digests = digests.to_vec();
    digests.sort_by_key(|digest| place(digest.algorithm(), order));
    digests
}

/// A moment as XML has it.
pub fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

/// A time of a file as XML has it.
pub fn date_of(time: Time) -> String {
    date(Timestamp::from_second(time.secs).unwrap_or_default())
}

// A legacy Media Hash List (1.1) of what a run listed.

/// Writes the list at `root` by what the run `kept` of its files; returns where it is, if there was anything to write.
///
/// # Errors
/// It cannot be written.
pub fn write(
    role: &MediaRole,
    with: MediaWriting<'_>,
    root: HistoryRoot<'_>,
    kept: &SortedRecords,
    warn: &mut dyn FnMut(Error),
) -> Result<Option<PathBuf>> {
    let fail = |error| Error::io(DEED, root.path, error);
    let mut files = JoinReader::of(kept).map_err(fail)?;
    if files.peek().is_none() {
        return Ok(None);
    }
    let path = root.path.join(free_name(role, root));
    let creator = creator(role.started);
    let creator =
        Creator { started: zulu(&creator.started), finished: zulu(&creator.finished), ..creator };
    let dir = Arc::new(root.dir.try_clone().deed("begin", &path)?);
    let file = ListFile::new(with.lists, &dir, path.clone()).begin()?;
    let mut list = MhlWriter::legacy(file, &creator).map_err(fail)?;
    let filled = fill(&mut list, role, root.dir, &mut files, &creator.finished);
    let empty = match filled {
        Ok(empty) => empty,
        Err(error) => {
            list.discard().discard();
            return Err(fail(error));
        }
    };
    with.publish(list.finish_legacy().map_err(fail)?, false)?;
    if empty > 0 {
        let finding = format!(
            "{empty} of its files are empty; it lists them with size 0, as other programs do, which its schema does not \
             have (--format mhl has it)"
        );
        warn(Error::finding("write by the schema the legacy list", &path, finding));
    }
    Ok(Some(path))
}

/// Lists the files, each once, and returns how many are empty; what is not there any more is left out.
fn fill(
    list: &mut MhlWriter<ListFile<'_>>,
    role: &MediaRole,
    root: &Dir,
    files: &mut JoinReader,
    date: &str,
) -> io::Result<u64> {
    let (mut done, mut empty) = (None, 0);
    while let Some(record) = files.take()? {
        let (words, path) = PathRecord::told(&record);
        let kept = KeptFile::parse(words, role.algorithms);
        let (Some(kept), Ok(text)) = (kept, std::str::from_utf8(path)) else { continue };
        if done.as_deref() == Some(path) || !is_text(path) {
            continue;
        }
        let Ok(modified) = modified(root, path) else { continue };
        let file = MediaEntry {
            path: text,
            size: kept.size,
            modified,
            digests: &ordered(&kept.digests, &OF_LEGACY),
            action: HashAction::Original,
            read: None,
            previous: None,
        };
        list.legacy_file(&file, date)?;
        empty += u64::from(kept.size == 0);
        done = Some(path.to_vec());
    }
    Ok(empty)
}

/// A date as legacy lists have it.
fn zulu(date: &str) -> String {
    date.replace("+00:00", "Z")
}

/// The name of the list, with a number where something has it: a run of the same second, or a file of the source.
fn free_name(role: &MediaRole, root: HistoryRoot<'_>) -> String {
    const MOST: u32 = 10_000;
    let stamp = role.started.strftime("%Y-%m-%d_%H%M%S");
    let begin = format!("{}_{stamp}", folder(root.path));
    let numbered = (2..MOST).map(|number| format!("{begin}_{number}.mhl"));
    let mut names = std::iter::once(format!("{begin}.mhl")).chain(numbered);
    let is_free = |name: &String| {
        let stat = root.dir.stat(name.as_ref(), false);
        stat.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    // Where none is free, publishing says so.
    names.find(is_free).unwrap_or_else(|| format!("{begin}.mhl"))
}

/// When the file at `path` was last changed, as XML has it.
fn modified(root: &Dir, path: &[u8]) -> io::Result<String> {
    let rel = RelPath::parse(path).unwrap_or_default();
    let Some((above, name)) = rel.split() else { return Err(io::ErrorKind::NotFound.into()) };
    let dir = root.open_below(&above)?;
    Ok(zulu(&date_of(dir.stat(sys::name_from_bytes(name)?, false)?.mtime)))
}
