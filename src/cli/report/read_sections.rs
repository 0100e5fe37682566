//! The sections of a page about what was only read: a check, and whether a source may be erased.

use std::path::Path;

use maud::{Markup, html};

use crate::cli::report::{
    counted, moment, name, number, rate, receipt_read::Receipt, receipt_read::ReceiptEntry,
    run_sections::ShownVerdict, size, text,
};
use crate::{
    cli::record::covered::CoveredSection, cli::record::log::JsonName, cli::show::rows::typed,
    cli::show::verify_messages::NOTHING_CHECKED,
};

/// The verdict on each of several directories. Receipts have those of the bad ones among their entries.
fn trees(receipt: &Receipt) -> Markup {
    let (entries, dirs) = (&receipt.entries, &receipt.directories);
    let is_all = entries.left_out() == 0 && receipt.entries_left_out == 0;
    let is_over = ["complete", "untrue"].contains(&&*receipt.ending.0);
    let verdict = |dir: &JsonName| {
        let is_it = |entry: &&ReceiptEntry| entry.event.0 == "tree" && entry.path == dir.path;
        let found = entries.kept.iter().find(is_it).and_then(|entry| entry.text.as_ref());
        found.map_or("good: every file as listed", |text| &text.0)
    };
    html! {
        @if dirs.all > 1 && is_all && is_over {
            @for dir in &dirs.kept { dt { (name(dir)) } dd { (text(verdict(dir))) } }
        }
    }
}

/// The command that mends the directories of a check from one another.
fn heal_command(receipt: &Receipt) -> String {
    let is_unchecked = |dir: &JsonName| {
        let mut entries = receipt.entries.kept.iter();
        let is_it = |it: &ReceiptEntry| it.event.0 == "tree" && it.path == dir.path;
        let said = entries.find(|it| is_it(it)).and_then(|it| it.text.as_ref());
        said.is_some_and(|text| text.0.ends_with(NOTHING_CHECKED))
    };
    let dirs = receipt.directories.kept.iter().filter(|dir| !is_unchecked(dir));
    let dirs = dirs.map(|dir| format!(" {}", typed(Path::new(&dir.path.0))));
    format!("dircopy heal{}", dirs.collect::<String>())
}

/// What a check found.
pub fn check(receipt: &Receipt) -> Markup {
    let checked = receipt.checked.unwrap_or_default();
    html! {
        section {
            h2 { "Check" }
            dl {
                dt { "As listed" } dd { (counted(checked.good, "file")) }
                @if checked.healed > 0 { dt { "Healed" } dd { (counted(checked.healed, "file")) " of these" } }
                @if checked.not_healed > 0 { dt { "Not healed" } dd { (counted(checked.not_healed, "file")) } }
                dt { "Differ" } dd { (number(checked.differ)) }
                dt { "Missing" } dd { (number(checked.missing)) }
                dt { "Unreadable" } dd { (number(checked.unreadable)) }
                @if checked.repairable > 0 {
                    dt { "Repairable" }
                    dd { (counted(checked.repairable, "bad file")) ": " code { (heal_command(receipt)) } }
                }
                (trees(receipt))
                dt { "Read" }
                dd {
                    (size(checked.bytes))
                    // A picture says how fast.
                    @if receipt.samples.kept.len() < 2 { ", " (rate(checked.bytes as f64, receipt.elapsed_seconds)) }
                    "; "
                    (counted(checked.from_device, "file")) " from the device, " (number(checked.from_cache))
                    " only through a cache"
                    @if checked.shared > 0 {
                        "; " (counted(checked.shared, "file")) ", " (size(checked.shared_bytes))
                        ", have the data of a file that was read"
                    }
                }
                @if let Some(words) = &receipt.replugged {
                    dt { "Replugged" } dd { (text(&words.0)) }
                }
                @if let Some(scrub) = &receipt.scrub {
                    dt { "Scrub" }
                    dd {
                        (number(scrub.verified_now)) " verified now, " (number(scrub.not_verified)) " of "
                        (number(scrub.listed)) " not yet"
                        @if let Some(oldest) = &scrub.oldest_verification {
                            "; the oldest verification is of " (moment(&oldest.0))
                        }
                    }
                }
            }
        }
    }
}

/// Whether a source may be erased. Only a receipt of which all agrees says so.
pub fn covered_verdict(receipt: &Receipt) -> ShownVerdict {
    let is_covered = |it: &CoveredSection| it.files > 0 && it.covered == it.files && it.failed == 0;
    let (class, title, sentence) = match (receipt.exit_code, &*receipt.ending.0) {
        (0, "complete") if receipt.covered.as_ref().is_some_and(is_covered) => {
            ("good", "May be erased", "Every file is at as many places as were asked for.")
        }
        (1, "incomplete") => (
            "bad",
            "Not to be erased",
            "Something could not be read, changed, or was not recorded.",
        ),
        (2, "refused") => ("bad", "Refused", "Nothing was looked at: it is not to be erased."),
        (4, "untrue") => ("bad", "Not to be erased", "Files are not at as many places."),
        (5, "unusable") => (
            "bad",
            "Not to be erased",
            "A list could not be read whole, or a newest generation is lost.",
        ),
        (128.., _) => ("warn", "Interrupted", "Not everything was looked at: do not erase it."),
        _ => ("bad", "Not clear", "The receipt contradicts itself."),
    };
    ShownVerdict { class, title: title.into(), sentence }
}

/// What of a source is at which place.
pub fn covered(receipt: &Receipt, covered: &CoveredSection) -> Markup {
    html! {
        section {
            h2 { "What is where" }
            dl {
                @if let Some(source) = &receipt.source { dt { "To be erased" } dd { (name(source)) } }
                dt { "Read now" } dd { (counted(covered.files, "file")) ", " (size(covered.bytes)) }
                dt { "At " (counted(covered.copies, "place")) " or more" } dd { (counted(covered.covered, "file")) }
                @for (amiss, what) in [
                    (covered.others, "Links and special files, not looked at"),
                    (covered.failed, "Not to be read"),
                    (covered.changed, "Places that changed meanwhile"),
                    (covered.unusable, "Lines, lists or newest generations that could not be used"),
                ] {
                    @if amiss > 0 { dt { (what) } dd { (number(amiss)) } }
                }
            }
            table .stack {
                thead { tr { th { "Place" } th .number { "Files" } th { "How" } } }
                tbody {
                    @for place in &covered.places.kept {
                        tr {
                            th scope="row" { (name(&place.name)) }
                            td .number data-label="Files" { (number(place.files)) }
                            td data-label="How" { (text(&place.text.0)) }
                        }
                    }
                }
            }
        }
    }
}
