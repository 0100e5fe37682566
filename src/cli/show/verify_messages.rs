//! The messages about the findings of a check.

use std::fmt::Display;
use std::path::Path;

use crate::cli::show::compared::{compared, cut};
use crate::cli::show::healed::{not_healed, taken};
use crate::cli::show::line::{Detail, ScreenLine, count};
use crate::manifest::other_name::OtherName;
use crate::path::{RelPath, Shown};
use crate::sys;
use crate::verify::{Finding, HashedFrom, Rival, Target, TreeVerdict, Verdict};

/// What is said of a name that trees list differently.
pub const CONFLICT: &str = "the trees list different digests for it; nothing is done to it";

/// What is said of bad files that were too many to be remembered.
pub fn too_many_bad(number: u64) -> String {
    format!("{number} more files are bad than can be healed at a time: run it again")
}

/// What is said of a tree in which there was nothing to list.
const NONE_FOUND: &str = "good: no file is listed, as its run found none";

/// How messages are written.
pub struct VerifyMessages {
    /// The program's name, which each line starts with.
    pub name: &'static str,
    /// Which messages are wanted.
    pub detail: Detail,
    /// Whether `\` may be taken for `/`.
    pub convert: bool,
}

/// What a line says that contradicts a later generation of its history.
pub const LATER_IS_OTHER: &str =
    "a later generation has another digest of it, so one of the two is wrong, whatever the file is";

/// What is said of files with no digest that can be checked: of so many, or of all.
pub fn unproven(
    manifest: &impl std::fmt::Display,
    line: u64,
    algorithm: Option<OtherName>,
    files: Option<u64>,
) -> String {
    let first = match algorithm {
        Some(OtherName::Usual("null")) => "none".into(),
        Some(algorithm) => format!("one by {algorithm}"),
        None => "one that failed".to_owned(),
    };
    let first = format!("no digest that can be checked (the first, on line {line}, has {first})");
    match files {
        None => format!("nothing to verify: {manifest} has {first}"),
        Some(1) => format!("not checked: a file that {manifest} lists has {first}"),
        Some(files) => format!("not checked: {files} files that {manifest} lists have {first}"),
    }
}

/// What became of all that is listed of a directory.
pub fn tree_verdict(verdict: &TreeVerdict) -> String {
    let TreeVerdict { good, differ, missing, unreadable, other, none_found } = *verdict;
    if verdict.is_good() && none_found {
        return NONE_FOUND.to_owned();
    }
    if verdict.is_good() {
        return format!("good: {} as listed", count(good, "file"));
    }
    let counted = [
        (good, "good"),
        (differ, "differing"),
        (missing, "missing"),
        (unreadable, "unreadable"),
        (other, "otherwise amiss"),
    ];
    let some = counted.iter().filter(|(number, _)| *number > 0);
    let some: Vec<_> = some.map(|(number, how)| format!("{number} {how}")).collect();
    match &some[..] {
        [] => "NOT good: nothing was checked".into(),
        some => format!("NOT good: {}", some.join(", ")),
    }
}

impl VerifyMessages {
    /// A file that is listed more than once.
    fn twice(&self, target: &Target, finding: &Finding) -> Option<ScreenLine> {
        let manifest = Shown::path(&target.manifest);
        let shown = |path| cut(Shown::path(&target.path_of(path)));
        match finding {
            Finding::Twice { line, first, path, same } => {
                let text = format!("{} (lines {first} and {line} of {manifest})", shown(path));
                match same {
                    true => self.notice(&format!("listed twice: {text}, with the same digest")),
                    false => self.err(&format!("listed twice: {text}, with different digests")),
                }
            }
            Finding::Contradicts { line, path } => {
                let at = format!("{} (line {line} of {manifest})", shown(path));
                self.err(&format!("contradicted: {at}: {LATER_IS_OTHER}"))
            }
            _ => None,
        }
    }

