//! `dircopy covered`, from its arguments to its exit code.

use std::{
    cell::Cell, cell::RefCell, collections::BTreeMap, ffi::OsStr, ffi::OsString, path::Path,
    path::PathBuf,
};

use clap::Parser;
use humansize::{BINARY, format_size};

use crate::{
    cli::args::unattended::RecordArgs,
    cli::args::values::{Choice, Choose, VerbosityArgs, one_of},
    cli::args::verify::parse_since,
    cli::cluster::plan::Follower,
    cli::exit::Exit,
    cli::record::entry::RecordEntry,
    cli::record::task::{RunResult, Task},
    cli::session::{Session, Setup},
    cli::show::{Detail, rows::typed},
    cli::words,
    copy::generations::newest::Untaken,
    copy::generations::set::{GenerationSet, path_of},
    error::Result,
    event::Event,
    hash::Algorithm,
    path::count,
    path::{RelPath, Shown},
    span::is_empty_disk,
    state::DatedName,
    sys::{self, Dir},
    verify::{
        AtLeast, CoveredJob, CoveredReport, DirProof, Found, FoundAt, PROOFS, PlaceAsked,
        PlaceReport, Proof, Standing, kept_by_runs,
    },
};

const CODES: &str = "\
Exit codes; of several that fit, the first of this list:
  129, 130, 143
       ended by a signal
  2    usage error, or refused: SRC has no file, or a place is not there
  4    a file is not at so many places: each is named
  5    a line of a list, or all of it, cannot be read, or the newest generation
       at a place is lost
  1    a file of SRC could not be read, or SRC or a place changed meanwhile
  0    every file of SRC is at so many places: it may be erased

Every doubt counts as not there. See docs/guide/covered.md.";

/// The text of `dircopy covered -h`.
pub const SHORT: &str = "\
Say whether every file of SRC is at two places, so that it may be erased

Usage: dircopy covered [OPTIONS] SRC DIR|LIST...

Options:
      --copies N         Every file is to be at N places (2)
      --read             Read every file at the places, from the disk
      --trust-lists      Believe the lists that are given
      --lists-apart      Lists with the same bytes, or the time of one run in
                         their names, are of different disks
      --not-older WHEN   What was proven before does not count: 90d, a date
      --at-least PROOF   How far files are to be proven: read-back, replugged,
                         or read (now, from the disk)
      --state DIR        Your private records are below DIR
      --report FILE      A record of the answer: JSON, or a page if .html
  -q, --quiet            Only say what is wrong
  -v, --verbose          Name every file that is not covered
  -h; --help             This; all options and exit codes

Exit code 0: every file is at so many places; 4: one is not.
";

impl Choose for AtLeast {
    const CHOICES: &'static [Choice<Self>] = &[
        ("read-back", AtLeast::ReadBack, "Read from the device since it was written"),
        ("replugged", AtLeast::Replugged, "Read from the device after it was away"),
        ("read", AtLeast::Read, "Read from the device now, with --read"),
    ];
}

/// Say whether every file of SRC is at two places, so that it may be erased
///
/// SRC is read as a whole, and its files are looked for by their content, whatever their names. What is at a DIR
/// counts where your record of it says that it is untouched since it was copied, or with --read if it is read again. A
/// LIST, as of a disk in the drawer or of a cloud, counts with --trust-lists. Places on one disk are one place, and
/// what is on the disk of SRC, or in memory, is none.
#[derive(Debug, Parser)]
#[command(name = "covered", after_help = CODES)]
pub struct CoveredArgs {
    /// What is to be erased
    #[arg(value_name = "SRC")]
    pub source: PathBuf,

    /// Where its files may be
    #[arg(value_name = "DIR|LIST", required = true)]
    pub places: Vec<PathBuf>,

