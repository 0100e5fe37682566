//! A file being read, and watched for changes meanwhile.

use std::{
    cell::Cell, collections::HashSet, ffi::OsStr, fs::File, io, path::PathBuf, sync::Mutex,
    sync::PoisonError, time::Duration, time::Instant,
};

use crate::{
    error::Error, error::Result, event::Stop, io::RateLimit, io::read_back::ResidentTotal, sys,
    sys::Attributes, sys::CachePolicy, sys::Dir, sys::Extent, sys::SourcePages,
    sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time, tree::OutputDir,
};

/// An open file, with what the listing said of it.
pub struct WatchedFile<'a> {
    file: File,
    before: Stat,
    path: &'a dyn Fn() -> PathBuf,
    changed: Cell<bool>,
    pages: SourcePages,
    residency: Option<&'a ResidentTotal>,
    /// True if the content ends for sure where the listed size says, as on file systems whose sizes are exact. Of
    /// others that is known only when a read finds the end.
    pub has_exact_size: bool,
    /// True if its times tell that it was changed.
    times_tell: bool,
    rate: Option<(&'a RateLimit, &'a Stop)>,
    /// True if a read that takes too long is an error (`TimedOut`): others go first then.
    pub is_impatient: bool,
}

/// A disk that has to spin up takes a few seconds.
const TOO_LONG: Duration = Duration::from_secs(10);

/// The files of the source that somebody could write to when they were opened, of those that had just been changed:
/// what is written to these may not move their times again.
///
/// Linux moves the times of a file that is written to through a mapping when a page becomes dirty, and not again before
/// it was written back: after 30 s, by a thread that looks every 5 s (`vm.dirty_expire_centisecs`,
/// `vm.dirty_writeback_centisecs`). And ext4 and btrfs move them when a `write` begins, however long it takes.
#[derive(Debug, Default)]
pub struct FilesInUse(Mutex<HashSet<Identity>>);

/// What was changed so long before a run began has other times when it is changed again; seconds.
const WRITTEN_BACK: i64 = 60;

/// Of more files it is not told apart which of those that had just been changed could be written to.
const MOST_IN_USE: usize = 65_536;

impl FilesInUse {
    /// Notes a file that was opened, if that is to be.
    pub fn look_at(&self, file: &WatchedFile<'_>, began: Time) {
        if is_just_changed(&file.before, began) && sys::may_be_written_to(&file.file) {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() < MOST_IN_USE {
                all.insert(file.before.id);
            }
        }
    }

    /// True if the file was noted.
    pub fn has(&self, file: &Stat, began: Time) -> bool {
        is_just_changed(file, began) && {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.len() >= MOST_IN_USE || all.contains(&file.id)
        }
    }
}

/// True if a file was changed shortly before `began`. After it is another matter: that is always in doubt.
fn is_just_changed(file: &Stat, began: Time) -> bool {
    (began.later_by(-WRITTEN_BACK)..began).contains(&file.ctime)
}

/// An open file between two threads that read it in turn.
pub struct PausedFile(File, SourcePages);

impl<'a> WatchedFile<'a> {
    /// Opens `name` in `dir`, which was `before` when it was listed; `path` is its full path, for
    /// messages. [`check`](Self::check) tells at the end whether it is still that file.
    pub fn open(
        dir: &Dir,
        name: &OsStr,
        follow: bool,
        before: &Stat,
        path: &'a dyn Fn() -> PathBuf,
    ) -> Result<Self> {
        match dir.open_file(name, follow) {
            Ok(file) => Ok(Self::of(file, *before, path)),
            Err(error) => Err(Error::io("open", path(), error)),
        }
    }

