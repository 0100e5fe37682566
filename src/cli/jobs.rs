//! `dircopy jobs check` says what a job would run and what is in its way; `dircopy jobs list` lists the
//! jobs. Both touch nothing.

use std::thread::{Builder, Scope};
use std::{ffi::OsStr, path::Path, sync::Arc, time::Duration, time::Instant};

use clap::{ArgAction, ArgMatches, parser::ValueSource};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned, civil::Time, tz::TimeZone};

use crate::{
    catalog::Catalog, cli::args, cli::args::job_file, cli::args::job_file::JobFile,
    cli::args::job_file::is_key, cli::copy::read_names, cli::exit::Exit, cli::exit::TIME_IS_UP,
    cli::invocation::CopyInvocation, cli::progress::snapshot::Tracker, cli::record::log,
    cli::record::task::Task, cli::show::Console, cli::show::Detail, cli::show::rows::typed,
    cli::span::look_at_span, copy::CopyJob, copy::run::outputs::check_all, error::Error,
    event::Progress, event::Stop, path::Shown, state::PrivateDir, sys::Manager,
};

/// Lists the jobs that `--job` finds by name.
pub fn list(console: &Console) -> Exit {
    let (jobs, errors) = job_file::list();
    for (name, path) in &jobs {
        console.out(&format!(
            "{:<20} {}",
            Shown::path(Path::new(name)).to_string(),
            Shown::path(path)
        ));
    }
    if jobs.is_empty() && errors.is_empty() {
        let places = job_file::directories();
        let places: Vec<_> = places.iter().map(|dir| Shown::path(dir).to_string()).collect();
        console
            .err(&format!("dircopy: there are no jobs: no NAME.toml in {}", places.join(" or ")));
    }
    for error in &errors {
        console.err(&format!("dircopy: {error}"));
    }
    if errors.is_empty() && console.all_written() { Exit::Complete } else { Exit::Incomplete }
}

/// Says what a job would run. `matches` are its options alone.
pub fn check(
    file: &JobFile,
    invocation: &CopyInvocation,
    matches: &ArgMatches,
    console: &Console,
) -> Exit {
    console.out(&format!("# {}", Shown::path(&file.path)));
    let (mut set, mut defaults) = (Vec::new(), Vec::new());
    for option in args::dircopy().get_arguments().filter(|option| is_key(option)) {
        let (id, Some(long)) = (option.get_id().as_str(), option.get_long()) else { continue };
        let value = |value: &OsStr| match option.get_action() {
            ArgAction::SetTrue => value.to_string_lossy().into_owned(),
            _ => text(value),
        };
        let values: Vec<String> = matches.get_raw(id).into_iter().flatten().map(value).collect();
        let line = match &*values {
            [] => continue,
            [value] => format!("{long} = {value}"),
            values => format!("{long} = [{}]", values.join(", ")),
        };
        match matches.value_source(id) {
            Some(ValueSource::DefaultValue) if values == ["false"] => {}
            Some(ValueSource::DefaultValue) => defaults.push(line),
            // In the order of the file, which counts for filters.
            _ => set.push((matches.index_of(id), line)),
        }
    }
    set.sort();
    set.iter().for_each(|(_, line)| console.out(line));
    if !defaults.is_empty() {
        console.out_wrapped(&format!("# by default: {}", defaults.join(", ")), "#   ");
    }
    for (given, job) in invocation.given.iter().zip(&invocation.jobs) {
        if *given != job.output {
            let [given, now] = [given, &job.output].map(|path| Shown::path(path).to_string());
            console.out(&format!("# now {given} is {now}"));
        }
    }
    let problems = problems(invocation);
    for problem in &problems {
        console.err(&format!("dircopy: {problem}"));
    }
    if problems.is_empty() {
        // Whether there is room takes a walk of the source.
        let way = match invocation.args.expect.is_some() || invocation.stream.is_some() {
            // These have no dry run.
            true => "shows when it runs".to_owned(),
            false => {
                format!("says a dry run: dircopy --job {} --dry-run", typed(&file.path))
            }
        };
        console.out(&format!("# nothing is in its way; whether there is room {way}"));
    }
    if problems.is_empty() && console.all_written() { Exit::Complete } else { Exit::Incomplete }
}

/// A value as TOML has it, which has strings as JSON does.
fn text(value: &OsStr) -> String {
    log::line(&value.to_string_lossy())
}

