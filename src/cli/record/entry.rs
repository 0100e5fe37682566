//! One event of an entry, as an object for the report and the log.

use std::{borrow::Cow, ops::Range, path::PathBuf};

use serde::Serialize;

use crate::cli::show::verify_messages::{others, tree_verdict};
use crate::{
    chain::Damage, cli::record::log::JsonName, cli::show::rows::compared,
    cli::show::rows::contradiction, cli::show::rows::other_size,
    cli::show::stream_summary::not_healed, cli::show::stream_summary::taken,
    cli::show::verify_messages, error::Error, event::Done, event::Event, hash::Digest,
    io::HashedFrom, path::Shown, verify::Comparison, verify::Finding, verify::Target,
    verify::Verdict,
};

/// Something that happened to an entry, or an error.
#[derive(Debug, Default, Serialize)]
pub struct RecordEntry<'a> {
    /// The event, in a word.
    pub event: &'static str,
    /// The deed that failed; completes "cannot …".
    #[serde(skip_serializing_if = "Option::is_none")]
    deed: Option<&'static str>,
    /// The entry's name.
    #[serde(flatten)]
    name: JsonName,
    /// The manifest and the line in it that names it (of a check).
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The directories in which the file is bad, and in which it is good (of a check of several).
    #[serde(skip_serializing_if = "Option::is_none")]
    bad_at: Option<Vec<JsonName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    good_at: Option<Vec<JsonName>>,
    /// The digest that is listed of a file that differs, and the one that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    listed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// Where a file differs, as far as its chain tells: offset and length of each range in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranges: Option<Vec<[u64; 2]>>,
    /// Of a bad file that has parity: bad slices of its set, and recovery slices that are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    slices: Option<[usize; 2]>,
    /// The system's error number.
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    /// At which output, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

impl<'a> RecordEntry<'a> {
    /// An error; `event` is its effect, in a word.
    pub fn error(event: &'static str, error: &Error) -> Self {
        Self {
            event,
            deed: Some(error.deed()),
            name: JsonName::path(error.path()),
            errno: error.errno(),
            text: Some(error.reason().into()),
            ..Self::default()
        }
    }

    /// The same, and at which output, if that needs to be said.
    pub fn at(self, output: Option<&str>) -> Self {
        Self { output: output.map(str::to_owned), ..self }
    }

    /// An error in words.
    pub fn sentence(&self) -> String {
        let (deed, text) =
            (self.deed.unwrap_or_default(), self.text.as_deref().unwrap_or_default());
        format!("{}: cannot {deed} {}: {text}", self.event, self.name.shown())
    }

    fn named(event: &'static str, name: &[u8], text: Option<Cow<'a, str>>) -> Self {
        Self { event, name: JsonName::bytes(name), text, ..Self::default() }
    }

