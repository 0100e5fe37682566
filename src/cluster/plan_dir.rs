//! The directory of a plan as a whole: its layout, the plan itself, and what says that it is complete.
//!
//! It belongs to one user and is closed to others, so that nothing in it can be forged by them; all the same what is
//! read from it is checked.

use std::path::{Path, PathBuf};
use std::{
    collections::BTreeSet, ffi::OsString, fs::File, io, io::Read, sync::Arc, time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    cluster::attempt, cluster::done, cluster::done::DoneTotals, copy::CopyJob, copy::PlannedRoots,
    copy::refuse_other_root, error::Deed, error::Error, error::Result, io::CopyOptions,
    manifest::ReadAhead, manifest::SummedReader, path::directory_of, staged::refuse_exchanged,
    staged::write_whole, sys, sys::Dir, sys::DirListing, sys::Uninterrupted, sys::stat::Kind,
    sys::stat::Stat, sys::stat::Time,
};

/// The version of all formats in the directory.
const FORMAT: u32 = 8;

/// No file but a list is longer; bytes.
const MOST_JSON: u64 = 16 << 20;

/// The directories of a plan: its own, and those in it.
pub const TOP: &str = ".";
pub const SHARDS: &str = "shards";
pub const OPEN: &str = "open";
pub const CLAIMED: &str = "claimed";
pub const FAILED: &str = "failed";
pub const RUNNING: &str = "running";
pub const DONE: &str = "done";

/// What ends a record of a list.
const LIST_END: u8 = 0;

pub const PLAN: &str = "plan.json";
const SEALED: &str = "SEALED";
const FINISHED: &str = "FINISHED";
const ENDING: &str = "ENDING";

/// What a plan froze: every shard and the end of the plan go by it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenPlan {
    pub format: u32,
    /// A random number that tells it from others.
    pub plan: u32,
    /// The version of the program that made it.
    pub version: String,
    /// What its directory was called; not in plans of earlier versions. Bytes that are no text are told alike.
    #[serde(default)]
    pub name: Option<String>,
    pub source: PathBuf,
    pub output: PathBuf,
    /// The inode numbers of both roots. The numbers of their devices differ from machine to machine.
    pub source_inode: u64,
    pub output_inode: u64,
    /// The newest manifest of ours at the output, finished or not.
    #[serde(deserialize_with = "Option::deserialize")]
    pub newest: Option<String>,
    /// The owner and the permissions of the source's root, by which the ways to all directories are known.
    pub source_label: RootLabel,
    /// Where the private directory of the output is, if not in it.
    #[serde(deserialize_with = "Option::deserialize")]
    pub state: Option<PathBuf>,
    pub options: CopyOptions,
}

/// Who may enter a root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootLabel {
    mode: u32,
    uid: u32,
    gid: u32,
}

impl RootLabel {
    pub fn of(root: &Stat) -> Self {
        Self { mode: root.mode, uid: root.uid, gid: root.gid }
    }
}

impl FrozenPlan {
    /// Refuses a source whose root, which is `now`, has another label than it had when it was planned: of no directory
    /// in it could anything be copied, and each would be named.
    pub fn check_source_label(&self, deed: &'static str, now: &Stat) -> Result<()> {
        if RootLabel::of(now) == self.source_label {
            return Ok(());
        }
        let finding = "it has another owner or other permissions than when it was planned, and so may be open to others \
                       than its copy: give it those again, or make a new plan";
        Err(Error::finding(deed, &self.source, finding))
    }

    /// A copy as it was planned; what else it is to be is for who runs it to say.
    pub fn job(&self) -> CopyJob {
        let (options, state) = (self.options.clone(), self.state.clone());
        let planned = Some(PlannedRoots { source: self.source_inode, output: self.output_inode });
        CopyJob { options, state, planned, ..CopyJob::new(&self.source, &self.output) }
    }

    /// Opens the source, and refuses what is not the directory that was planned.
    pub fn open_source(&self) -> Result<(Dir, Stat)> {
        open_planned(&self.source, self.source_inode)
    }

    /// The same of the output.
    pub fn open_output(&self) -> Result<(Dir, Stat)> {
        open_planned(&self.output, self.output_inode)
    }

