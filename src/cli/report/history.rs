//! Several receipts: a row of bars for the nights, and a table of them.

use maud::{Markup, html};

use crate::cli::report::receipt::read::Receipt;
use crate::cli::report::run_sections::verdict;
use crate::cli::report::words::{counted, duration, moment, name, number, size, text};
use crate::path::Shown;

/// More runs than this are not shown one by one; the newest stay.
pub const MOST_RUNS: usize = 400;

/// So many outputs of a run are named.
const MOST_NAMED: usize = 3;

/// The height of the bars; the picture's own units.
const HEIGHT: f64 = 60.0;

/// What a run comes down to.
pub struct RunFigures {
    pub started: String,
    kind: String,
    what: Markup,
    class: &'static str,
    title: String,
    bytes: u64,
    seconds: f64,
    failed: u64,
    rotten: u64,
    /// Of a scrub: what is not verified yet.
    left: Option<u64>,
}

impl RunFigures {
    /// Those of a receipt. Of several outputs the one with the most bytes counts, and all failures.
    pub fn of(receipt: &Receipt) -> Self {
        let counts = || receipt.outputs.kept.iter().filter_map(|output| output.counts);
        let checked = receipt.checked.unwrap_or_default();
        let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
        let copied = counts().map(|counts| counts.bytes).max().unwrap_or(0);
        let failed = sum(&mut counts().map(|it| it.failed.saturating_add(it.left)));
        let rotten = sum(&mut counts().map(|it| it.rotten.saturating_add(it.damaged)));
        let verdict = verdict(receipt);
        let what = html! {
            @if let Some(source) = &receipt.source {
                (name(source))
                @for (at, output) in receipt.outputs.kept.iter().take(MOST_NAMED).enumerate() {
                    (if at == 0 { " to " } else { ", " }) (name(&output.name()))
                }
                @if receipt.outputs.all > MOST_NAMED as u64 { " and others" }
            }
            @else {
                @for word in receipt.command.kept.iter().skip(1).filter(|word| word.0 != "verify").take(6) {
                    (text(&word.0)) " "
                }
            }
        };
        Self {
            started: receipt.started.0.clone(),
            kind: Shown::bytes(receipt.kind.0.as_bytes()).to_string(),
            what,
            class: verdict.class,
            title: verdict.title,
            bytes: copied.max(checked.bytes).max(receipt.bytes.unwrap_or(0)),
            seconds: receipt.elapsed_seconds,
            failed: [checked.missing, checked.incomplete, checked.unreadable]
                .into_iter()
                .fold(failed, u64::saturating_add),
            rotten: rotten.saturating_add(checked.differ),
            left: receipt.scrub.as_ref().map(|scrub| scrub.not_verified),
        }
    }
}

/// The section of several runs, the oldest first.
pub fn section(runs: &[RunFigures], left_out: usize) -> Markup {
    let amiss = runs.iter().filter(|run| run.class != "good").count();
    html! {
        section {
            h2 { "All runs" }
            p {
                (counted(runs.len() as u64, "run"))
                @if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
                    " from " (moment(&first.started)) " to " (moment(&last.started))
                }
                @if amiss == 0 { ", all good." } @else { ", " (number(amiss as u64)) " not good." }
                @if left_out > 0 { " The oldest are left out: " (number(left_out as u64)) "." }
            }
            figure {
                figcaption { "Bytes" }
                (bars(runs, &|run| run.bytes as f64, &|run| humansize::format_size(run.bytes, humansize::BINARY)))
            }
            figure {
                figcaption { "Duration" }
                (bars(runs, &|run| run.seconds, &|run| duration(run.seconds)))
            }
            @if runs.iter().any(|run| run.left.is_some()) {
                figure {
                    figcaption { "Files that are not verified yet" }
                    (bars(runs, &|run| run.left.unwrap_or(0) as f64, &|run| number(run.left.unwrap_or(0))))
                }
            }
            (table(runs))
        }
    }
}

/// A bar for each run, in the colour of its verdict. One that is not good has a mark below, not its colour alone.
fn bars(
    runs: &[RunFigures],
    value: &dyn Fn(&RunFigures) -> f64,
    words: &dyn Fn(&RunFigures) -> String,
) -> Markup {
    let top = runs.iter().map(value).fold(0.0, f64::max).max(1e-9);
    let most = runs.iter().max_by(|one, other| value(one).total_cmp(&value(other))).map(words);
    let step = (700.0 / runs.len().max(1) as f64).min(24.0);
    let label = format!("up to {}", most.unwrap_or_default());
    html! {
        svg viewBox=(format!("0 -26 700 {}", HEIGHT + 46.0)) role="img" aria-label=(label) {
            text x="0" y="-4" { (label) }
            line .axis x1="0" x2="700" y1=(HEIGHT) y2=(HEIGHT) {}
            @for (at, run) in runs.iter().enumerate() {
                @let height = (HEIGHT * value(run) / top).max(1.0);
                @let x = format!("{:.2}", at as f64 * step);
                rect .(run.class) x=(x) y=(format!("{:.1}", HEIGHT - height))
                    width=(format!("{:.2}", step * 0.8)) height=(format!("{height:.1}")) {
                    title { (moment(&run.started)) ": " (run.title) ", " (words(run)) }
                }
                @if run.class != "good" {
                    text .mark .(run.class) x=(format!("{:.2}", (at as f64 + 0.4) * step)) y=(HEIGHT + 16.0)
                        text-anchor="middle" { "!" }
                }
            }
        }
    }
}

fn table(runs: &[RunFigures]) -> Markup {
    html! {
        table .stack {
            thead { tr {
                th { "Started" } th { "Run" } th { "Verdict" } th .number { "Bytes" } th .number { "Time" }
                th .number { "Failed" } th .number { "Rotten" } th .number { "Left to check" }
            } }
            tbody {
                @for run in runs.iter().rev() {
                    tr {
                        td .time data-label="Started" { (moment(&run.started)) }
                        td data-label="Run" { (run.kind) " " (run.what) }
                        td .(run.class) data-label="Verdict" { (run.title) }
                        td .number data-label="Bytes" { (size(run.bytes)) }
                        td .number data-label="Time" { (duration(run.seconds)) }
                        td .number data-label="Failed" { (number(run.failed)) }
                        td .number data-label="Rotten" { (number(run.rotten)) }
                        td .number data-label="Left to check" { @match run.left { Some(left) => (number(left)), None => "–" } }
                    }
                }
            }
        }
    }
}
