//! Where a file is bad and where it is good, in words for a message and for a report.

use std::path::{Path, PathBuf};

use crate::path::Shown;
use crate::verify::Comparison;

/// Where a file is bad and where it is good: "differs at A and B, missing at C, good at D".
pub fn compared(comparison: &Comparison) -> String {
    let Comparison { bad, good, other, .. } = comparison;
    let mut parts: Vec<(&str, Vec<&Path>)> = Vec::new();
    for (how, root) in bad {
        match parts.iter_mut().find(|(word, _)| word == how) {
            Some((_, roots)) => roots.push(root),
            None => parts.push((how, vec![root])),
        }
    }
    parts.push(("good", good.iter().map(PathBuf::as_path).collect()));
    if !other.is_empty() {
        parts.push(("listed with another digest", other.iter().map(PathBuf::as_path).collect()));
    }
    let part = |(word, roots): &(&str, Vec<&Path>)| {
        let names: Vec<String> = roots.iter().map(|root| cut(Shown::path(root))).collect();
        match names.split_last() {
            None => format!("{word} nowhere"),
            Some((last, [])) => format!("{word} at {last}"),
            Some((last, rest)) => format!("{word} at {} and {last}", rest.join(", ")),
        }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// A name for a message: a hostile one may be as long as a line.
pub fn cut(name: Shown<'_>) -> String {
    const MOST: usize = 1000;
    let mut text = name.to_string();
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
