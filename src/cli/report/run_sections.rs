//! The sections of a page about one run.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::cli::report::{
    charts::ChartedOutput, charts::throughput, counted, duration, files, moment, name, number,
    rate, read_sections, receipt::ClippedText, receipt::VolumeSection, receipt_read::MOST_ENTRIES,
    receipt_read::Receipt, receipt_read::ReceiptEntry, receipt_read::ReceiptOutput, size, text,
};
use crate::{cli::record::log::JsonName, cli::show::rows::contents, copy::Counts, path::Shown};

/// A verdict and how it is to look.
pub struct ShownVerdict {
    pub class: &'static str,
    pub title: String,
    pub sentence: &'static str,
}

/// The verdict of a receipt. Only one whose exit code and ending agree is good.
pub fn verdict(receipt: &Receipt) -> ShownVerdict {
    let is_check = receipt.kind.0 == "verify";
    let shown =
        |class, title: &str, sentence| ShownVerdict { class, title: title.into(), sentence };
    match (receipt.exit_code, &*receipt.ending.0) {
        _ if receipt.kind.0 == "covered" => read_sections::covered_verdict(receipt),
        (0, "complete") if receipt.dry_run => shown("quiet", "Dry run", "Nothing was done."),
        (0, "complete") if is_check && is_heal(receipt) => shown(
            "good",
            "As listed",
            "Every listed file that was checked is as listed, or was made so.",
        ),
        (0, "complete") if is_check => {
            shown("good", "As listed", "Every listed file that was checked is as listed.")
        }
        (0, "complete") => shown("good", "Complete", "Everything that was asked for was done."),
        (1, "incomplete") if receipt.outputs.all > 1 && receipt.kind.0 == "copy" => {
            let title =
                format!("{} of {} outputs complete", complete(receipt), receipt.outputs.all);
            shown("bad", &title, "")
        }
        (1, "incomplete") if receipt.error.is_some() => {
            shown("bad", "Nothing copied", "There was nothing to copy.")
        }
        (1, "incomplete") => {
            shown("bad", "Not complete", "Some entries failed, changed or were left different.")
        }
        (2, "refused") => shown("bad", "Refused", "Nothing was touched."),
        (3, "stopped") => shown(
            "bad",
            "Stopped early",
            "The source or an output could not be used any more. Connect it, or make room, and run the same command: it \
             goes on.",
        ),
        (4, "untrue") if receipt.command.kept.iter().any(|word| word.0 == "--expect-all") => shown(
            "bad",
            "Not as listed",
            "Files of the source differ from the list, or are missing.",
        ),
        (4, "untrue") => {
            shown("bad", "Not as it should be", "Files differ from what was written or listed.")
        }
        (5, "unusable") => {
            shown("bad", "Not proven", "No manifest that lists files could be read whole.")
        }
        (6, "time-is-up") => shown("warn", "Time was up", "The next run goes on."),
        (7, "next-disk") => {
            shown("warn", "Next disk, please", "What is here is done; another disk is wanted.")
        }
        (128.., _) => {
            shown("warn", "Interrupted", "What was finished is recorded; the next run goes on.")
        }
        _ => shown("bad", "Not clear", "The receipt contradicts itself."),
    }
}

/// Number of outputs, of several, that have everything.
fn complete(receipt: &Receipt) -> usize {
    receipt.outputs.kept.iter().filter(|output| output.is_complete()).count()
}

