//! The rows of a run at a moment, in the columns that the terminal has: the name first, then what matters most.

use crate::{
    cli::progress::Charset, cli::progress::bar, cli::progress::columns, cli::progress::path_end,
    cli::progress::snapshot::FileSnapshot, cli::progress::snapshot::OutputSnapshot,
    cli::progress::snapshot::RunSnapshot, cli::progress::snapshot::amount,
    cli::progress::snapshot::end_note, cli::progress::snapshot::most_of,
    cli::progress::snapshot::percent, cli::progress::snapshot::short_size, path::count,
};

/// A name has at least so many columns, …
const LEAST_NAME: usize = 12;

/// … and a bar so many, …
const LEAST_BAR: usize = 7;

/// … this many where there is room for them, which is before other columns, …
const GOOD_BAR: usize = 12;

/// … and at most so many.
const MOST_BAR: usize = 24;

/// Between columns.
const GAP: usize = 2;

/// Columns at the end of a line that stay free: for the cursor, and for the `^C` that a terminal writes there. A line
/// that it made too long could not be removed.
const SPARE: usize = 2;

/// The room of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub columns: usize,
    pub lines: usize,
    pub charset: Charset,
}

/// One row of the view, column by column. A column without text in any row is left out.
#[derive(Default)]
struct ViewRow {
    name: String,
    /// Work done and in all.
    done: Option<(u64, u64)>,
    percent: String,
    state: String,
    failed: String,
    rate: String,
    amount: String,
    files: String,
    /// Takes the place of all but the name.
    ended: Option<String>,
}

/// The columns behind the bar, the most important first.
const COLUMNS: [fn(&ViewRow) -> &str; 6] = [
    |row| &row.percent,
    |row| &row.state,
    |row| &row.failed,
    |row| &row.rate,
    |row| &row.amount,
    |row| &row.files,
];

/// The width that each has at least, so that the others do not move when a number grows.
const LEAST: [usize; 6] = [4, 9, 8, 12, 16, 10];

/// The place of the state among them.
const STATE: usize = 1;

/// Number of columns before the bar; those behind it are only good to know.
const ESSENTIAL: usize = 3;

impl ViewRow {
    fn output(output: &OutputSnapshot) -> Self {
        let failed = match output.failed {
            0 => String::new(),
            failed => format!("{failed} failed"),
        };
        let ended = output.end.map(|end| {
            let parts = [output.state(), failed.clone(), end_note(end).to_owned()];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
        });
        Self {
            name: output.name.clone(),
            done: output.total_bytes.map(|total| (output.bytes, total)),
            percent: output.percent().map(|percent| format!("{percent}%")).unwrap_or_default(),
            state: output.state(),
            failed,
            rate: format!("{}/s", short_size(output.rate)),
            amount: padded(output.amount(), output.total_bytes.map(short_size)),
            files: padded(output.files(), output.total_entries.map(|of| count(of, "file"))),
            ended,
        }
    }

