//! Tables, as `Get-FileHash | Export-Csv` of PowerShell writes them.
//!
//! The first line names the columns; `Hash` and `Path` must be among them, `Algorithm` can be. Fields stand
//! between `"` with each `"` in them doubled, or bare, and are parted by `,` or `;` (RFC 4180, but that a
//! field holds no line end).

use std::borrow::Cow;

use crate::hash::{Algorithm, Digest};

use super::fault::Fault;

/// Where the columns of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    separator: u8,
    count: usize,
    hash: usize,
    path: usize,
    algorithm: Option<usize>,
}

impl Columns {
    /// The columns that a line names, if it is the first of a table.
    pub fn find(line: &[u8]) -> Option<Self> {
        [b',', b';'].into_iter().find_map(|separator| {
            let fields = fields(line, separator)?;
            let column = |name: &str| {
                fields.iter().position(|field| field.eq_ignore_ascii_case(name.as_bytes()))
            };
            let (hash, path, algorithm) = (column("Hash")?, column("Path")?, column("Algorithm"));
            Some(Self { separator, count: fields.len(), hash, path, algorithm })
        })
    }

    /// The digest of a row, and its name in `name`; by other algorithms than SHA-256 if they are `of_all`.
    pub fn row(&self, line: &[u8], name: &mut Vec<u8>, of_all: bool) -> Result<Digest, Fault> {
        let fields = fields(line, self.separator).filter(|fields| fields.len() == self.count);
        let fields = fields.ok_or(Fault::Columns { expected: self.count })?;
        let field = |column: usize| fields.get(column).map(|field| &**field).unwrap_or_default();
        name.clear();
        name.extend_from_slice(field(self.path));
        let algorithm = match self.algorithm.map(field) {
            None => Algorithm::Sha256,
            Some(named) => known(named, of_all).ok_or(Fault::OtherAlgorithm(other(named)))?,
        };
        let hash = field(self.hash);
        let found = hash.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        Digest::parse(algorithm, hash).ok_or(match algorithm {
            Algorithm::Sha256 => Fault::DigestLength { found },
            _ => Fault::OtherLength { algorithm, found },
        })
    }
}

/// The algorithm of this name, if it is SHA-256 or may be another.
fn known(name: &[u8], of_all: bool) -> Option<Algorithm> {
    let is_it = |one: &Algorithm| {
        let names = [one.name(), one.shown()];
        names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    Algorithm::listed().filter(|one| of_all || *one == Algorithm::Sha256).find(is_it)
}

/// The name of another algorithm that PowerShell knows.
fn other(algorithm: &[u8]) -> &'static str {
    let known = ["MD5", "SHA1", "SHA384", "SHA512", "MACTripleDES", "RIPEMD160"];
    let is_it = |name: &&&str| algorithm.eq_ignore_ascii_case(name.as_bytes());
    known.iter().find(is_it).copied().unwrap_or("of another algorithm")
}

/// The fields of a line; `None` if a quoted one is not closed, or goes on behind its end.
fn fields(line: &[u8], separator: u8) -> Option<Vec<Cow<'_, [u8]>>> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.strip_prefix(b"\"") {
            None => {
                let len = rest.iter().position(|&b| b == separator).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..len]), &rest[len..])
            }
            Some(quoted) => unquote(quoted)?,
        };
        fields.push(field);
        match after.split_first() {
            None => return Some(fields),
            Some((&byte, next)) if byte == separator => rest = next,
            Some(_) => return None,
        }
    }
}

/// A field behind its first `"`, and what follows its last one.
fn unquote(quoted: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut end = quoted.iter().position(|&byte| byte == b'"')?;
    if quoted.get(end + 1) != Some(&b'"') {
        return Some((Cow::Borrowed(&quoted[..end]), &quoted[end + 1..]));
    }
    let mut field = Vec::new();
    let mut start = 0;
    loop {
        field.extend_from_slice(&quoted[start..end]);
        if quoted.get(end + 1) != Some(&b'"') {
            return Some((Cow::Owned(field), &quoted[end + 1..]));
        }
        field.push(b'"');
        start = end + 2;
        end = start + quoted.get(start..)?.iter().position(|&byte| byte == b'"')?;
    }
}
