//! The rows of a closing summary, and the words for amounts in them.

use std::{fmt::Display, fmt::Write, path::Path, path::PathBuf, time::Duration};

use humansize::{BINARY, format_size};

use crate::cli::progress::{Charset, columns as width, path_end};
use crate::{
    chain::Damage, cli::exit::Exit, io::HashedFrom, path::Shown, path::count, state::SinceRecorded,
    state::TAGS_CHANGED, verify::Comparison, verify::Witness,
};

/// The room for the name of a row; characters.
const WIDTH: usize = 11;

/// The places to break a row that is too long for a terminal, the best first: behind a path, between sentences, between
/// parts of one.
const BREAKS: [&str; 3] = ["  ", "; ", ", "];

/// A summary that is being written.
#[derive(Default)]
pub struct Rows(String);

/// A row about a number of things: its name, the number, the noun, and what is said of them.
pub struct Counted<'a>(pub &'a str, pub u64, pub &'a str, pub &'a str);

impl Rows {
    pub fn row(&mut self, name: &str, what: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{name:<WIDTH$} {what}");
    }

    /// A row for each of these whose number is not 0.
    pub fn counted(&mut self, rows: &[Counted<'_>]) {
        for Counted(name, number, noun, what) in rows.iter().filter(|row| row.1 > 0) {
            self.row(name, format!("{} {what}", count(*number, noun)).trim_end());
        }
    }

    /// Adds these rows, each a line.
    pub fn add<'l>(&mut self, lines: impl IntoIterator<Item = &'l str>) {
        lines.into_iter().for_each(|line| self.0.extend([line, "\n"]));
    }

    /// Adds a row that is of this output alone.
    pub fn add_at(&mut self, line: &str, output: &str) {
        match line.split_at_checked(WIDTH + 1) {
            Some((name, what)) => self.row(name.trim_end(), format!("{output}  {what}")),
            None => self.add([line]),
        }
    }

    /// The rows for a terminal with so many columns. What does not fit stands in further lines, below what it is about.
    pub fn folded(&self, columns: usize, charset: Charset) -> String {
        let (room, below) = (columns.saturating_sub(WIDTH + 2), format!("\n{:1$}", "", WIDTH + 1));
        let lines = self.lines().map(|line| match line.split_at_checked(WIDTH + 1) {
            Some((name, what)) if width(line) >= columns => {
                let what = match what.split_once(BREAKS[0]) {
                    Some((path, rest)) if width(path) > room => {
                        format!("{}{}{rest}", path_end(path, room, charset), BREAKS[0])
                    }
                    _ => what.to_owned(),
                };
                format!("{name}{}", fold(&what, room, &BREAKS).join(&below))
            }
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The rows, each a line.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }

    /// The rows, without the last line's end.
    pub fn text(self) -> String {
        self.0.trim_end().to_owned()
    }
}

/// A text in lines of so many columns, broken at the first of these places that there are, or between words.
fn fold(text: &str, room: usize, breaks: &[&str]) -> Vec<String> {
    let Some((first, others)) = breaks.split_first().filter(|_| width(text) > room) else {
        return wrap(text.trim(), room, "").lines().map(str::to_owned).collect();
    };
    let gap = if *first == BREAKS[0] { BREAKS[0] } else { " " };
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(first).map(str::trim).filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line) + gap.len() + width(part) <= room => line.extend([gap, part]),
            _ => lines.extend(fold(part, room, others)),
        }
    }
    lines
}

/// A message in lines of so many columns, broken between words, the further ones behind this indent. A path stays
/// whole, blanks in it included: from a "/" on the text is broken only behind a mark that ends a part of a sentence.
pub fn wrap(text: &str, room: usize, indent: &str) -> String {
    let (mut lines, mut at, mut whole, mut seen) = (String::new(), 0, String::new(), 0);
    for word in text.split_inclusive(' ') {
        whole.push_str(word);
        seen += word.len();
        let is_remark = text[seen..].starts_with("(line ");
        let ends_part = is_remark || word.trim_end().ends_with([':', ';', ',']);
        if whole.contains('/') && !ends_part && !text.ends_with(whole.as_str()) {
            continue;
        }
        if at > indent.len() && at + width(whole.trim_end()) > room {
            lines.truncate(lines.trim_end().len());
            lines.extend(["\n", indent]);
            at = indent.len();
        }
        at += width(&whole);
        lines.push_str(&std::mem::take(&mut whole));
    }
    lines + &whole
}

/// A number of bytes, for people. What is whole has no point, and neither has what is as good as whole.
pub fn size(bytes: u64) -> String {
    format_size(bytes, BINARY).replace(".00 ", " ")
}

/// The same with three digits.
pub fn brief(bytes: u64) -> String {
    let whole = format_size(bytes, BINARY.decimal_places(0));
    let digits = whole.bytes().take_while(u8::is_ascii_digit).count();
    format_size(bytes, BINARY.decimal_places(3usize.saturating_sub(digits)))
}

/// Files and their bytes.
pub fn files(number: u64, bytes: u64) -> String {
    format!("{}, {}", count(number, "file"), size(bytes))
}