    /// The length of a manifest in the output in bytes, and when it was written, in nanoseconds.
    fn length_and_time(&self, manifest: &Path) -> Option<(u64, u64)> {
        let (output, _) = self.open_output().ok()?;
        let found = output.stat(manifest.file_name()?, false).ok()?;
        let written = found.mtime.since(Time::default()).as_nanos();
        (found.kind == Kind::File).then_some((found.size, u64::try_from(written).ok()?))
    }
}

fn open_planned(path: &Path, inode: u64) -> Result<(Dir, Stat)> {
    let dir = Dir::open_named(path).deed("open", path)?;
    let found = dir.stat_self().deed("look at", path)?;
    refuse_other_root(path, &found, inode)?;
    Ok((dir, found))
}

/// What every version writes down of a plan.
#[derive(Deserialize)]
struct PlanVersion {
    format: u32,
    version: String,
}

/// What a complete plan has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seal {
    pub plan: u32,
    pub shards: u32,
    pub files: u64,
    pub bytes: u64,
    pub directories: u64,
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Entries that could not be planned, and are not copied.
    pub failed: u64,
    /// Why, of the first of them.
    #[serde(default)]
    pub unplanned: Vec<String>,
    /// Of the lists of all shards, their sums one behind the other.
    pub shards_sum: String,
    pub finish_sum: String,
    pub links_sum: String,
}

/// What is said of a manifest that is [lost](PlanEnd::lost_manifest), and what helps.
pub const LOST_MANIFEST: &str =
    "is gone or was changed since: another run of dircopy to the output writes a new one";

/// The note that the end of a plan has begun. Where it is found that run was killed, or failed, and what it made may be
/// there still.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanEnding {
    pub plan: u32,
    /// The name of its manifest.
    pub manifest: Option<String>,
}

/// What the end of a plan left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanEnd {
    pub plan: u32,
    pub manifest: Option<PathBuf>,
    /// Entries that are not at the output.
    pub missing: u64,
    /// The length of the manifest in bytes, and when it was written, in nanoseconds.
    pub written: Option<(u64, u64)>,
}

impl PlanEnd {
    /// An end that left so much, and this manifest.
    pub fn new(plan: &FrozenPlan, missing: u64, manifest: Option<PathBuf>) -> Self {
        let written = manifest.as_deref().and_then(|path| plan.length_and_time(path));
        Self { plan: plan.plan, manifest, missing, written }
    }

    /// The manifest, if it is not as it was written.
    pub fn lost_manifest(&self, plan: &FrozenPlan) -> Option<&Path> {
        let is_lost = |path: &&Path| plan.length_and_time(path) != self.written;
        self.manifest.as_deref().filter(|_| self.written.is_some()).filter(is_lost)
    }
}

/// The directory of a plan. It is held: who owns the one above can put another in its place, and nothing is ever looked
/// up by its path again.
#[derive(Clone, Debug)]
pub struct PlanDir {
    /// For messages.
    pub path: PathBuf,
    pub dir: Arc<Dir>,
    pub plan: FrozenPlan,
}

/// A file of a plan, which may not be there.
#[derive(Clone, Debug)]
pub struct PlanFile<'a> {
    pub plan: &'a PlanDir,
    /// The directory that it is in.
    pub below: &'a str,
    pub name: OsString,
    /// The first record of a list or a record, …
    pub header: String,
    /// … and what ends each.
    pub end: u8,
}

impl PlanFile<'_> {
    /// Its path, for messages.
    pub fn path(&self) -> PathBuf {
        self.plan.path_below(self.below).join(&self.name)
    }

    /// Opens it for reading, if it is a regular file.
    pub fn open(&self) -> io::Result<File> {
        self.plan.below(self.below)?.open_plain(&self.name)
    }

    /// Reads it from its first record on.
    pub fn read(&self) -> Result<SummedReader> {
        SummedReader::of_list(self.open(), &self.path(), self.end, &self.header)
    }

    /// The same where it is the next one that is read ahead.
    pub fn read_next<'a>(
        &self,
        ahead: &'a mut ReadAhead,
    ) -> Result<SummedReader<&'a mut ReadAhead>> {
        SummedReader::open_next(ahead, &self.path(), self.end, &self.header)
    }

    pub fn stat(&self) -> io::Result<Stat> {
        self.plan.below(self.below)?.stat(&self.name, false)
    }
}

