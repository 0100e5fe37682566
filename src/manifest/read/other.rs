//! Lines with digests of other algorithms than SHA-256, for a check that computes whatever is listed.
//!
//! An algorithm is known by its tag, or by the length of the digest. Where two algorithms have one length, the line is
//! taken for the first, and the check tries the other (`Algorithm::alike`).

use crate::hash::{Algorithm, Digest};

use super::bsd;
use super::fault::Fault;
use super::gnu;
use super::record::{Split, Style};

/// Further tags, as OpenSSL writes them.
const ALIASES: [(&str, Algorithm); 2] =
    [("SHA2-512", Algorithm::Sha512), ("SHA-1", Algorithm::Sha1)];

/// Algorithms by their lengths in hexadecimal digits, and C4.
const UNTAGGED: [Algorithm; 5] =
    [Algorithm::Sha512, Algorithm::C4, Algorithm::Sha1, Algorithm::Md5, Algorithm::Xxh64];

/// Takes the line apart from `at` on, if it is of another algorithm.
pub fn split(line: &[u8], at: usize, style: &mut Option<Style>) -> Option<Result<Split, Fault>> {
    let named = Algorithm::listed().chain([Algorithm::Crc32]);
    let tags = named.filter_map(|one| Some((one.spec()?.tag, one)));
    let tagged = tags
        .chain(ALIASES)
        .find_map(|(tag, one)| Some((bsd::after_filled_tag(line, at, tag)?, one)));
    if let Some((name, algorithm)) = tagged.filter(|(_, one)| *one != Algorithm::Sha256) {
        return Some(bsd::split_after_tag(line, name, algorithm));
    }
    let text = line.get(at..)?;
    let len = text.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let digest = UNTAGGED.iter().find_map(|one| Digest::parse(*one, &text[..len]))?;
    Some(gnu::name_behind(line, at + len, style).map(|name| Split { digest, name }))
}

/// The record on a line of an SFV list: a name, blanks, and eight digits.
pub fn split_sfv(line: &[u8]) -> Option<Split> {
    let (name, digits) = line.split_at_checked(line.len().checked_sub(8)?)?;
    let digest = Digest::parse(Algorithm::Crc32, digits)?;
    let len = name.trim_ascii_end().len();
    (len > 0 && len < name.len()).then_some(Split { digest, name: 0..len })
}

/// The first line of a list of `hashdeep`.
pub const HASHDEEP: &[u8] = b"%%%% HASHDEEP-1.0";

/// What `hashdeep` computes and is not computed here.
const OTHERS_OF_HASHDEEP: [&str; 2] = ["tiger", "whirlpool"];

/// The columns of a list of `hashdeep`: between size and name, with the algorithm of those that are known.
#[derive(Debug, Default)]
pub struct HashdeepColumns {
    algorithms: Vec<Option<Algorithm>>,
    /// The first digest that `hashdeep` has and that is not computed here.
    other: Option<&'static str>,
    /// Whether the last is the name, which alone may hold commas.
    ends_with_name: bool,
}

impl HashdeepColumns {
    /// Whether rows have more than one digest, between the size and the name, and one that can be compared.
    pub fn has_several(&self) -> bool {
        self.algorithms.len() > 3 && self.algorithms.iter().any(Option::is_some)
    }

    /// The name on a row with no digest that can be computed here.
    pub fn name_on<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let mut fields = line.splitn(self.algorithms.len().max(1), |&byte| byte == b',');
        fields.nth(self.algorithms.len().checked_sub(1)?)
    }

    /// Takes a line: the columns, or a record, by the strongest of its digests; its name is the rest.
    ///
    /// # Errors
    /// It is no row of these columns.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Split>, Fault> {
        if let Some(columns) = line.strip_prefix(b"%%%% ") {
            let names = columns.split(|&byte| byte == b',').map(|name| {
                let is_it = |one: &Algorithm| {
                    name.eq_ignore_ascii_case(one.name().as_bytes())
                        || name.eq_ignore_ascii_case(one.shown().as_bytes())
                };
                Algorithm::listed().find(is_it)
            });
            self.algorithms = names.collect();
            let is_there = |other: &&&str| {
                let mut names = columns.split(|&byte| byte == b',');
                names.any(|name| name.eq_ignore_ascii_case(other.as_bytes()))
            };
            self.other = OTHERS_OF_HASHDEEP.iter().find(is_there).copied();
            self.ends_with_name = columns.ends_with(b",filename");
            return Ok(None);
        }
        if !self.ends_with_name {
            return Err(Fault::Form("the last column of the list is not the filename"));
        }
        let fault = Fault::Columns { expected: self.algorithms.len() };
        let mut fields = line.splitn(self.algorithms.len().max(1), |&byte| byte == b',');
        let (mut best, mut name): (Option<Digest>, _) = (None, None);
        for column in &self.algorithms {
            let field = fields.next().ok_or(fault)?;
            if let Some(algorithm) = column {
                let digest = Digest::parse(*algorithm, field).ok_or(fault)?;
                best = best.filter(|best| best.algorithm() < *algorithm).or(Some(digest));
            }
            name = Some(field);
        }
        let name = name.ok_or(fault)?;
        if name.is_empty() {
            return Err(Fault::NoName);
        }
        let digest = best.ok_or(self.other.map_or(fault, Fault::OtherAlgorithm))?;
        Ok(Some(Split { digest, name: line.len() - name.len()..line.len() }))
    }
}
