//! `dircopy catalog`, from its arguments to its exit code.

use std::{
    ffi::OsString, fs::File, path::Path, path::PathBuf, sync::Arc, time::SystemTime,
    time::UNIX_EPOCH,
};

use clap::{Parser, Subcommand, builder::NonEmptyStringValueParser};
use humansize::{BINARY, format_size};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    catalog::{AddJob, Added, Catalog, CatalogStatus, CataloguedFile, PlaceStatus, Sought},
    cli::args::values::VerbosityArgs,
    cli::args::verify::parse_since,
    cli::cluster::plan::Follower,
    cli::covered::{look_for_newest, trees_of},
    cli::exit::Exit,
    cli::record::log::{self, JsonName, stamp},
    cli::show::{Detail, Reporter},
    copy::{CopyJob, Ending, Report},
    error::{Deed, Error, Result},
    event::{Event, EventObserver, Stop},
    hash::{Algorithm, Digest, hex},
    io::ReadBack,
    path::Shown,
    path::count,
    span::is_empty_disk,
    sys::{self, Medium, MountedVolume},
};

const CODES: &str = "\
Exit codes:
  0    done, found, or everything is well
  1    add: files that no record knows were left out
  2    usage error, or refused; add: one of several at least was refused
  4    find: it is not there; status: too few copies, or not verified
  5    add: a line of a list cannot be read

It proves nothing: verify and covered do (docs/guide/catalog.md).";

/// Keep a catalogue of what is at which disk, also in the drawer
#[derive(Debug, Parser)]
#[command(name = "catalog", after_help = CODES, disable_help_subcommand = true)]
pub struct CatalogArgs {
    #[command(subcommand)]
    pub command: CatalogCommand,
}

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Add trees, as your own record has them, or lists
    #[command(display_name = "dircopy-catalog-add")]
    Add(AddArgs),
    /// Say on which disk something is
    #[command(display_name = "dircopy-catalog-find")]
    Find(FindArgs),
    /// Say what has too few copies, and which disk to fetch next
    #[command(display_name = "dircopy-catalog-status")]
    Status(StatusArgs),
    /// Take places out
    #[command(display_name = "dircopy-catalog-forget")]
    Forget(PlacesArgs),
    /// Print all files as JSON, one a line
    #[command(display_name = "dircopy-catalog-export")]
    Export(PlacesArgs),
}

/// Which catalogue.
#[derive(Clone, Debug, clap::Args)]
pub struct WhichArgs {
    /// The catalogue; by default dircopy/catalog.sqlite where programs keep your data
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub struct AddArgs {
    /// Directories, or lists that `dircopy verify` reads
    #[arg(value_name = "TREE|MANIFEST", required = true)]
    pub paths: Vec<PathBuf>,

    /// What the disk is called; by default by its label, or as the list
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub place: Option<String>,

    /// Of a list: its names start at DIR there
    #[arg(long, value_name = "DIR")]
    pub below: Option<PathBuf>,

    /// Your private records are below DIR
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    pub which: WhichArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub struct FindArgs {
    /// A name or the end of a path, a pattern (* ? [a-z]), a digest, or a file by its content (./FILE)
    #[arg(value_name = "NAME|GLOB|DIGEST|FILE", required = true)]
    pub sought: Vec<OsString>,

    #[command(flatten)]
    pub which: WhichArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// Every file is to be at N places
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..))]
    pub copies: u16,

    /// … and to be verified since: 90d, a date; by default 365d
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    pub not_since: Option<u32>,

    #[command(flatten)]
    pub which: WhichArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub struct PlacesArgs {
    /// Places, by name or UUID
    #[arg(value_name = "PLACE")]
    pub places: Vec<String>,

    #[command(flatten)]
    pub which: WhichArgs,
}

/// More files are not told unless every entry is to be named.
const MOST_TOLD: u64 = 1000;

/// What was not verified for so long is told; seconds.
const LONG: u64 = 365 * 24 * 3600;