impl PlanDir {
    /// Makes the directory for `plan`.
    ///
    /// # Errors
    /// It cannot be made, or there is one already, which is not empty.
    pub fn create(path: &Path, plan: FrozenPlan) -> Result<Self> {
        let fail = |error| Error::io("make the plan", path, error);
        let above = Dir::open_named(directory_of(path)).map_err(fail)?;
        let name = path.file_name().unwrap_or_default();
        above.make_dir(name, true).unless_taken().map_err(fail)?;
        // Who made the link chose which directory is closed and filled.
        if above.stat(name, false).map_err(fail)?.kind == Kind::Symlink {
            let finding = "it is a symbolic link; name the directory itself";
            return Err(Error::finding("make the plan", path, finding));
        }
        // In the directory that was opened, whatever has its name by now.
        let dir = above.open_dir(name, false).map_err(fail)?;
        // Root could close what another user made, and that user open it again.
        if !dir.is_ours().map_err(fail)? {
            let finding =
                "it belongs to another user, who could change the plan; choose another directory";
            return Err(Error::finding("make the plan", path, finding));
        }
        // Closed first: nothing comes into it after it was seen to be empty.
        dir.close_to_others().map_err(fail)?;
        if DirListing::of(&dir).map_err(fail)?.next().is_some() {
            let finding = "it is not empty; a plan is made in a directory of its own, and one \
                           that was cut short is removed and made anew";
            return Err(Error::finding("make the plan", path, finding));
        }
        for name in [SHARDS, OPEN, CLAIMED, FAILED, RUNNING, DONE] {
            dir.make_dir(name.as_ref(), true).map_err(fail)?;
        }
        let plan = FrozenPlan { name: Some(name.to_string_lossy().into_owned()), ..plan };
        let it = Self { path: path.to_path_buf(), dir: dir.into(), plan };
        it.write(PLAN, &it.plan, false)?;
        Ok(it)
    }

    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// There is no plan, it is not this user's alone, or others may have put it in the place of another one.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |error| Error::io("open the plan", path, error);
        let dir = Dir::open(path).map_err(fail)?;
        if !dir.is_private().map_err(fail)? {
            let finding =
                "it is not a directory of this user's alone, so anyone may have changed it";
            return Err(Error::finding("open the plan", path, finding));
        }
        let nothing = || {
            let finding = "there is no plan in it: `dircopy plan` makes one";
            Error::finding("open the plan", path, finding)
        };
        let PlanVersion { format, version } = read_json(&dir, path, PLAN)?.ok_or_else(nothing)?;
        if format != FORMAT {
            let finding = format!(
                "it is of format {format}, and this program knows {FORMAT}: finish it with the version that made it \
                 ({version}), or make a new plan"
            );
            return Err(Error::finding("open the plan", path, finding));
        }
        let plan = read_json(&dir, path, PLAN).map_err(|error| {
            error.with_note(format!(
                "; version {version} made it: finish it with that, or make a new plan"
            ))
        })?;
        let plan: FrozenPlan = plan.ok_or_else(nothing)?;
        refuse_exchanged("open the plan", plan.name.as_deref(), &dir, path)?;
        Ok(Self { path: path.to_path_buf(), dir: dir.into(), plan })
    }

    /// A new plan with a random number.
    pub fn format() -> u32 {
        FORMAT
    }

    /// When it was begun, before anything was listed or copied, by the clock of its file system.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn begun(&self) -> Result<Time> {
        let looked = self.dir.stat(PLAN.as_ref(), false);
        looked.map(|stat| stat.mtime).deed_at("look at", || self.path.join(PLAN))
    }

    /// What the plan has, if it is complete.
    pub fn seal(&self) -> Result<Option<Seal>> {
        self.read(SEALED, |seal: &Seal| seal.plan)
    }

    /// Says that the plan is complete.
    pub fn write_seal(&self, seal: &Seal) -> Result<()> {
        self.write(SEALED, seal, false)
    }

    /// How the plan ended, if it did.
    pub fn finished(&self) -> Result<Option<PlanEnd>> {
        self.read(FINISHED, |end: &PlanEnd| end.plan)
    }

    /// Reads a file that says by its number `of` which plan it is of, which is to be this one.
    fn read<T: DeserializeOwned>(&self, name: &str, of: fn(&T) -> u32) -> Result<Option<T>> {
        match read_json(&self.dir, &self.path, name)? {
            Some(value) if of(&value) != self.plan.plan => {
                let finding = "it is of another plan";
                Err(Error::finding("open the plan", self.path.join(name), finding))
            }
            read => Ok(read),
        }
    }

    /// Says how the plan ended. An end that left something is replaced by a later one.
    pub fn write_finished(&self, finished: &PlanEnd) -> Result<()> {
        self.write(FINISHED, finished, true)
    }

    /// The end of the plan that was begun before, if it did not come to its own.
    pub fn ending(&self) -> Result<Option<PlanEnding>> {
        self.read(ENDING, |ending: &PlanEnding| ending.plan)
    }

    /// Notes that the end has begun, with a manifest of this name.
    pub fn write_ending(&self, manifest: Option<String>) -> Result<()> {
        self.write(ENDING, &PlanEnding { plan: self.plan.plan, manifest }, true)
    }

    /// Removes that note: the end has come, and left nothing.
    pub fn forget_ending(&self) -> Result<()> {
        self.dir.remove(ENDING.as_ref()).deed_at("remove", || self.path.join(ENDING))
    }

    /// Writes a file that appears whole.
    fn write(&self, name: &str, value: &impl Serialize, replaces: bool) -> Result<()> {
        let fail = |error| Error::io("write", self.path.join(name), error);
        let text = serde_json::to_string_pretty(value).map_err(|error| fail(error.into()))?;
        let fill = |file: &mut File| sys::write_all(file, text.as_bytes());
        write_whole(&self.dir, name.as_ref(), true, replaces, fill).map_err(fail)
    }

    /// The list of a shard.
    pub fn list(&self, shard: u32) -> PlanFile<'_> {
        let header = format!("# dircopy shard {FORMAT} {:08x} {shard}", self.plan.plan);
        PlanFile { header, ..self.file(SHARDS, format!("{shard:04}.list")) }
    }

    /// The record that a shard is done.
    pub fn done(&self, shard: u32) -> PlanFile<'_> {
        let header = format!("# dircopy done {FORMAT} {:08x} {shard}", self.plan.plan);
        let name = format!("{shard:04}.sha256sum");
        PlanFile { header, end: done::LINE_END, ..self.file(DONE, name) }
    }

    /// Where the chains of the large files of a shard are, if it has any.
    pub fn states(&self, shard: u32) -> PlanFile<'_> {
        self.file(DONE, format!("{shard:04}.states"))
    }

    /// The list `name` for the end of the plan.
    pub fn end_list(&self, name: &str) -> PlanFile<'_> {
        let header = format!("# dircopy {name} {FORMAT} {:08x}", self.plan.plan);
        PlanFile { header, ..self.file(TOP, format!("{name}.list")) }
    }

    /// The file `name` of a directory of the plan.
    pub fn file<'a>(&'a self, below: &'a str, name: impl Into<OsString>) -> PlanFile<'a> {
        PlanFile { plan: self, below, name: name.into(), header: String::new(), end: LIST_END }
    }

    /// Opens a directory of the plan. Anew each time: over NFS its server is asked then what other machines made in it.
    pub fn below(&self, name: &str) -> io::Result<Dir> {
        self.dir.open_dir(name.as_ref(), false)
    }

    /// Its path, for messages.
    pub fn path_below(&self, name: &str) -> PathBuf {
        if name == TOP { self.path.clone() } else { self.path.join(name) }
    }

    /// The names in a directory of the plan.
    pub fn names(&self, deed: &'static str, below: &str) -> Result<Vec<String>> {
        let names = self.below(below).and_then(|dir| names_in(&dir));
        names.deed_at(deed, || self.path_below(below))
    }
}

