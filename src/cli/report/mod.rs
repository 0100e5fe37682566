//! The report that people read: one page of HTML, made of the receipts that runs leave as JSON.
//!
//! A receipt may come from anywhere, so it is data: what is read of it is bounded, what is shown of it is escaped, and
//! the page needs neither script nor network.

mod charts;
mod files;
mod read_sections;
pub mod receipt;
pub mod receipt_read;
mod run_sections;
mod sequence;

use std::{fs::File, io, io::Seek, path::Path};

use humansize::{BINARY, format_size};
use jiff::{Timestamp, tz::TimeZone};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    cli::args::values::ReportArgs, cli::exit::Exit, cli::record::files::Destination,
    cli::record::files::RecordKind, cli::record::log::JsonName, cli::record::log::time_zone,
    cli::report::charts::MOST_RUNS, cli::report::charts::RunFigures,
    cli::report::receipt_read::Receipt, cli::show::Console, error::Error, error::Result, hash::hex,
    path::Shown, path::count, sys,
};

// `dircopy report`, from its arguments to its exit code.

/// Makes a page of receipts, or checks them.
pub fn report(args: &ReportArgs, console: &Console) -> Exit {
    let Some(output) = &args.output else { return sequence::check(args, console) };
    let destination = match open(output) {
        Ok(destination) => destination,
        Err(error) => {
            console.refused(&error);
            return Exit::Refused;
        }
    };
    let (mut builder, mut unread) = (PageBuilder::default(), 0);
    for receipt in &args.receipts {
        if let Err(error) = builder.add(receipt) {
            console.err(&format!("dircopy: {error}"));
            unread += 1;
        }
    }
    let Some(page) = builder.page(unread) else { return Exit::Refused };
    if let Err(error) = destination.write(|file| sys::write_all(file, page.as_bytes())) {
        console.refused(&error);
        return Exit::Refused;
    }
    console.out(&format!("the report is {}", Shown::path(output)));
    if unread == 0 && console.all_written() { Exit::Complete } else { Exit::Incomplete }
}

/// The place of the page, if that may be one.
fn open(path: &Path) -> Result<Destination> {
    if !is_page(path) {
        let finding = "a page has a name that ends in .html";
        return Err(Error::finding("write the report", path, finding));
    }
    Destination::new(RecordKind::Page, path, &|_| false)
}

// The page around the sections: its head, its style, and the note at its end.

/// The style; the only thing that comes with the page.
const STYLE: &str = include_str!("style.css");

/// The first bytes of every page, by which it is known again.
pub const MARK: &str = "<!DOCTYPE html><html lang=\"en\" data-made-by=\"dircopy report\">";

/// The policy of every page: it loads, runs and sends nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page with this title and these sections.
pub fn page(title: &str, sections: &Markup) -> String {
    let version = env!("CARGO_PKG_VERSION");
    html! {
        (DOCTYPE)
        html lang="en" data-made-by="dircopy report" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } }
                main { (sections) }
                footer {
                    "Made by dircopy " (version) " from what its runs recorded. The page proves nothing by itself: the \
                     manifest and its digest can be checked, and receipts with dircopy report --check."
                }
            }
        }
    }
    .into_string()
}

// Names, sizes and times as a page has them.

/// A name: control and deceptive characters are escaped, and its direction is its own.
pub fn name(name: &JsonName) -> Markup {
    let bytes = name.path_bytes.as_ref().and_then(|hex| hex::parse(hex.0.as_bytes()));
    let bytes = bytes.unwrap_or_else(|| name.path.0.clone().into_bytes());
    name_of(&bytes)
}

/// The same of bytes.
pub fn name_of(bytes: &[u8]) -> Markup {
    html! { bdi .name { (Shown::bytes(bytes).to_string()) } }
}

/// A text that a receipt has: escaped like a name.
pub fn text(text: &str) -> Markup {
    html! { bdi { (Shown::bytes(text.as_bytes()).to_string()) } }
}

/// A number of bytes, and the exact number to look at.
pub fn size(bytes: u64) -> Markup {
    html! { span title=(format!("{} bytes", number(bytes))) { (format_size(bytes, BINARY)) } }
}

/// A number with a thin space between thousands.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: "1 file", "1 234 files".
pub fn counted(many: u64, noun: &str) -> String {
    let text = count(many, noun);
    text.replacen(&many.to_string(), &number(many), 1)
}