    fn file(file: &FileSnapshot) -> Self {
        let read = file.read;
        Self {
            name: file.name.clone(),
            done: read,
            percent: read.map(|(read, of)| format!("{}%", percent(read, of))).unwrap_or_default(),
            amount: read.map(|(read, of)| amount(read, of)).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// A number of `all` in the room that it takes at the end.
fn padded(text: String, all: Option<String>) -> String {
    let room = all.map_or(0, |all| most_of(&all));
    format!("{text:>room$}")
}

/// The widths of the columns.
struct Widths {
    name: usize,
    bar: usize,
    /// Widths of the other `COLUMNS`; 0 for one that has no room.
    others: [usize; COLUMNS.len()],
}

impl Widths {
    fn of(rows: &[ViewRow], room: usize) -> Self {
        let running = || rows.iter().filter(|row| row.ended.is_none());
        let mut others = [0; COLUMNS.len()];
        let natural = rows.iter().map(|row| columns(&row.name)).max().unwrap_or(0);
        let mut name = natural.min(LEAST_NAME);
        let mut left = room.saturating_sub(name);
        let mut bar = 0;
        let has_bar = running().any(|row| row.done.is_some());
        for (at, column) in COLUMNS.iter().enumerate() {
            if at == ESSENTIAL && has_bar && left >= LEAST_BAR + GAP {
                bar = (left - GAP).min(GOOD_BAR);
                left -= bar + GAP;
            }
            let widest = running().map(|row| columns(column(row))).max().unwrap_or(0);
            // What an output does has its room also while it is not known.
            let widest = if at == STATE && has_bar { widest.max(1) } else { widest };
            let width = if widest == 0 { 0 } else { widest.max(LEAST[at]) };
            if width == 0 {
                continue;
            }
            if left < width + GAP {
                break;
            }
            others[at] = width;
            left -= width + GAP;
        }
        // A longer name is less than how an output ended.
        let ends = rows.iter().filter_map(|row| row.ended.as_deref()).map(columns);
        let most = room.saturating_sub(ends.max().unwrap_or(0) + GAP).max(name);
        let more = left.min(natural.min(most) - name);
        (name, left) = (name + more, left - more);
        if bar > 0 {
            bar = (bar + left).min(MOST_BAR);
        }
        Self { name, bar, others }
    }

    fn line(&self, row: &ViewRow, room: Room) -> String {
        let whole = room.columns.saturating_sub(SPARE);
        let name = path_end(&row.name, self.name, room.charset);
        let gap = " ".repeat(GAP);
        if let Some(ended) = &row.ended {
            // Words that do not fit are left out from the end.
            let whole = room.columns.saturating_sub(1);
            let mut text = ended.as_str();
            while columns(text) + self.name + GAP > whole {
                let Some((shorter, _)) = text.rsplit_once("  ") else { break };
                text = shorter;
            }
            return cut(&format!("{name}{gap}{text}"), whole);
        }
        let is_bare = row.done.is_none() && COLUMNS.iter().all(|column| column(row).is_empty());
        if is_bare {
            return path_end(&row.name, whole.min(columns(&row.name)), room.charset);
        }
        let mut line = name;
        if self.bar > 0 {
            let bar = row.done.map(|(done, of)| bar(done, of, self.bar, room.charset));
            line = format!("{line}{gap}{}", bar.unwrap_or_else(|| " ".repeat(self.bar)));
        }
        for (column, width) in COLUMNS.iter().zip(self.others).filter(|(_, width)| *width > 0) {
            line = format!("{line}{gap}{:>width$}", column(row));
        }
        cut(line.trim_end(), whole)
    }
}

/// The beginning of a text, so much as fits.
fn cut(text: &str, room: usize) -> String {
    let mut text = text.to_owned();
    while columns(&text) > room {
        text.pop();
    }
    text
}

/// The lines of a view of the run.
pub fn lines(run: &RunSnapshot, room: Room) -> Vec<String> {
    let mut outputs: Vec<&OutputSnapshot> = run.outputs.iter().collect();
    let file = run.file.as_ref().map(ViewRow::file);
    // One line stays free for the cursor.
    let most = room.lines.saturating_sub(1 + usize::from(file.is_some())).max(1);
    let hidden = match outputs.len() > most {
        true => {
            // Those that are not done yet stay in view.
            outputs.sort_by_key(|output| output.end.is_some());
            outputs.split_off(most.saturating_sub(1).max(1))
        }
        false => Vec::new(),
    };
    let mut rows: Vec<_> = outputs.into_iter().map(ViewRow::output).collect();
    rows.extend(file);
    let whole = room.columns.saturating_sub(SPARE);
    let widths = Widths::of(&rows, whole);
    let mut lines: Vec<_> = rows.iter().map(|row| widths.line(row, room)).collect();
    if !hidden.is_empty() {
        let ended = hidden.iter().filter(|output| output.end.is_some()).count();
        let more = format!("and {} outputs more, {ended} of them ended", hidden.len());
        lines.insert(lines.len() - usize::from(run.file.is_some()), cut(&more, whole));
    }
    lines.truncate(room.lines.saturating_sub(1).max(1));
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{event::EndState, event::RunEnd};

    fn output(name: &str, bytes: u64) -> OutputSnapshot {
        OutputSnapshot {
            name: name.into(),
            bytes,
            total_bytes: Some(27 << 30),
            entries: 2,
            total_entries: Some(4),
            failed: 0,
            rate: 112 << 20,
            left: Some(Duration::from_secs(25)),
            read_back: None,
            is_repair_looked_for: false,
            end: None,
        }
    }

    fn run() -> RunSnapshot {
        let end = RunEnd { state: EndState::ReadBack, elapsed: Duration::from_secs(25) };
        let done = OutputSnapshot { end: Some(end), ..output("/mnt/tape-room/a", 27 << 30) };
        let file = FileSnapshot { name: "2026/wedding.mov".into(), read: Some((1 << 30, 2 << 30)) };
        RunSnapshot { outputs: vec![done, output("/mnt/b", 18 << 30)], file: Some(file) }
    }

    fn room(columns: usize, lines: usize) -> Room {
        Room { columns, lines, charset: Charset::Ascii }
    }

    #[test]
    fn what_matters_most_stays_where_it_is_narrow() {
        assert_eq!(
            lines(&run(), room(40, 10)),
            [
                "~tape-room/a  DONE 0:25  read back",
                "/mnt/b        [===  ]   66%  0:25 left",
                "~wedding.mov  [==   ]   50%",
            ]
        );
        assert_eq!(
            lines(&run(), room(80, 24)),
            [
                "~nt/tape-room/a  DONE 0:25  read back",
                "/mnt/b           [======    ]   66%  0:25 left   112.0 MiB/s  18.0 of 27.0 GiB",
                "~26/wedding.mov  [=====     ]   50%                             1.0 of 2.0 GiB",
            ]
        );
        let wide = lines(&run(), room(120, 40));
        assert!(wide[1].ends_with("18.0 of 27.0 GiB  2 of 4 files"), "{wide:?}");
    }

    #[test]
    fn no_line_is_too_long_and_no_row_too_much() {
        let mut run = run();
        run.outputs[1].failed = 123_456;
        for number in 0..14 {
            run.outputs.push(output(&format!("/mnt/婚礼/{number}"), number << 30));
        }
        for columns in 1..150 {
            for height in 1..20 {
                let lines = lines(&run, room(columns, height));
                assert!(lines.len() <= height.max(2), "{height}: {lines:?}");
                let long =
                    lines.iter().find(|line| crate::cli::progress::columns(line) >= columns.max(2));
                assert_eq!(long, None, "{columns}");
            }
        }
    }
}
