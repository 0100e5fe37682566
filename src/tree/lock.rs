//! Keeping other runs out of a directory, and waiting for one that is at it: a copy is alone at its output,
//! and so is a check that remembers there what it has verified.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::path::Shown;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::sys::{self, Dir, Lock};

/// How often it is tried again, and looked up whether the run is to stop.
const AGAIN: Duration = Duration::from_millis(200);

/// How often a run that waits says so.
const TELL: Duration = Duration::from_secs(3600);

/// What is done about a directory that another run has locked.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Wait until that run ends, instead of refusing.
    pub wait: bool,
    /// What is to be done there, in messages.
    pub deed: &'static str,
    /// Is told of the waiting.
    pub tell: &'a dyn Fn(&str),
    /// Ends the waiting too.
    pub stop: &'a Stop,
}

/// Who else may be at work on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockShare {
    /// No other run.
    Alone,
    /// Other shards of a plan.
    WithShards,
}

impl Patience<'_> {
    /// Waits until no other run is at work on the directory at `path`, and leaves it unlocked: what is looked at
    /// next is then not half of another run. One that is not there, or cannot be opened, is no reason
    /// to wait.
    pub fn until_free(self, path: &Path, elsewhere: Option<&Path>) -> Result<()> {
        let Some(root) = Dir::open(path).ok().filter(|_| self.wait) else { return Ok(()) };
        match PrivateDir::open(&root, path, elsewhere, Missing::Leave) {
            Ok(Some(private)) => self.lock(&private, path).map(drop),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Locks the output at `path` by its private directories: any other directory can be locked by all that may
    /// read it. The lock lasts as long as `private`.
    ///
    /// # Errors
    /// Another run has it, and is not to be waited for; or the run was stopped while it waited.
    pub fn lock(self, private: &PrivateDir, path: &Path) -> Result<Lock> {
        self.lock_as(LockShare::Alone, private, path)
    }

    /// The same, alone or together with other runs of a plan.
    ///
    /// # Errors
    /// As of [`lock`](Self::lock).
    pub fn lock_as(self, sharing: LockShare, private: &PrivateDir, path: &Path) -> Result<Lock> {
        let mut lock = Lock::Unknown;
        for dir in private.locked() {
            if self.lock_dir(sharing, dir, path)? == Lock::Held {
                lock = Lock::Held;
            }
        }
        Ok(lock)
    }

    fn lock_dir(self, sharing: LockShare, dir: &Dir, path: &Path) -> Result<Lock> {
        let mut told: Option<Instant> = None;
        loop {
            let lock = match sharing {
                LockShare::Alone => dir.lock(),
                LockShare::WithShards => dir.lock_shared(),
            };
            let lock = lock.map_err(|error| Error::io("lock", path, error))?;
            if lock != Lock::Taken {
                return Ok(lock);
            }
            if !self.wait {
                let finding = format!(
                    "{} is at work on it; wait until that one ends (--wait does)",
                    holder(dir)
                );
                return Err(Error::finding(self.deed, path, finding));
            }
            if self.stop.is_requested() {
                let finding = "another run was still at work on it when this one was to stop";
                return Err(Error::finding(self.deed, path, finding));
            }
            if told.is_none_or(|told| told.elapsed() >= TELL) {
                told = Some(Instant::now());
                (self.tell)(&format!("{} is at work on {}", holder(dir), Shown::path(path)));
            }
            sleep(AGAIN);
        }
    }
}

/// The process that holds the lock and when it started, as far as the system tells.
fn holder(dir: &Dir) -> String {
    let Some(holder) = sys::lock_holder(dir) else { return "another dircopy".into() };
    let (process, name) = (holder.process, Shown::bytes(&holder.name));
    match Timestamp::from_second(holder.since) {
        Ok(since) => format!("another dircopy (process {process}, {name}, since {since})"),
        Err(_) => format!("another dircopy (process {process}, {name})"),
    }
}