    /// An event of a copy, and whether it belongs into a report, which has only failures and warnings.
    pub fn of(event: &Event<'a>) -> (Self, bool) {
        match event {
            Event::Stands(path, done) => {
                let word = match done {
                    Done::Copied => "copied",
                    Done::Replaced => "replaced",
                    Done::Linked => "hard-linked",
                    Done::Symlinked => "linked",
                    Done::Special => "made",
                    Done::Kept => "unchanged",
                    Done::Relabelled => "attributes",
                };
                (Self::named(word, path, None), false)
            }
            Event::Left(path, why) => (Self::named("left", path, Some((*why).into())), true),
            Event::Skipped(path, kind) => {
                (Self::named("skipped", path, Some(kind.name().into())), true)
            }
            Event::LeftoverRemoved(path) => (Self::named("leftover-removed", path, None), false),
            Event::Resumed(path, bytes) => {
                let text = format!("{bytes} bytes were there");
                (Self::named("resumed", path, Some(text.into())), false)
            }
            Event::Suspended(path, bytes) => {
                let text = format!("the first {bytes} bytes are kept");
                (Self::named("suspended", path, Some(text.into())), false)
            }
            Event::ManifestRemoved(path) => (Self::named("manifest-removed", path, None), false),
            Event::OtherVolume(path) => {
                (Self::named("skipped", path, Some("another file system".into())), true)
            }
            Event::Departed(path) => (Self::named("departed", path, None), true),
            Event::Foreign(path) => (Self::named("foreign", path, None), true),
            Event::ForeignMount(path) => (Self::named("foreign", path, None), true),
            Event::GenerationRemoved(path, _) => {
                (Self::named("generation-removed", path, None), false)
            }
            Event::TrashRemoved(path) => (Self::named("trash-removed", path, None), false),
            Event::Limits(path, text) => {
                let (event, text) = ("limits", Some((*text).into()));
                (Self { event, name: JsonName::path(path), text, ..Self::default() }, true)
            }
            Event::Waiting(text) => {
                (Self { event: "waiting", text: Some((*text).into()), ..Self::default() }, false)
            }
            Event::IdlePattern(pattern) => {
                let text = Some((*pattern).into());
                (Self { event: "idle-pattern", text, ..Self::default() }, false)
            }
            Event::Failed(error) => (Self::error("failed", error), true),
            Event::Rotten(error) => (Self::error("rotten", error), true),
            Event::Gone(path) | Event::Lost(path) => (Self::named("gone", path, None), true),
            Event::Edited(path) => (Self::named("edited", path, None), true),
            Event::Unlisted(path) => (Self::named("unlisted", path, None), false),
            Event::Warning(error) => (Self::error("warning", error), true),
        }
    }

    /// A file of a source that is not at enough places, and what each has of it.
    pub fn uncovered(path: &[u8], text: String) -> Self {
        Self::named("not-covered", path, Some(text.into()))
    }

    /// The finding about the listed file at this path.
    fn verdict(path: &[u8], verdict: &Verdict) -> Self {
        let event = |event, text| Self::named(event, path, text);
        match verdict {
            Verdict::Good(HashedFrom::Device) => event("good", None),
            Verdict::Good(HashedFrom::Cache) => event("good", Some("through a cache".into())),
            Verdict::Differs(_, _, None) => event("differs", None),
            Verdict::Differs(_, _, Some(damage)) => Self {
                ranges: Some(ranges(damage)),
                ..event("differs", Some(damage.to_string().into()))
            },
            Verdict::OtherSize { found, recorded, damage } => Self {
                ranges: damage.as_deref().map(ranges),
                ..event("differs", Some(other_size(*found, *recorded, damage.as_deref()).into()))
            },
            Verdict::Missing => event("missing", None),
            Verdict::NotThrough(kind) => {
                let text = format!("{} is on the way, not followed", kind.name());
                event("missing", Some(text.into()))
            }
            Verdict::NotAFile(kind) => event("not-a-file", Some(kind.name().into())),
            Verdict::Unreadable(error) => Self::error("unreadable", error),
            Verdict::Refused(why) => event("refused", Some(why.clone().into())),
        }
    }

    /// A good file whose data was read as that of another one.
    fn read_before(self) -> Self {
        let text = self.text.map_or("its data".into(), |text| format!("its data {text}"));
        Self { text: Some(format!("{text} was read as that of another file").into()), ..self }
    }

    /// The states, in directories that are copies of each other, of a file that is bad in one of them.
    fn compared(comparison: &Comparison) -> Self {
        let names = |roots: &[PathBuf]| roots.iter().map(|root| JsonName::path(root)).collect();
        let bad: Vec<_> = comparison.bad.iter().map(|(_, root)| root.clone()).collect();
        let text = compared(comparison);
        Self {
            bad_at: Some(names(&bad)),
            good_at: Some(names(&comparison.good)),
            ..Self::named("compared", comparison.path.as_bytes(), Some(text.into()))
        }
    }

