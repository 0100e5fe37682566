//! The pictures of a page, as SVG inside it: how fast each output was and what limited it.

use std::fmt::Write;

use maud::{Markup, html};

use crate::cli::report::receipt::read::{ReceiptName, ReceiptSample};
use crate::cli::report::words::{self, duration, rate};

/// The size of a picture; its own units.
const WIDTH: f64 = 700.0;
const HEIGHT: f64 = 110.0;

/// An output with a picture.
#[derive(Clone, Default)]
pub struct ChartedOutput {
    pub name: ReceiptName,
    /// When the run to it was over, if that is known; others may have gone on.
    pub seconds: Option<f64>,
}

/// What can limit an output, and the words for it.
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
                    @if !name.path.0.is_empty() { (words::name(name)) ": " }
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