/// Keeps the catalogue.
pub fn catalog(args: &CatalogArgs) -> Exit {
    let which = match &args.command {
        CatalogCommand::Add(args) => &args.which,
        CatalogCommand::Find(args) => &args.which,
        CatalogCommand::Status(args) => &args.which,
        CatalogCommand::Forget(args) | CatalogCommand::Export(args) => &args.which,
    };
    let follower = Follower::new(&which.verbosity);
    let names_all = which.verbosity.detail() == Detail::Verbose;
    let stop = &follower.session.stop;
    let opened = path_of(which.catalog.as_deref()).and_then(|path| match &args.command {
        CatalogCommand::Add(_) => Catalog::open_or_make(&path, stop),
        _ => Catalog::open(&path, stop),
    });
    let done = opened.and_then(|catalog| match &args.command {
        CatalogCommand::Add(args) => Ok(add(args, &catalog, &follower)),
        CatalogCommand::Find(args) => find(args, &catalog, names_all, &follower),
        CatalogCommand::Status(args) => status(args, &catalog, names_all, &follower),
        CatalogCommand::Forget(args) => forget(args, &catalog, &follower),
        CatalogCommand::Export(args) => export(args, &catalog, &follower),
    });
    match done {
        Ok(exit) => follower.exit(exit),
        Err(refused) => follower.refused(&refused),
    }
}

/// The catalogue that is meant: the usual one, unless another is named.
fn path_of(given: Option<&Path>) -> Result<PathBuf> {
    given.map(Path::to_path_buf).or_else(Catalog::usual_path).ok_or_else(|| {
        let finding = "it is not known where your data is kept: name it with --catalog FILE";
        Error::finding("find", "the catalogue", finding)
    })
}

/// The path after `--catalog` of a copy; without one, the usual place.
pub fn parse_catalog(text: &str) -> Result<PathBuf, String> {
    let given = Some(Path::new(text)).filter(|path| !path.as_os_str().is_empty());
    path_of(given).map_err(|error| error.to_string())
}

/// Adds one after the other. What is refused does not keep the others out, and the worst counts: that something is not
/// in the catalogue, then that not all of it is.
fn add(args: &AddArgs, catalog: &Catalog, follower: &Follower<'_>) -> Exit {
    let mut worst = [false; 3];
    for path in &args.paths {
        let (place, below, state) =
            (args.place.clone(), args.below.clone().unwrap_or_default(), args.state.clone());
        let job = AddJob { path: path.clone(), newest: None, place, below, state };
        let added = match follower.run(|observer| add_one(job, catalog, observer)) {
            Ok(added) => added,
            Err(refused) => {
                worst[0] = true;
                follower.refused(&refused);
                continue;
            }
        };
        if let Some(stopped) = follower.cut_short(None, added.interrupted, "nothing of it is added")
        {
            return stopped;
        }
        let files = count(added.files, "file");
        let (place, path) = (Shown::bytes(added.place.as_bytes()).to_string(), Shown::path(path));
        follower.say(&format!("{place}: {files} of {path}"));
        if added.is_of_unknown {
            follower.say(&format!(
                "{place}: which disk it is of is not known, so it counts as none beside others (--place NAME)"
            ));
        }
        for (left, what) in [
            (added.unknown, "of which no record of yours says anything"),
            (added.doubtful, "that may have changed since they were copied"),
            (added.gone, "that your record has and that are not there"),
        ] {
            if let Some(names) = left.names() {
                let files = count(left.number, "file");
                follower.err(&format!("{path}: left out {files} {what}: {names}"));
                worst[2] = true;
            }
        }
        if added.unusable > 0 {
            let lines = count(added.unusable, "line or list");
            follower.err(&format!("{path}: left out {lines} that cannot be read"));
            worst[1] = true;
        }
    }
    let exits = [Exit::Refused, Exit::Unusable, Exit::Incomplete];
    let exits = exits.into_iter().zip(worst);
    exits.filter(|(_, is_so)| *is_so).map(|(exit, _)| exit).next().unwrap_or(Exit::Complete)
}