    /// Every file is to be at N places
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..))]
    pub copies: u16,

    /// Read every file at the places, from the disk
    #[arg(long)]
    pub read: bool,

    /// Believe the lists that are given
    #[arg(long)]
    pub trust_lists: bool,

    /// Lists with the same bytes, or the time of one run in their names, are of different disks
    #[arg(long, requires = "trust_lists")]
    pub lists_apart: bool,

    /// What was proven before does not count: 90d, a date
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    pub not_older: Option<u32>,

    /// How far files are to be proven
    #[arg(long, value_name = "PROOF", value_parser = one_of::<AtLeast>())]
    pub at_least: Option<AtLeast>,

    /// Places in memory count too: for trials
    #[arg(long)]
    pub count_memory: bool,

    /// Your private records are below DIR
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    pub records: RecordArgs,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

/// More names are not told unless every entry is to be named.
const MOST_TOLD: u64 = 1000;

/// Says whether a source may be erased.
pub fn covered(args: &CoveredArgs, command: &[OsString]) -> Exit {
    let mut places = args.places.clone();
    let located = words::locate_all([&mut places], "look for files at");
    let trees = |path: &Path| trees_of(path, args.state.as_deref());
    let place = |path: PathBuf| PlaceAsked { trees: trees(&path), path };
    let job = CoveredJob {
        source: args.source.clone(),
        places: places.into_iter().map(place).collect(),
        copies: args.copies.into(),
        read: args.read,
        trusts_lists: args.trust_lists,
        lists_apart: args.lists_apart,
        not_before: args.not_older,
        at_least: args.at_least,
        counts_memory: args.count_memory,
        state: args.state.clone(),
    };
    let detail = args.verbosity.detail();
    let opened = Session::open(Setup {
        options: args.records.options("dircopy", detail),
        view: args.verbosity.view(),
        aside: false,
        task: Task::Covered(&job),
        command,
    });
    let follower = match opened {
        Ok(session) => Follower::of(session, &args.verbosity),
        Err(exit) => return exit,
    };
    let (told, kept) = (Cell::new(0), RefCell::new(KeptByRuns::default()));
    let tell = |report: &CoveredReport, path: &[u8], at: usize, found: &FoundAt| {
        told.set(told.get() + 1);
        kept.borrow_mut().note(path);
        let each = report.places.iter().zip(&job.places).zip(found);
        let each = each.map(|((place, asked), found)| is_at(place, asked, *found));
        let each: Vec<String> = each.collect();
        let (places, name) = (count(job.copies as u64, "place"), Shown::bytes(path));
        let (at, each) = (format!("at {at} of {places}"), each.join("; "));
        let line = format!("{at}: {name} ({each})");
        let entry = RecordEntry::uncovered(path, format!("{at}: {each}"));
        follower.session.records.entry(&line, &entry);
        if told.get() <= MOST_TOLD || detail == Detail::Verbose {
            follower.session.console.out(&line);
        }
    };
    let amiss = tell_amiss(&job, &follower);
    let ran = located.and_then(|()| follower.run(|observer| job.run(observer, &tell)));
    let report = match ran {
        Ok(report) => CoveredReport { unusable: report.unusable + amiss, ..report },
        Err(refused) => return follower.session.end_refused(&refused),
    };
    let next = "not everything was looked at: do not erase it";
    let ran = RunResult::Covered(&report);
    if let Some(exit) = follower.cut_short(None, report.interrupted, next) {
        return follower.session.end(&ran, exit, true, |_, _| format!("interrupted: {next}"));
    }
    if told.get() > MOST_TOLD && detail != Detail::Verbose {
        let more = count(told.get() - MOST_TOLD, "more file");
        follower.session.console.out(&format!("and {more} (-v names them all)"));
    }
    report.places.iter().for_each(|place| follower.say(&place_line(place, report.files)));
    if !sys::KNOWS_DISKS && report.places.iter().filter(|place| !place.is_list).count() > 1 {
        follower
            .say("that no two places are volumes of one disk is for you to know on this system");
    }
    hints(&job, &report, &kept.borrow()).iter().for_each(|hint| follower.say(hint));
    let (exit, verdict) = verdict(&job, &report, amiss);
    let is_complete = exit == Exit::Complete;
    let is_quiet = detail == Detail::Quiet || !is_complete;
    let exit = follower.session.end(&ran, exit, is_quiet, |exit, amiss| match exit {
        Exit::Incomplete if is_complete => {
            format!("every file is there, but {amiss}; do not erase {}", Shown::path(&job.source))
        }
        _ => verdict.clone(),
    });
    if !is_complete {
        follower.err(&verdict);
    }
    exit
}

