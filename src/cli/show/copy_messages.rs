//! The messages about the events of a copy.

use std::{collections::BTreeMap, io, sync::Mutex, sync::PoisonError};

use humansize::{BINARY, format_size};

use crate::{
    cli::show::Detail, cli::show::ScreenLine, error::Cause, error::Error, event::Done,
    event::Event, path::Shown, sys, sys::stat::Kind, verify::Finding,
};

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
                Done::Special => ["make", "made"],
                Done::Kept => ["", "unchanged"],
                Done::Relabelled => ["set the attributes of", "set the attributes of"],
            };
            let word = match detail {
                Detail::Quiet | Detail::Normal => return None,
                Detail::Dry if matches!(done, Done::Kept) => return None,
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
        Event::Skipped(path, kind) => Some(skipped(path, *kind)),
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
        Event::GenerationRemoved(path, _) => {
            err(format!("moved the generation {} to the trash", Shown::bytes(path)))
        }
        Event::TrashRemoved(path) => err(format!("removed the trash of {}", Shown::bytes(path))),
        Event::Unlisted(path) if detail == Detail::Verbose => {
            Some(ScreenLine::Out(format!("unproven {}", Shown::bytes(path))))
        }
        Event::Unlisted(_) => None,
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

/// The message about what is not copied.
fn skipped(path: &[u8], kind: Kind) -> ScreenLine {
    let what = match kind {
        Kind::Dir => "what runs to another output keep for themselves",
        kind => kind.name(),
    };
    let option = match kind {
        Kind::Fifo | Kind::Socket | Kind::Device => " (--specials copies it)",
        _ => "",
    };
    ScreenLine::Err(format!("dircopy: skipped {}: it is {what}{option}", Shown::bytes(path)))
}

/// The message that a file is expected and not there.
fn not_in_source(path: &[u8]) -> ScreenLine {
    ScreenLine::Err(format!("dircopy: expected, and not in the source: {}", Shown::bytes(path)))
}

/// The message that a file differs from what is expected, and was to be the same.
fn edited(path: &[u8]) -> ScreenLine {
    ScreenLine::Err(format!(
        "dircopy: not as it is listed, but edited since: {}",
        Shown::bytes(path)
    ))
}

// Lines that say the same of one file after another, gathered: the first at once, and at the end how many there
// were and the last of them.
//
// An output that cannot hold an attribute cannot hold it of any file, and a million files are a million lines,
// among which the one that matters is not seen. The log and the report have each.

/// Lines of a kind differ only in the name that they are about. There are as many kinds as the program has
/// messages, times the system's error numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineKind {
    what: &'static str,
    why: &'static str,
    errno: Option<i32>,
}

impl LineKind {
    fn of(what: &'static str) -> Self {
        Self { what, why: "", errno: None }
    }

    fn of_error(error: &Error) -> Self {
        let why = match error.cause() {
            Cause::Finding(std::borrow::Cow::Borrowed(why)) => why,
            // Made for this one file.
            Cause::Finding(_) | Cause::Io(_) => "",
        };
        Self { what: error.deed(), why, errno: error.errno() }
    }

    /// The kind of an event's line, if it is to be gathered: not of entries that are not at the output as in the
    /// source, unless the cause is the output as a whole, nor of files whose content was in doubt, which are all named.
    pub fn of_event(event: &Event<'_>) -> Option<Self> {
        Some(match event {
            // A disk that is gone is one thing, whatever was to be done on it.
            Event::Warning(error) if is_of_device(error) && !error.is_of_copied_anew() => {
                Self { what: "warning", errno: error.errno(), why: "" }
            }
            Event::Warning(error) if error.is_about_attributes() => Self::of_error(error),
            Event::Failed(error) if error.is_of_all() && error.errno().is_some() => {
                Self { what: "failed", errno: error.errno(), why: "" }
            }
            Event::Failed(error) if error.is_of_all() => Self::of_error(error),
            Event::Skipped(_, kind) => Self { why: kind.name(), ..Self::of("skipped") },
            Event::LeftoverRemoved(_) => Self::of("leftover removed"),
            Event::ManifestRemoved(_) => Self::of("manifest removed"),
            Event::OtherVolume(_) => Self::of("other volume"),
            Event::Departed(_) => Self::of("departed"),
            Event::Foreign(_) | Event::ForeignMount(_) => Self::of("foreign"),
            Event::GenerationRemoved(..) => Self::of("generation removed"),
            Event::TrashRemoved(_) => Self::of("trash removed"),
            Event::IdlePattern(_) => Self::of("idle pattern"),
            _ => return None,
        })
    }

