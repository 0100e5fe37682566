//! The directory of a plan as a whole: its layout, the plan itself, and what says that it is complete.
//!
//! It belongs to one user and is closed to others, so that nothing in it can be forged by them; all the same what is
//! read from it is checked.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, io::Read, time::Duration, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    cluster::attempt, cluster::done, cluster::done::DoneTotals, copy::CopyJob, error::Deed,
    error::Error, error::Result, io::CopyOptions, path::directory_of, staged::write_whole, sys,
    sys::Dir, sys::DirListing, sys::PlainUse, sys::Uninterrupted, sys::stat::Kind, sys::stat::Stat,
    sys::stat::Time,
};

/// The version of all formats in the directory.
const FORMAT: u32 = 8;

/// No file but a list is longer; bytes.
const MOST_JSON: u64 = 16 << 20;

/// The directories in it.
pub const SHARDS: &str = "shards";
pub const OPEN: &str = "open";
pub const CLAIMED: &str = "claimed";
pub const FAILED: &str = "failed";
pub const RUNNING: &str = "running";
pub const DONE: &str = "done";

/// What ends a record of a list.
pub const LIST_END: u8 = 0;

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
        CopyJob { options, state, ..CopyJob::new(&self.source, &self.output) }
    }
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
    pub fn new(plan: u32, missing: u64, manifest: Option<PathBuf>) -> Self {
        let written = manifest.as_deref().and_then(length_and_time);
        Self { plan, manifest, missing, written }
    }

    /// The manifest, if it is not as it was written.
    pub fn lost_manifest(&self) -> Option<&Path> {
        let is_lost = |path: &&Path| length_and_time(path) != self.written;
        self.manifest.as_deref().filter(|_| self.written.is_some()).filter(is_lost)
    }
}

/// Those of a regular file.
fn length_and_time(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((found.len(), u64::try_from(changed.as_nanos()).ok()?))
}

