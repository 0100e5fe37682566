//! The messages about the findings of a check.

use std::{fmt::Display, path::Path, path::PathBuf};

use jiff::Timestamp;

use crate::cli::show::rows::{
    Counted, Rows, compared, contradiction, cut, files, other_size, size, time, typed, warn,
};
use crate::{
    cli::exit::Exit, cli::show::Detail, cli::show::ScreenLine,
    cli::show::stream_summary::not_healed, cli::show::stream_summary::taken, io::HashedFrom,
    manifest::OtherName, parity::ParityReport, path::RelPath, path::Shown, path::count, sys,
    verify::Checked, verify::Coverage, verify::Finding, verify::ManifestAt, verify::Rival,
    verify::ShardCoverage, verify::Target, verify::TreeVerdict, verify::Verdict, verify::VerifyJob,
    verify::VerifyReport, verify::Witness, verify::has_own_manifest,
};

/// The remark on a name that trees list differently.
pub const CONFLICT: &str = "the trees list different digests for it; nothing is done to it";

/// The remark on bad files that were too many to be remembered.
pub fn too_many_bad(number: u64) -> String {
    format!("{number} more files are bad than can be healed at a time: run it again")
}

/// The verdict on a directory that is not there, or has no list.
pub const NOTHING_CHECKED: &str = "nothing was checked";

/// The verdict on a tree in which there was nothing to list.
const NONE_FOUND: &str = "good: no file is listed, as its run found none";

/// The messages of a check, and their style.
pub struct VerifyMessages {
    /// The program's name, which each line starts with.
    pub name: &'static str,
    /// The detail of messages.
    pub detail: Detail,
    /// True if `\` may be taken for `/`.
    pub convert: bool,
}

/// The message about files with no digest that can be checked: so many, or all.
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

/// Where a file is listed.
fn line_at(line: u64, verdict: &Verdict, manifest: &Shown<'_>) -> String {
    match (line, verdict) {
        (0, Verdict::Missing) => "expected by an earlier copy".into(),
        (0, _) => "as an earlier run recorded it; a later one dropped it from the list".into(),
        (line, _) => format!("line {line} of {manifest}"),
    }
}

/// What parity can do for the bad file that is shown so.
fn parity(finding: &Finding, shown: &str) -> String {
    let Finding::Parity { bad, left, is_enough, .. } = finding else { return String::new() };
    let title = if *is_enough { "repairable from parity" } else { "beyond repair" };
    format!("{title}: {shown}: {}", slices(*bad, *left))
}

/// The slices of a set that are bad, and what is left to repair them by.
pub fn slices(bad: usize, left: usize) -> String {
    format!("{} bad, {left} left", count(bad as u64, "slice"))
}

