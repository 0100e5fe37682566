//! The names of manifests, and the choice of the newest among several.
//!
//! `dircopy-YYYYMMDDTHHMMSSZ.sha256sum`, or with the ending of the algorithm that its run proved with. A manifest
//! that is not finished has `.part` behind all that and gets its final name when the run ends; so a name alone tells
//! whether the manifest may be believed to be complete.
//!
//! Further lists beside a manifest have the same time and the endings of other algorithms: of all these names the
//! manifest's is the one of the strongest.
//!
//! Only a name that this file could have made is ours: a user's `dircopy-notes.sha256sum` is a file
//! like any other.

use std::{cmp::Reverse, collections::HashMap, ffi::OsStr, ffi::OsString, fmt, io, path::Path};

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::Offset};

use crate::error::Deed;
use crate::{error::Error, error::Result, hash::Algorithm, manifest::ListKind, sys::Dir};

const START: &[u8] = b"dircopy-";
const STATES: &str = "states";
const SPAN: &str = "span";
const PART: &[u8] = b".part";

/// Largest difference between the clocks of two machines.
const APART: SignedDuration = SignedDuration::from_hours(24);

/// True if a time is still to come, whoever's clock it is by.
pub fn is_ahead(time: Timestamp) -> bool {
    Timestamp::now().checked_add(APART).is_ok_and(|latest| time > latest)
}

/// The name of the side file of any manifest: `.states` stands in the place of `.sha256sum`, or behind another name.
pub fn states_name(manifest: &Path) -> Option<OsString> {
    let name = manifest.file_name()?;
    if let Some(ours) = ManifestName::parse(name) {
        return Some(ours.states().into());
    }
    let is_usual = manifest.extension().is_some_and(|extension| extension == "sha256sum");
    let mut states = if is_usual { manifest.file_stem()?.to_owned() } else { name.to_owned() };
    states.push(".states");
    Some(states)
}

/// The name of a manifest, taken apart. The order is that of time, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestName {
    stamp: Stamp,
    algorithm: Algorithm,
    finished: bool,
}

impl ManifestName {
    /// The name of the finished manifest of a run that started at `time`.
    pub fn new(time: Timestamp) -> Self {
        Self { stamp: Stamp::new(time), algorithm: Algorithm::Sha256, finished: true }
    }

