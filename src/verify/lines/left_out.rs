//! What a history leaves out: files that match the patterns of its newest generation.

use crate::path::RelPath;
use crate::tree::filter::{Filter, Pattern};

/// So many patterns are taken in.
const MOST_PATTERNS: usize = 1024;

/// Patterns of what a history leaves out.
#[derive(Default)]
pub struct LeftOut {
    patterns: Vec<Pattern>,
    /// Made of them when it is asked for.
    filter: Option<Filter>,
}

impl LeftOut {
    /// Adds a pattern.
    pub fn add(&mut self, pattern: String) {
        // As gitignore(5) has it.
        if pattern.starts_with('#') || pattern.trim().is_empty() {
            return;
        }
        let pattern = Pattern::Exclude(pattern);
        // What cannot be understood leaves out nothing.
        if self.patterns.len() < MOST_PATTERNS
            && Filter::new(std::slice::from_ref(&pattern)).is_ok()
        {
            self.patterns.push(pattern);
            self.filter = None;
        }
    }

    /// Whether the file at `path` is left out.
    pub fn has(&mut self, path: &RelPath) -> bool {
        !self.patterns.is_empty() && self.filter().leaves_out(path)
    }

    /// All patterns so far, ready for use.
    pub fn filter(&mut self) -> &Filter {
        let made = || Filter::new(&self.patterns).unwrap_or_default();
        self.filter.get_or_insert_with(made)
    }
}
