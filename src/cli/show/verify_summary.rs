//! The closing summary of a check: what was found, where the bytes came from, how it ended.

use jiff::Timestamp;

use crate::cli::show::rows::{Rows, size};
use crate::verify::{Coverage, VerifyReport};

/// The summary of a check, without the last line's end.
pub fn summary(report: &VerifyReport) -> String {
    let counts = &report.counts;
    let read = counts.from_device + counts.from_cache;
    let mut rows = Rows::new(12);
    rows.row("checked", format_args!("{read} files, {}", size(counts.bytes)));
    rows.counted(&[
        ("good", counts.good, "as listed"),
        ("differ", counts.differ, "files"),
        ("missing", counts.missing, "listed files that are not there as regular files"),
        ("unreadable", counts.unreadable, "files"),
        ("repairable", counts.repairable, "names of bad files that are good in another directory"),
        ("contradicted", counts.contradicted, "names that are listed with two digests"),
        ("not listed", counts.unlisted, "files"),
        ("malformed", counts.malformed, "lines"),
        ("refused", counts.refused, "names that lead out of the directory"),
        ("repeated", counts.repeated, "lines of names that were listed before"),
        ("converted", counts.converted, "names with \"\\\" taken for \"/\""),
        ("unusable", counts.unusable + counts.empty, "manifests or directories"),
    ]);
    if read > 0 {
        let device = format!("{} from the device", counts.from_device);
        rows.row("read", format_args!("{device}, {} only through a cache", counts.from_cache));
    }
    if let Some(Coverage { listed, now, never, oldest }) = report.covered {
        let oldest =
            oldest.map_or_else(String::new, |oldest| format!(", the oldest {}", day(oldest)));
        let left = format!("{never} of {listed} files not verified yet{oldest}");
        rows.row("portion", format_args!("{now} files verified; {left}"));
    }
    rows.time(report.elapsed, counts.bytes);
    rows.ending(ending(report))
}

/// A time in UTC, as a day.
fn day(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|time| Timestamp::from_second(time).ok());
    time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d").to_string())
}

fn ending(report: &VerifyReport) -> &'static str {
    let counts = &report.counts;
    if report.interrupted.is_some() {
        "INTERRUPTED: not everything was checked"
    } else if counts.is_untrue() {
        "FAILED: the files are not as listed"
    } else if counts.is_unusable() {
        "NOT PROVEN: there is no manifest that could be read whole"
    } else if counts.is_incomplete() {
        "NOT PROVEN: not everything could be read"
    } else {
        match report.covered {
            Some(_) => "good: every file of this portion is as listed",
            None => "good: every listed file is as listed",
        }
    }
}