    /// The kind of a finding's line, if it is to be gathered: of those that are nothing amiss.
    pub fn of_finding(finding: &Finding) -> Option<Self> {
        Some(match finding {
            Finding::Converted { .. } => Self::of("converted"),
            Finding::Twice { same: true, .. } => Self::of("listed twice"),
            Finding::Forgotten(error) => Self::of_error(error),
            _ => return None,
        })
    }
}

/// True if the system says that the device is gone or broken.
fn is_of_device(error: &Error) -> bool {
    let is_it = |cause: &io::Error| sys::is_device_error(cause) || sys::is_output_gone(cause);
    matches!(error.cause(), Cause::Io(cause) if is_it(cause))
}

/// The lines that were gathered.
#[derive(Default)]
pub struct Gathered(Mutex<BTreeMap<LineKind, Waiting>>);

/// Lines of a kind that were not written.
#[derive(Default)]
struct Waiting {
    number: u64,
    last: Option<ScreenLine>,
}

impl Gathered {
    /// The line, if it is the first of its kind and to be written at once.
    pub fn first(&self, kind: LineKind, line: ScreenLine) -> Option<ScreenLine> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = kinds.get_mut(&kind) else {
            kinds.insert(kind, Waiting::default());
            return Some(line);
        };
        waiting.number += 1;
        waiting.last = Some(line);
        None
    }

    /// A line for each kind that lines were gathered of, in the words of the last of them. `name` is that of the
    /// program, which lines start with.
    pub fn rest(&self, name: &str) -> Vec<ScreenLine> {
        let kinds = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let rest = |Waiting { number, last }: Waiting| {
            let line = last?;
            let text = line.text();
            let text = text.strip_prefix(name).and_then(|it| it.strip_prefix(": ")).unwrap_or(text);
            Some(match number {
                1 => line,
                _ => ScreenLine::Err(format!(
                    "{name}: {number} more like one above, the last: {text} (-v and --log name all)"
                )),
            })
        };
        kinds.into_values().filter_map(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn kinds_are_few() {
        let io = |path: &str, errno| {
            Error::io("set the owner of", path, io::Error::from_raw_os_error(errno))
        };
        let errors = [
            io("a", 1),
            io("b", 1),
            io("c", 2),
            Error::finding("set the owner of", "a", "it is odd"),
            Error::finding("set the owner of", "a", "it is even"),
            Error::finding("set the owner of", "a", "a".to_owned()),
            Error::finding("set the owner of", "a", "b".to_owned()),
        ];
        let kinds = errors.iter().map(LineKind::of_error);
        assert_eq!(kinds.collect::<std::collections::BTreeSet<_>>().len(), 5);
    }

    #[test]
    fn the_first_is_said_and_the_others_are_counted() {
        let gathered = Gathered::default();
        let say = |what, number: usize| {
            let line = ScreenLine::Err(format!("dircopy: {what} {number}"));
            gathered.first(LineKind::of(what), line).is_some()
        };
        let said: Vec<bool> = (0..200).map(|number| say("skipped", number)).collect();
        assert!(said[0] && !said[1..].contains(&true));
        assert!(say("once", 0));
        assert!(say("twice", 0) && !say("twice", 1));
        let rest: Vec<String> =
            gathered.rest("dircopy").iter().map(|line| line.text().to_owned()).collect();
        let skipped =
            "dircopy: 199 more like one above, the last: skipped 199 (-v and --log name all)";
        assert_eq!(rest, [skipped, "dircopy: twice 1"]);
        assert!(gathered.rest("dircopy").is_empty());
    }
}