/// Obstacles to the job, and differences between a run of it from here and elsewhere.
fn problems(invocation: &CopyInvocation) -> Vec<String> {
    let CopyInvocation { args, jobs, given, unknown, stream, .. } = invocation;
    let records = &args.unattended.records;
    let names = args.files_from.as_deref().filter(|path| *path != Path::new("-"));
    let names = names.map(|path| read_names(path, args.null)).transpose();
    // An output that is unknown cannot be looked at.
    let known = jobs.iter().zip(unknown).filter(|(_, unknown)| unknown.is_none());
    let named = names.as_ref().ok().cloned().flatten();
    let known = known.map(|(job, _)| CopyJob { names: named.clone(), ..job.clone() });
    let known: Vec<CopyJob> = known.collect();
    let (task, refused) = match stream {
        Some(stream) => {
            let task = Task::Stream { inputs: &stream.inputs, outputs: &stream.outputs, given };
            (task, stream.check().err().into_iter().collect())
        }
        None => {
            let source = jobs.first().map_or(Path::new(""), |job| &job.source);
            let task = Task::Copy { source, outputs: &args.output, given, dry_run: false };
            let mut refused = check_all(&known);
            if args.span && refused.is_empty() {
                refused.extend(look_at_span(jobs, given, unknown).err());
            }
            (task, refused)
        }
    };
    let mut problems = refused;
    problems.extend(names.err());
    // Of an output that is known that was looked at.
    let is_looked_at = stream.is_none() && !known.is_empty();
    let state = args.unattended.state.as_deref().filter(|_| !is_looked_at);
    problems.extend(PrivateDir::look_for(state).err());
    problems.extend(args.catalog.as_deref().and_then(|path| Catalog::look_at(path).err()));
    let copies = if stream.is_none() { &*known } else { &[] };
    problems.extend(args.record_options(copies, None, Detail::Normal).problems(&task));
    let paths = [records.metrics.as_deref(), records.log.as_deref()].into_iter().flatten();
    let paths = paths.chain(records.report.iter().map(|path| &**path));
    let outputs = known.iter().map(|job| &job.output);
    let ends = args.input.iter().chain(outputs).map(|end| &**end);
    let ends = ends.filter(|end| *end != Path::new("-"));
    let relative = ends.chain(paths).filter(|path| path.is_relative());
    problems.extend(relative.map(|path| {
        let finding = "it is relative, so it depends on where the job is started";
        Error::finding("rely on", path, finding)
    }));
    unknown.iter().flatten().chain(&problems).map(Error::to_string).collect()
}

// Status messages to the service manager: how far a run is, and how it ended. systemd shows them in
// `systemctl status`.

/// The interval of status messages: as often as an administrator looks.
const OFTEN: Duration = Duration::from_secs(2);

/// The service manager, if one started the program and asks for status messages.
#[derive(Default)]
pub struct Service(Option<Manager>);

impl Service {
    /// The service manager that the environment names.
    pub fn find() -> Self {
        Self(Manager::find())
    }

    /// Reports how far the run is, in a thread of its own, until the other end of `done` is dropped. Without
    /// a thread the run goes on unreported.
    pub fn report_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        names: &'scope [String],
        progress: &'scope [Arc<Progress>],
        stop: &'scope Stop,
        done: Receiver<()>,
    ) {
        let Some(manager) = &self.0 else { return };
        manager.tell("READY=1\nSTATUS=begun");
        let mut tracker = Tracker::new(names, progress);
        let tell = move || {
            while done.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                let line = tracker.look().line();
                if stop.is_requested() {
                    manager.tell(&format!("STOPPING=1\nSTATUS=ending: {line}"));
                } else {
                    manager.tell(&format!("STATUS={line}"));
                }
            }
        };
        let _ = Builder::new().name("status".into()).spawn_scoped(scope, tell);
    }

    /// Reports how the run ended.
    pub fn report_end(&self, exit: Exit) {
        let Some(manager) = &self.0 else { return };
        let (name, code) = (exit.name(), exit.code());
        manager.tell(&format!("STOPPING=1\nSTATUS=ended: {name}, exit code {code}"));
    }
}

// When a run is to end by itself.

/// Time between two looks at the clock: it may be set, and the machine may sleep.
const LOOK: Duration = Duration::from_secs(1);

/// When a run is to end.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    /// At the latest then, by this machine's running time.
    after: Option<Instant>,
    /// At the latest then, by the clock.
    at: Option<Timestamp>,
    /// Time after that when files in hand are given up too.
    grace: Duration,
}

impl Deadline {
    /// A stop so long after now, or when the clock shows `at`, whichever comes first, with `grace` for the files that
    /// are in hand then.
    pub fn new(after: Option<Duration>, at: Option<Timestamp>, grace: Duration) -> Self {
        // What is too far away to be told as a time never comes.
        Self { after: after.and_then(|after| Instant::now().checked_add(after)), at, grace }
    }

    /// True if there is any.
    pub fn is_set(&self) -> bool {
        self.after.is_some() || self.at.is_some()
    }