/// The trees that have private records of their own: all generations, the newest first, or the directory itself; none
/// of what is no directory.
pub fn trees_of(dir: &Path, state: Option<&Path>) -> Vec<PathBuf> {
    if !dir.is_dir() {
        return Vec::new();
    }
    let set = Dir::open(dir).ok().and_then(|root| GenerationSet::read(&root, dir).ok());
    let complete = set.map(|set| set.complete).unwrap_or_default();
    match complete.is_empty() || DirProof::of(dir, state) == DirProof::Recorded {
        true => vec![dir.to_path_buf()],
        false => complete.into_iter().rev().map(|name| path_of(dir, name)).collect(),
    }
}

/// What a place has of a file.
fn is_at(place: &PlaceReport, asked: &PlaceAsked, found: Option<Found>) -> String {
    let path = Shown::path(&place.path);
    let Some(found) = found else {
        // What lies beside generations is not looked at.
        return match place.is_list || asked.trees.contains(&asked.path) {
            true => format!("not at {path}"),
            false => format!("in no generation at {path}"),
        };
    };
    match found.standing {
        Standing::There if place.is_in_memory => format!("at {path}, in memory"),
        Standing::There => match (place.is_at_source, &place.same_as) {
            (true, _) => format!("at {path}, on the disk of SRC"),
            (false, None) => format!("at {path}"),
            (false, Some(first)) => format!("at {path}, on the disk of {}", Shown::path(first)),
        },
        Standing::TooOld => format!("proven too long ago at {path}"),
        Standing::NotSoFar => format!("not proven so far at {path}"),
        Standing::InDoubt => format!("in doubt at {path}"),
        Standing::Untrusted => format!("only listed in {path}"),
        Standing::Weak => format!("by a weak digest at {path}"),
        Standing::Differs => format!("no longer the same at {path}"),
    }
}

/// The line about a place.
fn place_line(place: &PlaceReport, files: u64) -> String {
    let (there, words) = (place.proven.iter().sum::<u64>(), place_words(place));
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    format!("{}: {there} of {}{words}", Shown::path(&place.path), count(files, "file"))
}

/// What is to be said of a place.
pub fn place_words(place: &PlaceReport) -> String {
    let word = |proof: &Proof| match proof {
        Proof::Listed => "listed",
        Proof::Recorded => "recorded and untouched",
        Proof::ThroughCache => "read only through a cache",
        Proof::Replugged => "replugged",
        Proof::Read => "read",
        Proof::ReadReplugged => "read after it was away",
    };
    let there: u64 = place.proven.iter().sum();
    let each = PROOFS.iter().zip(place.proven).filter(|(_, number)| *number > 0);
    let mut told: Vec<String> = each
        .map(|(proof, number)| match number == there {
            true => word(proof).to_owned(),
            false => format!("{number} {}", word(proof)),
        })
        .collect();
    let weak: Vec<&str> = place
        .by
        .iter()
        .filter(|by| matches!(by, Algorithm::Sha1 | Algorithm::Md5))
        .map(Algorithm::shown)
        .collect();
    if !weak.is_empty() {
        told.push(format!("some by {}, of which anyone can make two alike", weak.join(" and ")));
    }
    if place.oldest > 0
        && let Ok(day) = jiff::Timestamp::from_second(place.oldest.into())
    {
        told.push(format!("proven {} or later", day.strftime("%Y-%m-%d")));
    }
    if place.is_at_source {
        told.push("it is on the disk of SRC, or may be, and does not count".into());
    }
    if place.is_in_memory {
        told.push("it is in memory, and does not count: is its disk mounted?".into());
    }
    told.extend(place.unknown_why.map(|why| format!("durable: unknown ({why})")));
    if let Some(first) = &place.same_as {
        told.push(format!("it is one place with {}, on one disk", Shown::path(first)));
    }
    told.join("; ")
}