    /// The line about a finding, if this detail has one.
    pub fn of(&self, target: &Target, finding: &Finding) -> Option<ScreenLine> {
        let manifest = Shown::path(&target.manifest);
        let shown = |path| cut(Shown::path(&target.path_of(path)));
        let out = |text| Some(ScreenLine::Out(text));
        match finding {
            Finding::File { line, path, verdict, .. } => {
                let at = format!("line {line} of {manifest}");
                self.file(path, &target.path_of(path), verdict, &at)
            }
            Finding::Converted { line, from, to } => {
                let [from, to] = [from, to].map(|path| cut(Shown::bytes(path.as_bytes())));
                self.notice(&format!("line {line} of {manifest}: {from} is taken for {to}"))
            }
            Finding::Refused { line, name, why } => {
                let (name, at) = (cut(Shown::bytes(name)), format!("line {line} of {manifest}"));
                self.err(&format!("refused: {name} ({at}): {why}; not opened"))
            }
            Finding::Twice { .. } | Finding::Contradicts { .. } => self.twice(target, finding),
            Finding::Malformed { line, fault } => {
                self.err(&format!("malformed: line {line} of {manifest}: {fault}"))
            }
            Finding::Torn { line, unfinished } => {
                let text = format!("line {line} of {manifest} is cut off and says nothing");
                match unfinished {
                    true => self.notice(&text),
                    false => self.err(&format!("malformed: {text}")),
                }
            }
            Finding::OtherAlgorithm { line, algorithm, lines } => self.notice(&format!(
                "{lines} lines of {manifest} have digests that are not known here; it was only looked whether \
                 their files are there (the first is {algorithm}, on line {line})"
            )),
            Finding::Unproven { line, algorithm, files, is_all } => {
                self.err(&unproven(&manifest, *line, *algorithm, (!is_all).then_some(*files)))
            }
            Finding::Tree(..) | Finding::Bag(_) | Finding::Others(_) if self.detail == Detail::Quiet => None,
            Finding::Tree(root, verdict) => {
                out(format!("{}: {}", Shown::path(root), tree_verdict(verdict)))
            }
            Finding::Bag(verdict) => out(format!("{} is {verdict}", Shown::path(&target.root))),
            Finding::Utf16 => {
                self.notice(&format!("{manifest} is UTF-16 text and is read as such"))
            }
            Finding::Nothing => self.err(&format!("nothing to verify: {manifest} lists no file")),
            Finding::NoneFound => self.notice(&format!("{manifest} lists no file: its run found none")),
            Finding::Waiting(text) => self.err(&format!("waiting: {text}")),
            Finding::Forgotten(error) | Finding::Notice(error) => self.notice(&error.to_string()),
            Finding::Unfinished(name) => self.notice(&format!(
                "a later run on {} was cut short and left {name}",
                Shown::path(&target.root)
            )),
            Finding::Rival(rival) => self.err(&self::rival(*rival, &manifest)),
            Finding::Others(lists) => Some(ScreenLine::Out(others(lists, &target.root))),
            Finding::Unlisted(path) => self.unlisted(target, path),
            Finding::Compared(comparison) => {
                let name = cut(Shown::bytes(comparison.path.as_bytes()));
                self.err(&format!("{name}: {}", compared(comparison)))
            }
            Finding::NotCompared(number) => self.err(&format!(
                "there are too many bad files to compare: of {number} it is not said where they are good"
            )),
            Finding::Conflict(path) => {
                self.err(&format!("conflict: {}: {CONFLICT}", shown(path)))
            }
            Finding::Healed(mend) => {
                let word = if mend.dry_run { "could be healed" } else { "healed" };
                self.err(&format!("{word}: {}: {}", shown(&mend.path), taken(mend)))
            }
            Finding::NotHealed { path, why, lost } => self.err(&format!(
                "not healed: {}: {}",
                shown(path),
                not_healed(why, lost.as_deref())
            )),
            Finding::TooManyBad(number) => self.err(&too_many_bad(*number)),
            Finding::Warning(error) => self.err(&format!("warning: {error}")),
            Finding::Incomplete(error) | Finding::Unsearched(error) | Finding::Unusable(error) | Finding::Broken(error) => {
                self.err(&error.to_string())
            }
        }
    }

    /// … about a file that is not listed; of a bag, which has several lists, also where.
    fn unlisted(&self, target: &Target, path: &RelPath) -> Option<ScreenLine> {
        let shown = cut(Shown::path(&target.path_of(path)));
        match target.part.bag() {
            None => self.err(&format!("not listed: {shown}")),
            Some(_) => {
                let list = Shown::path(&target.manifest);
                self.err(&format!("not listed: {shown} (in {list})"))
            }
        }
    }

