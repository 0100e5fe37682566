//! The messages about the events of a copy.

use humansize::{BINARY, format_size};

use crate::cli::show::line::{Detail, ScreenLine};
use crate::event::{Done, Event};
use crate::path::Shown;
use crate::sys::stat::Kind;

/// The line about an event, if this detail has one.
pub fn message(event: &Event<'_>, detail: Detail) -> Option<ScreenLine> {
    let err = |text: String| Some(ScreenLine::Err(format!("dircopy: {text}")));
    match event {
        Event::Stands(path, done) => {
            let [present, past] = match done {
                Done::Copied => ["copy", "copied"],
                Done::Replaced => ["replace", "replaced"],
                Done::Linked => ["hard link", "hard-linked"],
                Done::Symlinked => ["link", "linked"],
                Done::Kept => ["unchanged", "unchanged"],
                Done::Relabelled => ["set the attributes of", "set the attributes of"],
            };
            let word = match detail {
                Detail::Quiet | Detail::Normal => return None,
                Detail::Dry => present,
                Detail::Verbose => past,
            };
            Some(ScreenLine::Out(format!("{word} {}", Shown::bytes(path))))
        }
        Event::Left(path, why) if detail == Detail::Dry => {
            Some(ScreenLine::Out(format!("leave {}: {why}", Shown::bytes(path))))
        }
        Event::Left(path, why) => err(format!("left as it is: {}: {why}", Shown::bytes(path))),
        Event::Failed(error) | Event::Rotten(error) => err(error.to_string()),
        Event::Warning(error) => err(format!("warning: {error}")),
        Event::Lost(path) => Some(not_in_source(path)),
        _ if detail == Detail::Quiet => None,
        Event::Skipped(path, kind) => {
            let what = match kind {
                Kind::Dir => "what runs to another output keep for themselves",
                kind => kind.name(),
            };
            err(format!("skipped {}: it is {what}", Shown::bytes(path)))
        }
        Event::Gone(path) => Some(not_in_source(path)),
        Event::Edited(path) => Some(edited(path)),
        Event::LeftoverRemoved(path) => {
            err(format!("removed {}: a run that was killed left it", Shown::bytes(path)))
        }
        Event::ManifestRemoved(path) => {
            err(format!("removed {}: newer manifests are there", Shown::bytes(path)))
        }
        Event::OtherVolume(path) => err(format!(
            "skipped what is in {}: another file system is mounted there",
            Shown::bytes(path)
        )),
        Event::Departed(path) if detail == Detail::Dry => {
            Some(ScreenLine::Out(format!("move to the trash {}", Shown::bytes(path))))
        }
        Event::Departed(path) => {
            err(format!("moved to the trash: {}: it has left the source", Shown::bytes(path)))
        }
        Event::Foreign(path) => err(format!(
            "stays at the output: {}: it is not in the source, and no earlier run listed it",
            Shown::bytes(path)
        )),
        Event::ForeignMount(path) => err(format!(
            "stays at the output: {}: it is not in the source, and something else is mounted there",
            Shown::bytes(path)
        )),
        Event::GenerationRemoved(path) => {
            err(format!("moved the generation {} to the trash", Shown::bytes(path)))
        }
        Event::TrashRemoved(path) => err(format!("removed the trash of {}", Shown::bytes(path))),
        Event::Resumed(path, bytes) if detail == Detail::Verbose => {
            let (path, size) = (Shown::bytes(path), format_size(*bytes, BINARY));
            Some(ScreenLine::Out(format!("resumed {path}: {size} were there")))
        }
        Event::Resumed(..) => None,
        Event::Suspended(path, bytes) => {
            let (path, size) = (Shown::bytes(path), format_size(*bytes, BINARY));
            err(format!("the first {size} of {path} are kept and gone on with by the next run"))
        }
        Event::IdlePattern(pattern) => err(format!(
            "{pattern} makes no difference: nothing matches it, a later pattern decides, or what it \
             matches is in a directory that is left out"
        )),
        Event::Limits(path, text) => err(format!("{}: {text}", Shown::path(path))),
        Event::Waiting(text) => err(format!("waiting: {text}")),
    }
}

/// That a file is expected and not there.
fn not_in_source(path: &[u8]) -> ScreenLine {
    ScreenLine::Err(format!("dircopy: expected, and not in the source: {}", Shown::bytes(path)))
}

/// That a file is not what is expected, and was not to stay that.
fn edited(path: &[u8]) -> ScreenLine {
    ScreenLine::Err(format!(
        "dircopy: not as it is listed, but edited since: {}",
        Shown::bytes(path)
    ))
}