/// Everything about one run.
pub fn run(receipt: &Receipt) -> Markup {
    let verdict = verdict(receipt);
    let charted = |output: &ReceiptOutput| ChartedOutput {
        name: output.name(),
        seconds: output.elapsed_seconds,
    };
    let outputs: Vec<ChartedOutput> = match receipt.kind.0.as_str() {
        "copy" => receipt.outputs.kept.iter().map(charted).collect(),
        _ => vec![ChartedOutput::default()],
    };
    html! {
        section .verdict .(verdict.class) {
            p .title { (verdict.title) }
            p { (verdict.sentence) " Exit code " (receipt.exit_code) " (" (text(&receipt.ending.0)) ")." }
            @if let Some(amount) = amount(receipt) { p { (amount) } }
            @if let Some(read_back) = read_back(receipt) { p { "Read back: " (read_back) "." } }
            @if let Some(error) = &receipt.error { p { (sentence(error)) } }
            @for output in &receipt.outputs.kept {
                @if let Some(Counts { anew: files @ 1.., .. }) = output.counts {
                    p {
                        (name(&output.name())) ": " (counted(files, "file"))
                        " had another content under the same size and time, or could not be read, copied anew. Unless they were edited so, check that disk."
                    }
                }
            }
            @if receipt.kind.0 == "copy" && receipt.outputs.all > 1 {
                @for output in receipt.outputs.kept.iter().filter(|output| !output.is_complete()) {
                    // What ended the run stands above.
                    @if receipt.error.is_none() || output.error.as_ref().map(|it| &it.text) != receipt.error.as_ref().map(|it| &it.text) { p { (name(&output.name())) ": " (what_is_amiss(output)) } }
                }
            }
        }
        (facts(receipt))
        @if receipt.kind.0 == "copy" { (ends(receipt)) (results(receipt)) }
        @if receipt.kind.0 == "stream" { (stream(receipt)) }
        @if receipt.kind.0 == "verify" { (read_sections::check(receipt)) }
        @if let Some(covered) = &receipt.covered { (read_sections::covered(receipt, covered)) }
        @if !receipt.samples.kept.is_empty() {
            section {
                h2 { "Speed over time" }
                (throughput(&receipt.samples.kept, &outputs))
            }
        }
        (entries(receipt))
        @if receipt.kind.0 == "copy" { (manifests(receipt)) (files::section(receipt)) }
    }
}

/// What is at the output that has the least of it.
fn amount(receipt: &Receipt) -> Option<String> {
    let counts = receipt.outputs.kept.iter().map(|output| output.counts);
    let counts = counts.collect::<Option<Vec<Counts>>>()?;
    let least = counts.iter().min_by_key(|counts| counts.files())?;
    let bytes = least.bytes.saturating_add(least.unchanged_bytes);
    let there = contents(least.files(), least.links(), least.all_specials(), bytes);
    let at = if counts.len() > 1 { "each output" } else { "the output" };
    Some(format!("{there} at {at}."))
}

/// True if a check made files whole, or was to.
fn is_heal(receipt: &Receipt) -> bool {
    receipt.command.kept.get(1).is_some_and(|word| word.0 == "heal")
        || receipt.checked.is_some_and(|it| it.healed + it.not_healed > 0)
}

/// What a run is about, in a few words: the card and the disks, by the names that people gave them.
pub fn heading(receipt: &Receipt) -> String {
    let end = |name: &JsonName, volume: Option<&VolumeSection>| {
        // A disk that is named and was not there.
        if name.path.0.starts_with("LABEL=") || name.path.0.starts_with("UUID=") {
            return Shown::bytes(name.path.0.as_bytes()).to_string();
        }
        let label = volume.and_then(|volume| volume.label.clone()).filter(|it| !it.0.is_empty());
        let path = name.path.0.trim_end_matches('/');
        let last = path.rsplit('/').next().unwrap_or(path).to_owned();
        Shown::bytes(label.map_or(last, |label| label.0).as_bytes()).to_string()
    };
    let title = verdict(receipt).title;
    let Some(source) = &receipt.source else {
        let what = match &*receipt.kind.0 {
            "verify" if is_heal(receipt) => "heal",
            "verify" => "check",
            other => other,
        };
        let dirs = &receipt.directories.kept;
        let mut of: Vec<_> = dirs.iter().map(|path| end(path, None)).collect();
        if of.iter().collect::<BTreeSet<_>>().len() < of.len() {
            of = dirs.iter().map(|dir| Shown::bytes(dir.path.0.as_bytes()).to_string()).collect();
        }
        let of = of.join(", ");
        let title = format!("{title}: {}", Shown::bytes(what.as_bytes()));
        return if of.is_empty() { title } else { format!("{title} of {of}") };
    };
    let outputs = receipt.outputs.kept.iter();
    let outputs = outputs.map(|output| end(&output.name(), output.volume.as_ref()));
    let outputs = outputs.collect::<Vec<_>>().join(", ");
    let source = end(source, receipt.source_volume.as_ref());
    match receipt.kind.0 == "covered" {
        true => format!("{title}: {source}"),
        false => format!("{title}: {source} to {outputs}"),
    }
}