/// Adds a tree, of generations the newest, or a list.
fn add_one(job: AddJob, catalog: &Catalog, observer: &EventObserver<'_>) -> Result<Added> {
    let newest = trees_of(&job.path, job.state.as_deref()).into_iter().next();
    if is_empty_disk(&job.path, job.state.as_deref()) == Some(true) {
        let finding = "it is a disk of a span that has no file yet";
        return Err(Error::finding("add to the catalogue", &job.path, finding));
    }
    let newest_is_there =
        look_for_newest(&job.path, job.state.as_deref(), |event| (observer.listen)(event));
    newest_is_there.map_err(|error| error.of_deed("add to the catalogue"))?;
    catalog.add(&AddJob { newest, ..job }, observer)
}

/// Adds what was copied, each complete output by itself, to the catalogue that was asked for; a dry run looks whether
/// it could. Returns the exit of a run with this one.
pub fn add_copied<'r>(
    catalog: Option<&Path>,
    ran: impl Iterator<Item = (&'r CopyJob, &'r Result<Report>)>,
    reporter: &Reporter<'_>,
    stop: &Stop,
    exit: Exit,
) -> Exit {
    let Some(catalog) = catalog else { return exit };
    let has_list = |job: &CopyJob, report: &Report| match job.dry_run {
        true => job.options.algorithm != Algorithm::None,
        false => report.manifest.is_some(),
    };
    let observer = reporter.observer(Arc::default(), stop.clone());
    let add = |job: &CopyJob| {
        if job.dry_run {
            return Catalog::look_at(catalog);
        }
        let (path, state) = (job.output.clone(), job.state.clone());
        let added = AddJob { path, state, ..AddJob::default() };
        add_one(added, &Catalog::open_or_make(catalog, stop)?, &observer).map(drop)
    };
    let complete = ran.filter(|(job, report)| {
        report.as_ref().is_ok_and(|it| matches!(it.ending, Ending::Complete) && has_list(job, it))
    });
    let failed = complete.filter_map(|(job, _)| add(job).err());
    failed.fold(exit, |exit, error| {
        reporter.event(&Event::Warning(&error));
        exit.unwritten()
    })
}

fn find(
    args: &FindArgs,
    catalog: &Catalog,
    names_all: bool,
    follower: &Follower<'_>,
) -> Result<Exit> {
    let mounted = sys::mounted_volumes().unwrap_or_default();
    let mut missing = 0;
    for word in &args.sought {
        let (mut found, mut interrupted) = (0, None);
        for sought in sought(word, catalog, &follower.session.stop)? {
            if found > 0 {
                break;
            }
            catalog.find(&sought, &mut |file| {
                found += 1;
                if found <= MOST_TOLD || names_all {
                    follower.session.console.out(&file_line(file, &mounted));
                }
                interrupted = follower.session.stop.requested();
                interrupted.is_none()
            })?;
        }
        if let Some(stopped) = follower.cut_short(None, interrupted, "there may be more") {
            return Ok(stopped);
        }
        tell_rest(found, names_all, follower);
        if found == 0 {
            let word = Shown::bytes(word.as_encoded_bytes());
            follower.err(&format!("not in the catalogue: {word}"));
            missing += 1;
        }
    }
    Ok(if missing == 0 { Exit::Complete } else { Exit::Untrue })
}

/// What a word may mean; the first that is found counts.
fn sought(word: &OsString, catalog: &Catalog, stop: &Stop) -> Result<Vec<Sought>> {
    let (path, bytes) = (Path::new(word), word.as_encoded_bytes());
    let name = Sought::Name(bytes.to_vec());
    let is_path = bytes.starts_with(b"./") || path.components().count() > 1 && path.is_file();
    if is_path {
        return Ok(vec![Sought::Digests(digests_of(path, catalog, stop)?)]);
    }
    let text = word.to_str().unwrap_or_default();
    let tagged = text.split_once(':').and_then(|(algorithm, digest)| {
        Digest::parse(Algorithm::named(algorithm)?, digest.as_bytes())
    });
    if let Some(digest) = tagged {
        return Ok(vec![Sought::Digests(vec![digest]), name]);
    }
    let is_digest = |bytes: &Vec<u8>| Algorithm::listed().any(|it| it.len() == bytes.len());
    if let Some(bytes) = hex::parse(text.to_lowercase().as_bytes()).filter(is_digest) {
        return Ok(vec![Sought::Bytes(bytes), name]);
    }
    match text.contains(['*', '?', '[']) {
        true => Ok(vec![Sought::Glob(text.to_owned()), name]),
        false => Ok(vec![name]),
    }
}

