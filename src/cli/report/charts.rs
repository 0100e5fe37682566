//! The pictures of a page, as SVG inside it: how fast each output was and what limited it.

use std::fmt::Write;

use jiff::Timestamp;
use maud::{Markup, html};

use crate::cli::report::{
    counted, duration, moment, name, number, rate, receipt_read::Receipt,
    receipt_read::ReceiptSample, run_sections::reason, run_sections::verdict, size, text,
};
use crate::{cli::copy, cli::record::log::JsonName, cli::report, path::Shown};

/// The size of a picture; its own units.
const WIDTH: f64 = 700.0;
const HEIGHT: f64 = 110.0;

/// An output with a picture.
#[derive(Clone, Default)]
pub struct ChartedOutput {
    pub name: JsonName,
    /// When the run to it was over, if that is known; others may have gone on.
    pub seconds: Option<f64>,
}

/// The possible limits of an output, with the words for each.
const LIMITS: [(&str, &str); 6] = [
    ("read", "reading the source"),
    ("hash", "hashing (the processor)"),
    ("write", "writing to the output"),
    ("read_back", "reading back"),
    ("commit", "making durable"),
    ("limit_rate", "--limit-rate"),
];

/// A stretch of time with one rate.
struct Step {
    from: f64,
    to: f64,
    rate: f64,
    /// The index of what limited the output.
    limit: Option<usize>,
}

/// The steps of the output of this number, up to its end.
fn steps(samples: &[ReceiptSample], output: usize, end: Option<f64>) -> Vec<Step> {
    let end = end.filter(|end| *end > 0.0).unwrap_or(f64::INFINITY);
    let (mut from, mut before) = (0.0, 0u64);
    let mut steps = Vec::with_capacity(samples.len());
    for sample in samples {
        let to = sample.seconds.min(1e12).min(end);
        let Some(&bytes) = sample.bytes.kept.get(output) else { break };
        if to <= from {
            continue;
        }
        let limit = sample.limited_by.kept.get(output).and_then(Option::as_ref);
        let limit = limit.and_then(|limit| LIMITS.iter().position(|(name, _)| *name == limit.0));
        let rate = bytes.saturating_sub(before) as f64 / (to - from);
        steps.push(Step { from, to, rate, limit });
        (from, before) = (to, bytes);
    }
    steps
}

/// A picture for each output.
pub fn throughput(samples: &[ReceiptSample], outputs: &[ChartedOutput]) -> Markup {
    let steps = |(at, output): (usize, &ChartedOutput)| steps(samples, at, output.seconds);
    let all: Vec<_> = outputs.iter().enumerate().map(steps).collect();
    let top = all.iter().flatten().map(|step| step.rate).fold(0.0, f64::max);
    let end = all.iter().flatten().map(|step| step.to).fold(0.0, f64::max);
    if samples.len() < 2 || top <= 0.0 {
        return html! { p .quiet { "The run was too short for a picture of its speed." } };
    }
    let used = |limit: usize| all.iter().flatten().any(|step| step.limit == Some(limit));
    let has_limits = (0..LIMITS.len()).any(used);
    html! {
        // Of an output that got nothing there is nothing to see.
        @for (steps, ChartedOutput { name, .. }) in all.iter().zip(outputs).filter(|it| it.0.iter().any(|step| step.rate > 0.0)) {
            figure {
                figcaption {
                    @if !name.path.0.is_empty() { (report::name(name)) ": " }
                    span .quiet { (summary(steps, top)) }
                }
                (picture(steps, top, end, has_limits))
            }
        }
        @if has_limits {
        p .legend {
            "What limited it: "
            @for (at, (_, text)) in LIMITS.iter().enumerate().filter(|(at, _)| used(*at)) {
                span .key { i .{ "limit" (at) } {} (text) }
            }
            span .key { i .unknown {} "not certain" }
        }
        }
    }
}

