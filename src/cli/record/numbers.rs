//! What is counted of a run, by name: for the figures.

use crate::cli::record::records::Ran;
use crate::cli::record::report::fate_name;
use crate::copy::report::Report;
use crate::error::Result;
use crate::verify::VerifyReport;

/// Files, or outputs of a stream, and bytes by what became of them.
pub type Numbers = (Vec<(&'static str, u64)>, Vec<(&'static str, u64)>);

/// Files and bytes of a copy by what became of them.
pub fn copied(ran: &Result<Report>) -> Numbers {
    let Ok(Report { counts, .. }) = ran else { return Numbers::default() };
    (
        vec![
            ("copied", counts.copied),
            ("replaced", counts.replaced),
            ("hard_linked", counts.linked),
            ("linked", counts.symlinks),
            ("kept", counts.kept),
            ("left", counts.left),
            ("failed", counts.failed),
            ("skipped", counts.skipped),
        ],
        vec![("copied", counts.bytes), ("kept", counts.kept_bytes)],
    )
}

/// Outputs of a stream by what became of them, and its bytes.
pub fn passed(ran: &Ran<'_>) -> Numbers {
    let Ran::Streamed(report) = ran else { return Numbers::default() };
    let count = |name| {
        let fates = report.outputs.iter().map(|(_, fate)| fate_name(fate));
        (name, fates.filter(|fate| *fate == name).count() as u64)
    };
    let names = ["copied", "replaced", "passed", "left", "failed", "closed", "given-up"];
    (names.map(count).to_vec(), vec![("read", report.bytes)])
}

/// Files of the manifest that the source was held against, by what was found.
pub fn expected(ran: &Result<Report>) -> Vec<(&'static str, u64)> {
    match ran {
        Ok(Report { counts, expected: true, .. }) => vec![
            ("as_expected", counts.as_expected),
            ("edited", counts.edited),
            ("rotten", counts.rotten),
            ("gone", counts.gone),
            ("unusable_lines", counts.unusable_lines),
        ],
        _ => Vec::new(),
    }
}

/// The same of a check.
pub fn checked(ran: &Ran<'_>) -> Numbers {
    let Ran::Checked(VerifyReport { counts, .. }) = ran else { return Numbers::default() };
    (
        vec![
            ("good", counts.good),
            ("differ", counts.differ),
            ("missing", counts.missing),
            ("unreadable", counts.unreadable),
            ("not_listed", counts.unlisted),
        ],
        vec![("read", counts.bytes)],
    )
}