/// The proof that the copies of a run have, if it read them back: of all outputs, if it is the same.
fn read_back(receipt: &Receipt) -> Option<Markup> {
    let proven = |output: &ReceiptOutput| {
        let counts = output.counts.filter(|it| it.from_device > 0 || it.from_cache > 0)?;
        Some((output.name(), proof(&counts)))
    };
    let all: Vec<_> = receipt.outputs.kept.iter().filter_map(proven).collect();
    let (_, first) = all.first()?;
    let is_same = all.len() == receipt.outputs.kept.len() && all.iter().all(|(_, it)| it == first);
    Some(html! {
        @if is_same {
            (first) @if all.len() > 1 { ", at each output" }
        } @else {
            @for (at, (output, proof)) in all.iter().enumerate() {
                @if at > 0 { "; " } (name(output)) ": " (proof)
            }
        }
    })
}

/// Why a run is not as it should be, for a line of a history.
pub fn reason(receipt: &Receipt) -> Markup {
    let amiss = receipt.outputs.kept.iter().filter(|output| !output.is_complete());
    html! {
        @if let Some(error) = &receipt.error { ": " (sentence(error)) }
        @else if receipt.kind.0 == "copy" && receipt.outputs.all > 1 && receipt.exit_code != 0 {
            @for output in amiss { "; " (name(&output.name())) ": " (what_is_amiss(output)) }
        }
    }
}

/// Why an output of several has not everything.
fn what_is_amiss(output: &ReceiptOutput) -> Markup {
    let missing = output.counts.map_or(0, |counts| counts.failed.saturating_add(counts.left));
    html! {
        @match (&output.error, &output.ending) {
            (Some(error), _) => {
                @if output.counts.is_none() { "nothing was copied: " }
                (sentence(error))
            }
            (None, _) if missing > 0 => {
                "not as in the source: " (counted(missing, "entry"))
            }
            (None, Some(ending)) => (text(in_words(&ending.0))),
            (None, None) => "not known",
        }
    }
}

fn facts(receipt: &Receipt) -> Markup {
    let words = receipt.command.kept.iter().skip(1);
    html! {
        section {
            h2 { "Run" }
            dl {
                dt { "Started" } dd { (moment(&receipt.started.0)) }
                dt { "Ended" } dd { (moment(&receipt.ended.0)) " (" (duration(receipt.elapsed_seconds)) ")" }
                dt { "Host" } dd { (text(&receipt.host.0)) }
                dt { "Program" } dd { "dircopy " (text(&receipt.program_version.0)) }
                dt { "Options" }
                dd .options {
                    @for word in words { code { (text(&word.0)) } " " }
                    @if receipt.command.left_out() > 0 { "and " (number(receipt.command.left_out())) " more" }
                }
                @if let Some(directory) = &receipt.working_directory {
                    dt { "In" } dd { (name(directory)) }
                }
            }
        }
    }
}

/// Source and outputs, and the volumes that they are on.
fn ends(receipt: &Receipt) -> Markup {
    let row = |what: &str, end: &JsonName, volume: Option<&VolumeSection>| {
        let unknown = VolumeSection::default();
        let volume = volume.unwrap_or(&unknown);
        let told = |value: &Option<ClippedText>| {
            html! {
                @match value { Some(value) => (text(&value.0)), None => span .quiet { "not known" } }
            }
        };
        html! {
            tr {
                th scope="row" { (what) }
                td { (name(end)) }
                td data-label="Volume" { (told(&volume.label)) }
                td .id data-label="Serial number or UUID" { (told(&volume.serial.clone().or_else(|| volume.uuid.clone().filter(|uuid| !is_of_noughts(&uuid.0))))) }
                td data-label="File system" { (told(&volume.file_system)) }
                td .number data-label="Size" {
                    @match volume.size_bytes { Some(bytes) => (size(bytes)), None => span .quiet { "not known" } }
                }
            }
        }
    };
    let none = JsonName::default();
    html! {
        section {
            h2 { "From and to" }
            table .stack {
                thead { tr {
                    th {} th { "Path" } th { "Volume" } th { "Serial number or UUID" } th { "File system" }
                    th .number { "Size" }
                } }
                tbody {
                    (row("Source", receipt.source.as_ref().unwrap_or(&none), receipt.source_volume.as_ref()))
                    @for output in &receipt.outputs.kept {
                        (row("Output", &output.name(), output.volume.as_ref()))
                    }
                }
            }
        }
    }
}