/// Files, symbolic links and special files, and the bytes of the files.
pub fn contents(number: u64, links: u64, specials: u64, bytes: u64) -> String {
    let kinds = [(number, "file"), (links, "link"), (specials, "special file")];
    let some: Vec<String> =
        kinds.iter().filter(|kind| kind.0 > 0).map(|(number, noun)| count(*number, noun)).collect();
    let text = match &some[..] {
        [] => return files(0, bytes),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    if number == 0 { text } else { format!("{text}, {}", size(bytes)) }
}

/// A path as it is typed in a command, where it is not to be taken for an option.
pub fn typed(path: &Path) -> String {
    let is_like_option =
        path != Path::new("-") && path.as_os_str().as_encoded_bytes().starts_with(b"-");
    if is_like_option { quoted(&Path::new(".").join(path)) } else { quoted(path) }
}

/// A word of a command as it is typed.
pub fn quoted(word: &Path) -> String {
    let text = Shown::path(word).to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/\\._-+=:@%,{}".contains(c);
    match text.chars().all(is_plain) || text.starts_with('"') {
        true => text,
        false if text.contains(['$', '`', '!', '\\']) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        false => format!("\"{text}\""),
    }
}

/// The duration of a run, and the rate of its bytes, if there are any.
pub fn time(elapsed: Duration, bytes: u64) -> String {
    let time = span(elapsed);
    match bytes {
        0 => time,
        bytes => format!("{time}, {}/s", size(per_second(bytes, elapsed))),
    }
}

/// The rate of so many bytes; bytes in a second.
pub fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    (bytes as f64 / elapsed.as_secs_f64().max(1e-9)) as u64
}

/// A time, for people.
pub fn span(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    match elapsed.as_secs() {
        0..10 => format!("{seconds:.2} s"),
        10..120 => format!("{seconds:.1} s"),
        whole @ 120..7200 => format!("{} min {} s", whole / 60, whole % 60),
        whole => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// The last line of a run that is not as it should be.
pub fn warn(title: &str, exit: Exit, text: &str) -> String {
    format!("{title} (exit {}): {text}", exit.code())
}

/// The proof that written content has from its source.
pub fn proven(proof: Option<HashedFrom>) -> &'static str {
    match proof {
        Some(HashedFrom::Device) => "read back from the device",
        Some(HashedFrom::Cache) => "read back only through a cache",
        None => "written, not read back",
    }
}

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

/// The remark on a file that is known otherwise.
pub fn contradiction(by: Witness) -> &'static str {
    match by {
        Witness::LaterGeneration => {
            "a later generation has another digest of it, so one of the two is wrong, whatever the file is"
        }
        Witness::TagList => TAGS_CHANGED,
        Witness::Record(SinceRecorded::Changed) => {
            "its digest there was changed since your last run recorded it, and it is held against the recorded one"
        }
        Witness::Record(SinceRecorded::Added) => {
            "your last run recorded none: it was added since, or that run left it out"
        }
        Witness::Record(SinceRecorded::Removed) => {
            "it was taken out of that since your last run recorded it, and is looked for all the same"
        }
    }
}

/// The remark on a file that was not read, because another size is on record; its damage tells both, if it is known.
pub fn other_size(found: u64, recorded: u64, damage: Option<&Damage>) -> String {
    match damage {
        Some(damage) => damage.to_string(),
        None => format!("size {found}, on record {recorded}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_too_long_goes_on_below() {
        let mut rows = Rows::default();
        rows.row("copied", "4 files, 26.2 MiB");
        let what = "/mnt/a disk  4 files, 26.2 MiB in 1.04 s, 25.3 MiB/s; written, not read back";
        rows.row("output", what);
        let folded = |columns| rows.folded(columns, Charset::Unicode);
        assert_eq!(folded(120), format!("copied      4 files, 26.2 MiB\noutput      {what}"));
        assert_eq!(
            folded(80),
            "copied      4 files, 26.2 MiB\n\
             output      /mnt/a disk\n            4 files, 26.2 MiB in 1.04 s, 25.3 MiB/s; written, not read back"
        );
        assert_eq!(
            folded(41),
            "copied      4 files, 26.2 MiB\n\
             output      /mnt/a disk\n            4 files, 26.2 MiB in 1.04 s,\n            25.3 MiB/s;\n\
             \u{20}           written, not read back"
        );
        // What has no place to be broken at is left to the terminal.
        let mut path = Rows::default();
        path.row("manifest", "/mnt/archive/dircopy-20261122T020837Z.sha256sum");
        assert_eq!(path.folded(41, Charset::Unicode), path.text());
        // The end of an output's name tells it from others.
        let mut long = Rows::default();
        long.row("output", "/run/media/editor/ARCHIVE-2026-A  refused: nothing was copied");
        let shown =
            "output      …n/media/editor/ARCHIVE-2026-A\n            refused: nothing was copied";
        assert_eq!(long.folded(43, Charset::Unicode), shown);
    }

    #[test]
    fn a_message_is_broken_between_words_and_not_in_a_path() {
        let text =
            "dircopy: cannot copy to /mnt/my disk/out: it has 88 MiB free, and the files take more";
        assert_eq!(wrap(text, 100, "  "), text);
        let wrapped = "dircopy: cannot copy to\n  /mnt/my disk/out: it has\n  88 MiB free, and the files\n  take more";
        assert_eq!(wrap(text, 28, "  "), wrapped);
        assert_eq!(
            wrap("see /a/path/that/is/too/long now", 8, ""),
            "see\n/a/path/that/is/too/long now"
        );
        let text = "differs: /a b/c (line 7 of /a b/list)";
        assert_eq!(wrap(text, 18, "  "), "differs: /a b/c\n  (line 7 of\n  /a b/list)");
        assert_eq!(wrap("", 8, ""), "");
    }

    #[test]
    fn three_digits_are_brief() {
        let all = [0, 999, 1 << 10, 12_345, 123_456_789, 1_234_567, 1023 << 20, 7 << 40];
        let brief = all.map(brief);
        let expected =
            ["0 B", "999 B", "1 KiB", "12.1 KiB", "118 MiB", "1.18 MiB", "1023 MiB", "7 TiB"];
        assert_eq!(brief, expected);
        assert_eq!(size(83 << 20 | 1000), "83 MiB");
    }
}
