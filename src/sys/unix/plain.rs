//! Paths that the user names: files for the program itself (a log, a list, a job), and the ways to what is copied.
//!
//! Another user who may write to the directory of such a file may put something else in its place: a link to a
//! file that only this user may change, or a FIFO at which the program waits for ever.

use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, os::fd::OwnedFd, os::unix::fs::FileExt,
    os::unix::fs::MetadataExt, path::Component, path::Path, path::PathBuf,
};

use rustix::{fs::CWD, fs::Mode, fs::OFlags, io::Errno};

use crate::{
    path::RelPath, path::directory_of, sys::Dir, sys::dir::is_not_plain,
    sys::interrupted::uninterrupted, sys::stat::Kind, sys::stat::Stat, sys::types::PlainUse,
    sys::unix::dir::DIRECTORY, sys::unix::dir::PRIVATE, sys::unix::process::acting_as,
    sys::unix::system::ONLY_THROUGH, sys::unix::system::unopened,
};

/// Where the names of what is open already, and of devices, stand; only root makes others there.
const GIVEN: [&str; 3] = ["/dev", "/dev/fd", "/proc/self/fd"];

/// Opens the regular file at `path`; one that is to be written is made if it is missing, for its owner only, because
/// it will tell names, and a link in its place is not followed. Another user's file is not written to, nor one that is
/// reached through a link of his: he would read what is written, or say where. Names directly in `/dev`, `/dev/fd` and
/// `/proc/self/fd` are opened as what they are.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open_plain(path: &Path, purpose: PlainUse) -> io::Result<File> {
    let is_given = is_given(path);
    let to_write = OFlags::WRONLY | OFlags::CREATE;
    let mut flags = match purpose {
        PlainUse::Read => OFlags::RDONLY,
        PlainUse::Append => to_write | OFlags::APPEND,
    };
    flags |= OFlags::CLOEXEC | OFlags::NOCTTY;
    if !is_given {
        flags |= OFlags::NONBLOCK;
        flags.set(OFlags::NOFOLLOW, purpose != PlainUse::Read);
    }
    let is_written = purpose != PlainUse::Read && !is_given;
    let mode = Mode::from_raw_mode(PRIVATE as _);
    let opened = match path.file_name().filter(|_| is_written) {
        Some(name) => {
            let way = open_real(&without_links(directory_of(path))?)?;
            rustix::fs::openat(&way, name, flags, mode)
        }
        None => rustix::fs::openat(CWD, path, flags, mode),
    };
    let file = File::from(opened.map_err(|error| match error {
        Errno::LOOP if flags.contains(OFlags::NOFOLLOW) => is_not_plain(Kind::Symlink),
        // What a FIFO without a reader, and a socket, say.
        Errno::NXIO => {
            io::Error::other("it is a FIFO or a socket, and only a regular file is used")
        }
        other => other.into(),
    })?);
    let kind = Dir::stat_file(&file)?.kind;
    if kind != Kind::File && !is_given {
        return Err(is_not_plain(kind));
    }
    let found = file.metadata()?;
    if is_written && (!is_ours(found.uid()) || found.mode() & EVERYONE_WRITES != 0) {
        let finding = format!(
            "it belongs to another user ({}), or everyone may write to it: give another name, or chown it and close it \
             to others (chmod) if all in it may be trusted",
            found.uid()
        );
        return Err(io::Error::other(finding));
    }
    Ok(file)
}

/// The most links on a way.
const MOST_LINKS: u32 = 32;

/// The whole path, without links, to what `path` leads to; links of this user and of root alone are followed, and those
/// that lead to nowhere else than another's directory. One below `/proc` is left as it is: its links are not what they
/// say.
///
/// # Errors
/// A link belongs to another user, or there are too many; or the system's.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    go_along(path, |link, leads| match leads {
        Some((uid, target)) if !is_ours(uid) && !leads_nowhere_else(link, uid, target)? => {
            let finding = format!(
                "{} is a symbolic link of another user, who says where it leads: give the path that is meant",
                link.display()
            );
            Err(io::Error::other(finding))
        }
        _ => Ok(()),
    })
}

/// The same of any links. `look` is asked of what names on the way say: each entry that is a link, whose it is, and
/// where it leads; and each directory that the way goes back from (`..`). Both are told by the whole path, without
/// links.
///
/// # Errors
/// Those of `look`. Or there are too many links; or the system's.
pub(super) fn go_along(
    path: &Path,
    mut look: impl FnMut(&Path, Option<(u32, &Path)>) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    let (mut done, mut links) = (PathBuf::from("/"), 0);
    let mut left: Vec<OsString> = reversed(&whole).collect();
    while let Some(name) = left.pop() {
        if name == ".." {
            look(&done, None)?;
            done.pop();
            continue;
        }
        done.push(&name);
        if done == Path::new("/proc") {
            return Ok(whole);
        }
        if !done.symlink_metadata()?.is_symlink() {
            continue;
        }
        // Owner and target are of one link: whose the directory is could exchange two in between.
        let (uid, target) = unopened::read_link(&done)?;
        look(&done, Some((uid, &target)))?;
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        done.pop();
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        left.extend(reversed(&target));
    }
    Ok(done)
}

/// True if a link only names another entry of a directory of its own user, who could as well exchange the two: as
/// `latest` does among generations.
fn leads_nowhere_else(link: &Path, uid: u32, target: &Path) -> io::Result<bool> {
    let mut names = target.components();
    let is_one = matches!((names.next(), names.next()), (Some(Component::Normal(_)), None));
    Ok(is_one && directory_of(link).metadata()?.uid() == uid)
}

