//! Receipts: parts of what a run writes as JSON, and reading it again.

use std::io::{Read, Seek, Write};
use std::{ffi::OsString, fmt, fs::File, io, marker::PhantomData, path::Path, time::Duration};

use serde::{
    Deserialize, Serialize, Serializer, de::Deserializer, de::IgnoredAny, de::SeqAccess,
    de::Visitor,
};

use crate::event::{OutputSample, STAGES, Sample};
use crate::{cli::record::log, event, path::Shown, sys, sys::Uninterrupted, sys::VolumeDetails};

// The entries of a report while the run goes on: on the disk, because there may be millions.
//
// They are in a file without a name, in the directory that the report goes to. So a copy of that very
// directory does not come upon them, and a run that is killed leaves nothing. On Windows every file has a
// name: there the system removes it when it is closed, also by the end of the process.

/// Number of bytes that are written at a time.
const BUFFER: usize = 64 << 10;

/// Entries, each the JSON of one.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// Whole entries that are not written yet, and how many.
    buffer: Vec<u8>,
    waiting: u64,
    /// Length of the part of the file that is whole entries; bytes.
    good: u64,
    any: bool,
    left_out: u64,
}

impl Spool {
    /// An empty spool in the directory `dir`.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(Self { file, buffer: Vec::new(), waiting: 0, good: 0, any: false, left_out: 0 })
    }

    pub fn add(&mut self, json: &str) {
        if self.left_out > 0 {
            self.left_out += 1;
            return;
        }
        let between: &[u8] = if self.any { b",\n    " } else { b"\n    " };
        self.any = true;
        self.buffer.extend_from_slice(between);
        self.buffer.extend_from_slice(json.as_bytes());
        self.waiting += 1;
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// After an error no more entries are written; later ones are counted, and the report has the number.
    fn flush(&mut self) {
        match sys::write_all(&self.file, &self.buffer) {
            Ok(()) => self.good += self.buffer.len() as u64,
            Err(_) => self.left_out += self.waiting,
        }
        self.buffer.clear();
        self.waiting = 0;
    }

    /// Number of entries that could not be kept.
    pub fn left_out(&mut self) -> u64 {
        self.flush();
        self.left_out
    }

    /// Writes the entries, commas between them.
    pub fn copy_to(&mut self, to: &mut impl Write) -> io::Result<()> {
        self.flush();
        self.file.rewind()?;
        let copied = io::copy(&mut Uninterrupted(&self.file).take(self.good), to)?;
        if copied == self.good { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

// Values of a receipt that take a bounded room in memory, however large they are there.

/// Length of a text that is kept, in bytes: more than the longest path has, escaped.
const MOST_TEXT: usize = 16 << 10;

/// A text, cut off where it is too long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClippedText(pub String);

impl<'de> Deserialize<'de> for ClippedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Clip;
        impl Visitor<'_> for Clip {
            type Value = ClippedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<ClippedText, E> {
                let is_long = text.len() > MOST_TEXT;
                let end =
                    (0..=text.len().min(MOST_TEXT)).rev().find(|at| text.is_char_boundary(*at));
                let kept = &text[..end.unwrap_or(0)];
                Ok(ClippedText(if is_long { format!("{kept}…") } else { kept.to_owned() }))
            }
        }
        deserializer.deserialize_str(Clip)
    }
}

/// The first `N` elements of a list, and how many there are.
#[derive(Clone, Debug)]
pub struct AtMost<T, const N: usize> {
    pub kept: Vec<T>,
    pub all: u64,
}

impl<T, const N: usize> Default for AtMost<T, N> {
    fn default() -> Self {
        Self { kept: Vec::new(), all: 0 }
    }
}

impl<T, const N: usize> AtMost<T, N> {
    /// Number of entries that are not kept.
    pub fn left_out(&self) -> u64 {
        self.all - self.kept.len() as u64
    }
}

impl<T: Serialize, const N: usize> Serialize for AtMost<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.kept.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Take<T, N> {
            type Value = AtMost<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut taken = AtMost::default();
                loop {
                    if taken.kept.len() < N {
                        let Some(element) = list.next_element()? else { return Ok(taken) };
                        taken.kept.push(element);
                    } else if list.next_element::<IgnoredAny>()?.is_none() {
                        return Ok(taken);
                    }
                    taken.all += 1;
                }
            }
        }
        deserializer.deserialize_seq(Take(PhantomData))
    }
}

// The samples of a run as lines of its receipt: how much was done by then, and what limited each output since the
// sample before.

/// The stages in the order of a sample's clocks, as receipts name them.
pub const STAGE_NAMES: [&str; STAGES] = ["read", "hash", "write", "read_back", "commit"];

/// The limit of an output that reads as fast as `--limit-rate` allows.
pub const RATE_LIMIT: &str = "limit_rate";

/// Number of threads of an output, by stage.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCounts {
    pub workers: usize,
    pub verifiers: usize,
}

/// The facts that samples are judged by.
pub struct SampleContext {
    /// For each output; none for one that was refused, and for runs that have no stages.
    pub threads: Vec<Option<ThreadCounts>>,
    /// Bytes in a second.
    pub limit_rate: Option<u64>,
}

#[derive(Serialize)]
struct SampleLine {
    seconds: f64,
    bytes: Vec<u64>,
    limited_by: Vec<Option<&'static str>>,
}