/// The open directory of a plan.
#[derive(Clone, Debug)]
pub struct PlanDir {
    pub path: PathBuf,
    pub plan: FrozenPlan,
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
        let it = Self { path: path.to_path_buf(), plan };
        it.write_in(&dir, PLAN, &it.plan, false)?;
        Ok(it)
    }

    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// There is no plan, or it is not this user's alone.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |error| Error::io("open the plan", path, error);
        if !Dir::open(path).map_err(fail)?.is_private().map_err(fail)? {
            let finding =
                "it is not a directory of this user's alone, so anyone may have changed it";
            return Err(Error::finding("open the plan", path, finding));
        }
        let file = path.join(PLAN);
        let nothing = || {
            let finding = "there is no plan in it: `dircopy plan` makes one";
            Error::finding("open the plan", path, finding)
        };
        let PlanVersion { format, version } = read_json(&file)?.ok_or_else(nothing)?;
        if format != FORMAT {
            let finding = format!(
                "it is of format {format}, and this program knows {FORMAT}: finish it with the version that made it \
                 ({version}), or make a new plan"
            );
            return Err(Error::finding("open the plan", path, finding));
        }
        let plan = read_json(&file).map_err(|error| {
            error.with_note(format!(
                "; version {version} made it: finish it with that, or make a new plan"
            ))
        })?;
        let plan = plan.ok_or_else(nothing)?;
        Ok(Self { path: path.to_path_buf(), plan })
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
        let looked = Dir::open(&self.path).and_then(|dir| dir.stat(PLAN.as_ref(), false));
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
        let path = self.path.join(name);
        match read_json(&path)? {
            Some(value) if of(&value) != self.plan.plan => {
                Err(Error::finding("open the plan", path, "it is of another plan"))
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
        let removed = Dir::open(&self.path).and_then(|dir| dir.remove(ENDING.as_ref()));
        removed.deed_at("remove", || self.path.join(ENDING))
    }

    /// Writes a file that appears whole.
    fn write(&self, name: &str, value: &impl Serialize, replaces: bool) -> Result<()> {
        let dir = Dir::open(&self.path).deed_at("write", || self.path.join(name))?;
        self.write_in(&dir, name, value, replaces)
    }

    fn write_in(
        &self,
        dir: &Dir,
        name: &str,
        value: &impl Serialize,
        replaces: bool,
    ) -> Result<()> {
        let fail = |error| Error::io("write", self.path.join(name), error);
        let text = serde_json::to_string_pretty(value).map_err(|error| fail(error.into()))?;
        let fill = |file: &mut fs::File| sys::write_all(file, text.as_bytes());
        write_whole(dir, name.as_ref(), true, replaces, fill).map_err(fail)
    }

    /// Where the list of a shard is, …
    pub fn list(&self, shard: u32) -> PathBuf {
        self.path.join(SHARDS).join(format!("{shard:04}.list"))
    }

    /// … and what it begins with.
    pub fn list_header(&self, shard: u32) -> String {
        format!("# dircopy shard {FORMAT} {:08x} {shard}", self.plan.plan)
    }

    /// Where it is recorded that a shard is done, …
    pub fn done(&self, shard: u32) -> PathBuf {
        self.path.join(DONE).join(format!("{shard:04}.sha256sum"))
    }

    /// … and what that begins with.
    pub fn done_header(&self, shard: u32) -> String {
        format!("# dircopy done {FORMAT} {:08x} {shard}", self.plan.plan)
    }

    /// Where the chains of the large files of a shard are, if it has any.
    pub fn states(&self, shard: u32) -> PathBuf {
        self.path.join(DONE).join(format!("{shard:04}.states"))
    }

    /// Where the list `name` for the end of the plan is, …
    pub fn end_list(&self, name: &str) -> PathBuf {
        self.path.join(list_name(name))
    }

    /// … and what it begins with.
    pub fn end_header(&self, name: &str) -> String {
        format!("# dircopy {name} {FORMAT} {:08x}", self.plan.plan)
    }

    /// A directory in it.
    pub fn below(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The name of the list `name` for the end of the plan.
pub fn list_name(name: &str) -> OsString {
    format!("{name}.list").into()
}

/// The number of the shard that a file in the directory is of.
pub fn shard_number(name: &str) -> Option<u32> {
    let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    name[..digits].parse().ok()
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let fail = |error| Error::io("read the plan", path, error);
    // A FIFO in its place would be waited for.
    let file = sys::open_plain(path, PlainUse::Read).if_there().map_err(fail)?;
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
}

/// Looks how far a plan is; an attempt that was silent for so long is `dead`.
pub fn status(plan: &PlanDir, dead: Duration) -> Result<PlanStatus> {
    let mut status = PlanStatus { seal: plan.seal()?, ..PlanStatus::default() };
    status.end = plan.finished()?;
    status.listed = shards(&plan.below(SHARDS), "list")?.len() as u64;
    let recorded = shards(&plan.below(DONE), "sha256sum")?;
    status.done = recorded.len() as u64;
    let begun = fs::metadata(plan.below(PLAN)).and_then(|it| it.modified()).ok();
    for shard in &recorded {
        let path = plan.done(*shard);
        let DoneTotals { files, gone, bytes } = done::totals(&path).unwrap_or_default();
        status.files += files;
        status.gone += gone;
        status.bytes = status.bytes.saturating_add(bytes);
        let ended = fs::metadata(&path).and_then(|it| it.modified()).ok();
        let took = begun.zip(ended).and_then(|(begun, ended)| ended.duration_since(begun).ok());
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

/// The numbers of the shards that have a file in a directory.
fn shards(dir: &Path, extension: &str) -> Result<Vec<u32>> {
    let fail = |error| Error::io("look at the plan in", dir, error);
    let mut found = Vec::new();
    for entry in DirListing::at(dir).map_err(fail)? {
        let name = entry.map_err(fail)?.name;
        if Path::new(&name).extension().is_some_and(|it| it == extension) {
            found.extend(shard_number(&name.to_string_lossy()));
        }
    }
    Ok(found)
}