    /// Winds the run up when it is time, and stops it when the grace is over too. Both are told first. Returns
    /// when the run ends: then the other end of `done` is dropped.
    pub fn watch(&self, stop: &Stop, done: &Receiver<()>, tell: impl Fn(&str)) {
        let is_over_within = |wait| done.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        loop {
            let left = self.left();
            if left.is_zero() {
                break;
            }
            if is_over_within(left.min(LOOK)) {
                return;
            }
        }
        tell("the time is up: finishing the files in hand");
        stop.wind_up(TIME_IS_UP);
        if !is_over_within(self.grace) {
            tell("the grace is over too: giving up the files in hand");
            stop.request(TIME_IS_UP);
        }
    }

    fn left(&self) -> Duration {
        let after = self.after.map(|after| after.saturating_duration_since(Instant::now()));
        let by_clock = |at: Timestamp| {
            Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
        };
        after.into_iter().chain(self.at.map(by_clock)).min().unwrap_or(Duration::MAX)
    }
}

/// Reads a duration: `90s`, `45m`, `8h`, `1h30m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration such as 90s, 45m, 8h or 1h30m".to_owned();
    let duration: SignedDuration = text.parse().map_err(|_| expected())?;
    match Duration::try_from(duration) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(expected()),
    }
}

/// Reads a time of the day, `HH:MM`, and says when the local clock shows it next. Where no time zone is
/// configured, as in a container, it is UTC.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let zone = match log::time_zone() {
        Ok(zone) => zone,
        Err(_) if std::env::var_os("TZ").is_none() => TimeZone::UTC,
        Err(error) => {
            let rule = "give TZ a name that is known here, or a rule: CET-1CEST,M3.5.0,M10.5.0/3";
            return Err(format!("cannot tell the local time ({error}); {rule}"));
        }
    };
    next(text, &Timestamp::now().to_zoned(zone))
}

fn next(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let expected = || "expected a time of the day such as 06:30".to_owned();
    let digits = |at: std::ops::Range<usize>| {
        let digits = text.get(at).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|digits| digits.parse::<i8>().ok()).ok_or_else(expected)
    };
    if text.len() != 5 || text.as_bytes()[2] != b':' {
        return Err(expected());
    }
    let time = Time::new(digits(0..2)?, digits(3..5)?, 0, 0).map_err(|_| expected())?;
    let on = |date: jiff::civil::Date| {
        let at = date.to_datetime(time).to_zoned(now.time_zone().clone());
        at.map_err(|error| error.to_string())
    };
    let today = on(now.date())?;
    if today > *now {
        return Ok(today.timestamp());
    }
    let tomorrow = now.date().checked_add(1.day()).map_err(|error| error.to_string())?;
    Ok(on(tomorrow)?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_the_clock_shows_it() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let at = |now: &str, time: &str| {
            let now: Timestamp = now.parse().unwrap();
            next(time, &now.to_zoned(zone.clone())).map(|at| at.to_string())
        };
        let good = |time: &str| Ok(time.to_owned());
        assert_eq!(at("2026-01-10T22:00:00Z", "06:30"), good("2026-01-11T05:30:00Z"));
        assert_eq!(at("2026-01-10T02:00:00Z", "06:30"), good("2026-01-10T05:30:00Z"));
        assert_eq!(at("2026-01-10T05:30:00Z", "06:30"), good("2026-01-11T05:30:00Z"));
        // The clock goes on from 02:00 to 03:00 on the 29th, and is back at 02:00 in October.
        assert_eq!(at("2026-03-28T23:30:00Z", "02:30"), good("2026-03-29T01:30:00Z"));
        assert_eq!(at("2026-03-28T22:30:00Z", "06:00"), good("2026-03-29T04:00:00Z"));
        for wrong in [
            "",
            "6:30",
            "24:00",
            "06:60",
            "0630",
            "06:30:00",
            "ab:cd",
            "-1:30",
            "+6:30",
            "06:3\u{e9}",
        ] {
            assert!(at("2026-01-10T22:00:00Z", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        for (text, seconds) in
            [("90s", 90), ("45m", 2700), ("8h", 28_800), ("1h30m", 5400), ("2h 5m", 7500)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "8", "0s", "-1h", "banana", "8x"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_runs_out() {
        let (stop, (_running, done)) = (Stop::default(), crossbeam_channel::bounded(0));
        let told = std::cell::Cell::new(0);
        let tell = |_: &str| {
            told.set(told.get() + 1);
            assert!(stop.is_requested() == (told.get() == 2) && !stop.is_urgent());
        };
        let soon = Duration::from_millis(10);
        Deadline::new(Some(soon), None, soon).watch(&stop, &done, tell);
        assert!(told.get() == 2 && stop.requested() == Some(TIME_IS_UP) && stop.is_urgent());
    }
}
