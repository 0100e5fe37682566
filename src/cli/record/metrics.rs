//! Metrics of the last run as a text file for Prometheus.
//!
//! node_exporter's textfile collector reads such files (`*.prom`) from a directory. The format is
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>. Everything is a gauge: it tells of
//! one run, not of all runs together.

use std::fmt::Write;

use crate::{
    cli::record::report::outcome_name, copy::Report, stream::StreamReport, sys::Durable,
    verify::Coverage, verify::CoveredReport, verify::VerifyReport,
};

/// A file of metrics.
pub struct MetricsFile<'a> {
    /// The prefix of all metric names.
    pub prefix: &'static str,
    /// The label that tells two jobs apart.
    pub label: &'static str,
    /// When the run started and ended, in seconds since 1970.
    pub started: f64,
    pub ended: f64,
    /// Duration of the run; seconds.
    pub elapsed: f64,
    /// For each value of the label.
    pub rows: Vec<MetricsRow>,
    /// The present content of the file.
    pub before: &'a [u8],
}

/// A metric with one value of the label.
#[derive(Default)]
pub struct MetricsRow {
    pub label: String,
    pub exit_code: u8,
    /// Number of files by fate.
    pub files: Vec<(&'static str, u64)>,
    pub bytes: Vec<(&'static str, u64)>,
    /// Number of files that were as expected, and of those that were not, by kind.
    pub expected: Vec<(&'static str, u64)>,
    /// The word of who keeps what was synced.
    pub durable: Option<&'static str>,
    /// The part that a scrub covered.
    pub covered: Option<Coverage>,
}

/// Values of a metric, by fate if there are several.
type Samples = Vec<(Option<&'static str>, f64)>;

/// The metric whose value outlives a run.
const LAST_SUCCESS: &str = "last_success_timestamp_seconds";

impl MetricsFile<'_> {
    pub fn text(&self) -> String {
        let mut text = String::new();
        let name = |name: &str| format!("{}_{name}", self.prefix);
        let label = |row: &MetricsRow| format!("{}=\"{}\"", self.label, escaped(&row.label));
        let mut gauge = |metric: &str, help: &str, samples: &dyn Fn(&MetricsRow) -> Samples| {
            let metric = name(metric);
            let mut lines = String::new();
            for row in &self.rows {
                for (fate, value) in samples(row) {
                    let fate = fate.map_or(String::new(), |fate| format!(",fate=\"{fate}\""));
                    // Writing to a string does not fail.
                    let _ = writeln!(lines, "{metric}{{{}{fate}}} {value}", label(row));
                }
            }
            if !lines.is_empty() {
                let _ = write!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge\n{lines}");
            }
        };
        let success = |row: &MetricsRow| match row.exit_code {
            0 => self.ended,
            _ => self.last_success(&format!("{}{{{}}}", name(LAST_SUCCESS), label(row))),
        };
        let all = |counts: &[(&'static str, u64)]| -> Samples {
            counts.iter().map(|(fate, count)| (Some(*fate), *count as f64)).collect()
        };
        gauge("start_timestamp_seconds", "When the last run started.", &|_| {
            vec![(None, self.started)]
        });
        gauge("end_timestamp_seconds", "When the last run ended.", &|_| vec![(None, self.ended)]);
        gauge(
            LAST_SUCCESS,
            "When the last run ended that did everything it was asked for (exit code 0); 0 if none did.",
            &|row| vec![(None, success(row))],
        );
        gauge("duration_seconds", "How long the last run took.", &|_| vec![(None, self.elapsed)]);
        gauge("exit_code", "The exit code of the last run.", &|row| {
            vec![(None, row.exit_code.into())]
        });
        gauge("files", "Files and links of the last run, by what became of them.", &|row| {
            all(&row.files)
        });
        gauge(
            "expected_files",
            "Files of the manifest that the source was held against, by what was found.",
            &|row| all(&row.expected),
        );
        gauge("portion_files", "Listed files by what portions did with them.", &|row| {
            row.covered.map_or_else(Vec::new, |Coverage { listed, now, never, .. }| {
                all(&[("verified_now", now), ("not_verified", never), ("listed", listed)])
            })
        });
        gauge(
            "oldest_verification_timestamp_seconds",
            "When the file was verified that was not for the longest time; 0 if one never was.",
            &|row| {
                let oldest = row.covered.map(|covered| covered.oldest.unwrap_or(0) as f64);
                oldest.map(|oldest| (None, oldest)).into_iter().collect()
            },
        );
        gauge("durable", "Who keeps what the last run synced.", &|row| {
            row.durable.map(|word| (Some(word), 1.0)).into_iter().collect()
        });
        gauge("bytes", "Bytes of the files of the last run.", &|row| all(&row.bytes));
        text
    }

    /// The value of a sample in the file that is there; 0 if it has none.
    fn last_success(&self, sample: &str) -> f64 {
        let before = String::from_utf8_lossy(self.before);
        let value = before.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok());
        value.filter(|value: &f64| value.is_finite()).unwrap_or(0.0)
    }
}

/// The figures of a copy to an output: files and bytes by their outcome, files of the expected manifest by how the
/// source compares, and who keeps what was synced.
pub fn copied(report: &Report) -> MetricsRow {
    let counts = &report.counts;
    let mut row = MetricsRow {
        files: vec![
            ("copied", counts.copied),
            ("replaced", counts.replaced),
            ("hard_linked", counts.linked),
            ("linked", counts.symlinks),
            ("special", counts.specials),
            ("kept", counts.unchanged),
            ("left", counts.left),
            ("failed", counts.failed),
            ("skipped", counts.skipped),
            ("departed", counts.departed),
            ("not_departed", counts.not_departed),
            ("closed", counts.closed),
            ("foreign", counts.foreign),
        ],
        bytes: vec![
            ("copied", counts.bytes),
            ("kept", counts.unchanged_bytes),
            ("departed", counts.departed_bytes),
        ],
        durable: Some(report.durable.map_or("not-synced", Durable::word)),
        ..MetricsRow::default()
    };
    if report.expected {
        row.expected = vec![
            ("as_expected", counts.as_expected),
            ("edited", counts.edited),
            ("rotten", counts.rotten),
            ("decayed", counts.decayed),
            ("gone", counts.gone),
            ("unusable_lines", counts.unusable_lines),
            ("unlisted", counts.unlisted),
        ];
    }
    row
}

/// Outputs of a stream by their outcome, and its bytes.
pub fn passed(report: &StreamReport) -> MetricsRow {
    let count = |name| {
        let fates = report.outputs.iter().map(|(_, fate)| outcome_name(fate));
        (name, fates.filter(|fate| *fate == name).count() as u64)
    };
    let names = ["copied", "replaced", "passed", "left", "failed", "closed", "given-up"];
    let (files, bytes) = (names.map(count).to_vec(), vec![("read", report.bytes)]);
    MetricsRow { files, bytes, ..MetricsRow::default() }
}

/// The figures of a check.
pub fn checked(report: &VerifyReport) -> MetricsRow {
    let counts = &report.counts;
    MetricsRow {
        files: vec![
            ("good", counts.good),
            ("differ", counts.differ),
            ("missing", counts.missing + counts.incomplete),
            ("unreadable", counts.unreadable),
            ("not_listed", counts.unlisted),
        ],
        bytes: vec![("read", counts.bytes)],
        covered: report.covered,
        ..MetricsRow::default()
    }
}

/// The figures of an answer to whether a source may be erased.
pub fn covered(report: &CoveredReport) -> MetricsRow {
    let CoveredReport { files, covered, failed, bytes, .. } = *report;
    MetricsRow {
        files: vec![("covered", covered), ("not_covered", files - covered), ("failed", failed)],
        bytes: vec![("read", bytes)],
        ..MetricsRow::default()
    }
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(exit_code: u8, before: &str) -> String {
        let figures = MetricsFile {
            prefix: "dircopy",
            label: "output",
            started: 1.5,
            ended: 2_000_000_000.25,
            elapsed: 3.0,
            rows: vec![MetricsRow {
                label: "/a\"b\\\n".into(),
                exit_code,
                files: vec![("copied", 7)],
                bytes: vec![("copied", 1 << 40)],
                ..MetricsRow::default()
            }],
            before: before.as_bytes(),
        };
        figures.text()
    }

    #[test]
    fn the_last_success_is_kept() {
        let label = r#"{output="/a\"b\\\n"}"#;
        let success = |value: &str| format!("dircopy_{LAST_SUCCESS}{label} {value}\n");
        let good = figures(0, "");
        assert!(good.contains(&success("2000000000.25")), "{good}");
        assert!(figures(1, &good).contains(&success("2000000000.25")));
        assert!(figures(1, &figures(1, &good)).contains(&success("2000000000.25")));
        assert!(figures(1, "").contains(&success("0")));
        assert!(figures(1, &success("banana")).contains(&success("0")));
        assert!(good.contains("dircopy_files{output=\"/a\\\"b\\\\\\n\",fate=\"copied\"} 7\n"));
    }
}