    /// The name of a manifest of `algorithm`, which is not none.
    #[must_use]
    pub fn of(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// Takes the name of a file apart; `None` if it is not one that [`Display`](fmt::Display) writes. A list beside a
    /// manifest may have such a name: see [`drop_lists`](Self::drop_lists).
    pub fn parse(name: &OsStr) -> Option<Self> {
        if !name.as_encoded_bytes().starts_with(START) {
            return None;
        }
        Algorithm::listed().find_map(|algorithm| {
            let parsed = Self::parse_ending(name, algorithm.suffix())?;
            Some(parsed.of(algorithm))
        })
    }

    /// Leaves of all these names those of manifests: of one run only that of the strongest algorithm, or the one that
    /// is `recorded`.
    pub fn drop_lists(names: &mut Vec<Self>, recorded: Option<Self>) {
        let mut strongest = HashMap::new();
        for name in &*names {
            let best = strongest.entry(name.stamp).or_insert(name.algorithm);
            *best = (*best).min(name.algorithm);
        }
        if let Some(recorded) = recorded.filter(|recorded| names.contains(recorded)) {
            strongest.insert(recorded.stamp, recorded.algorithm);
        }
        names.retain(|name| strongest.get(&name.stamp) == Some(&name.algorithm));
    }

    /// The algorithm of its digests.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// True if both are names of one run's.
    pub fn is_of_run(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }

    /// True if its run started before that of `other`, or is the same.
    pub fn is_up_to(&self, other: &Self) -> bool {
        self.stamp <= other.stamp
    }

    /// The manifest whose side file has this name; `None` if it is not one that [`states`](Self::states) gives.
    pub fn of_states(name: &OsStr) -> Option<Self> {
        Self::parse_ending(name, STATES)
    }

    fn parse_ending(name: &OsStr, ending: &str) -> Option<Self> {
        let name = name.as_encoded_bytes();
        let (name, finished) = match name.strip_suffix(PART) {
            Some(name) => (name, false),
            None => (name, true),
        };
        let stamp =
            name.strip_prefix(START)?.strip_suffix(ending.as_bytes())?.strip_suffix(b".")?;
        Some(Self { stamp: Stamp::parse(stamp)?, algorithm: Algorithm::Sha256, finished })
    }

    /// The name of the manifest's side file, in which the states of large files are.
    pub fn states(&self) -> String {
        let part = if self.finished { "" } else { ".part" };
        format!("dircopy-{}.states{part}", self.stamp)
    }

    /// The name of the list beside the manifest whose name ends so.
    pub fn list(&self, suffix: &str) -> String {
        let part = if self.finished { "" } else { ".part" };
        format!("dircopy-{}.{suffix}{part}", self.stamp)
    }

    /// The names that all lists beside the manifest would have.
    pub fn lists(&self) -> impl Iterator<Item = String> {
        ListKind::suffixes(self.algorithm).map(|suffix| self.list(suffix))
    }

    /// The manifest of SHA-256 beside which a list has this name; `None` if it is not one that [`list`](Self::list)
    /// gives.
    pub fn of_list(name: &OsStr) -> Option<Self> {
        let named = |suffix: &str| Self::parse_ending(name, suffix);
        // Nearly no name is one of ours.
        let is_like_ours = name.as_encoded_bytes().starts_with(START);
        is_like_ours.then(|| ListKind::suffixes(Algorithm::Sha256).find_map(named))?
    }

    /// The name of the index of a span that was finished at this time.
    pub fn span(&self) -> String {
        self.list(SPAN)
    }

    /// The time of the index of a span that has this name.
    pub fn of_span(name: &OsStr) -> Option<Self> {
        Self::parse_ending(name, SPAN)
    }

    /// The manifest that a file of this name is, or stands beside: its side file, or one of its lists.
    pub fn of_any(name: &OsStr) -> Option<Self> {
        Self::parse(name).or_else(|| Self::of_beside(name))
    }

    /// The manifest beside which a side file, a list or the index of a span has this name.
    pub fn of_beside(name: &OsStr) -> Option<Self> {
        Self::of_states(name).or_else(|| Self::of_span(name)).or_else(|| Self::of_list(name))
    }

    /// When the manifest's run started.
    pub fn time(&self) -> Timestamp {
        self.stamp.time()
    }

    /// True if its run would begin in the future: a clock was wrong, or somebody made the name up so that it sorts
    /// behind all others.
    pub fn is_ahead(&self) -> bool {
        is_ahead(self.time())
    }

    /// Puts the newest first. Those that are ahead come last: they say nothing of which is the newest.
    pub fn newest_first(names: &mut [Self]) {
        names.sort_unstable_by_key(|name| (name.is_ahead(), Reverse(*name)));
    }

    /// The number of the manifest among those of its second, counted from 1.
    pub fn number(&self) -> u32 {
        self.stamp.number()
    }

    /// True if the run that wrote it came to its end.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The name to try when this one is taken: that of the next second.
    pub fn next(self) -> Option<Self> {
        Some(Self { stamp: self.stamp.next()?, ..self })
    }

    /// The name of the same manifest while it is written.
    pub fn unfinished(self) -> Self {
        Self { finished: false, ..self }
    }

    /// The name of the same manifest when it is complete.
    pub fn finished(self) -> Self {
        Self { finished: true, ..self }
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.list(self.algorithm.suffix()))
    }
}

// The names of algorithms that are not known here.

/// The remark on a list of which every file differs by SHA-512.
pub const LIKE_SHA512: &str = "every file of it differs by SHA-512, and digests of b2sum (BLAKE2b) look alike, which cannot be checked here; if it \
     is a list of b2sum, check it with b2sum -c";

/// Number of bytes of a name that are kept.
const MOST: usize = 22;

/// The name of an algorithm that is not known here. A long one is cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum OtherName {
    /// One that is expected in lists.
    Usual(&'static str),
    /// Any other, as a list has it: so many of the bytes, which are letters, digits and signs.
    Unusual([u8; MOST], u8),
}

impl OtherName {
    /// The name that a list has, as far as it can be shown.
    pub fn of(name: &str) -> Self {
        let mut bytes = [0; MOST];
        let shown = name.bytes().filter(u8::is_ascii_graphic).take(MOST);
        let len = bytes.iter_mut().zip(shown).map(|(to, from)| *to = from).count();
        OtherName::Unusual(bytes, len as u8)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        match self {
            OtherName::Usual(name) => name,
            OtherName::Unusual(bytes, len) => {
                let name = bytes.get(..usize::from(*len)).unwrap_or_default();
                std::str::from_utf8(name).unwrap_or_default()
            }
        }
    }
}