/// The digests of a file by all algorithms of the catalogue.
fn digests_of(path: &Path, catalog: &Catalog, stop: &Stop) -> Result<Vec<Digest>> {
    let file = File::open(path).deed("open", path)?;
    let (medium, algorithms) = (Medium::any(&file), catalog.algorithms()?);
    let hashed = ReadBack::new().hash_by(medium, algorithms, || stop.is_requested());
    let digests = hashed.deed("read", path)?.and_then(|(_, digests)| digests);
    Ok(digests.iter().flat_map(|digests| digests.iter().copied()).collect())
}

/// Says how many were not named.
fn tell_rest(found: u64, names_all: bool, follower: &Follower<'_>) {
    let more = found.saturating_sub(MOST_TOLD);
    if more > 0 && !names_all {
        let more = count(more, "more file");
        follower.session.console.out(&format!("and {more} (-v names them all)"));
    }
}

/// Where a file is, on a line.
fn file_line(file: &CataloguedFile, mounted: &[MountedVolume]) -> String {
    let (place, path) = (Shown::bytes(file.place.as_bytes()), Shown::bytes(&file.path));
    let size = file.size.and_then(|size| u64::try_from(size).ok());
    let size = size.map(|size| format!("{}, ", format_size(size, BINARY))).unwrap_or_default();
    let verified = match file.verified.and_then(day) {
        Some(day) => format!("{} {day}", file.proof),
        None => file.proof.to_owned(),
    };
    let whereabouts = whereabouts(file.uuid.as_deref(), file.mount.as_deref(), file.seen, mounted);
    format!("{place}: {path} ({size}{verified}; {whereabouts})")
}

/// Where a place is mounted now, or was last.
fn whereabouts(
    uuid: Option<&str>,
    mount: Option<&[u8]>,
    seen: Option<i64>,
    mounted: &[MountedVolume],
) -> String {
    let now = mounted.iter().find(|volume| uuid.is_some() && volume.uuid.as_deref() == uuid);
    match (now, mount) {
        (Some(volume), _) => format!("mounted at {}", Shown::path(&volume.point)),
        (None, Some(mount)) => {
            let day = seen.and_then(day).map(|day| format!(" on {day}")).unwrap_or_default();
            format!("was at {}{day}", Shown::bytes(mount))
        }
        (None, None) => "by a list".into(),
    }
}

fn day(seconds: i64) -> Option<String> {
    Some(Timestamp::from_second(seconds).ok()?.strftime("%Y-%m-%d").to_string())
}

fn status(
    args: &StatusArgs,
    catalog: &Catalog,
    names_all: bool,
    follower: &Follower<'_>,
) -> Result<Exit> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let usual = i64::try_from(now.saturating_sub(LONG)).unwrap_or(0);
    let since = args.not_since.map_or(usual, i64::from);
    let copies = count(args.copies.into(), "place");
    let mut told = 0;
    let status = follower.run(|observer| {
        catalog.status(args.copies.into(), since, &observer.stop, &mut |file, at| {
            told += 1;
            let (place, path) = (Shown::bytes(file.place.as_bytes()), Shown::bytes(&file.path));
            let line = format!("at {at} of {copies}: {path} ({place})");
            follower.session.console.out(&line);
            told < MOST_TOLD || names_all
        })
    })?;
    if let Some(stopped) = follower.cut_short(None, status.interrupted, "not all was looked at") {
        return Ok(stopped);
    }
    tell_rest(status.lacking, names_all, follower);
    let mounted = sys::mounted_volumes().unwrap_or_default();
    let since = day(since).unwrap_or_default();
    status.places.iter().for_each(|place| follower.say(&place_line(place, &since, &mounted)));
    Ok(verdict(&status, &copies, &since, &mounted, follower))
}