fn picture(steps: &[Step], top: f64, end: f64, has_limits: bool) -> Markup {
    let x = |seconds: f64| WIDTH * seconds / end;
    let y = |rate: f64| HEIGHT * (1.0 - rate / top);
    let mut line = format!("M0 {HEIGHT:.1}");
    for step in steps {
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "L{:.1} {:.1}L{:.1} {:.1}",
            x(step.from),
            y(step.rate),
            x(step.to),
            y(step.rate)
        );
    }
    let last = steps.last().map_or(0.0, |step| step.to);
    let _ = write!(line, "L{:.1} {HEIGHT:.1}Z", x(last));
    html! {
        svg viewBox=(format!("0 -28 {WIDTH} {}", HEIGHT + 64.0)) role="img" aria-label=(summary(steps, top)) {
            line .axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
            line .grid x1="0" x2=(WIDTH) y1="0" y2="0" {}
            line .grid x1="0" x2=(WIDTH) y1=(HEIGHT / 2.0) y2=(HEIGHT / 2.0) {}
            path .speed d=(line) {}
            @for (from, to, limit) in stretches(steps).into_iter().filter(|_| has_limits) {
                rect .{ @if let Some(limit) = limit { "limit" (limit) } @else { "unknown" } }
                    x=(format!("{:.1}", x(from))) y=(HEIGHT + 4.0)
                    width=(format!("{:.1}", x(to) - x(from))) height="6" {}
            }
            text x="0" y="-5" { (rate(top, 1.0)) }
            text x="0" y=(HEIGHT + 28.0) { "0 s" }
            text x=(WIDTH) y=(HEIGHT + 28.0) text-anchor="end" { (duration(end)) }
        }
    }
}

/// Steps that follow each other and have the same limit, together.
fn stretches(steps: &[Step]) -> Vec<(f64, f64, Option<usize>)> {
    let mut stretches: Vec<(f64, f64, Option<usize>)> = Vec::new();
    for step in steps {
        match stretches.last_mut() {
            Some((_, to, limit)) if *limit == step.limit => *to = step.to,
            _ => stretches.push((step.from, step.to, step.limit)),
        }
    }
    stretches
}

/// The speed in words.
fn summary(steps: &[Step], top: f64) -> String {
    let last = steps.last().map_or(0.0, |step| step.to);
    let bytes: f64 = steps.iter().map(|step| step.rate * (step.to - step.from)).sum();
    let (mean, most) = (rate(bytes, last), steps.iter().map(|step| step.rate).fold(0.0, f64::max));
    format!("{mean} on average, {} at most, in {}", rate(most.min(top), 1.0), duration(last))
}

// Several receipts: a row of bars for the nights, and a table of them.

/// More runs than this are not shown one by one; the newest stay.
pub const MOST_RUNS: usize = 400;

/// Number of outputs of a run that are named.
const MOST_NAMED: usize = 3;

/// The height of the bars; the picture's own units.
const HISTORY_HEIGHT: f64 = 60.0;