/// True for the UUID of a file system that has none, as some say that.
fn is_of_noughts(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

/// What was held against an expected list, with the same words as the summary.
fn expected(receipt: &Receipt) -> Markup {
    let counts = receipt.outputs.kept.iter().find_map(|output| output.counts);
    let Counts { as_expected, edited, gone, rotten, .. } = counts.unwrap_or_default();
    html! {
        @if as_expected > 0 || edited > 0 || gone > 0 || rotten > 0 {
            dl {
                dt { "Expected" }
                dd {
                    (counted(as_expected, "file")) " as listed, " (number(edited)) " edited since, " (number(gone))
                    " gone, " (number(rotten)) " not as listed and not copied"
                }
            }
        }
    }
}

/// The name of an ending, for people.
fn in_words(ending: &str) -> &str {
    match ending {
        "untrue" => "not as it should be",
        "unusable" => "not proven",
        "time-is-up" => "time was up",
        "next-disk" => "next disk, please",
        other => other,
    }
}

/// The proof that the written content has.
fn proof(counts: &Counts) -> String {
    match (counts.from_device, counts.from_cache, counts.copied.saturating_add(counts.replaced)) {
        (0, 0, 0) => "nothing written".into(),
        (0, 0, _) => "no".into(),
        (device, 0, _) => format!("{} from the device", number(device)),
        (0, cache, _) => format!("{} only through a cache", number(cache)),
        (device, cache, _) => {
            format!("{} from the device, {} only through a cache", number(device), number(cache))
        }
    }
}

/// How far it goes, in the words of the summary. What is known of a disk that is gone is none.
fn proof_words(output: &ReceiptOutput, counts: &Counts) -> Markup {
    let any = counts.copied.saturating_add(counts.replaced).saturating_add(counts.from_device);
    let is_any = any.saturating_add(counts.from_cache) > 0;
    let words = output.proof.as_ref().and_then(|proof| proof.words(is_any));
    html! { @if let Some(words) = words { (text(&words)) } }
}

fn results(receipt: &Receipt) -> Markup {
    let is_single = receipt.outputs.kept.len() == 1;
    let ending = |output: &ReceiptOutput| match &output.ending {
        _ if is_single => receipt.ending.0.clone(),
        Some(ending) => ending.0.clone(),
        None => "not known".into(),
    };
    html! {
        section {
            h2 { "Result" }
            table .stack {
                thead { tr {
                    th { "Output" } th { "Ending" } th .number { "Copied" } th .number { "Bytes" }
                    th .number { "Time" } th .number { "Rate" } th { "Read back" } th { "Proof" }
                    th .number { "Unchanged" }
                    th .number { "Failed, left or missing" }
                } }
                tbody {
                    @for output in &receipt.outputs.kept {
                        // What is known of a disk that is gone is neither a rate nor a proof.
                        @let is_stopped = ending(output) == "stopped";
                        @let seconds = output.elapsed_seconds.unwrap_or(receipt.elapsed_seconds);
                        tr {
                            th scope="row" { (name(&output.name())) }
                            td data-label="Ending" { (text(in_words(&ending(output)))) }
                            @if let Some(counts) = &output.counts {
                                td .number data-label="Copied" { (number(counts.copied.saturating_add(counts.replaced))) }
                                td .number data-label="Bytes" { (size(counts.bytes)) }
                                td .number data-label="Time" { (duration(seconds)) }
                                td .number data-label="Rate" {
                                    @if !is_stopped { (rate(counts.bytes as f64, seconds)) }
                                }
                                td data-label="Read back" {
                                    @if is_stopped { "stopped early" } @else { (proof(counts)) }
                                }
                                td data-label="Proof" { (proof_words(output, counts)) }
                                td .number data-label="Unchanged" { (number(counts.unchanged)) }
                                td .number data-label="Failed, left or missing" {
                                    (number(counts.failed.saturating_add(counts.left).saturating_add(counts.lost)))
                                }
                            } @else {
                                td colspan="8" {
                                    "nothing was copied"
                                    @if let Some(error) = &output.error { ": " (sentence(error)) }
                                }
                            }
                        }
                    }
                }
            }
            (expected(receipt))
        }
    }
}

fn stream(receipt: &Receipt) -> Markup {
    html! {
        section {
            h2 { "Stream" }
            dl {
                @for input in &receipt.inputs.kept { dt { "Input" } dd { (name(input)) } }
                @for output in &receipt.outputs.kept {
                    dt { "Output" }
                    dd {
                        (name(&output.name()))
                        @if let Some(outcome) = &output.outcome { ": " (text(&outcome.0)) }
                        @if let Some(from) = &output.read_back { ", read back from the " (text(&from.0)) }
                    }
                }
                @if let Some(bytes) = receipt.bytes {
                    dt { "Bytes" } dd { (size(bytes)) ", " (rate(bytes as f64, receipt.elapsed_seconds)) }
                }
                @if let Some(digest) = &receipt.sha256 { dt { "SHA-256" } dd .digest { (text(&digest.0)) } }
                @for (algorithm, digest) in &receipt.digests.0 { dt { (algorithm.shown()) } dd .digest { (text(&digest.0)) } }
            }
        }
    }
}

/// An error in words.
fn sentence(entry: &ReceiptEntry) -> Markup {
    html! {
        @if let Some(deed) = &entry.deed { "cannot " (text(&deed.0)) " " }
        (name(&entry.name()))
        @if let Some(why) = &entry.text { ": " (text(&why.0)) }
    }
}

/// The digests of a file that differs.
fn digests(entry: &ReceiptEntry) -> Markup {
    let both = [("listed", &entry.listed), ("found", &entry.found)];
    html! {
        @for (what, digest) in both {
            @if let Some(digest) = digest { div .digest { (what) " " (text(&digest.0)) } }
        }
    }
}

fn entries(receipt: &Receipt) -> Markup {
    let more = receipt.entries.left_out().saturating_add(receipt.entries_left_out);
    // They are no entries of a tree, and the worst of what can be amiss.
    let refused: Vec<_> = match receipt.kind.0.as_str() {
        "copy" => receipt.outputs.kept.iter().filter(|it| it.error.is_some()).collect(),
        _ => Vec::new(),
    };
    html! {
        section {
            h2 { "Warnings and failures" }
            @if receipt.entries.all == 0 && more == 0 && refused.is_empty() { p { "None." } }
            @else {
                table .stack {
                    @let is_at = !refused.is_empty() || receipt.entries.kept.iter().any(|it| it.output.is_some());
                    thead { tr { th { "Event" } th { "What" } @if is_at { th { "At" } } } }
                    tbody {
                        @for output in refused {
                            tr {
                                td .event { (if output.counts.is_some() { "stopped" } else { "refused" }) }
                                td { @if let Some(error) = &output.error { (sentence(error)) } }
                                td data-label="At" { (name(&output.name())) }
                            }
                        }
                        @for entry in &receipt.entries.kept {
                            tr {
                                td .event { (text(&entry.event.0)) }
                                td { (sentence(entry)) (digests(entry)) }
                                @if let Some(output) = &entry.output { td data-label="At" { (text(&output.0)) } }
                                @else if is_at { td {} }
                            }
                        }
                    }
                }
                @if more > 0 {
                    p { "And " (number(more)) " more; the first " (MOST_ENTRIES) " are shown." }
                }
            }
        }
    }
}

fn manifests(receipt: &Receipt) -> Markup {
    let all: Vec<_> = receipt.outputs.kept.iter().filter_map(|it| it.manifest.as_ref()).collect();
    let media = || receipt.outputs.kept.iter().filter_map(|it| it.media_list.as_ref());
    html! {
        @if !all.is_empty() {
            section {
                h2 { "Manifests" }
                table .stack {
                    thead { tr { th { "Manifest" } th { "SHA-256 of the manifest itself" } } }
                    tbody {
                        @for manifest in all {
                            tr {
                                td {
                                    (name(&manifest.name()))
                                    @if !manifest.finished { " (not finished)" }
                                }
                                td .digest data-label="SHA-256" {
                                    @match &manifest.sha256 {
                                        Some(digest) => (text(&digest.0)),
                                        None => "not known",
                                    }
                                }
                            }
                        }
                        @for list in media() { tr { td { (name(list)) } td { "Media Hash List" } } }
                    }
                }
                p .quiet {
                    "To check the files again: " code { "dircopy verify DIRECTORY" } ", or for manifests of SHA-256 "
                    code { "sha256sum -c --strict MANIFEST" } " in the directory."
                }
            }
        }
    }
}
