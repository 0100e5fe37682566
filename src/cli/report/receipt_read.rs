//! A receipt as it is read again: the JSON that `--report` wrote, as far as a page shows it.

use std::{collections::BTreeMap, fmt, io, io::BufReader, io::Read, path::Path};

use serde::{Deserialize, de::Deserializer, de::IgnoredAny, de::MapAccess, de::Visitor};

use crate::cli::record::{
    covered::CoveredSection, log::JsonName, proof::Proof, report::ManifestSection,
    report::ScrubSection,
};
use crate::{
    cli::report::receipt::AtMost, cli::report::receipt::ClippedText,
    cli::report::receipt::VolumeSection, copy::Counts, error::Error, error::Result,
    hash::Algorithm, sys, sys::PlainUse, sys::Uninterrupted, verify::Checked,
};

/// A receipt that is larger is refused; bytes. One has 200 bytes for each entry about which something is amiss.
const MOST_BYTES: u64 = 256 << 20;

/// The version of the format that is understood.
const VERSION: u64 = 2;

/// Number of entries that are shown.
pub const MOST_ENTRIES: usize = 500;

/// A receipt. Members that are not there have their defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Receipt {
    format: ClippedText,
    version: u64,
    pub kind: ClippedText,
    pub program_version: ClippedText,
    pub command: AtMost<ClippedText, 200>,
    pub working_directory: Option<JsonName>,
    pub host: ClippedText,
    pub started: ClippedText,
    pub ended: ClippedText,
    pub elapsed_seconds: f64,
    pub exit_code: u64,
    pub ending: ClippedText,
    /// Number of the newest receipts that its run left in their directory.
    pub keep_reports: Option<u64>,
    pub error: Option<ReceiptEntry>,
    pub dry_run: bool,
    pub source: Option<JsonName>,
    pub source_volume: Option<VolumeSection>,
    pub inputs: AtMost<JsonName, 64>,
    pub outputs: AtMost<ReceiptOutput, 64>,
    /// Bytes of a stream.
    pub bytes: Option<u64>,
    pub sha256: Option<ClippedText>,
    pub digests: ReceiptDigests,
    /// The directories of a check.
    pub directories: AtMost<JsonName, 64>,
    pub checked: Option<Checked>,
    pub scrub: Option<ScrubSection>,
    /// Of a check: when what is listed was read back after the device was away.
    pub replugged: Option<ClippedText>,
    /// Whether a source may be erased.
    pub covered: Option<CoveredSection>,
    pub samples: AtMost<ReceiptSample, 600>,
    pub entries_left_out: u64,
    pub entries: AtMost<ReceiptEntry, MOST_ENTRIES>,
}

/// An output.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReceiptOutput {
    pub path: ClippedText,
    pub path_bytes: Option<ClippedText>,
    pub exit_code: Option<u64>,
    pub ending: Option<ClippedText>,
    pub error: Option<ReceiptEntry>,
    pub counts: Option<Counts>,
    pub elapsed_seconds: Option<f64>,
    pub volume: Option<VolumeSection>,
    pub proof: Option<Proof>,
    pub sequence: Option<ReceiptSequencePlace>,
    pub manifest: Option<ManifestSection>,
    pub media_list: Option<JsonName>,
    /// Outcome of a stream.
    pub outcome: Option<ClippedText>,
    pub read_back: Option<ClippedText>,
}

impl ReceiptOutput {
    /// Its name.
    pub fn name(&self) -> JsonName {
        JsonName { path: self.path.clone(), path_bytes: self.path_bytes.clone() }
    }

    /// True if it is one of several outputs and has everything.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.ending.as_ref().is_some_and(|it| it.0 == "complete")
    }
}

/// The place of the receipt among those of an output.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReceiptSequencePlace {
    pub output: ClippedText,
    pub number: u64,
    pub run: u64,
    pub before: Option<ClippedText>,
    pub perhaps: AtMost<ClippedText, 64>,
}

/// The digests of a stream by the algorithms that are known here, but for SHA-256, which has a place of its own.
#[derive(Clone, Debug, Default)]
pub struct ReceiptDigests(pub BTreeMap<Algorithm, ClippedText>);