/// The main figures of a run.
pub struct RunFigures {
    pub started: String,
    kind: String,
    what: Markup,
    class: &'static str,
    title: String,
    /// Why it is not as it should be.
    why: Markup,
    bytes: u64,
    seconds: f64,
    failed: u64,
    rotten: u64,
    /// Of a scrub: lines that are not verified yet.
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
            why: reason(receipt),
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

/// The nights without a run, of runs that came one a night.
fn missed(runs: &[RunFigures]) -> Vec<(Timestamp, u64, u64)> {
    let times = runs.iter().map(|run| run.started.parse::<Timestamp>().ok());
    let times: Vec<i64> = times.flatten().map(Timestamp::as_second).collect();
    let missed = copy::missed(&times, Timestamp::now().as_second()).into_iter();
    missed
        .filter_map(|(at, number, hours)| Some((Timestamp::from_second(at).ok()?, number, hours)))
        .collect()
}

/// The section of several runs, the oldest first.
pub fn section(runs: &[RunFigures], left_out: usize) -> Markup {
    let amiss = runs.iter().filter(|run| run.class != "good").count();
    let missed = missed(runs);
    html! {
        @if !missed.is_empty() {
            section .verdict .bad {
                p .title { "Runs are missing" }
                @for (after, missing, hours) in missed {
                    p { (counted(missing, "run")) " missing after " (moment(&after.to_string())) "; one came every " (hours) " h." }
                }
            }
        }
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

/// The width of a history; the picture's own units.
const HISTORY_WIDTH: f64 = 700.0;

/// The most and the least of it that a bar takes.
const MOST_BAR: f64 = 19.0;
const LEAST_BAR: f64 = 1.5;

/// Where the bar of each run begins, and how wide all are: on an axis of time, so that a night without a run is a gap.
fn places(runs: &[RunFigures]) -> (Vec<f64>, f64) {
    let time = |run: &RunFigures| run.started.parse::<jiff::Timestamp>().ok();
    let times: Option<Vec<f64>> =
        runs.iter().map(|run| Some(time(run)?.as_second() as f64)).collect();
    // Without times of all, one beside the other.
    let times = times.unwrap_or_else(|| (0..runs.len()).map(|at| at as f64).collect());
    let first = times.first().copied().unwrap_or(0.0);
    let span = times.last().map_or(0.0, |last| last - first);
    if span <= 0.0 {
        return (vec![0.0; runs.len()], MOST_BAR);
    }
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
    let least = gaps.fold(span, f64::min);
    // What the last bar takes is no time.
    let width = (0.8 * least / (span + least) * HISTORY_WIDTH).clamp(LEAST_BAR, MOST_BAR);
    let scale = (HISTORY_WIDTH - width) / span;
    (times.iter().map(|time| (time - first) * scale).collect(), width)
}

/// A bar for each run, in the colour of its verdict. One that is not good has a mark below, not its colour alone.
fn bars(
    runs: &[RunFigures],
    value: &dyn Fn(&RunFigures) -> f64,
    words: &dyn Fn(&RunFigures) -> String,
) -> Markup {
    let top = runs.iter().map(value).fold(0.0, f64::max).max(1e-9);
    let most = runs.iter().max_by(|one, other| value(one).total_cmp(&value(other))).map(words);
    let (places, width) = places(runs);
    let started = |run: Option<&RunFigures>, len| {
        run.and_then(|run| moment(&run.started).get(..len).map(str::to_owned)).unwrap_or_default()
    };
    // Of runs of one day the time of day, too.
    let is_of_day = started(runs.first(), 10) == started(runs.last(), 10);
    let day = |run: Option<&RunFigures>| started(run, if is_of_day { 16 } else { 10 });
    let label = format!("up to {}", most.unwrap_or_default());
    html! {
        svg viewBox=(format!("0 -26 {HISTORY_WIDTH} {}", HISTORY_HEIGHT + 64.0)) role="img" aria-label=(label) {
            text x="0" y="-4" { (label) }
            line .axis x1="0" x2=(HISTORY_WIDTH) y1=(HISTORY_HEIGHT) y2=(HISTORY_HEIGHT) {}
            text x="0" y=(HISTORY_HEIGHT + 34.0) { (day(runs.first())) }
            text x=(HISTORY_WIDTH) y=(HISTORY_HEIGHT + 34.0) text-anchor="end" { (day(runs.last())) }
            @for (run, place) in runs.iter().zip(&places) {
                @let height = (HISTORY_HEIGHT * value(run) / top).max(1.0);
                @let x = format!("{place:.2}");
                rect .(run.class) x=(x) y=(format!("{:.1}", HISTORY_HEIGHT - height))
                    width=(format!("{width:.2}")) height=(format!("{height:.1}")) {
                    title { (moment(&run.started)) ": " (run.title) ", " (words(run)) }
                }
                @if run.class != "good" {
                    text .mark .(run.class) x=(format!("{:.2}", place + width / 2.0)) y=(HISTORY_HEIGHT + 16.0)
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
                        td .(run.class) data-label="Verdict" { (run.title) (run.why) }
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