    /// … about the listed file `name`, whose path is `path`; `at` says which line of which manifest.
    fn file(&self, name: &RelPath, path: &Path, verdict: &Verdict, at: &str) -> Option<ScreenLine> {
        let shown = cut(Shown::path(path));
        match verdict {
            Verdict::Good(_) if self.detail != Detail::Verbose => None,
            Verdict::Good(HashedFrom::Device) => Some(ScreenLine::Out(format!("OK {shown}"))),
            Verdict::Good(HashedFrom::Cache) => {
                Some(ScreenLine::Out(format!("OK {shown} (through a cache)")))
            }
            Verdict::Differs(_, None) => self.err(&format!("differs: {shown} ({at})")),
            Verdict::Differs(_, Some(damage)) => {
                self.err(&format!("differs: {shown}: {damage} ({at})"))
            }
            Verdict::Missing => {
                let hint = match name.as_bytes().contains(&b'\\') && !self.convert {
                    true => "; its name has a \"\\\", which --convert-paths takes for \"/\"".into(),
                    false => cannot_be(name).map_or(String::new(), |why| format!("; {why}")),
                };
                self.err(&format!("missing: {shown} ({at}){hint}"))
            }
            Verdict::NotThrough(kind) => {
                let what = kind.name();
                self.err(&format!("missing: {shown} ({at}): {what} is on the way, not followed"))
            }
            Verdict::NotAFile(kind) => {
                let what = kind.name();
                self.err(&format!("not a regular file: {shown} ({at}): it is {what}, not opened"))
            }
            Verdict::Unreadable(error) => self.err(&format!("{error} ({at})")),
            Verdict::Refused(why) => {
                self.err(&format!("refused: {shown} ({at}): {why}; not opened"))
            }
        }
    }

    fn err(&self, text: &str) -> Option<ScreenLine> {
        Some(ScreenLine::Err(format!("{}: {text}", self.name)))
    }

    /// A notice, which `--quiet` leaves out.
    fn notice(&self, text: &str) -> Option<ScreenLine> {
        (self.detail != Detail::Quiet).then_some(())?;
        self.err(&format!("notice: {text}"))
    }
}

/// What is to be said of lists in `root` that are not checked.
pub fn others(lists: &[String], root: &Path) -> String {
    let shown = |list: &String| cut(Shown::bytes(list.as_bytes()));
    let names: Vec<String> = lists.iter().map(shown).collect();
    let first = lists.first().map(|list| root.join(list)).unwrap_or_default();
    format!(
        "also here   {}: not checked (--manifest {})",
        names.join(", "),
        cut(Shown::path(&first))
    )
}

/// What is to be said of another manifest, beside the one that is checked against.
pub fn rival(rival: Rival, manifest: &dyn Display) -> String {
    match rival {
        Rival::Unrecorded(name) => format!(
            "{name} is not checked: its name is later, but the last run on record finished {manifest}; \
             --manifest checks it"
        ),
        Rival::Superseding(name) => format!(
            "{manifest} is superseded: a later run finished {name}, and what it replaced differs"
        ),
        Rival::Listed(name) => format!(
            "{name} is not checked: its name is later, but it came from the source, as another manifest here says; \
             --manifest checks it"
        ),
        Rival::Ahead(name) => format!(
            "{name} is not checked: its name is of the future, and {manifest} is not; --manifest checks it"
        ),
        Rival::OnlyAhead => {
            format!("{manifest} is checked for want of another: its name is of the future")
        }
        Rival::Unlike(name) => format!(
            "{manifest} is checked, because its name is the latest: no private record tells which manifest holds, and \
             {name} lists other files or digests; --manifest checks that one"
        ),
        Rival::Gone(name) => {
            format!("{name}, which the last run finished, is gone; {manifest} is checked instead")
        }
    }
}

/// Why this system cannot have a file of this name, if it cannot.
fn cannot_be(name: &RelPath) -> Option<&'static str> {
    let part = |part| sys::name_from_bytes(part).ok().and_then(sys::unusable);
    name.components().find_map(part)
}
