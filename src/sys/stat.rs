//! The metadata of an entry, in terms that do not depend on the system.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file, the only kind that has content to copy.
    File,
    /// A directory, also the root of another file system.
    Dir,
    /// A symbolic link, which is copied as one and not followed.
    Symlink,
    /// A named pipe; opening one can wait for ever.
    Fifo,
    /// A Unix-domain socket, which only its program can make.
    Socket,
    /// A character or block device, or something newer than this program.
    Device,
}

impl Kind {
    /// True for the kinds that are copied.
    pub fn is_copied(self) -> bool {
        matches!(self, Kind::File | Kind::Dir | Kind::Symlink)
    }

    /// The kind in a word or two, with its article.
    pub fn name(self) -> &'static str {
        match self {
            Kind::File => "a file",
            Kind::Dir => "a directory",
            Kind::Symlink => "a symbolic link",
            Kind::Fifo => "a FIFO",
            Kind::Socket => "a socket",
            Kind::Device => "a device",
        }
    }
}

/// Nanoseconds in a second.
const SECOND: u32 = 1_000_000_000;

/// A time stamp: seconds since 1970 and nanoseconds within the second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time {
    /// Whole seconds, negative before 1970.
    pub secs: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

impl Time {
    /// True if a copy that was given the time `self` may show the time `stored`: equal, or cut to what some file system
    /// holds. 100 ns is NTFS, 1 µs some network file systems, 10 ms exFAT, 1 s ext3 and HFS+, 2 s FAT. Many times are
    /// cut to one, so this raises a doubt and settles none.
    pub fn may_be_stored_as(self, stored: Time) -> bool {
        // Most files are equal.
        self == stored || Self::STEPS.into_iter().any(|step| self.cut_to(step) == stored)
    }

    /// The steps in which file systems hold times; nanoseconds.
    pub const STEPS: [u32; 6] = [1, 100, 1_000, 10_000_000, 1_000_000_000, 2_000_000_000];

    /// The last time before this one, or at it, in steps of so many nanoseconds.
    pub fn cut_to(self, step: u32) -> Time {
        match (step / SECOND, step) {
            (0, 0) => self,
            (0, step) => Time { nanos: self.nanos - self.nanos % step, ..self },
            (whole, _) => Time { secs: self.secs - self.secs.rem_euclid(whole.into()), nanos: 0 },
        }
    }

    /// The latest time that some file system cuts to this one.
    pub fn latest_cut_to_this(self) -> Time {
        let is_cut = |step: &u32| self.cut_to(*step) == self;
        let rest = Self::STEPS.into_iter().rev().find(is_cut).unwrap_or(1) - 1;
        let nanos = self.nanos + rest % SECOND;
        Time { secs: self.secs.saturating_add((rest / SECOND).into()), nanos }
    }

    /// True if what was last changed at this time may be changed again, at or after `now`, and show the same time. One
    /// that is more than a day ahead is of a clock that was wrong, as a camera's: no change from now on gets it.
    pub fn may_be_of(self, now: Time) -> bool {
        const AHEAD: i64 = 24 * 60 * 60;
        (now..=now.later_by(AHEAD)).contains(&self) || now.may_be_stored_as(self)
    }

    /// How long this is after `earlier`; nothing if it is before.
    pub fn since(self, earlier: Time) -> Duration {
        let at = |it: Time| i128::from(it.secs) * i128::from(SECOND) + i128::from(it.nanos);
        let nanos = (at(self) - at(earlier)).max(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// This time, so many seconds later.
    pub fn later_by(self, secs: i64) -> Time {
        Time { secs: self.secs.saturating_add(secs), ..self }
    }
}

/// The identity of a file, whatever its name: the device and the inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device (file system).
    pub dev: u64,
    /// The file's number there.
    pub ino: u64,
}

/// The metadata of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub kind: Kind,
    /// Length of the content in bytes.
    pub size: u64,
    /// Bytes that the file system has set aside for it; less than `size` where there are holes.
    pub allocated: u64,
    /// When the content last changed.
    pub mtime: Time,
    /// When the entry itself last changed (content, name, owner …).
    pub ctime: Time,
    /// The file's identity.
    pub id: Identity,
    /// Number of its names.
    pub links: u64,
    /// Permission bits with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Stat {
    /// That of an entry of which nothing is known yet.
    pub fn of_kind(kind: Kind) -> Self {
        let (time, id) = (Time::default(), Identity::default());
        let (mtime, ctime, size, allocated) = (time, time, 0, 0);
        Self { kind, size, allocated, mtime, ctime, id, links: 1, mode: 0, uid: 0, gid: 0 }
    }

