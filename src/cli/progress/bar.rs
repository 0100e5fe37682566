//! Bars and names of a given width, in characters that the terminal has.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::sys;

/// The characters that a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    /// What the locale promises.
    pub fn of_terminal() -> Self {
        if sys::shows_unicode() { Charset::Unicode } else { Charset::Ascii }
    }
}

/// A bar of `width` columns for this part of a whole.
pub fn bar(part: u64, whole: u64, width: usize, charset: Charset) -> String {
    /// Eighths of a column.
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = part.min(whole) as f64 / whole.max(1) as f64;
    match charset {
        Charset::Unicode => {
            let eighths = (share * width as f64 * 8.0) as usize;
            let (full, rest) = (eighths / 8, eighths % 8);
            let begun = "█".repeat(full) + EIGHTHS[rest];
            let left = width - full - usize::from(rest > 0);
            begun + &"░".repeat(left)
        }
        Charset::Ascii => {
            let inside = width.saturating_sub(2);
            let full = (share * inside as f64) as usize;
            format!("[{}{}]", "=".repeat(full), " ".repeat(inside - full))
        }
    }
}

/// The columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// A path in exactly `width` columns: its end, which tells it from others, where it is too long.
pub fn path_end(path: &str, width: usize, charset: Charset) -> String {
    let mut text = path.to_owned();
    if columns(path) > width {
        let mark = if charset == Charset::Unicode { "…" } else { "~" };
        let mut room = width.saturating_sub(1);
        let fits = |&(_, c): &(usize, char)| {
            let wide = c.width().unwrap_or(0);
            let fits = wide <= room;
            room = room.saturating_sub(wide);
            fits
        };
        let start = path.char_indices().rev().take_while(fits).last().map_or(path.len(), |it| it.0);
        text = format!("{mark}{}", &path[start..]);
    }
    let gap = width.saturating_sub(columns(&text));
    text + &" ".repeat(gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_their_columns() {
        let all = |charset| [0, 1, 50, 99, 100].map(|part| bar(part, 100, 8, charset));
        assert_eq!(
            all(Charset::Ascii),
            ["[      ]", "[      ]", "[===   ]", "[===== ]", "[======]"]
        );
        assert_eq!(
            all(Charset::Unicode),
            ["░░░░░░░░", "░░░░░░░░", "████░░░░", "███████▉", "████████"]
        );
        for part in 0..=1000 {
            assert_eq!(columns(&bar(part, 1000, 13, Charset::Unicode)), 13, "{part}");
        }
    }

    #[test]
    fn names_keep_their_end_and_their_columns() {
        let end = |path, width| path_end(path, width, Charset::Unicode);
        assert_eq!(end("/mnt/a", 8), "/mnt/a  ");
        assert_eq!(end("/mnt/backup/a", 8), "…ackup/a");
        assert_eq!(path_end("/mnt/backup/a", 8, Charset::Ascii), "~ackup/a");
        // Wide characters and marks without a width.
        for width in 1..12 {
            for name in ["婚礼/视频.mov", "e\u{301}te\u{301}/plage.jpg", "שלום.txt"] {
                assert_eq!(columns(&end(name, width)), width, "{name} in {width}");
            }
        }
    }
}
