//! From receipts to a page.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use maud::html;

use crate::cli::report::history::{self, MOST_RUNS, RunFigures};
use crate::cli::report::page::page;
use crate::cli::report::receipt::read::Receipt;
use crate::cli::report::run_sections;
use crate::cli::report::words::{counted, moment};
use crate::error::Result;

/// Whether a path is that of a page.
pub fn is_page(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"))
}

/// The page of the receipt that `json`, which is empty, is filled with by `write`.
pub fn page_of(
    mut json: File,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<String> {
    write(&mut json)?;
    json.rewind()?;
    Ok(page_of_one(&Receipt::read(json)?))
}

fn page_of_one(receipt: &Receipt) -> String {
    let title = format!("{}: {}", run_sections::verdict(receipt).title, moment(&receipt.started.0));
    page(&title, &run_sections::run(receipt))
}

/// Collects receipts for a page.
#[derive(Default)]
pub struct PageBuilder {
    runs: Vec<RunFigures>,
    left_out: usize,
    newest: Option<Receipt>,
}

impl PageBuilder {
    /// Adds the receipt at `path`.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let receipt = Receipt::open(path)?;
        self.runs.push(RunFigures::of(&receipt));
        if self.runs.len() > MOST_RUNS {
            self.runs.sort_by(|one, other| one.started.cmp(&other.started));
            self.runs.remove(0);
            self.left_out += 1;
        }
        let is_newest =
            self.newest.as_ref().is_none_or(|newest| newest.started.0 <= receipt.started.0);
        if is_newest {
            self.newest = Some(receipt);
        }
        Ok(())
    }

    /// The page; none without a receipt. `unread` is how many could not be read.
    pub fn page(mut self, unread: usize) -> Option<String> {
        let newest = self.newest?;
        if self.runs.len() == 1 && unread == 0 {
            return Some(page_of_one(&newest));
        }
        self.runs.sort_by(|one, other| one.started.cmp(&other.started));
        let sections = html! {
            @if unread > 0 {
                section .verdict .warn { p { "Missing here: " (counted(unread as u64, "receipt")) " that could not be read." } }
            }
            (history::section(&self.runs, self.left_out))
            h2 .newest { "The newest run: " (moment(&newest.started.0)) }
            (run_sections::run(&newest))
        };
        Some(page("History of runs", &sections))
    }
}