/// The verdict on all that is listed of a directory.
pub fn tree_verdict(verdict: &TreeVerdict) -> String {
    let TreeVerdict { good, differ, missing, unreadable, unlisted, other, none_found } = *verdict;
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
        (unlisted, "not listed"),
        // Of a directory that is not there, or has no list, that is all there is to say.
        (if good + differ + missing + unreadable > 0 { other } else { 0 }, "otherwise amiss"),
    ];
    let some = counted.iter().filter(|(number, _)| *number > 0);
    let some: Vec<_> = some.map(|(number, how)| format!("{number} {how}")).collect();
    match &some[..] {
        [] => format!("NOT good: {NOTHING_CHECKED}"),
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
            Finding::Contradicts { line, path, by } => {
                let at = match (line, by) {
                    (_, Witness::TagList) => String::new(),
                    (0, _) => format!(" (in {manifest})"),
                    (line, _) => format!(" (line {line} of {manifest})"),
                };
                self.err(&format!("contradicted: {}{at}: {}", shown(path), contradiction(*by)))
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
                let at = line_at(*line, verdict, &manifest);
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
            Finding::Rival(rival) => self.err(&rival_at(*rival, target)),
            Finding::Others(lists) => Some(ScreenLine::Out(others(lists, &target.root))),
            Finding::Unlisted(path) => self.unlisted(target, path),
            Finding::Compared(comparison) => {
                let name = cut(Shown::bytes(comparison.path.as_bytes()));
                self.err(&format!("{name}: {}", compared(comparison)))
            }
            Finding::Parity { path, .. } => self.err(&parity(finding, &shown(path))),
            Finding::NotCompared(number) => self.err(&format!(
                "there are too many bad files to compare: of {number} it is not said where they are good"
            )),
            Finding::Conflict(path) => self.err(&format!("conflict: {}: {CONFLICT}", shown(path))),
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
            Verdict::Differs(_, _, None) => self.err(&format!("differs: {shown} ({at})")),
            Verdict::Differs(_, _, Some(damage)) => {
                self.err(&format!("differs: {shown}: {damage} ({at})"))
            }
            Verdict::OtherSize { found, recorded, damage } => {
                let how = other_size(*found, *recorded, damage.as_deref());
                self.err(&format!("differs: {shown}: {how} ({at})"))
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

/// The message about lists in `root` that are not checked.
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

/// The same, where that does not name the directory with its name.
fn rival_at(rival: Rival, target: &Target) -> String {
    let said = self::rival(rival, &Shown::path(&target.manifest));
    match rival {
        Rival::NotAll(_) | Rival::Unlisted => format!("{}: {said}", Shown::path(&target.root)),
        _ => said,
    }
}

/// The message about another manifest, beside the one that is checked against.
pub fn rival(rival: Rival, manifest: &dyn Display) -> String {
    match rival {
        Rival::Unrecorded(name) => format!(
            "{name} is not checked: its name is later, but the last run on record finished {manifest}; \
             --manifest checks it"
        ),
        Rival::OfStranger(name) => format!(
            "{name} is not checked: its name is later, but it is of another user, whose the directory is not; --manifest \
             checks it"
        ),
        Rival::Doubtful(name) => format!(
            "{name} is not checked: its name is later, but the last run on record finished {manifest}; a run of yours \
             may have made it whose record is elsewhere (--state) or was replaced by an older one, or a clock was wrong: \
             check it (--manifest), or copy again"
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
        Rival::Dropped(files) => format!(
            "{manifest} does not list {} that earlier ones list and that {} there: runs left out what had changed or \
             rotted; --complete names all that is not listed, and a copy with --overwrite-policy always replaces what \
             the source still has (of the rest dircopy heal TREE COPY mends what rotted, and dircopy restore COPY TREE \
             --overwrite-policy always --include /FILE brings back what was changed; or move it away; the next copy \
             lists what is whole again)",
            count(files, "file"),
            if files == 1 { "is" } else { "are" }
        ),
        Rival::NotAll(entries) => format!(
            "the last copy here was not complete: {} failed, or stayed as it was; the same command again names each, and \
             brings over what can be",
            count(entries, "entry")
        ),
        Rival::Unlisted => {
            "a later run here made no list (--hash none, or a plan that is not finished): what it \
                            brought is not as listed; run that copy again, with a list"
                .to_owned()
        }
    }
}

/// Why this system cannot have a file of this name, if it cannot.
fn cannot_be(name: &RelPath) -> Option<&'static str> {
    let part = |part| sys::name_from_bytes(part).ok().and_then(sys::unusable);
    name.components().find_map(part)
}

// The closing summary of a check: what was found, where the bytes came from, how it ended.

/// The command that makes bad files of these directories whole from one another.
fn heal_command(check: &VerifyJob) -> String {
    let manifest = |at: &ManifestAt| match at {
        ManifestAt::File(path) => format!("-m {} ", typed(path)),
        ManifestAt::StandardInput => "-m - ".into(),
    };
    let manifests: String = check.manifests.iter().map(manifest).collect();
    // One that has nothing to be checked by is no tree to heal. Bags have no manifest of this kind.
    let is_one = |dir: &&PathBuf| {
        !check.manifests.is_empty() || has_own_manifest(dir, check.state.as_deref())
    };
    let some: Vec<&PathBuf> = check.dirs.iter().filter(is_one).collect();
    let dirs = if some.len() > 1 { some } else { check.dirs.iter().collect() };
    let dirs: Vec<String> = dirs.into_iter().map(|dir| typed(dir)).collect();
    format!("dircopy heal {manifests}{}", dirs.join(" "))
}

/// The rows of a scrub.
fn tell_scrub(covered: &Coverage, rows: &mut Rows) {
    let Coverage { listed, now, never, oldest, left_out } = *covered;
    let oldest = oldest.map_or_else(String::new, |oldest| format!(", the oldest {}", day(oldest)));
    let left = format!("{never} of {} not verified yet{oldest}", count(listed, "file"));
    rows.row("scrub", format!("{} verified; {left}", count(now, "file")));
    if let Some((files, since)) = left_out {
        let since = day(since.into());
        rows.row("left out", format!("{}, found good since {since}", count(files, "file")));
    }
}

/// The row of parity that was made.
pub fn tell_parity(parity: &ParityReport, rows: &mut Rows) {
    let ParityReport { files, made, bytes, kept, .. } = *parity;
    let made = format!("{} made: {}", count(made, "set"), size(bytes));
    rows.row("parity", format!("of {}; {made}; {kept} kept", count(files, "file")));
}

/// The row of a shard, or of all of them.
fn tell_shard(shard: ShardCoverage, rows: &mut Rows) {
    let ShardCoverage { index, of, lines, began, ended } = shard;
    let text = match index {
        Some(index) => format!("{index}/{of}: {}", count(lines, "line")),
        None => {
            let all = format!("{} in {}", count(lines, "line"), count(of.into(), "shard"));
            match lines {
                0 => all,
                _ => format!("{all}, checked from {} to {}", minute(began), minute(ended)),
            }
        }
    };
    rows.row("shard", text);
}

/// The rows of the summary of this check.
pub fn summary(report: &VerifyReport, check: &VerifyJob) -> Rows {
    let counts = &report.counts;
    let read = counts.from_device + counts.from_cache;
    let taken = format!("made whole with {}", size(counts.healed_bytes));
    let reads = report.shard.is_none_or(|shard| shard.index.is_some());
    let mut rows = Rows::default();
    let shared = format!("{}: data of a file that was read", size(counts.shared_bytes));
    rows.row("checked", files(read + counts.shared, counts.bytes + counts.shared_bytes));
    rows.counted(&[
        Counted("good", counts.good, "file", "as listed"),
        Counted("healed", counts.healed, "file", &taken),
        Counted("differ", counts.differ, "file", ""),
        Counted("missing", counts.missing, "listed file", ""),
        Counted(
            "incomplete",
            counts.incomplete,
            "part",
            "of an archive: not there, or not as it says",
        ),
        Counted(
            "not checked",
            counts.unproven,
            "listed file",
            "with no digest that can be checked",
        ),
        Counted("unreadable", counts.unreadable, "file", ""),
    ]);
    if counts.repairable > 0 {
        let files = count(counts.repairable, "bad file");
        rows.row("repairable", format!("{files}: {}", heal_command(check)));
    }
    rows.counted(&[
        Counted("healable", counts.healable, "bad file", "that could be made whole"),
        Counted("not healed", counts.not_healed, "bad file", ""),
        Counted("conflict", counts.conflicting, "name", "listed with different digests"),
        Counted("contradicted", counts.contradicted, "name", "listed and known otherwise"),
        Counted("not listed", counts.unlisted, "file", ""),
        Counted("malformed", counts.malformed, "line", ""),
        Counted("refused", counts.refused, "name", "outside the directory"),
        Counted("repeated", counts.repeated, "line", "for a name that was listed before"),
        Counted("converted", counts.converted, "name", "found under another spelling"),
        Counted("empty", counts.empty, "manifest", "that lists no file that can be checked"),
        Counted("absent", counts.absent, "place", "that is not there"),
        Counted(
            "unusable",
            counts.unusable - counts.absent,
            "place",
            "without a manifest that could be used",
        ),
    ]);
    if read > 0 {
        let device = format!("{} from the device", counts.from_device);
        rows.row("read", format!("{device}, {} only through a cache", counts.from_cache));
    }
    report.parity.iter().for_each(|parity| tell_parity(parity, &mut rows));
    report.replugged.iter().for_each(|it| rows.row("replugged", it.words()));
    if counts.shared > 0 {
        rows.row("shared", format!("{}, {shared}", count(counts.shared, "file")));
    }
    if counts.states_made > 0 {
        rows.row("states", format!("made of {}", count(counts.states_made, "file")));
    }
    report.covered.iter().for_each(|covered| tell_scrub(covered, &mut rows));
    report.shard.iter().for_each(|shard| tell_shard(*shard, &mut rows));
    rows.row("time", time(report.elapsed, if reads { counts.bytes } else { 0 }));
    rows
}

/// The last line: the verdict over every directory, of a check that ends with `exit`. `amiss` says what was at its
/// end, if nothing else.
pub fn verdict(report: &VerifyReport, check: &VerifyJob, exit: Exit, amiss: &str) -> String {
    let counts = &report.counts;
    let made = report.parity.is_some_and(|parity| parity.is_all);
    let (title, text) = if report.interrupted.is_some() {
        ("INTERRUPTED", "not everything was checked")
    } else if counts.is_untrue() {
        return warn("FAILED", exit, &untrue(counts, check));
    } else if counts.is_empty() {
        let title = if counts.good == 0 { "NOTHING TO VERIFY" } else { "NOT PROVEN" };
        (title, "a manifest lists no file that can be checked")
    } else if counts.unusable > 0 && counts.malformed + counts.refused == 0 {
        let is_none = counts.good + counts.unreadable == 0;
        let text = if is_none { "nothing was checked" } else { "not everything was checked" };
        let why = match counts.absent {
            0 => ", for want of a manifest",
            absent if absent == counts.unusable => {
                ": a directory or list that was named is not there"
            }
            _ => ": directories or lists that were named are not there, or have no manifest",
        };
        return warn("NOT PROVEN", exit, &format!("{text}{why}"));
    } else if counts.is_unusable() {
        ("NOT PROVEN", "a manifest could not be read whole")
    } else if counts.is_incomplete() {
        match report.shard {
            Some(ShardCoverage { index: None, .. }) => ("NOT PROVEN", "not every shard counts"),
            _ if counts.unreadable + counts.broken == 0 => {
                ("NOT PROVEN", "not every listed file has a digest that can be checked")
            }
            _ if report.unnoted && counts.unreadable == 0 => {
                let text = "what was verified when cannot be noted: check without --budget, --max-bytes and --not-since, or \
                            keep it elsewhere (--state DIR)";
                ("NOT PROVEN", text)
            }
            _ if made && counts.broken > 0 => ("NOT PROVEN", "not all parity could be written"),
            _ => ("NOT PROVEN", "not everything could be read"),
        }
    } else if exit != Exit::Complete {
        return warn("NOT COMPLETE", exit, &format!("every file is as listed, but {amiss}"));
    } else {
        return match (report.covered, report.shard) {
            _ if report.parity.is_some_and(|parity| parity.is_all && parity.kept > 0) => {
                "done: every listed file has parity; files of sets that were kept were not read unless their size or time had \
                 changed"
                    .into()
            }
            _ if made => "done: every listed file has parity".into(),
            (None, None) if counts.unhashed > 0 => format!(
                "good: every listed file is as listed, but {} no digest that can be checked",
                match counts.unhashed {
                    1 => "1 line has".to_owned(),
                    lines => format!("{lines} lines have"),
                }
            ),
            (Some(Coverage { left_out: Some((left @ 1.., since)), .. }), _) => {
                let (left, since) = (count(left, "file"), day(since.into()));
                format!(
                    "good: every file of this pass is as listed; {left} not looked at, good since {since}"
                )
            }
            (Some(_), _) => "good: every file of this pass is as listed".into(),
            (None, Some(ShardCoverage { index: Some(index), of, .. })) => {
                format!("good: every file of shard {index}/{of} is as listed; --merge proves all")
            }
            (None, _) => "good: every listed file is as listed".into(),
        };
    };
    warn(title, exit, text)
}

/// What is not as listed, of how many, and what makes files whole.
fn untrue(counts: &Checked, check: &VerifyJob) -> String {
    let bad = counts.differ + counts.missing;
    let listed = count(bad + counts.good + counts.unreadable, "listed file");
    let are = |number| if number == 1 { "is" } else { "are" };
    let parts = [
        (bad, format!("{bad} of {listed} {} not as listed", are(bad))),
        (counts.unlisted, format!("{} not listed", count(counts.unlisted, "file"))),
        (counts.incomplete, format!("{} of an archive amiss", count(counts.incomplete, "part"))),
        (
            counts.contradicted + counts.conflicting,
            format!("{} contradicted", count(counts.contradicted + counts.conflicting, "name")),
        ),
    ];
    let parts = parts.into_iter().filter_map(|(number, text)| (number > 0).then_some(text));
    let mut text = parts.collect::<Vec<_>>().join(", ");
    let is_own = check.manifests.is_empty() && check.root.is_none();
    let is_none_good = bad > 0 && counts.repairable + counts.not_healed + counts.healable == 0;
    match &*check.dirs {
        _ if counts.healable > 0 => text += "; without --dry-run what can be healed is",
        [dir] if is_none_good && is_own => {
            text += &format!("; with another copy of it: dircopy heal {} COPY", typed(dir));
        }
        [_, _, ..] if is_none_good && is_own => {
            let dirs: Vec<String> = check.dirs.iter().map(|dir| typed(dir)).collect();
            text += &format!(
                "; none of them is good elsewhere here: dircopy heal {} --from-tree SOURCE",
                dirs.join(" ")
            );
        }
        _ => {}
    }
    text
}

/// A time in UTC, to the minute.
fn minute(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).ok();
    time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// A time in UTC, as a day.
fn day(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|time| Timestamp::from_second(time).ok());
    time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d").to_string())
}