    /// The result of making a bad file whole, or how it could be.
    fn healing(target: &Target, finding: &Finding) -> Self {
        let full = |event, path, text| {
            let full = target.path_of(path);
            Self::named(event, full.as_os_str().as_encoded_bytes(), Some(text))
        };
        match finding {
            Finding::Parity { path, bad, left, is_enough } => {
                let event = if *is_enough { "repairable" } else { "beyond-repair" };
                let slices = Some([*bad, *left]);
                Self { slices, ..full(event, path, verify_messages::slices(*bad, *left).into()) }
            }
            Finding::Conflict(path) => full("conflict", path, verify_messages::CONFLICT.into()),
            Finding::Healed(mend) => {
                let event = if mend.dry_run { "healable" } else { "healed" };
                let names = mend.from.iter().map(|root| JsonName::path(root)).collect();
                Self { good_at: Some(names), ..full(event, &mend.path, taken(mend).into()) }
            }
            Finding::NotHealed { path, why, lost } => {
                let text = not_healed(why, lost.as_deref()).into();
                let ranges = lost.as_ref().map(|lost| ranges(lost));
                Self { ranges, ..full("not-healed", path, text) }
            }
            Finding::TooManyBad(number) => {
                let text = Some(verify_messages::too_many_bad(*number).into());
                Self { event: "not-healed", text, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// A finding about a line of a manifest, and the number of the line.
    fn of_line(target: &Target, finding: &Finding) -> (Self, Option<u64>) {
        let full = |event, path, text| {
            let full = target.path_of(path);
            Self::named(event, full.as_os_str().as_encoded_bytes(), text)
        };
        let here = |event, text: String| {
            Self::named(event, target.manifest.as_os_str().as_encoded_bytes(), Some(text.into()))
        };
        match finding {
            Finding::Converted { line, from, to } => {
                let to = Shown::bytes(to.as_bytes());
                (full("converted", from, Some(format!("taken for {to}").into())), Some(*line))
            }
            Finding::Refused { line, name, why } => {
                (Self::named("refused", name, Some(why.clone().into())), Some(*line))
            }
            Finding::Twice { line, first, path, same } => {
                let (event, text) = twice(*first, *same);
                (full(event, path, Some(text.into())), Some(*line))
            }
            Finding::Contradicts { line, path, by } => (
                full("contradicted", path, Some(contradiction(*by).into())),
                Some(*line).filter(|line| *line > 0),
            ),
            Finding::Malformed { line, fault } => {
                (here("malformed", fault.to_string()), Some(*line))
            }
            Finding::Torn { line, .. } => (here("torn", "it is cut off".into()), Some(*line)),
            Finding::OtherAlgorithm { line, algorithm, lines } => {
                let text = format!("{lines} lines have {algorithm} or other digests, not SHA-256");
                (here("notice", text), Some(*line))
            }
            Finding::Unproven { line, .. } => {
                let (event, text) = unproven(finding);
                (here(event, text), Some(*line))
            }
            _ => (Self::default(), None),
        }
    }

    /// A finding of a check, and whether it belongs into a report.
    pub fn found(target: &'a Target, finding: &Finding) -> (Self, bool) {
        let full = |event, path, text| {
            let full = target.path_of(path);
            Self::named(event, full.as_os_str().as_encoded_bytes(), text)
        };
        let here = |event, text: String| {
            Self::named(event, target.manifest.as_os_str().as_encoded_bytes(), Some(text.into()))
        };
        let of_root = |event, text: String| {
            Self::named(event, target.root.as_os_str().as_encoded_bytes(), Some(text.into()))
        };
        let (entry, line) = match finding {
            Finding::File { line, path, verdict, shared, listed, .. } => {
                let path = target.path_of(path);
                let mut entry = Self::verdict(path.as_os_str().as_encoded_bytes(), verdict);
                if let Verdict::Differs(_, Some(found), _) = verdict {
                    let digest = |it: &Digest| format!("{}:{it}", it.algorithm().name());
                    (entry.listed, entry.found) = (Some(digest(listed)), Some(digest(found)));
                }
                (if *shared > 0 { entry.read_before() } else { entry }, Some(*line))
            }
            Finding::Converted { .. }
            | Finding::Refused { .. }
            | Finding::Twice { .. }
            | Finding::Contradicts { .. }
            | Finding::Malformed { .. }
            | Finding::Torn { .. }
            | Finding::OtherAlgorithm { .. }
            | Finding::Unproven { .. } => Self::of_line(target, finding),
            Finding::Tree(root, verdict) => {
                let text = Some(tree_verdict(verdict).into());
                (Self { event: "tree", name: JsonName::path(root), text, ..Self::default() }, None)
            }
            Finding::Bag(verdict) => (of_root("bag", verdict.to_string()), None),
            Finding::Utf16 => (here("notice", "it is UTF-16 text".into()), None),
            Finding::Nothing => (here("empty", "it lists no file".into()), None),
            Finding::NoneFound => {
                (here("notice", "it lists no file: its run found none".into()), None)
            }
            Finding::Unfinished(name) => {
                let text = format!("a later run was cut short and left {name}");
                (of_root("notice", text), None)
            }
            Finding::Rival(rival) => (here("notice", verify_messages::rival(*rival, &"it")), None),
            Finding::Others(lists) => (of_root("notice", others(lists, &target.root)), None),
            Finding::Unlisted(path) => (full("not-listed", path, None), None),
            Finding::Waiting(text) => {
                let entry =
                    Self { event: "waiting", text: Some(text.clone().into()), ..Self::default() };
                return (entry, false);
            }
            Finding::Compared(comparison) => (Self::compared(comparison), None),
            Finding::NotCompared(number) => {
                let text = format!("{number} findings of bad files were too many to compare");
                (Self { event: "not-compared", text: Some(text.into()), ..Self::default() }, None)
            }
            Finding::Conflict(_)
            | Finding::Parity { .. }
            | Finding::Healed(_)
            | Finding::NotHealed { .. }
            | Finding::TooManyBad(_) => (Self::healing(target, finding), None),
            Finding::Incomplete(error)
            | Finding::Forgotten(error)
            | Finding::Notice(error)
            | Finding::Unsearched(error)
            | Finding::Unusable(error)
            | Finding::Broken(error)
            | Finding::Warning(error) => (Self::error(effect(finding), error), None),
        };
        let manifest = line.map(|_| Shown::path(&target.manifest).to_string().into());
        let good = match finding {
            Finding::File { verdict: Verdict::Good(_), .. } => true,
            Finding::Tree(_, verdict) => verdict.is_good(),
            _ => false,
        };
        (Self { manifest, line, ..entry }, !good)
    }
}

/// The consequence for the entry that a finding is an error of, in a word.
fn effect(finding: &Finding) -> &'static str {
    match finding {
        Finding::Incomplete(_) => "incomplete",
        Finding::Forgotten(_) | Finding::Notice(_) => "notice",
        Finding::Unsearched(_) => "not-searched",
        Finding::Unusable(_) => "unusable",
        Finding::Warning(_) => "warning",
        _ => "broken",
    }
}

/// Offset and length of each range.
fn ranges(damage: &Damage) -> Vec<[u64; 2]> {
    let pair = |range: &Range<u64>| [range.start, range.end - range.start];
    damage.ranges.iter().map(pair).collect()
}

/// The event of files with no digest that can be checked, and what is said of them.
fn unproven(finding: &Finding) -> (&'static str, String) {
    let Finding::Unproven { line, algorithm, files, is_all } = finding else {
        return ("", String::new());
    };
    let files = (!is_all).then_some(*files);
    let event = if *is_all { "empty" } else { "not-checked" };
    (event, verify_messages::unproven(&"it", *line, *algorithm, files))
}

/// The event of a file that an earlier line lists too, and how.
fn twice(first: u64, same: bool) -> (&'static str, String) {
    let (event, how) = match same {
        true => ("repeated", "the same digest"),
        false => ("contradicted", "another digest"),
    };
    (event, format!("on line {first} too, with {how}"))
}
