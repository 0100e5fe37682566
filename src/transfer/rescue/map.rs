//! The map of a rescue: which parts of a file were read, and which could not be.
//!
//! Its text is a mapfile of GNU ddrescue, which can go on with it, as can the programs that show one. A comment of ours
//! in it is a seal over all that follows: nobody but this user's runs can make that. A map without it was written by
//! another program, and what that read is believed only where a second reading of the source agrees.

use std::fmt::Write;

use crate::hash::Sha256;

/// More parts are not kept apart, and a longer text is not read; bytes.
pub const MOST_PARTS: usize = 1 << 16;
pub const MOST_TEXT: u64 = 8 << 20;

/// The first line, and what begins the one with the seal, …
const HEAD: &str = "# Mapfile. Written by dircopy, for GNU ddrescue too\n# Seal: ";

/// … and one for each part that another program read.
const FOREIGN: &str = "# Read by another program: ";

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was tried.
    Untried,
    /// A long read of it failed.
    Untrimmed,
    /// Both ends of it are known to be bad, or to border on what is.
    Unscraped,
    /// A read of a sector of it failed.
    Bad,
    Read,
    /// Another program says that it was read.
    Foreign,
}

impl State {
    fn sign(self) -> char {
        match self {
            Self::Untried => '?',
            Self::Untrimmed => '*',
            Self::Unscraped => '/',
            Self::Bad => '-',
            Self::Read | Self::Foreign => '+',
        }
    }

    /// True for what the file has.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Foreign)
    }
}

/// A stretch of the file in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub at: u64,
    pub end: u64,
    pub state: State,
}

/// The parts of a file, in order and without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map(Vec<Part>);

impl Map {
    /// That of a file of which nothing was tried.
    pub fn new(size: u64) -> Self {
        let all = Part { at: 0, end: size, state: State::Untried };
        Self(if size == 0 { Vec::new() } else { vec![all] })
    }

    /// The parts in this state, as they are now.
    pub fn in_state(&self, state: State) -> Vec<Part> {
        self.0.iter().filter(|part| part.state == state).copied().collect()
    }

    /// What is missing, each stretch as a whole.
    pub fn missing(&self) -> Vec<Part> {
        let mut missing: Vec<Part> = Vec::new();
        for part in self.0.iter().filter(|part| !part.state.is_read()) {
            match missing.last_mut() {
                Some(last) if last.end == part.at => last.end = part.end,
                _ => missing.push(Part { state: State::Bad, ..*part }),
            }
        }
        missing
    }

    /// True if it has so many parts that they should not be parted further.
    pub fn is_full(&self) -> bool {
        self.0.len() + 2 > MOST_PARTS
    }

    /// True if some of it was read by another program.
    pub fn is_foreign(&self, at: u64, end: u64) -> bool {
        let overlaps = |part: &&Part| part.at < end && at < part.end;
        self.0.iter().filter(overlaps).any(|part| part.state == State::Foreign)
    }

    /// Notes the state of the stretch from `at` to `end`, which is within the file.
    pub fn set(&mut self, at: u64, end: u64, state: State) {
        let end = end.min(self.0.last().map_or(0, |last| last.end));
        if at >= end {
            return;
        }
        // The parts that it touches, or borders on.
        let first = self.0.partition_point(|part| part.end < at);
        let last = self.0.partition_point(|part| part.at <= end);
        let mut new: Vec<Part> = Vec::with_capacity(5);
        let mut push = |part: Part| match new.last_mut() {
            _ if part.at >= part.end => {}
            Some(before) if before.state == part.state => before.end = part.end,
            _ => new.push(part),
        };
        let touched = self.0.get(first..last).unwrap_or_default();
        touched.iter().for_each(|part| push(Part { end: part.end.min(at), ..*part }));
        push(Part { at, end, state });
        touched.iter().for_each(|part| push(Part { at: part.at.max(end), ..*part }));
        self.0.splice(first..last, new);
    }