/// The rate of so many bytes; bytes in a second.
pub fn rate(bytes: f64, seconds: f64) -> String {
    match seconds > 0.0 && bytes > 0.0 {
        true => format!("{}/s", format_size((bytes / seconds) as u64, BINARY)),
        false => "–".into(),
    }
}

/// A time; seconds.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e12) as u64;
    match whole {
        0..60 => format!("{:.1} s", seconds.clamp(0.0, 60.0)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..172_800 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A moment by the clock of the machine that makes the page, without its fraction of a second:
/// `2026-11-22 03:08:39 +01:00`.
pub fn moment(stamp: &str) -> String {
    moment_in(stamp, &time_zone().unwrap_or(TimeZone::UTC))
}

fn moment_in(stamp: &str, zone: &TimeZone) -> String {
    let local = stamp.parse().map(|time: Timestamp| time.to_zoned(zone.clone()));
    let text = local.map(|time| match time.offset().is_zero() {
        true => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        false => time.strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
    });
    Shown::bytes(text.as_deref().unwrap_or(stamp).as_bytes()).to_string()
}

/// The days that lie between a moment and the making of the page, in words; nothing of less than one.
fn age(stamp: &str) -> String {
    let since =
        stamp.parse().map(|time: Timestamp| Timestamp::now().duration_since(time).as_hours());
    match since.unwrap_or(0) / 24 {
        1 => ", 1 day before this page was made".into(),
        days @ 2.. => {
            format!(", {} days before this page was made", number(days.unsigned_abs()))
        }
        _ => String::new(),
    }
}

// From receipts to a page.

/// True for the path of a page.
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

/// The page of the receipt at `path`.
///
/// # Errors
/// It cannot be read.
pub fn page_of_file(path: &Path) -> Result<String> {
    Receipt::open(path).map(|receipt| page_of_one(&receipt))
}

fn page_of_one(receipt: &Receipt) -> String {
    let title = format!("{}, {}", run_sections::heading(receipt), moment(&receipt.started.0));
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
            (charts::section(&self.runs, self.left_out))
            h2 .newest { "The newest run: " (moment(&newest.started.0)) (age(&newest.started.0)) }
            (run_sections::run(&newest))
        };
        Some(page("History of runs", &sections))
    }
}

#[cfg(test)]
mod page_tests {
    use super::*;

    #[test]
    fn a_page_is_known_again() {
        let page = page("<b>", &html! {});
        assert!(page.starts_with(MARK), "{page}");
        assert!(page.contains("<title>&lt;b&gt;</title>"));
        // The style cannot end its element.
        assert!(!STYLE.contains('<') && !STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}

#[cfg(test)]
mod words_tests {
    use super::*;
    use crate::cli::report::receipt::ClippedText;

    #[test]
    fn names_are_harmless() {
        let shown = |path: &str, hex: Option<&str>| {
            let path_bytes = hex.map(|hex| ClippedText(hex.into()));
            name(&JsonName { path: ClippedText(path.into()), path_bytes }).into_string()
        };
        let script = shown("<script>alert(\"1\")</script>&", None);
        assert!(!script.contains("<script") && script.contains("&lt;script&gt;"), "{script}");
        let turned = shown("a\u{202e}gpj.exe\u{1b}[31m", None);
        assert!(!turned.contains('\u{202e}') && !turned.contains('\u{1b}'), "{turned}");
        assert!(shown("", Some("ff41")).contains("\\xff"));
        // Digits that are none leave the text.
        assert!(shown("plain", Some("zz")).contains("plain"));
    }

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(12), "12");
        assert_eq!([1, 2000].map(|it| counted(it, "file")), ["1 file", "2\u{202f}000 files"]);
        let times = [0.26, 61.0, 7260.0, 1e300].map(duration);
        assert_eq!(times, ["0.3 s", "1 min 1 s", "2 h 1 min", "11574074 d 1 h"]);
        let at = |zone| moment_in("2026-11-22T02:08:39.123Z", &zone);
        assert_eq!(at(TimeZone::UTC), "2026-11-22 02:08:39 UTC");
        assert_eq!(at(TimeZone::fixed(jiff::tz::offset(1))), "2026-11-22 03:08:39 +01:00");
        assert_eq!(moment("yesterday"), "yesterday");
        assert_eq!(rate(0.0, 1.0), "–");
        let ago =
            |hours| age(&(Timestamp::now() - jiff::SignedDuration::from_hours(hours)).to_string());
        assert_eq!(
            [23, 25, 49].map(ago),
            ["", ", 1 day before this page was made", ", 2 days before this page was made"]
        );
        assert_eq!(age("yesterday"), "");
    }
}