impl From<&'static str> for OtherName {
    fn from(name: &'static str) -> Self {
        OtherName::Usual(name)
    }
}

impl fmt::Display for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

// Trying names for a manifest until one is free.

/// Who gets none of so many names cannot have one: a broken file system may say of each that it is taken.
const MOST_TRIES: u32 = 100;

const TAKEN: &str = "too many names are taken: remove the lists that no run made (dircopy-…Z.sha256sum), and let nobody \
                     else write there (chmod)";

/// The finished and the unfinished file name.
pub fn both(name: ManifestName) -> (OsString, OsString) {
    (name.finished().to_string().into(), name.unfinished().to_string().into())
}

/// The name to try next, after so many `tries` that found one taken.
///
/// # Errors
/// There is none, or it is vain to go on.
pub fn next(name: ManifestName, path: &Path, tries: u32) -> Result<ManifestName> {
    let next = name.next().filter(|_| tries < MOST_TRIES);
    next.ok_or_else(|| Error::finding("name a manifest in", path, TAKEN))
}

/// True if nothing in `root` is called `name`.
pub fn is_absent(root: &Dir, name: &OsStr) -> io::Result<bool> {
    root.stat(name, false).if_there().map(|there| there.is_none())
}

// When a run started, as it stands in the names of what the run leaves.
//
// `YYYYMMDDTHHMMSSZ`, in UTC, so that names sort by time. When a name with it is taken, that of the next
// second is: so the names of two runs sort in the order of the runs, for every program that sorts names.
// Earlier versions put a number behind the time, `-2`, `-3`, …, which sorts before the first; such names
// are still read.

/// A time in a name. The order is that of time, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Whole seconds.
    time: Timestamp,
    /// The number among those of that second; 1 is not written.
    number: u32,
}

impl Stamp {
    /// The name for a run that started at `time`. What is below a second is dropped; a time before 1970, which only a
    /// broken clock shows, counts as 1970.
    pub fn new(time: Timestamp) -> Self {
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self { time: time.max(Timestamp::UNIX_EPOCH), number: 1 }
    }

    /// Takes it apart; `None` if it is not one that [`Display`](fmt::Display) writes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (time, number) = text.split_at_checked(SHAPE.len())?;
        Some(Self { time: parse_time(time)?, number: parse_number(number)? })
    }

    /// That in the name of a list, whatever stands around it, in letters of either case: an ending, or what people and
    /// programs give a further copy, as `Copy of …`, ` (1)` and `_copy`.
    pub fn of_list(name: &OsStr) -> Option<Self> {
        let name = name.as_encoded_bytes();
        let begins = name.windows(START.len()).enumerate();
        let begins = begins.filter(|(_, begin)| begin.eq_ignore_ascii_case(START));
        let mut stamps = begins.filter_map(|(at, _)| {
            let stem = name[at + START.len()..].to_ascii_uppercase();
            Self::parse(stem.split(|&byte| !byte.is_ascii_alphanumeric() && byte != b'-').next()?)
        });
        stamps.next()
    }

    /// When the run started.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The number among those of that second, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The one to try when this one is taken: that of the next second. `None` at the end of time.
    pub fn next(self) -> Option<Self> {
        let time = self.time.checked_add(SignedDuration::from_secs(1)).ok()?;
        Some(Self { time, number: 1 })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = Offset::UTC.to_datetime(self.time);
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        write!(f, "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")?;
        if self.number > 1 {
            write!(f, "-{}", self.number)?;
        }
        Ok(())
    }
}

/// The shape of a time: `#` is a digit.
const SHAPE: &[u8] = b"########T######Z";

/// Reads `YYYYMMDDTHHMMSSZ`, from 1970 on.
fn parse_time(stamp: &[u8]) -> Option<Timestamp> {
    let fits = |(&byte, &shape): (&u8, &u8)| match shape {
        b'#' => byte.is_ascii_digit(),
        letter => byte == letter,
    };
    if stamp.len() != SHAPE.len() || !stamp.iter().zip(SHAPE).all(fits) {
        return None;
    }
    // At most four digits each, so nothing overflows.
    let field = |from: usize, to: usize| {
        stamp[from..to].iter().fold(0i16, |value, digit| value * 10 + i16::from(digit - b'0'))
    };
    let small = |from: usize| field(from, from + 2) as i8;
    let civil = DateTime::new(field(0, 4), small(4), small(6), small(9), small(11), small(13), 0);
    let time = Offset::UTC.to_timestamp(civil.ok()?).ok()?;
    (time >= Timestamp::UNIX_EPOCH).then_some(time)
}