fn place_line(place: &PlaceStatus, since: &str, mounted: &[MountedVolume]) -> String {
    let mut told = vec![count(place.files, "file")];
    for (files, what) in [
        (place.lacking, "at too few places".to_owned()),
        (place.stale, format!("not known to be verified since {since}")),
        (place.untold, "without a digest that tells contents apart".to_owned()),
    ] {
        if files > 0 {
            told.push(format!("{files} {what}"));
        }
    }
    told.extend(place.oldest.and_then(day).map(|day| format!("all verified {day} or later")));
    told.push(whereabouts_of(place, mounted));
    format!("{}: {}", Shown::bytes(place.name.as_bytes()), told.join("; "))
}

fn whereabouts_of(place: &PlaceStatus, mounted: &[MountedVolume]) -> String {
    whereabouts(place.uuid.as_deref(), place.mount.as_deref(), place.seen, mounted)
}

/// The exit, and the last lines.
fn verdict(
    status: &CatalogStatus,
    copies: &str,
    since: &str,
    mounted: &[MountedVolume],
    follower: &Follower<'_>,
) -> Exit {
    let stale: u64 = status.places.iter().map(|place| place.stale).sum();
    let contents = count(status.contents, "content");
    if status.lacking + stale == 0 {
        follower.say(&format!("{contents}, each at {copies} or more, verified since {since}"));
        return Exit::Complete;
    }
    if let Some(next) = status.places.iter().max_by_key(|place| place.wants()) {
        let name = Shown::bytes(next.name.as_bytes());
        follower.say(&format!("fetch next: {name} ({})", whereabouts_of(next, mounted)));
    }
    follower.err(&format!(
        "{} of {contents} at fewer than {copies}; {} not known to be verified since {since}",
        status.lacking,
        count(stale, "file")
    ));
    Exit::Untrue
}

fn forget(args: &PlacesArgs, catalog: &Catalog, follower: &Follower<'_>) -> Result<Exit> {
    for place in &args.places {
        let shown = Shown::bytes(place.as_bytes());
        if !catalog.forget(place)? {
            return Err(no_place(place));
        }
        follower.say(&format!("forgotten: {shown}"));
    }
    if args.places.is_empty() {
        return Err(Error::finding("forget", "a place", "name it, as dircopy catalog status does"));
    }
    Ok(Exit::Complete)
}

fn no_place(place: &str) -> Error {
    Error::finding("find the place", place, "the catalogue has none of this name or UUID")
}

/// A file, as a program reads it.
#[derive(Serialize)]
struct ExportedFile<'a> {
    place: &'a str,
    uuid: Option<&'a str>,
    #[serde(flatten)]
    path: JsonName,
    size: Option<i64>,
    algorithm: Option<&'a str>,
    digest: Option<String>,
    verified: Option<String>,
    proof: &'a str,
}

fn export(args: &PlacesArgs, catalog: &Catalog, follower: &Follower<'_>) -> Result<Exit> {
    let (console, stop) = (&follower.session.console, &follower.session.stop);
    let each = |place: Option<&str>| {
        let mut files = 0_u64;
        let exported = catalog.each(place, &mut |file| {
            files += 1;
            let verified = file.verified.and_then(|it| Timestamp::from_second(it).ok());
            console.out(&log::line(&ExportedFile {
                place: &file.place,
                uuid: file.uuid.as_deref(),
                path: JsonName::bytes(&file.path),
                size: file.size,
                algorithm: file.algorithm.as_deref(),
                digest: file.digest.as_deref().map(hex::text),
                verified: verified.map(stamp),
                proof: file.proof,
            }));
            !stop.is_requested() && console.all_written()
        });
        exported.map(|()| files)
    };
    match args.places.is_empty() {
        true => drop(each(None)?),
        false => {
            for place in &args.places {
                if each(Some(place))? == 0 {
                    return Err(no_place(place));
                }
            }
        }
    }
    let stopped = follower.cut_short(None, stop.requested(), "not all was exported");
    Ok(stopped.unwrap_or(Exit::Complete))
}