    /// The same of a copy in `dir`, which is on the output's file system. Where that changes times by itself, they tell
    /// nothing.
    pub fn open_copy(
        output: &OutputDir,
        dir: &Dir,
        name: &OsStr,
        before: &Stat,
        path: &'a dyn Fn() -> PathBuf,
    ) -> Result<Self> {
        let mut file = Self::open(dir, name, false, before, path)?;
        file.times_tell = output.keeps_times();
        // FUSE may show the change time of a new file as the kernel had it, until it asks again.
        if let Ok(now) = Dir::stat_file_anew(&file.file)
            && before.change(&Stat { ctime: before.ctime, ..now }).is_none()
        {
            file.before.ctime = now.ctime;
        }
        Ok(file)
    }

    /// Reads the open file `file`, which is `before`.
    pub fn of(file: File, before: Stat, path: &'a dyn Fn() -> PathBuf) -> Self {
        let (changed, pages) = (Cell::new(false), SourcePages::default());
        Self {
            file,
            before,
            path,
            changed,
            pages,
            residency: None,
            rate: None,
            has_exact_size: false,
            times_tell: true,
            is_impatient: false,
        }
    }

    /// Puts it down at its position, for another thread to [`resume`](Self::resume).
    pub fn pause(self) -> PausedFile {
        PausedFile(self.file, self.pages)
    }

    /// Goes on with a file that was `before` when it was listed; `residency` counts what it leaves in
    /// the page cache.
    pub fn resume(
        file: PausedFile,
        before: Stat,
        path: &'a dyn Fn() -> PathBuf,
        residency: &'a ResidentTotal,
    ) -> Self {
        let PausedFile(file, pages) = file;
        Self { pages, residency: Some(residency), ..Self::of(file, before, path) }
    }

    /// Ends reading without asking whether it changed.
    pub fn finish(&self) {
        let resident = self.pages.finish(&self.file);
        self.residency.iter().for_each(|sum| sum.add(resident));
    }

    /// From now on its pages are dropped from the page cache when they were read; `residency` counts
    /// what stays.
    pub fn spare_cache(&mut self, how: CachePolicy, residency: &'a ResidentTotal) {
        self.residency = Some(residency);
        self.pages = SourcePages::new(how, &self.file, self.before.size);
    }

    /// Number of bytes from `at` on that the kernel may move before this is asked again.
    pub fn before_move(&self, at: u64) -> u64 {
        let most = self.rate.map_or(u64::MAX, |(rate, _)| rate.portion() as u64);
        self.pages.before_move(&self.file, at).min(most)
    }