impl SampleContext {
    /// Each sample as the JSON of an object.
    pub fn lines(&self, samples: &[Sample]) -> Vec<String> {
        let mut before: Option<&Sample> = None;
        let mut lines = Vec::with_capacity(samples.len());
        for sample in samples {
            let since = sample.at.saturating_sub(before.map_or(Duration::ZERO, |before| before.at));
            let limit = |(at, now): (usize, &OutputSample)| {
                let before = before.and_then(|before| before.outputs.get(at).copied());
                self.limit(at, before.unwrap_or_default(), *now, since)
            };
            let line = SampleLine {
                seconds: sample.at.as_millis() as f64 / 1e3,
                bytes: sample.outputs.iter().map(|output| output.bytes).collect(),
                limited_by: sample.outputs.iter().enumerate().map(limit).collect(),
            };
            lines.push(log::line(&line));
            before = Some(sample);
        }
        lines
    }

    /// The limit of an output between two samples, if it is certain.
    fn limit(
        &self,
        at: usize,
        before: OutputSample,
        now: OutputSample,
        since: Duration,
    ) -> Option<&'static str> {
        let ThreadCounts { workers, verifiers } = (*self.threads.get(at)?)?;
        if event::is_at_rate(now.bytes.saturating_sub(before.bytes), since, self.limit_rate) {
            return Some(RATE_LIMIT);
        }
        let threads = [workers, workers, workers, verifiers, 1];
        let shares: [f64; STAGES] = std::array::from_fn(|stage| {
            let busy = now.busy[stage].saturating_sub(before.busy[stage]);
            event::share(busy, threads[stage], since)
        });
        let waits = self.limit_rate.is_some() || self.threads.len() > 1;
        event::limiting_stage(&shares, waits).map(|stage| STAGE_NAMES[stage])
    }
}

// A file system as a receipt has it.

/// The section about a file system; what is not known is null.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeSection {
    pub label: Option<ClippedText>,
    pub uuid: Option<ClippedText>,
    pub serial: Option<ClippedText>,
    pub file_system: Option<ClippedText>,
    pub size_bytes: Option<u64>,
}

impl VolumeSection {
    /// The receipt's form of a volume.
    pub fn of(volume: &VolumeDetails) -> Self {
        let shown = |text: &Option<OsString>| {
            let shown = text.as_ref().map(|text| Shown::bytes(text.as_encoded_bytes()).to_string());
            shown.map(ClippedText)
        };
        Self {
            label: shown(&volume.label),
            uuid: volume.uuid.clone().map(ClippedText),
            serial: shown(&volume.serial),
            file_system: volume.file_system.clone().map(ClippedText),
            size_bytes: volume.size,
        }
    }
}

#[cfg(test)]
mod spool_tests {
    use super::*;

    #[test]
    fn entries_come_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path()).unwrap();
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        assert!(cfg!(windows) || names() == 0, "it has a name");
        (0..10_000).for_each(|i| spool.add(&format!("{{\"n\":{i}}}")));
        let mut out = b"[".to_vec();
        // Twice: a report that could not be written may be tried again.
        spool.copy_to(&mut Vec::new()).unwrap();
        spool.copy_to(&mut out).unwrap();
        out.push(b']');
        let values: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
        assert_eq!((values.len(), spool.left_out()), (10_000, 0));
        assert_eq!(values[9_999]["n"], 9_999);
        drop(spool);
        assert_eq!(names(), 0, "it stays behind");
    }
}

#[cfg(test)]
mod bounded_tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let list: AtMost<u64, 3> = serde_json::from_str("[1, 2, 3, 4, {\"a\": []}]").unwrap();
        assert_eq!((list.kept.as_slice(), list.all, list.left_out()), (&[1, 2, 3][..], 5, 2));
        assert!(serde_json::from_str::<AtMost<u64, 3>>("[1, \"x\"]").is_err());
        let text = serde_json::to_string(&"é".repeat(MOST_TEXT)).unwrap();
        let text: ClippedText = serde_json::from_str(&text).unwrap();
        assert!(text.0.len() <= MOST_TEXT + 3 && text.0.ends_with("é…"));
    }
}

#[cfg(test)]
mod sample_lines_tests {
    use super::*;

    #[test]
    fn the_stage_that_was_busy_is_the_limit() {
        let sample = |seconds, bytes, busy: [u64; STAGES]| {
            let outputs = vec![OutputSample { bytes, busy: busy.map(Duration::from_secs) }];
            Sample { at: Duration::from_secs(seconds), outputs }
        };
        let samples = [
            sample(2, 100, [1, 0, 4, 0, 0]),
            sample(4, 300, [1, 4, 5, 0, 0]),
            sample(6, 300, [1, 4, 5, 0, 2]),
            sample(8, 400, [2, 5, 6, 0, 2]),
        ];
        let threads = vec![Some(ThreadCounts { workers: 2, verifiers: 0 })];
        let mut context = SampleContext { threads, limit_rate: None };
        let limits = |context: &SampleContext| {
            let lines = context.lines(&samples);
            let parse = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let lines: Vec<_> = lines.iter().map(parse).collect();
            assert_eq!((&lines[1]["seconds"], &lines[1]["bytes"][0]), (&4.0.into(), &300.into()));
            lines.iter().map(|line| line["limited_by"][0].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(limits(&context), ["\"write\"", "\"hash\"", "\"commit\"", "null"]);
        context.limit_rate = Some(100);
        assert_eq!(limits(&context)[1], "\"limit_rate\"");
    }
}