    /// The text, sealed by `seal`, which is of one file's rescue.
    pub fn text(&self, seal: &Sha256) -> String {
        let mut text = String::new();
        for Part { at, end, .. } in self.in_state(State::Foreign) {
            let _ = writeln!(text, "{FOREIGN}{at:#x} {:#x}", end - at);
        }
        let next = self.missing().first().map_or(0, |part| part.at);
        let now = if self.missing().is_empty() { '+' } else { '?' };
        text += "# current_pos  current_status  current_pass\n";
        let _ = writeln!(
            text,
            "0x{next:08X}     {now}               1\n#      pos        size  status"
        );
        let mut rest = &self.0[..];
        while let Some(first) = rest.first() {
            let sign = first.state.sign();
            let alike = rest.iter().take_while(|part| part.state.sign() == sign).count();
            let end = rest[..alike].last().map_or(first.end, |last| last.end);
            let _ = writeln!(text, "0x{:08X}  0x{:08X}  {sign}", first.at, end - first.at);
            rest = &rest[alike..];
        }
        let sum = Sha256::of(&[&seal.0, text.as_bytes()]);
        format!("{HEAD}{sum}\n{text}")
    }

    /// Reads the map of a file of `size` bytes that `seal` is of.
    ///
    /// # Errors
    /// It is none; says in which line and why.
    pub fn parse(text: &str, size: u64, seal: &Sha256) -> Result<Self, String> {
        let sealed = text.strip_prefix(HEAD).and_then(|rest| rest.split_once('\n'));
        let is_sealed = sealed
            .is_some_and(|(sum, rest)| sum == Sha256::of(&[&seal.0, rest.as_bytes()]).to_string());
        let read = if is_sealed { State::Read } else { State::Foreign };
        let (mut map, mut foreign, mut has_position) = (Self(Vec::new()), Vec::new(), false);
        for (number, line) in text.lines().enumerate() {
            let fail = |why: &str| format!("line {}: {why}", number + 1);
            if let Some(part) = line.strip_prefix(FOREIGN).filter(|_| is_sealed) {
                foreign.push(stretch(part).ok_or_else(|| fail("that is no part"))?);
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if !std::mem::replace(&mut has_position, true) {
                let status = line.split_whitespace().nth(1).filter(|it| it.len() == 1);
                let place = line.split_whitespace().next().and_then(number_of);
                status.zip(place).ok_or_else(|| fail("it has no position and status"))?;
                continue;
            }
            let (at, end) = stretch(line).ok_or_else(|| fail("it has no position and size"))?;
            let state = match line.split_whitespace().nth(2) {
                Some("?") => State::Untried,
                Some("*") => State::Untrimmed,
                Some("/") => State::Unscraped,
                Some("-") => State::Bad,
                Some("+") => read,
                _ => return Err(fail("it has no status that is known")),
            };
            let before = map.0.last().map_or(0, |last| last.end);
            match () {
                () if at != before => {
                    return Err(fail("it does not begin where the part before it ends"));
                }
                () if end <= at => return Err(fail("it is empty")),
                () if end > size => return Err(fail("it goes beyond the end of the file")),
                () if map.is_full() => return Err(fail("there are too many parts")),
                () => map.0.push(Part { at, end, state }),
            }
        }
        let end = map.0.last().map_or(0, |last| last.end);
        if end != size {
            return Err(format!("it ends at {end}, and the file has {size} bytes"));
        }
        // Only what is said to be read was read by anybody.
        for (at, end) in foreign {
            let inside = map.0.iter().filter(|it| it.state.is_read() && it.at < end && at < it.end);
            for part in inside.copied().collect::<Vec<_>>() {
                map.set(at.max(part.at), end.min(part.end), State::Foreign);
            }
        }
        Ok(map)
    }
}

/// Reads the beginning and length of a part; from where to where it goes.
fn stretch(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace().map(number_of);
    let (at, len) = (words.next()??, words.next()??);
    Some((at, at.checked_add(len)?))
}

/// Reads a number as ddrescue writes it.
fn number_of(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    match digits {
        Some(digits) if digits.bytes().all(|it| it.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if word.bytes().all(|it| it.is_ascii_digit()) => word.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEAL: Sha256 = Sha256([7; 32]);
    const STATES: [State; 6] = [
        State::Untried,
        State::Untrimmed,
        State::Unscraped,
        State::Bad,
        State::Read,
        State::Foreign,
    ];

    fn parse(lines: &[&str]) -> Result<Map, String> {
        Map::parse(&(lines.join("\n") + "\n"), 0x3000, &SEAL)
    }

    #[test]
    fn a_map_of_ddrescue_is_read() {
        let map = parse(&[
            "# Mapfile. Created by GNU ddrescue version 1.27",
            "# current_pos  current_status  current_pass",
            "0x00001000     ?               1",
            "#      pos        size  status",
            "0x00000000  0x00001000  +",
            "0x00001000  0x00000200  -",
            "0x00001200  0x00001E00  *",
        ]);
        let map = map.unwrap();
        let of = |at, end, state| Part { at, end, state };
        assert_eq!(map.in_state(State::Foreign), [of(0, 0x1000, State::Foreign)]);
        assert_eq!(map.missing(), [of(0x1000, 0x3000, State::Bad)]);
        assert!(map.is_foreign(0xfff, 0x2000) && !map.is_foreign(0x1000, 0x3000));
    }

    #[test]
    fn what_is_no_map_of_the_file_is_refused_by_its_line() {
        let whole = ["0x0 ? 1", "0x0 0x1000 +", "0x1000 0x2000 -"];
        assert!(parse(&whole).is_ok());
        for (line, with, why) in [
            (0, "0x0", "line 1: it has no position and status"),
            (1, "0x0 0x1000", "line 2: it has no status"),
            (1, "0x0 0x1000 x", "line 2: it has no status"),
            (1, "0x0 +", "line 2: it has no position and size"),
            (1, "0x0 0xffffffffffffffffff +", "line 2: it has no position and size"),
            (2, "0x1000 0xffffffffffffffff -", "line 3: it has no position and size"),
            (1, "0x0 0x1001 +", "line 3: it does not begin"),
            (2, "0x1001 0x1fff -", "line 3: it does not begin"),
            (1, "0x0 -0x1000 +", "line 2: it has no position and size"),
            (1, "0x0 0x0 +", "line 2: it is empty"),
            (2, "0x1000 0x2001 -", "line 3: it goes beyond"),
            (2, "0x1000 0x1fff -", "it ends at 12287"),
        ] {
            let mut lines = whole;
            lines[line] = with;
            let said = parse(&lines).unwrap_err();
            assert!(said.starts_with(why), "{with}: {said}");
        }
        assert!(parse(&[]).is_err());
    }

    proptest! {
        #[test]
        fn it_is_read_as_it_was_written_and_foreign_when_it_was_changed(
            changes in proptest::collection::vec((0u64..0x3000, 1u64..0x800, 0usize..6), 0..40),
            damage in (0usize..10_000, any::<u8>()),
        ) {
            let mut map = Map::new(0x3000);
            let mut model = vec![State::Untried; 0x3000];
            for (at, len, state) in changes {
                let end = (at + len).min(0x3000);
                map.set(at, at + len, STATES[state]);
                model[at as usize..end as usize].fill(STATES[state]);
            }
            let mut before = 0;
            for part in &map.0 {
                prop_assert!(part.at == before && part.end > part.at);
                prop_assert!(model[part.at as usize..part.end as usize].iter().all(|it| *it == part.state));
                before = part.end;
            }
            prop_assert_eq!(before, 0x3000);
            prop_assert!(map.0.windows(2).all(|two| two[0].state != two[1].state));
            let text = map.text(&SEAL);
            prop_assert_eq!(Map::parse(&text, 0x3000, &SEAL), Ok(map.clone()));
            let other = Map::parse(&text, 0x3000, &Sha256([8; 32])).unwrap();
            prop_assert!(other.in_state(State::Read).is_empty());
            prop_assert_eq!(other.missing(), map.missing());
            // Whatever becomes of the text, nothing that was not sealed counts as read by us.
            let mut bytes = text.clone().into_bytes();
            let at = damage.0 % bytes.len();
            bytes[at] = damage.1;
            if let Ok(damaged) = Map::parse(&String::from_utf8_lossy(&bytes), 0x3000, &SEAL) {
                let is_ours = !damaged.in_state(State::Read).is_empty();
                prop_assert!(!is_ours || damaged == map);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-fx?*/+# \n-]{0,200}") {
            let _ = Map::parse(&text, 0x3000, &SEAL);
        }
    }
}