/// The names in a directory.
pub fn names_in(dir: &Dir) -> io::Result<Vec<String>> {
    let names = DirListing::of(dir)?.map(|entry| Ok(entry?.name.to_str().map(str::to_owned)));
    names.filter_map(io::Result::transpose).collect()
}

/// The number of the shard that a file in the directory is of.
pub fn shard_number(name: &str) -> Option<u32> {
    let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    name[..digits].parse().ok()
}

fn read_json<T: DeserializeOwned>(dir: &Dir, path: &Path, name: &str) -> Result<Option<T>> {
    let fail = |error| Error::io("read the plan", path.join(name), error);
    let file = dir.open_plain(name.as_ref()).if_there().map_err(fail)?;
    let Some(file) = file else { return Ok(None) };
    let mut text = String::new();
    Uninterrupted(file).take(MOST_JSON).read_to_string(&mut text).map_err(fail)?;
    serde_json::from_str(&text).map(Some).map_err(|error| fail(error.into()))
}

// How far a plan is, from its directory alone.

/// How far a plan is.
#[derive(Clone, Debug, Default)]
pub struct PlanStatus {
    /// What the plan has, once it is complete.
    pub seal: Option<Seal>,
    /// Shards whose lists are there.
    pub listed: u64,
    /// Shards that are recorded as done, and their files and bytes.
    pub done: u64,
    pub files: u64,
    pub bytes: u64,
    /// Files that were not in the source any more when their shards came to them.
    pub gone: u64,
    /// Shards that attempts are at work on.
    pub running: u64,
    /// Shards of which files failed, and those whose last attempt was cut short.
    pub failed: Vec<u32>,
    pub cut_short: Vec<u32>,
    /// From the first list to the last record.
    pub took: Duration,
    pub end: Option<PlanEnd>,
    /// The manifest that the end left, if it is [lost](PlanEnd::lost_manifest).
    pub lost: Option<PathBuf>,
}