/// The files of the source that are not covered because runs keep them, or because they are called so: no place counts
/// by a copy of these, and most are not copied.
#[derive(Default)]
struct KeptByRuns {
    files: u64,
    /// The first of what is kept, each with the number of its files.
    each: BTreeMap<Vec<u8>, u64>,
}

/// So many of what is kept are told with what to do: the others need the same.
const MOST_KEPT: usize = 5;

impl KeptByRuns {
    fn note(&mut self, path: &[u8]) {
        let Some(kept) = kept_by_runs(path) else { return };
        self.files += 1;
        if self.each.len() < MOST_KEPT || self.each.contains_key(kept) {
            *self.each.entry(kept.to_vec()).or_default() += 1;
        }
    }

    /// What can be done about them.
    fn hints(&self, source: &Path) -> Vec<String> {
        let paths = self.each.iter().filter_map(|(kept, files)| {
            Some((RelPath::parse(kept).ok()?.full_path(source), files))
        });
        let all = paths.map(|(kept, files)| {
            let name = kept.file_name().unwrap_or_default().to_string_lossy();
            let other = kept.with_file_name(format!("old-{}", name.trim_start_matches('.')));
            format!(
                "{} has {} of these: it is, or is called, what runs of dircopy keep and later take away, so no copy of it \
                 counts; to keep it, rename it (mv {} {}) and copy again, else remove it; then ask again",
                Shown::path(&kept),
                count(*files, "file"),
                typed(&kept),
                typed(&other)
            )
        });
        let more = self.files - self.each.values().sum::<u64>();
        let more = (more > 0)
            .then(|| format!("{} of these are in others of the kind", count(more, "more file")));
        all.chain(more).collect()
    }
}

/// What can be typed next, where these files are not covered because runs keep them.
fn hints(job: &CoveredJob, report: &CoveredReport, kept: &KeptByRuns) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    if report.covered == report.files {
        return hints;
    }
    hints.extend(kept.hints(&job.source));
    let are_all_kept = report.covered + kept.files == report.files;
    let source = typed(&job.source);
    // A bag and generations have options of their own, which nobody knows here.
    let is_plain = |asked: &PlaceAsked| {
        let full = asked.path.canonicalize().unwrap_or_default();
        let name = full.file_name().and_then(OsStr::to_str).unwrap_or_default();
        asked.trees == [asked.path.clone()]
            && DatedName::parse(name).is_none()
            && !matches!(
                DirProof::of(&asked.path, job.state.as_deref()),
                DirProof::Bag | DirProof::Either
            )
    };
    let state = job.state.as_ref().map(|state| format!(" --state {}", typed(state)));
    let places = report.places.iter().zip(&job.places);
    let counts = |place: &PlaceReport| !place.is_at_source && !place.is_in_memory;
    for (place, asked) in places.filter(|(place, _)| counts(place)) {
        let (path, of) = (Shown::path(&place.path), |it: Standing| place.standing[it as usize]);
        let again = of(Standing::TooOld) + of(Standing::NotSoFar) > 0;
        let is_unproven = of(Standing::InDoubt) > 0 || place.unknown > 0 && place.absent > 0;
        let hint = match place.is_list {
            true if of(Standing::Untrusted) > 0 => {
                "is a list: if you know that it is true, add --trust-lists".into()
            }
            true if of(Standing::Weak) > 0 => "has digests that do not tell contents apart".into(),
            true if place.same_as.is_some() && !job.lists_apart => {
                "may be a list of the same disk: if you know that it is of another, add --lists-apart".into()
            }
            true if again => "proves too little: name its directory instead, and add --read".into(),
            false if !job.read && (is_unproven || again || of(Standing::Weak) > 0) => {
                "has files that no record of yours proves so: add --read".into()
            }
            false if again => "cannot be read from its device, or was not away since".into(),
            // That has another remedy.
            false if are_all_kept => continue,
            false if place.absent + of(Standing::Differs) > 0 => match is_plain(asked) {
                _ if is_empty_disk(&asked.path, job.state.as_deref()).is_some() => {
                    "is a disk of a span, and lacks what others have: name all of its disks, or run the copy to them again"
                        .into()
                }
                true => {
                    let (path, state) = (typed(&place.path), state.as_deref().unwrap_or_default());
                    match of(Standing::Differs) {
                        0 => format!("lacks files: dircopy {source} {path}{state}"),
                        _ => format!(
                            "has files that are not as they were copied: dircopy --verify {source} {path}{state}"
                        ),
                    }
                }
                false => "lacks files: run the copy that made it again".into(),
            },
            _ => continue,
        };
        hints.push(format!("{path} {hint}"));
    }
    hints
}