    /// The kernel moved so many bytes.
    pub fn moved(&self, bytes: u64) {
        self.pace(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    fn pace(&self, bytes: usize) {
        if let Some((rate, stop)) = self.rate {
            rate.pace(bytes, stop);
        }
    }

    /// The file's metadata when it was listed.
    pub fn before(&self) -> &Stat {
        &self.before
    }

    /// True if its file system tells where the holes of this sparse file are. Where it does not, the whole file is one
    /// extent of data (lseek(2)).
    pub fn tells_holes(&self) -> Result<bool> {
        let all = Extent { start: 0, end: self.before.size };
        let first = sys::next_extent(&self.file, 0, self.before.size);
        let first = first.map_err(|error| self.error("find the holes of", error))?;
        let found = sys::uninterrupted(|| io::Seek::rewind(&mut &self.file));
        found.map_err(|error| self.error("find the start of", error))?;
        Ok(first.is_some_and(|first| first != all))
    }

    /// Reads it no faster than at this rate from now on, unless the run is to stop at once.
    pub fn at_rate(mut self, rate: Option<&'a RateLimit>, stop: &'a Stop) -> Self {
        self.rate = rate.map(|rate| (rate, stop));
        self
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Goes on reading at `to`; bytes from the start.
    pub fn seek(&self, to: u64) -> io::Result<()> {
        self.pages.sought(to);
        sys::uninterrupted(|| io::Seek::seek(&mut &self.file, io::SeekFrom::Start(to))).map(drop)
    }

    /// Reads some bytes into `room`; 0 at the end of the file.
    pub fn read(&self, room: &mut [u8]) -> Result<usize> {
        let most = self.rate.map_or(usize::MAX, |(rate, _)| rate.portion());
        let most = most.min(room.len());
        let begin = self.is_impatient.then(Instant::now);
        let read = sys::uninterrupted(|| self.pages.read(&self.file, &mut room[..most]))
            .map_err(|error| self.error("read", error))?;
        if begin.is_some_and(|begin| begin.elapsed() > TOO_LONG) {
            return Err(self.error("read", io::ErrorKind::TimedOut.into()));
        }
        self.pace(read);
        Ok(read)
    }

    /// True if `read` bytes are the whole content, as far as the listed size tells; [`check`](Self::check) proves it.
    /// An empty file may be one whose content is made up as it is read: that needs a look.
    pub fn is_all(&self, read: u64) -> bool {
        // What has more than was listed may grow for ever.
        let enough = self.before.size.saturating_add(u64::from(!self.has_exact_size));
        read >= enough && self.before.size > 0
    }

    /// True if its content ends at `at`, up to where it was read elsewhere. The position stays.
    pub fn ends_at(&self, at: u64) -> Result<bool> {
        let ends = self.has_exact_size || self.before.size == 0;
        if ends {
            return Ok(true);
        }
        sys::ends_at(&self.file, at).map_err(|error| self.error("read", error))
    }

    /// After `read` bytes: an error if the file is not what it was when it was listed, or if that
    /// was not all of it.
    pub fn check(&self, read: u64) -> Result<()> {
        self.finish();
        let now = Dir::stat_file(&self.file).map_err(|error| self.error("look at", error))?;
        let finding = |what| {
            self.changed.set(true);
            Err(Error::finding("copy", (self.path)(), what))
        };
        if now.kind != Kind::File || now.id != self.before.id {
            return finding("another file took its name before it was read".into());
        }
        let as_told = match self.times_tell {
            true => now,
            false => Stat { mtime: self.before.mtime, ctime: self.before.ctime, ..now },
        };
        let changed = self.before.change(&as_told);
        // A file with content and a size of 0 has one that is made up as it is read.
        let is_as_stated = read == now.size || now.size == 0;
        if (changed.is_none() && is_as_stated) || sys::is_synthetic(&self.file) {
            return Ok(());
        }
        finding(match changed {
            Some(change) => change.into(),
            None => format!("its size is {} bytes, but {read} could be read", now.size),
        })
    }

    /// An error if what was opened is another file than the one that was listed.
    pub fn is_still(&self, listed: &Stat) -> Result<()> {
        let now = Dir::stat_file(&self.file).map_err(|error| self.error("look at", error))?;
        match now.id == listed.id {
            true => Ok(()),
            false => Err(Error::finding("copy", (self.path)(), "another file took its name")),
        }
    }

    /// True if [`check`](Self::check) found that the file changed: then a second try may go well.
    pub fn has_changed(&self) -> bool {
        self.changed.get()
    }

    /// Its extended attributes, [all of them](Attributes::read_all) if so asked; none, with a warning, when they cannot
    /// be read.
    ///
    /// # Errors
    /// They are more than a copy takes: a file that loses them without an error would count as copied.
    pub fn attributes(&self, are_all: bool, warnings: &mut Vec<Error>) -> Result<Attributes> {
        let failed = |error| self.error("read the attributes of", error);
        match Attributes::read_all(&self.file, are_all) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(failed(error)),
            Err(error) => {
                warnings.push(failed(error));
                Ok(Attributes::default())
            }
            read => Ok(read.unwrap_or_default()),
        }
    }

    /// An error of the system about this file.
    pub fn error(&self, deed: &'static str, error: io::Error) -> Error {
        Error::io(deed, (self.path)(), error)
    }
}

/// The warning that there is data where the source's file system says that there is a hole.
pub fn data_in_a_hole(path: PathBuf) -> Error {
    let finding = "its file system calls a hole what holds data, which was read and copied";
    let note = "; a copy of it by programs that believe that has zeros there";
    Error::finding("believe the holes of", path, finding).with_note(note)
}