/// Reads what stands behind the time: nothing, or `-` and a number from 2 on, without zeros before
/// it.
fn parse_number(suffix: &[u8]) -> Option<u32> {
    if suffix.is_empty() {
        return Some(1);
    }
    let digits = suffix.strip_prefix(b"-")?;
    if !digits.first()?.is_ascii_digit() || digits[0] == b'0' {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number > 1).then_some(number)
}

#[cfg(test)]
mod name_tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(name: &str) -> Option<ManifestName> {
        ManifestName::parse(OsStr::new(name))
    }

    #[test]
    fn names_are_made_of_utc_time() {
        let name = ManifestName::new("2026-01-01T00:00:00.999Z".parse().unwrap());
        assert_eq!(name.to_string(), "dircopy-20260101T000000Z.sha256sum");
        assert_eq!(name.unfinished().to_string(), "dircopy-20260101T000000Z.sha256sum.part");
        let third = name.next().and_then(ManifestName::next).unwrap();
        assert_eq!(third.to_string(), "dircopy-20260101T000002Z.sha256sum");
        let numbered = parse("dircopy-20260101T000000Z-3.sha256sum").unwrap();
        assert_eq!(numbered.next(), name.next(), "it sorts behind all of that second");
        assert_eq!(third.unfinished().finished(), third);
        let name = ManifestName::new("2026-06-30T23:59:59-05:00".parse().unwrap());
        assert_eq!(name.to_string(), "dircopy-20260701T045959Z.sha256sum");
        let name = ManifestName::new(Timestamp::MIN);
        assert_eq!(name.to_string(), "dircopy-19700101T000000Z.sha256sum");
        assert_eq!(
            parse(&ManifestName::new(Timestamp::MAX).to_string()).map(|n| n.number()),
            Some(1)
        );
    }

    #[test]
    fn only_names_of_ours_are_ours() {
        let ours = [
            "dircopy-20260101T000000Z.sha256sum",
            "dircopy-20260101T000000Z.sha256sum.part",
            "dircopy-20240229T235959Z-2.sha256sum",
            "dircopy-20240229T235959Z-4294967295.sha256sum.part",
        ];
        for name in ours {
            assert_eq!(parse(name).map(|parsed| parsed.to_string()).as_deref(), Some(name));
        }
        let others = [
            "",
            "dircopy-.sha256sum",
            "dircopy-notes.sha256sum",
            "dircopy-20260101T000000Z",
            "dircopy-20260101T000000Z.sha256",
            "dircopy-20260101T000000Z.sha256sum.PART",
            "dircopy-20260101T000000Z.sha256sum.part.part",
            "dircopy-20260101T000000Z.sha256sum~",
            "Dircopy-20260101T000000Z.sha256sum",
            "xdircopy-20260101T000000Z.sha256sum",
            "dircopy-20260101t000000z.sha256sum",
            "dircopy-2026-01-01T000000Z.sha256sum",
            "dircopy-20260101T000000.sha256sum",
            "dircopy-2026010\u{ff11}T000000Z.sha256sum",
            "dircopy-+0260101T000000Z.sha256sum",
            "dircopy-20260230T000000Z.sha256sum",
            "dircopy-20261301T000000Z.sha256sum",
            "dircopy-20260100T000000Z.sha256sum",
            "dircopy-20260101T240000Z.sha256sum",
            "dircopy-20260101T006000Z.sha256sum",
            "dircopy-20260101T000060Z.sha256sum",
            "dircopy-19691231T235959Z.sha256sum",
            "dircopy-20260101T000000Z-.sha256sum",
            "dircopy-20260101T000000Z-0.sha256sum",
            "dircopy-20260101T000000Z-1.sha256sum",
            "dircopy-20260101T000000Z-02.sha256sum",
            "dircopy-20260101T000000Z-+2.sha256sum",
            "dircopy-20260101T000000Z-2 .sha256sum",
            "dircopy-20260101T000000Z-4294967296.sha256sum",
            "dircopy-20260101T000000Z2.sha256sum",
        ];
        for name in others {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_side_file_has_the_name_of_its_manifest() {
        for name in ["dircopy-20260101T000000Z", "dircopy-20260101T000000Z-7"] {
            let manifest = parse(&format!("{name}.sha256sum")).unwrap();
            assert_eq!(manifest.states(), format!("{name}.states"));
            assert_eq!(manifest.unfinished().states(), format!("{name}.states.part"));
            for name in [manifest, manifest.unfinished()] {
                assert_eq!(ManifestName::of_states(OsStr::new(&name.states())), Some(name));
                assert_eq!(parse(&name.states()), None);
            }
        }
        assert_eq!(ManifestName::of_states(OsStr::new("dircopy-x.states")), None);
    }

    #[test]
    fn a_list_has_the_name_of_its_manifest() {
        let manifest = parse("dircopy-20260101T000000Z-7.sha256sum").unwrap();
        for name in [manifest, manifest.unfinished()] {
            assert!(name.lists().count() > 9);
            let beside = name.lists().chain([name.states()]);
            for file in beside.map(std::ffi::OsString::from) {
                assert!(ManifestName::of_any(&file).is_some_and(|of| of.is_of_run(&name)));
                assert_eq!(ManifestName::of_beside(&file), Some(name));
            }
            assert_eq!(ManifestName::of_any(name.to_string().as_ref()), Some(name));
            assert_eq!(ManifestName::of_beside(name.to_string().as_ref()), None);
        }
        for other in ["dircopy-20260101T000000Z.md4sum", "dircopy-x.md5sum", "a.md5sum"] {
            assert_eq!(ManifestName::of_any(OsStr::new(other)), None);
        }
    }

    #[test]
    fn of_the_names_of_a_run_the_strongest_is_its_manifest() {
        let run = |day: u32, algorithms: &[Algorithm]| -> Vec<ManifestName> {
            let name = parse(&format!("dircopy-202601{day:02}T000000Z.sha256sum")).unwrap();
            algorithms.iter().map(|algorithm| name.of(*algorithm)).collect()
        };
        let (one, two) =
            (&[Algorithm::Md5, Algorithm::Sha256], &[Algorithm::Xxh128, Algorithm::C4]);
        let mut names = [run(1, one), run(2, two), run(3, &[Algorithm::Xxh64])].concat();
        for name in &names {
            assert_eq!(parse(&name.to_string()), Some(*name));
        }
        let all = names.clone();
        ManifestName::drop_lists(&mut names, None);
        assert_eq!(names, [all[1], all[3], all[4]]);
        // Whatever is put beside it.
        names.clone_from(&all);
        ManifestName::drop_lists(&mut names, Some(all[2]));
        assert_eq!(names, [all[1], all[2], all[4]]);
        ManifestName::drop_lists(&mut names, Some(all[3]));
        assert_eq!(names, [all[1], all[2], all[4]]);
    }

    #[test]
    fn the_newest_finished_one_is_the_greatest() {
        let names = [
            "dircopy-20260101T000000Z-10.sha256sum",
            "dircopy-20260101T000000Z-9.sha256sum",
            "dircopy-20260101T000000Z.sha256sum",
            "dircopy-20251231T235959Z-99.sha256sum",
            "dircopy-20270101T000000Z.sha256sum.part",
            "notes.txt",
        ];
        let newest =
            names.into_iter().filter_map(parse).filter(ManifestName::is_finished).max().unwrap();
        assert_eq!(newest.to_string(), names[0]);
    }

    proptest! {
        #[test]
        fn every_name_round_trips_and_sorts(
            seconds in 0i64..253_402_200_000, later in 0i64..100_000, part in any::<bool>(),
        ) {
            let name = |at| ManifestName::new(Timestamp::from_second(at).unwrap());
            let first = if part { name(seconds).unfinished() } else { name(seconds) };
            prop_assert_eq!(parse(&first.to_string()), Some(first));
            let second = name((seconds + later).min(253_402_200_000));
            prop_assert!(first <= second);
            prop_assert!(name(seconds).to_string() <= second.to_string());
        }
    }
}

#[cfg(test)]
mod other_name_tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_far_as_it_can_be() {
        assert_eq!(OtherName::of("sha999").to_string(), "sha999");
        assert_eq!(OtherName::of("a\u{1b}[31m\u{e9}b").to_string(), "a[31mb");
        assert_eq!(OtherName::of(&"x".repeat(100)).to_string(), "x".repeat(MOST));
        assert_eq!(OtherName::from("XXH32").to_string(), "XXH32");
    }
}
