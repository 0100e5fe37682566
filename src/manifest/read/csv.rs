//! Tables, as `Get-FileHash | Export-Csv` of PowerShell writes them.
//!
//! The first line names the columns; `Hash` and `Path` must be among them, `Algorithm` can be. Fields stand
//! between `"` with each `"` in them doubled, or bare, and are parted by `,` or `;` (RFC 4180, but that a
//! field holds no line end).

use std::borrow::Cow;

use crate::hash::{Digest, Sha256};

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

    /// The digest of a row, and its name in `name`.
    pub fn row(&self, line: &[u8], name: &mut Vec<u8>) -> Result<Digest, Fault> {
        let fields = fields(line, self.separator).filter(|fields| fields.len() == self.count);
        let fields = fields.ok_or(Fault::Columns { expected: self.count })?;
        let field = |column: usize| fields.get(column).map(|field| &**field).unwrap_or_default();
        if let Some(algorithm) = self.algorithm.map(field)
            && !["SHA256", "SHA-256"].iter().any(|a| algorithm.eq_ignore_ascii_case(a.as_bytes()))
        {
            return Err(Fault::OtherAlgorithm(other(algorithm)));
        }
        name.clear();
        name.extend_from_slice(field(self.path));
        let hash = field(self.hash);
        Sha256::from_hex(hash).map(Digest::from).ok_or(Fault::DigestLength {
            found: hash.iter().take_while(|byte| byte.is_ascii_hexdigit()).count(),
        })
    }
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
