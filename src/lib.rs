//! dircopy copies a directory tree in one pass and leaves a proven copy and a manifest that
//! `sha256sum -c` accepts; and it checks trees against such manifests.
//!
//! [`CopyJob`] copies a tree, [`copy_to_all`] copies one to several outputs, [`StreamJob`] copies streams, and
//! [`VerifyJob`] checks a tree. An [`Observer`] follows each of them. [`Entries`] reads a manifest.
//! `docs/architecture.md` has the picture of the code.
//!
//! # Copying a tree from another program
//!
//! ```
//! use std::sync::Mutex;
//! use dircopy::{CopyJob, Done, Ending, Event, Observer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (source, output) = (dir.path().join("source"), dir.path().join("output"));
//! std::fs::create_dir(&source)?;
//! std::fs::write(source.join("film.mov"), b"frames")?;
//!
//! let names = Mutex::new(Vec::new());
//! let observer = Observer::new(|event: &Event<'_>| {
//!     if let Event::Stands(path, Done::Copied) = event {
//!         names.lock().unwrap().push(String::from_utf8_lossy(path).into_owned());
//!     }
//! });
//! let mut job = CopyJob::new(&source, &output);
//! job.options.sync = false; // an example need not survive a power cut
//! let report = job.run(&observer)?;
//!
//! assert!(matches!(report.ending, Ending::Complete));
//! assert_eq!(*names.lock().unwrap(), ["film.mov"]);
//! assert_eq!(std::fs::read(output.join("film.mov"))?, b"frames");
//! let manifest = std::fs::read_to_string(report.manifest.unwrap())?;
//! assert!(manifest.ends_with("  film.mov\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # Checking a tree from another program
//!
//! ```
//! use std::sync::Mutex;
//! use dircopy::{Finding, Observer, Target, Verdict, VerifyJob};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let manifest = dir.path().join("dircopy-20260101T000000Z.sha256sum");
//! std::fs::write(manifest, format!("{:064}  film.mov\n", 0))?;
//! std::fs::write(dir.path().join("film.mov"), b"frames")?;
//!
//! let bad = Mutex::new(Vec::new());
//! let observer = Observer::new(|target: &Target, finding: &Finding| {
//!     if let Finding::File { path, verdict, .. } = finding
//!         && !matches!(verdict, Verdict::Good(_))
//!     {
//!         bad.lock().unwrap().push(target.path_of(path));
//!     }
//! });
//! let report = VerifyJob::new([dir.path()]).run(&observer)?;
//!
//! assert_eq!((report.counts.good, report.counts.differ), (0, 1));
//! assert!(bad.lock().unwrap()[0].ends_with("film.mov"));
//! # Ok(())
//! # }
//! ```

mod catalog;
mod chain;
mod cli;
mod cluster;
mod copy;
mod error;
mod event;
mod fanout;
mod hash;
mod heal;
mod io;
mod manifest;
mod parity;
mod part;
mod path;
mod pipeline;
mod span;
mod staged;
mod state;
mod stream;
mod sys;
mod transfer;
mod tree;
mod verify;
mod volume;

// Every run: how a program follows and stops it, and what goes wrong.
pub use error::{Cause, Error, Result};
pub use event::{
    Done, EndState, Event, EventListener, EventObserver, FileInHand, Observer, Progress, RunEnd,
    Stop,
};
pub use sys::stat::Kind as EntryKind;

// Hashing.
pub use hash::Backend;
pub use hash::{Algorithm, Algorithms, Digest, Digests, Hasher, Sha256};

// Copying a tree.
pub use copy::CopyJob;
pub use copy::{Counts, Ending, Report, StageTime, Stages};
pub use copy::{OutputJob, run::outputs::DEFAULT_LAG, run::outputs::copy_to_all};
pub use fanout::MOST_OUTPUTS;
pub use io::HashedFrom;
pub use io::{BLOCK_SIZE, CHECKPOINT, CopyOptions, QUEUE_SIZE};
pub use io::{Cache, Reflink, Renamed, Resume, Sparse, States};
pub use part::{Tally, content::Method};
pub use sys::{ResidentBytes, VolumeDetails};
pub use tree::Policy;
pub use tree::{Filter, Pattern, Selection};
pub use tree::{NameEnd, NameList};

// Copying a tree that is larger than a disk over several.
pub use span::{FoundInIndex, NextDisk, SpanCheck, SpanDisk, SpanOrder, Spanned, span_over};

// Copying streams.
pub use stream::OutputOutcome;
pub use stream::{Endpoint, StreamJob};
pub use stream::{StreamEnding, StreamReport};

// Checking a tree.
pub use chain::Damage;
pub use verify::ReadFrom;
pub use verify::{
    Budget, Checked, Comparison, Coverage, Finding, FindingListener, FindingObserver, ManifestAt,
    ReadOrder, Rival, Target, Verdict, VerifyJob, VerifyReport,
};
pub use verify::{CheckShard, MergeJob, ShardCoverage, ShardOfCheck};

// Making trees whole.
pub use heal::{HealJob, ProtectJob};
pub use parity::ParityReport;
pub use verify::{BagVerdict, Mend};

// Reading manifests.
pub use manifest::{Entries, Entry, Fault, ManifestName, Parsed, Parser, Record, Utf16Reader};
pub use path::{PathFault, RelPath, Shown};

/// The programs, and what their manual pages are made of.
#[doc(hidden)]
pub mod programs {
    pub use crate::{cli::command, cli::dircopy, cli::dirverify, cli::verify_command};
}

/// Internals for benches, fuzz targets and tests; no part of them is stable.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::chain::probe::StatesProbe;
    pub use crate::hash::multibuffer::streams;
    pub use crate::manifest::archive;
    pub use crate::manifest::lists as line;
    pub use crate::parity::{JoinedFiles, packets};
    pub use crate::state::probe::RecordProbe;
    pub use crate::transfer::rescue::map::Map;
    pub use crate::tree::Inclusion;
    pub use crate::{manifest::read::escape, manifest::read::scan};
    pub use crate::{sys::Dir, sys::Lock, sys::PartOwner};
}