/// Tells of each place that has lost its newest generation, and returns how many have.
fn tell_amiss(job: &CoveredJob, follower: &Follower<'_>) -> u64 {
    let tell = |event: &Event<'_>| follower.tell(event);
    let amiss = job.paths().filter_map(|it| look_for_newest(it, job.state.as_deref(), tell).err());
    amiss.map(|error| tell(&Event::Failed(&error))).count() as u64
}

/// That the newest generation at a place is there, if it is one of generations or is called that; that nothing tells
/// which it is, is told.
///
/// # Errors
/// It is lost, or its record is.
pub fn look_for_newest(
    place: &Path,
    state: Option<&Path>,
    tell: impl FnOnce(&Event<'_>),
) -> Result<()> {
    let untaken = match DirProof::of(place, state) {
        _ if !place.is_dir() => None,
        DirProof::Recorded => Untaken::at(place).filter(|it| it.is_bad),
        _ => Untaken::newest_at(place),
    };
    match untaken {
        Some(Untaken { error, is_bad: true }) => return Err(error),
        Some(Untaken { error, .. }) => tell(&Event::Warning(&error)),
        None => {}
    }
    Ok(())
}

/// The exit, and the last line, where so many places are not known to have their newest generation.
fn verdict(job: &CoveredJob, report: &CoveredReport, amiss: u64) -> (Exit, String) {
    let places = count(job.copies as u64, "place");
    let (files, missing) = (count(report.files, "file"), report.files - report.covered);
    let read = format!(
        "{files}, {}, read at {}",
        format_size(report.bytes, BINARY),
        Shown::path(&job.source)
    );
    let others = match report.others {
        0 => String::new(),
        others => format!("; {} not looked at", count(others, "link or special file")),
    };
    let verdict = match () {
        () if report.is_covered() => {
            let more = if job.copies == 1 {
                "1 place or more".into()
            } else {
                format!("{places} or more")
            };
            let line = format!("covered: every file is at {more}; this card may be erased");
            return (Exit::Complete, format!("{read}{others}\n{line}"));
        }
        () if missing > 0 => (Exit::Untrue, format!("not at {places}: {missing} of {files}")),
        () if amiss > 0 => (
            Exit::Unusable,
            format!("it is not known that {} has its newest generation", count(amiss, "place")),
        ),
        () if report.unusable > 0 => (
            Exit::Unusable,
            format!("{} could not be read", count(report.unusable, "line or list")),
        ),
        () if report.failed > 0 => (
            Exit::Incomplete,
            format!(
                "{} of it could not be read, or changed meanwhile",
                count(report.failed, "entry")
            ),
        ),
        () => (
            Exit::Incomplete,
            "something changed at a place meanwhile, or could not be read twice".to_owned(),
        ),
    };
    (verdict.0, format!("not covered: {}; do not erase {}", verdict.1, Shown::path(&job.source)))
}
