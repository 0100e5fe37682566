//! Whether a source may be erased, as a receipt has it: the figures, and the words that the screen has for each place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    cli::covered::place_words, cli::record::log::JsonName, cli::report::receipt::AtMost,
    cli::report::receipt::ClippedText, verify::CoveredReport, verify::PROOFS, verify::PlaceReport,
    verify::Proof, verify::Standing,
};

/// The answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CoveredSection {
    /// At so many places every file was to be.
    pub copies: u64,
    pub files: u64,
    pub bytes: u64,
    pub covered: u64,
    pub failed: u64,
    pub changed: u64,
    pub unusable: u64,
    pub others: u64,
    pub places: AtMost<CoveredPlace, 64>,
}

/// A place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CoveredPlace {
    #[serde(flatten)]
    pub name: JsonName,
    is_list: bool,
    /// The files of the source that are there.
    pub files: u64,
    /// The same, by how far they are proven; and those that do not count, by why.
    #[serde(skip_deserializing)]
    proven: BTreeMap<&'static str, u64>,
    #[serde(skip_deserializing)]
    not_counted: BTreeMap<&'static str, u64>,
    /// Whatever is there, it does not count: it is on the disk of the source, …
    is_at_source: bool,
    /// … in memory, …
    is_in_memory: bool,
    /// … or counts once together with this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<JsonName>,
    /// What the screen says of it.
    pub text: ClippedText,
}

impl CoveredSection {
    /// The section of an answer to whether everything is at so many places.
    pub fn of(report: &CoveredReport, copies: usize) -> Self {
        let places: Vec<CoveredPlace> = report.places.iter().map(CoveredPlace::of).collect();
        Self {
            copies: copies as u64,
            files: report.files,
            bytes: report.bytes,
            covered: report.covered,
            failed: report.failed,
            changed: report.changed,
            unusable: report.unusable,
            others: report.others,
            places: AtMost { all: places.len() as u64, kept: places },
        }
    }
}

impl CoveredPlace {
    fn of(place: &PlaceReport) -> Self {
        let proven =
            PROOFS.iter().zip(place.proven).map(|(proof, files)| (proof_name(*proof), files));
        let why =
            |(word, standing): (&'static str, Standing)| (word, place.standing[standing as usize]);
        let mut not_counted: BTreeMap<_, _> = NOT_COUNTED.into_iter().map(why).collect();
        not_counted.insert("absent", place.absent);
        not_counted.retain(|_, files| *files > 0);
        Self {
            name: JsonName::path(&place.path),
            is_list: place.is_list,
            files: place.proven.iter().sum(),
            proven: proven.filter(|(_, files)| *files > 0).collect(),
            not_counted,
            is_at_source: place.is_at_source,
            is_in_memory: place.is_in_memory,
            same_as: place.same_as.as_deref().map(JsonName::path),
            text: ClippedText(place_words(place)),
        }
    }
}

/// Why a file that a place has does not count.
const NOT_COUNTED: [(&str, Standing); 6] = [
    ("too-old", Standing::TooOld),
    ("not-so-far", Standing::NotSoFar),
    ("in-doubt", Standing::InDoubt),
    ("only-listed", Standing::Untrusted),
    ("weak-digest", Standing::Weak),
    ("differs", Standing::Differs),
];

fn proof_name(proof: Proof) -> &'static str {
    match proof {
        Proof::Listed => "listed",
        Proof::Recorded => "recorded",
        Proof::ThroughCache => "read-through-cache",
        Proof::Replugged => "replugged",
        Proof::Read => "read",
        Proof::ReadReplugged => "read-replugged",
    }
}
