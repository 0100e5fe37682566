//! A manifest of a bag, line by line, each held against what this user's runs recorded of the payload.

use std::{borrow::Cow, io, io::Read};

use crate::{
    hash::Algorithm, manifest::Fault, manifest::LineEnds, manifest::Scanner, manifest::Text,
    manifest::Utf16Reader, manifest::archive::bag, path::RelPath, state::HeldLine,
    state::RecordedPayload, state::RemovedFile, state::SinceRecorded, verify::Finding,
    verify::Target, verify::Witness, verify::history::BagPart,
    verify::lines::manifest_lines::ManifestLine, verify::lines::manifest_lines::Meaning,
    verify::lines::manifest_lines::malformed, verify::lines::manifest_lines::named,
    verify::lines::manifest_lines::unhashed, verify::target::BELOW_PAYLOAD,
};

/// The number of a line that is not there.
const NOWHERE: u64 = 0;

/// A manifest of a bag, as far as it was not read.
pub struct BagList<R> {
    lines: Scanner<LineEnds<Utf16Reader<R>>>,
    part: BagPart,
    /// True if names are marked as lists of other programs have them.
    pub is_odd: bool,
    recorded: Option<RecordedPayload>,
}

/// The meaning of a line, and what contradicts it.
pub struct HeldMeaning {
    pub meaning: Meaning,
    pub contradicted: Option<Meaning>,
}

impl<R: Read> BagList<R> {
    pub fn new(input: R, part: BagPart, target: &Target) -> Self {
        let lines = Scanner::new(LineEnds::new(Utf16Reader::new(input)));
        let recorded = target.recorded_payload(part.algorithm);
        Self { lines, part, is_odd: false, recorded }
    }

    /// The next line as it stands there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn next_meaning(&mut self, target: &Target) -> io::Result<Option<Meaning>> {
        let (part, is_odd) = (self.part, &mut self.is_odd);
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let number = line.number;
        let bytes = match line.text {
            Text::TooLong { len, .. } => {
                return Ok(Some(malformed(number, Fault::TooLong { len })));
            }
            Text::Whole(bytes) if bytes.trim_ascii().is_empty() => {
                return Ok(Some(Meaning::Nothing));
            }
            Text::Whole(bytes) => bytes,
        };
        if part.algorithm == Algorithm::None {
            let name = bag::name_on(bytes, part.declaration);
            let looked_for = |name: Cow<'_, [u8]>| unhashed(target, number, &name, None);
            return Ok(Some(name.map_or_else(|fault| malformed(number, fault), looked_for)));
        }
        Ok(Some(match bag::line(bytes, part.algorithm, part.declaration) {
            Err(fault) => malformed(number, fault),
            Ok(line) => {
                *is_odd |= line.is_odd;
                named(target, number, &line.name, line.digest)
            }
        }))
    }

    /// A line by the digest that counts, and what contradicts it.
    pub fn hold(&self, meaning: Meaning) -> HeldMeaning {
        let (recorded, line) = match (&self.recorded, meaning) {
            (Some(recorded), Meaning::File(line))
                if line.path.as_bytes().starts_with(BELOW_PAYLOAD) =>
            {
                (recorded, line)
            }
            (_, meaning) => return HeldMeaning { meaning, contradicted: None },
        };
        let HeldLine { digest, contradiction } =
            recorded.hold(&line.path.as_bytes()[BELOW_PAYLOAD.len()..], line.digest);
        let contradicted = contradiction.map(|by| contradicts(line.number, &line.path, by));
        HeldMeaning { meaning: Meaning::File(ManifestLine { digest, ..line }), contradicted }
    }

    /// What is recorded and on no line, some of it at a time, the first last.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn removed(&mut self) -> io::Result<Vec<Meaning>> {
        let Some(recorded) = &mut self.recorded else { return Ok(Vec::new()) };
        let fail = |error: io::Error| {
            io::Error::new(error.kind(), format!("the private record of its payload: {error}"))
        };
        let mut meanings = Vec::new();
        for RemovedFile { path, digest } in recorded.take_removed().map_err(fail)?.into_iter().rev()
        {
            let Ok(path) = RelPath::parse(&[BELOW_PAYLOAD, path.as_bytes()].concat()) else {
                continue;
            };
            let gone = contradicts(NOWHERE, &path, SinceRecorded::Removed);
            let line = ManifestLine::of(NOWHERE, path, digest);
            meanings.extend([Meaning::File(line), gone]);
        }
        Ok(meanings)
    }
}

fn contradicts(line: u64, path: &RelPath, by: SinceRecorded) -> Meaning {
    let (path, by) = (path.clone(), Witness::Record(by));
    Meaning::Fault(Finding::Contradicts { line, path, by })
}