/// Looks how far a plan is; an attempt that was silent for so long is `dead`.
pub fn status(plan: &PlanDir, dead: Duration) -> Result<PlanStatus> {
    let mut status = PlanStatus { seal: plan.seal()?, ..PlanStatus::default() };
    status.end = plan.finished()?;
    let lost = status.end.as_ref().and_then(|end| end.lost_manifest(&plan.plan));
    status.lost = lost.map(Path::to_path_buf);
    status.listed = shards(plan, SHARDS, "list")?.len() as u64;
    let recorded = recorded(plan)?;
    status.done = recorded.len() as u64;
    let begun = plan.begun().ok();
    for shard in &recorded {
        let record = plan.done(*shard);
        let DoneTotals { files, gone, bytes } = done::totals(record.open()).unwrap_or_default();
        status.files += files;
        status.gone += gone;
        status.bytes = status.bytes.saturating_add(bytes);
        let ended = record.stat().ok();
        let took = begun.zip(ended).map(|(begun, ended)| ended.mtime.since(begun));
        status.took = status.took.max(took.unwrap_or_default());
    }
    let running = attempt::running(plan, dead)?;
    let is = |shard: u32, alive| running.contains(&(shard, alive));
    let open = |shard: &u32| !recorded.contains(shard);
    let mut alive: Vec<u32> = running.iter().filter(|it| it.1).map(|it| it.0).collect();
    alive.sort_unstable();
    alive.dedup();
    status.running = alive.iter().filter(|shard| open(shard)).count() as u64;
    let failed = attempt::shards_in(plan, FAILED)?;
    status.failed = failed.into_iter().filter(open).collect();
    let mut cut: Vec<u32> = running.iter().filter(|it| !it.1).map(|it| it.0).collect();
    cut.extend(attempt::cut_short(plan)?);
    cut.retain(|shard| open(shard) && !is(*shard, true) && !status.failed.contains(shard));
    cut.sort_unstable();
    cut.dedup();
    status.cut_short = cut;
    Ok(status)
}

/// The shards that are recorded as done.
pub fn recorded(plan: &PlanDir) -> Result<BTreeSet<u32>> {
    shards(plan, DONE, "sha256sum")
}

/// The numbers of the shards that have a file in a directory.
fn shards(plan: &PlanDir, below: &str, extension: &str) -> Result<BTreeSet<u32>> {
    let names = plan.names("look at the plan in", below)?.into_iter();
    let names = names.filter(|it| it.rsplit_once('.').is_some_and(|(_, it)| it == extension));
    Ok(names.filter_map(|name| shard_number(&name)).collect())
}