impl<'de> Deserialize<'de> for ReceiptDigests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Known;
        impl<'de> Visitor<'de> for Known {
            type Value = ReceiptDigests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("digests")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut known = BTreeMap::new();
                while let Some(name) = map.next_key::<ClippedText>()? {
                    match Algorithm::named(&name.0).filter(|it| *it != Algorithm::Sha256) {
                        Some(algorithm) => drop(known.insert(algorithm, map.next_value()?)),
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(ReceiptDigests(known))
            }
        }
        deserializer.deserialize_map(Known)
    }
}

/// The progress of a run at a moment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReceiptSample {
    pub seconds: f64,
    pub bytes: AtMost<u64, 64>,
    pub limited_by: AtMost<Option<ClippedText>, 64>,
}

/// Something that is amiss, or an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReceiptEntry {
    pub event: ClippedText,
    pub deed: Option<ClippedText>,
    pub path: ClippedText,
    pub path_bytes: Option<ClippedText>,
    pub text: Option<ClippedText>,
    pub output: Option<ClippedText>,
    pub listed: Option<ClippedText>,
    pub found: Option<ClippedText>,
}

impl ReceiptEntry {
    /// Its name.
    pub fn name(&self) -> JsonName {
        JsonName { path: self.path.clone(), path_bytes: self.path_bytes.clone() }
    }
}

/// The error about a receipt that cannot be read.
fn unread(path: &Path, error: io::Error) -> Error {
    let of_dir = if path.is_dir() { "; the receipts in it are given: DIR/*.json" } else { "" };
    Error::io("read the receipt", path, error).with_note(of_dir)
}

impl Receipt {
    /// The receipt in the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, is too large, or is no receipt of a version that is known.
    pub fn open(path: &Path) -> Result<Self> {
        let file = sys::open_plain(path, PlainUse::Read).map_err(|error| unread(path, error))?;
        Self::read(file).map_err(|error| unread(path, error))
    }

    /// The same, and all of its bytes.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_whole(path: &Path) -> Result<(Self, Vec<u8>)> {
        let fail = |error| unread(path, error);
        let file = sys::open_plain(path, PlainUse::Read).map_err(fail)?;
        let mut bytes = Vec::new();
        Uninterrupted(file).take(MOST_BYTES).read_to_end(&mut bytes).map_err(fail)?;
        Ok((Self::read(&*bytes).map_err(fail)?, bytes))
    }

    /// The receipt in `input`.
    pub fn read(input: impl Read) -> io::Result<Self> {
        let mut input = BufReader::new(Uninterrupted(input).take(MOST_BYTES));
        let read: serde_json::Result<Self> = serde_json::from_reader(&mut input);
        if input.get_ref().limit() == 0 {
            return Err(io::Error::other(format!("it has more than {} MiB", MOST_BYTES >> 20)));
        }
        let receipt = read.map_err(|error| match error.is_io() {
            true => error.into(),
            false => io::Error::other(format!("it is no receipt of dircopy: {error}")),
        })?;
        match (&*receipt.format.0, receipt.version) {
            ("dircopy-report", VERSION) => Ok(receipt),
            ("dircopy-report", version) => Err(io::Error::other(format!(
                "it is a receipt of version {version}, and only version {VERSION} is understood"
            ))),
            _ => Err(io::Error::other("it is no receipt of dircopy")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_receipts_are_read() {
        let read = |text: &str| Receipt::read(text.as_bytes()).map_err(|error| error.to_string());
        let minimal = r#"{"format": "dircopy-report", "version": 2, "kind": "copy", "new": [{}]}"#;
        assert_eq!(read(minimal).unwrap().kind.0, "copy");
        for (text, why) in [
            ("", "no receipt"),
            ("{}", "no receipt"),
            ("[]", "no receipt"),
            (r#"{"format": "dircopy-report", "version": 3}"#, "version 3"),
            (r#"{"format": "dircopy-report", "version": 2, "elapsed_seconds": 1e999}"#, "range"),
        ] {
            assert!(read(text).unwrap_err().contains(why), "{text}");
        }
        let deep = format!("{{\"x\": {}", "[".repeat(100_000));
        assert!(read(&deep).is_err());
    }
}
