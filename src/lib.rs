//! dircopy copies a directory tree in one pass and leaves a proven copy and a manifest that
//! `sha256sum -c` accepts; and it checks trees against such manifests.
//!
//! # The road that data takes
//!
//! ```text
//! walker ──Run▶ [ reader ──Block▶ hasher ──Block▶ writer ] ──Outcome▶ committer ──▶ manifest, report
//!                    ▲               a lane (× N)     │
//!                    └──────── empty blocks ──────────┘
//! ```
//!
//! A [walker](tree::walk) streams the source; lanes copy files side by side, each one a
//! reader, a hasher and a writer thread; the committer makes what is finished durable in groups,
//! has it read back if that is asked for, gives it its final names and records it. Memory is bounded whatever the tree is.
//!
//! # Floors
//!
//! A room names only rooms below it:
//! `error path sys hash < event manifest < tree < io part fanout transfer < pipeline < copy stream verify < cli < bin`.
//! `docs/architecture.md` has the decisions and the evidence.
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
//! job.sync = false; // an example need not survive a power cut
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
//! use dircopy::verify::{Finding, Target, Verdict};
//! use dircopy::{Observer, VerifyJob};
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

pub mod cli;
pub mod copy;
pub mod error;
pub mod event;
mod fanout;
pub mod hash;
mod io;
pub mod manifest;
mod part;
pub mod path;
mod pipeline;
pub mod stream;
pub mod sys;
mod transfer;
pub mod tree;
pub mod verify;

pub use copy::job::CopyJob;
pub use copy::report::{Counts, Ending, Report};
pub use copy::run::outputs::{OutputJob, copy_to_all};
pub use error::{Error, Result};
pub use event::{Done, Event, EventListener, EventObserver, Observer, Progress, Stop};
pub use hash::{Algorithm, Digest};
pub use io::options::{Cache, Damaged, Reflink, Resume, Sparse};
pub use part::method::{Method, Tally};
pub use stream::StreamJob;
pub use tree::filter::{Filter, Pattern};
pub use tree::overwrite::Policy;
pub use verify::{VerifyJob, VerifyReport};
