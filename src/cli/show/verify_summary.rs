//! The closing summary of a check: what was found, where the bytes came from, how it ended.

use jiff::Timestamp;

use crate::cli::exit::Exit;
use crate::cli::show::line::count;
use crate::cli::show::rows::{Counted, Rows, files, size, time, warn};
use crate::verify::{Coverage, ShardCoverage, VerifyReport};

/// The rows of the summary.
pub fn summary(report: &VerifyReport) -> Rows {
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
        Counted(
            "repairable",
            counts.repairable,
            "bad file",
            "with a good copy in another directory",
        ),
        Counted("healable", counts.healable, "bad file", "that could be made whole"),
        Counted("not healed", counts.not_healed, "bad file", ""),
        Counted("conflict", counts.conflicting, "name", "listed with different digests"),
        Counted("contradicted", counts.contradicted, "name", "listed with two digests"),
        Counted("not listed", counts.unlisted, "file", ""),
        Counted("malformed", counts.malformed, "line", ""),
        Counted("refused", counts.refused, "name", "outside the directory"),
        Counted("repeated", counts.repeated, "line", "for a name that was listed before"),
        Counted("converted", counts.converted, "name", "found under another spelling"),
        Counted("empty", counts.empty, "manifest", "that lists no file that can be checked"),
        Counted("unusable", counts.unusable, "place", "without a manifest that could be used"),
    ]);
    if read > 0 {
        let device = format!("{} from the device", counts.from_device);
        rows.row("read", format!("{device}, {} only through a cache", counts.from_cache));
    }
    if counts.shared > 0 {
        rows.row("shared", format!("{}, {shared}", count(counts.shared, "file")));
    }
    if counts.states_made > 0 {
        rows.row("states", format!("made of {}", count(counts.states_made, "file")));
    }
    if let Some(Coverage { listed, now, never, oldest }) = report.covered {
        let oldest =
            oldest.map_or_else(String::new, |oldest| format!(", the oldest {}", day(oldest)));
        let left = format!("{never} of {} not verified yet{oldest}", count(listed, "file"));
        rows.row("scrub", format!("{} verified; {left}", count(now, "file")));
    }
    if let Some(ShardCoverage { index, of, lines, began, ended }) = report.shard {
        rows.row(
            "shard",
            match index {
                Some(index) => format!("{index}/{of}: {}", count(lines, "line")),
                None => {
                    let all = format!("{} in {}", count(lines, "line"), count(of.into(), "shard"));
                    if lines == 0 {
                        all
                    } else {
                        format!("{all}, checked from {} to {}", minute(began), minute(ended))
                    }
                }
            },
        );
    }
    rows.row("time", time(report.elapsed, if reads { counts.bytes } else { 0 }));
    rows
}

/// The last line: the verdict over every directory, of a check that ends with `exit`. `amiss` says what was at its
/// end, if nothing else.
pub fn verdict(report: &VerifyReport, exit: Exit, amiss: &str) -> String {
    let counts = &report.counts;
    let (title, text) = if report.interrupted.is_some() {
        ("INTERRUPTED", "not everything was checked")
    } else if counts.is_untrue() {
        ("FAILED", "the files are not as listed")
    } else if counts.is_empty() {
        let title = if counts.good == 0 { "NOTHING TO VERIFY" } else { "NOT PROVEN" };
        (title, "a manifest lists no file that can be checked")
    } else if counts.is_unusable() {
        ("NOT PROVEN", "there is no manifest that could be read whole")
    } else if counts.is_incomplete() {
        match report.shard {
            Some(ShardCoverage { index: None, .. }) => ("NOT PROVEN", "not every shard counts"),
            _ if counts.unreadable + counts.broken == 0 => {
                ("NOT PROVEN", "not every listed file has a digest that can be checked")
            }
            _ => ("NOT PROVEN", "not everything could be read"),
        }
    } else if exit != Exit::Complete {
        return warn("NOT COMPLETE", exit, &format!("every file is as listed, but {amiss}"));
    } else {
        return match (report.covered, report.shard) {
            (None, None) if counts.unhashed > 0 => format!(
                "good: every listed file is as listed, but {} no digest that can be checked",
                match counts.unhashed {
                    1 => "1 line has".to_owned(),
                    lines => format!("{lines} lines have"),
                }
            ),
            (Some(_), _) => "good: every file of this pass is as listed".into(),
            (None, Some(ShardCoverage { index: Some(index), of, .. })) => {
                format!("good: every file of shard {index}/{of} is as listed; --merge proves all")
            }
            (None, _) => "good: every listed file is as listed".into(),
        };
    };
    warn(title, exit, text)
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
