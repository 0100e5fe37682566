//! How far what a run wrote is proven: the same words on the screen, in the receipt and on its page, and none that says
//! more than was done.

use serde::{Deserialize, Serialize};

use crate::copy::{Counts, Report};
use crate::{cli::report::receipt::ClippedText, hash::hasher::ONE_IN, sys::Durable};

/// The proof of what one output got.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Proof {
    /// Of so many blocks and batches one was hashed twice; missing if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hashed_twice_one_in: Option<u64>,
    /// Where all that was copied was read from a second time: `device`, or `cache` if only that may be known of some.
    /// Missing if not all was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_twice: Option<ClippedText>,
    /// Who said that it is kept: `device`, `server` or `unknown`; `not-synced` if nobody was asked.
    pub durable: ClippedText,
    /// Why that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable_why: Option<ClippedText>,
    /// Where it was read back from: `device`, `cache`, or of some files this and of others that; `none` if it was not.
    pub read_back: ClippedText,
    /// When a check read what is listed after the device was away, and of how many files that is so if not of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replugged: Option<ClippedText>,
}

impl Proof {
    /// The proof of a run to an output.
    pub fn of(report: &Report) -> Self {
        let Report { counts, durable, hashed_twice, counted, .. } = report;
        let replugged = counted.as_ref().and_then(|run| run.replugged.as_ref());
        let text = |text: &str| ClippedText(text.to_owned());
        Self {
            hashed_twice_one_in: hashed_twice.then_some(ONE_IN),
            read_twice: is_read_twice(counts)
                .then(|| text(if counts.read_twice_from_cache == 0 { "device" } else { "cache" })),
            durable: text(durable.map_or("not-synced", Durable::word)),
            durable_why: durable.and_then(Durable::why).map(text),
            read_back: text(match (counts.from_device, counts.from_cache) {
                (0, 0) => "none",
                (_, 0) => "device",
                (0, _) => "cache",
                _ => "device and cache",
            }),
            replugged: replugged.map(|it| text(&it.words())),
        }
    }

    /// The proof in words; none if nothing was proven because nothing was written or read.
    pub fn words(&self, is_any: bool) -> Option<String> {
        is_any.then(|| {
            let read_twice = self.read_twice.as_ref().map(|from| match &*from.0 {
                "device" => "read twice".to_owned(),
                _ => "read twice, in part only through a cache".to_owned(),
            });
            let twice = self.hashed_twice_one_in.map(|all| format!("hashed twice 1 in {all}"));
            let durable = match (&*self.durable.0, &self.durable_why) {
                ("not-synced", _) => "not synced".to_owned(),
                (word, None) => format!("durable: {word}"),
                (word, Some(why)) => format!("durable: {word} ({})", why.0),
            };
            let read_back = match &*self.read_back.0 {
                "none" => "not read back",
                "device" => "read back",
                "cache" => "read back only through a cache",
                _ => "read back, in part only through a cache",
            };
            let replugged = self.replugged.iter().map(|it| format!("replugged {}", it.0));
            let words = read_twice.into_iter().chain(twice).chain([durable, read_back.to_owned()]);
            words.chain(replugged).collect::<Vec<_>>().join("; ")
        })
    }
}

fn is_read_twice(counts: &Counts) -> bool {
    counts.read_twice > 0 && counts.read_twice >= counts.copied + counts.replaced
}