/// Opens what `path` leads to; a link of another user on the way to it, or in its place, is not followed.
///
/// # Errors
/// There is one; or the system's.
pub(super) fn open_end(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let (real, none) = (without_links(path)?, Mode::empty());
    match real.file_name().filter(|_| !is_given(path) && !real.starts_with("/proc")) {
        Some(name) => {
            let way = open_real(directory_of(&real))?;
            Ok(rustix::fs::openat(&way, name, flags | OFlags::NOFOLLOW, none)?)
        }
        None => Ok(rustix::fs::openat(CWD, path, flags, none)?),
    }
}

/// Opens the directory at `real`, a path [without links](without_links), for looking names up in it.
///
/// # Errors
/// There is a link on it by now; or the system's.
fn open_real(real: &Path) -> io::Result<Dir> {
    let below = real.strip_prefix("/").ok().filter(|_| !real.starts_with("/proc"));
    let opened = below.and_then(|below| {
        let flags = DIRECTORY | ONLY_THROUGH;
        Dir::open(Path::new("/")).ok()?.open_at_once(&RelPath::of(below), flags)
    });
    // Where that takes several calls each directory is opened.
    opened.map_or_else(|| Dir::open_named(real), Ok)
}

/// True for a name directly in one of these directories.
fn is_given(path: &Path) -> bool {
    GIVEN.iter().any(|dir| directory_of(path) == Path::new(dir))
}

/// The names of a path, the last first.
fn reversed(path: &Path) -> impl Iterator<Item = OsString> {
    let names = path.components().rev();
    let is_name = |it: &Component<'_>| matches!(it, Component::Normal(_) | Component::ParentDir);
    names.filter(is_name).map(|it| it.as_os_str().to_os_string())
}

impl Dir {
    /// Opens the directory that the user named to copy from or to. Links on the way to it are followed as far as they
    /// are this user's or root's: another user's may lead elsewhere by the next run.
    ///
    /// # Errors
    /// A link belongs to another user; or the system's.
    pub fn open_named(path: &Path) -> io::Result<Self> {
        let real = without_links(path)?;
        let below = real.strip_prefix("/").ok().filter(|_| !real.starts_with("/proc"));
        let opened = match below {
            None => Self::open(&real),
            Some(below) => match Self::open(Path::new("/"))?.open_below(&RelPath::of(below)) {
                // Where that takes several calls each directory is opened, also one that may only be gone through.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::open(&real),
                opened => opened,
            },
        };
        Ok(Self(opened?.0, Some(path.into())))
    }

    /// True if the entry `name` is a symbolic link of this user or of root.
    pub fn is_own_link(&self, name: &OsStr) -> bool {
        self.stat(name, false).is_ok_and(|it| it.kind == Kind::Symlink && is_ours(it.uid))
    }
}

/// Reads what a file has from `at` on, wherever others read it; 0 at its end.
///
/// # Errors
/// The system's.
pub fn read_at(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    uninterrupted(|| FileExt::read_at(file, room, at))
}

// Files that are obeyed: whoever can change one, or put another in its place, says what this user's program does.

/// Others may write.
const OTHERS_WRITE: u32 = 0o022;

/// Everyone may.
const EVERYONE_WRITES: u32 = 0o002;

/// In such a directory only the owner of an entry may replace it.
const STICKY: u32 = 0o1000;

/// The path that lets others than this user and root change the regular file at `path`, which is open as `file`, or put
/// another one there: the file, or a directory above it, also above the target of a link. `None` if nothing does.
///
/// # Errors
/// The system's.
pub fn who_else_changes(path: &Path, file: &File) -> io::Result<Option<PathBuf>> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(None);
    }
    if !is_ours(found.uid()) || found.mode() & OTHERS_WRITE != 0 {
        return Ok(Some(path.to_path_buf()));
    }
    for path in [std::path::absolute(path)?, path.canonicalize()?] {
        // A link belongs to who may lead it elsewhere.
        for above in path.ancestors() {
            let (entry, found) = (above.symlink_metadata()?, above.metadata()?);
            let is_open =
                found.is_dir() && found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0;
            if is_open || !is_ours(entry.uid()) || !is_ours(found.uid()) {
                return Ok(Some(above.to_path_buf()));
            }
        }
    }
    Ok(None)
}

/// The path that lets others than this user and root change the file at `path`, make files beside it, or put another
/// directory there: the file, which may be missing, or a directory above it, also that of the target of a link. `None`
/// if nothing does.
///
/// # Errors
/// A directory cannot be looked at, or a link of another user leads there.
pub fn who_else_makes_beside(path: &Path) -> io::Result<Option<PathBuf>> {
    let is_roots = |stat: &Stat| stat.uid == 0 && stat.mode & OTHERS_WRITE == 0;
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    for path in [path, &target] {
        let dir = directory_of(path);
        let root = Dir::open_named(dir)?;
        if !root.is_kept()? && !is_roots(&root.stat_self()?) {
            return Ok(Some(dir.to_path_buf()));
        }
        if !root.is_place_kept()? {
            // The lowest above which nobody else may change anything is what he may.
            let is_kept =
                |at: &&Path| Dir::open(at).and_then(|at| at.is_place_kept()).unwrap_or(false);
            let whole = std::path::absolute(dir)?;
            return Ok(Some(whole.ancestors().skip(1).find(is_kept).unwrap_or(dir).to_path_buf()));
        }
    }
    let (root, name) = (Dir::open_named(directory_of(&target))?, target.file_name());
    let is_open = |name: &OsStr| {
        let found = root.stat(name, false).ok();
        found.is_some_and(|stat| !root.keeps(name, &stat) && !is_roots(&stat))
    };
    Ok(name.is_some_and(is_open).then_some(target))
}

/// True for this user and for root.
fn is_ours(uid: u32) -> bool {
    [0, acting_as().0].contains(&uid)
}