    /// True if the permissions of a directory let everyone list and enter it. Those of its group are meant before those
    /// of all others; an access list may deny single users the same.
    pub fn is_open_to_everyone(&self) -> bool {
        self.mode & 0o055 == 0o055
    }

    /// The change of the file from `self` to `later`, in words; `None` when nothing changed that a copy can notice.
    pub fn change(&self, later: &Stat) -> Option<&'static str> {
        if self.id != later.id || self.kind != later.kind {
            Some("another file took its name")
        } else if later.size < self.size {
            Some("it shrank while it was read")
        } else if later.size > self.size {
            Some("it grew while it was read")
        } else if self.mtime != later.mtime {
            Some("it was written to while it was read")
        } else if self.ctime != later.ctime {
            Some("it was changed while it was read")
        } else {
            None
        }
    }

    /// True if parts of the content are holes.
    pub fn is_sparse(&self) -> bool {
        self.allocated < self.size
    }
}

/// An entry as it was looked at, and when it was made, where the system tells that.
#[derive(Clone, Copy, Debug)]
pub struct Inode {
    pub stat: Stat,
    pub birth: Option<Time>,
}

/// The properties by which an entry is known under another name: a number is given once more when its file is gone, so
/// it is not that alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub kind: Kind,
    pub id: Identity,
    pub size: u64,
    pub uid: u32,
    pub gid: u32,
    pub birth: Option<Time>,
}

impl Inode {
    pub fn known(&self) -> Known {
        let Stat { kind, id, size, uid, gid, .. } = self.stat;
        Known { kind, id, size, uid, gid, birth: self.birth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_the_same_step_may_show_the_same_time() {
        let now = Time { secs: 1_700_000_001, nanos: 123_456_789 };
        for (changed, may_be) in [
            (now, true),
            (Time { nanos: now.nanos + 1, ..now }, true),
            (Time { nanos: now.nanos - 1, ..now }, false),
            // 10 ms, whole seconds, even seconds.
            (Time { nanos: 120_000_000, ..now }, true),
            (Time { nanos: 0, ..now }, true),
            (Time { secs: now.secs - 1, nanos: 0 }, true),
            (Time { secs: now.secs - 2, nanos: 0 }, false),
            // A server's clock, and a camera's.
            (now.later_by(600), true),
            (now.later_by(400 * 24 * 60 * 60), false),
        ] {
            assert_eq!(changed.may_be_of(now), may_be, "{changed:?}");
        }
    }

    #[test]
    fn times_survive_coarse_file_systems() {
        let time = |secs, nanos| Time { secs, nanos };
        let source = time(1_700_000_001, 123_456_789);
        for (stored, same) in [
            (source, true),
            (time(1_700_000_001, 123_456_700), true),
            (time(1_700_000_001, 123_456_000), true),
            (time(1_700_000_001, 120_000_000), true),
            (time(1_700_000_001, 0), true),
            (time(1_700_000_000, 0), true),
            (time(1_700_000_002, 0), false),
            (time(1_700_000_001, 123_456_788), false),
            (time(1_700_000_001, 200_000_000), false),
            (time(1_699_999_999, 0), false),
        ] {
            assert_eq!(source.may_be_stored_as(stored), same, "{stored:?}");
        }
        for (cut, latest) in [
            (time(4, 0), time(5, 999_999_999)),
            (time(5, 0), time(5, 999_999_999)),
            (time(5, 20_000_000), time(5, 29_999_999)),
            (time(5, 123_456_789), time(5, 123_456_789)),
        ] {
            assert_eq!(cut.latest_cut_to_this(), latest);
            assert!(latest.may_be_stored_as(cut));
        }
        assert!(time(-3, 5).may_be_stored_as(time(-4, 0)));
    }
}
