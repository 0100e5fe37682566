//! Writes manifest lines, exactly as `sha256sum` does.
//!
//! `HEX␠␠name⏎`: 64 lower-case hexadecimal digits, two spaces, the raw bytes of the name, LF; see
//! [`escape`] for the few names that are not written raw. (coreutils manual, "md5sum
//! invocation".) Lines go to the end of a buffer that the caller uses again: a million files cost
//! no allocation each.

use crate::{hash::Algorithm, hash::Digest, manifest::read::escape};

/// The text between digest and name: a blank, and "text mode", which on POSIX means nothing.
const GAP: &[u8] = b"  ";

/// `sha256sum -c` reads its standard input where the whole name is this, so a file of that name is
/// written as `./-`.
const STDIN: &str = "-";
const HERE: &[u8] = b"./";

/// Appends the line of a file given by its whole path, components joined by `/`.
///
/// It is what the program of the digest's algorithm writes; a name that it cannot write is escaped as `sha256sum`
/// does. The path must not be empty and must hold no NUL: no reader takes such a line for a record.
pub fn write_path(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    match digest.algorithm() {
        _ if write_for_program(out, digest, path) => {}
        Algorithm::Xxh3 => write_tagged(out, digest, path, true),
        _ => write_escaped(out, digest, path),
    }
}

/// The same, and by which algorithm the digest is can be told from the line alone.
pub fn write_known(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    match digest.algorithm().is_known_by_length() {
        true => write_path(out, digest, path),
        false => write_tagged(out, digest, path, true),
    }
}

/// The same for the program that checks digests of this algorithm; nothing, and false, if that cannot read the name.
pub fn write_for_program(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) -> bool {
    let is_one_line = memchr::memchr2(b'\n', b'\r', path).is_none();
    match digest.algorithm() {
        Algorithm::Blake3 => {
            // Read as UTF-8, and a carriage return at the end of a line is dropped.
            let text = std::str::from_utf8(path).ok();
            if text.is_none_or(|text| text.contains('\u{fffd}') || text.ends_with('\r')) {
                return false;
            }
            write_but_carriage_returns(out, digest, path);
        }
        // Nothing is escaped.
        Algorithm::Xxh3 if is_one_line => write_tagged(out, digest, path, false),
        Algorithm::Xxh128 | Algorithm::Xxh64 if is_one_line => write_raw(out, digest, path),
        Algorithm::Xxh3 | Algorithm::Xxh128 | Algorithm::Xxh64 => return false,
        _ => write_escaped(out, digest, path),
    }
    true
}

/// Writes the line as `sha256sum` does.
fn write_escaped(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    let escaped = escape::is_needed(path);
    start(out, digest, escaped);
    if escaped {
        escape::escape(path, out);
    } else {
        write_name(out, path);
    }
    out.push(b'\n');
}

/// The same for a program that escapes nothing, also not a `\` at the start of a name. The path must be one line.
fn write_raw(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    start(out, digest, false);
    write_name(out, path);
    out.push(b'\n');
}

/// The same for `b3sum`, whose earlier versions know no escape for CR.
fn write_but_carriage_returns(out: &mut Vec<u8>, digest: &Digest, path: &[u8]) {
    let escaped = memchr::memchr2(b'\\', b'\n', path).is_some();
    start(out, digest, escaped);
    if !escaped {
        write_name(out, path);
    }
    for piece in path.split_inclusive(|&byte| byte == b'\r').filter(|_| escaped) {
        let (piece, end) = match piece.split_last() {
            Some((b'\r', before)) => (before, &b"\r"[..]),
            _ => (piece, &b""[..]),
        };
        escape::escape(piece, out);
        out.extend_from_slice(end);
    }
    out.push(b'\n');
}

/// Appends the line of a file as `TAG (name) = digest`; escaped as the other lines if `escapes`, and not at all
/// otherwise.
pub fn write_tagged(out: &mut Vec<u8>, digest: &Digest, path: &[u8], escapes: bool) {
    let escaped = escapes && escape::is_needed(path);
    if escaped {
        out.push(b'\\');
    }
    out.extend_from_slice(digest.algorithm().spec().map_or("", |spec| spec.tag).as_bytes());
    out.extend_from_slice(b" (");
    match escaped {
        true => escape::escape(path, out),
        false => write_name(out, path),
    }
    out.extend_from_slice(b") = ");
    digest.write(out);
    out.push(b'\n');
}

/// The same by several algorithms, with their tags.
pub fn write_all_standard<'a>(out: &mut Vec<u8>, digests: impl Iterator<Item = &'a Digest>) {
    for digest in digests {
        let tag = digest.algorithm().spec().map_or("", |spec| spec.tag);
        out.extend_from_slice(format!("{tag} ({STDIN}) = {digest}\n").as_bytes());
    }
}

fn write_name(out: &mut Vec<u8>, path: &[u8]) {
    if path == STDIN.as_bytes() {
        out.extend_from_slice(HERE);
    }
    out.extend_from_slice(path);
}

/// Appends the line of what was written to standard output: of the name `-`, which a check reads from its
/// standard input.
pub fn write_standard(out: &mut Vec<u8>, digest: &Digest) {
    start(out, digest, false);
    out.extend_from_slice(STDIN.as_bytes());
    out.push(b'\n');
}

/// Writes the text before the name.
fn start(out: &mut Vec<u8>, digest: &Digest, escaped: bool) {
    if escaped {
        out.push(b'\\');
    }
    digest.write(out);
    out.extend_from_slice(GAP);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "abababababababababababababababababababababababababababababababab";

    /// The names that `sha256sum` was seen to write (coreutils 9.1).
    #[test]
    fn lines_are_what_sha256sum_writes() {
        let cases: &[(&[u8], &str, &[u8])] = &[
            (b"plain", "", b"plain"),
            (b"a\nb", "\\", b"a\\nb"),
            (b"c\\d", "\\", b"c\\\\d"),
            (b"e\rf", "\\", b"e\\rf"),
            (b" lead", "", b" lead"),
            (b"*star", "", b"*star"),
            (b"t\tab", "", b"t\tab"),
            (b"\xff\xfe", "", b"\xff\xfe"),
            (b"#hash", "", b"#hash"),
            (b"dir/file", "", b"dir/file"),
            (b"-", "", b"./-"),
            (b"dir/-", "", b"dir/-"),
        ];
        for (name, flag, written) in cases {
            let mut line = Vec::new();
            write_path(&mut line, &Digest::sha256([0xab; 32]), name);
            let expected =
                [flag.as_bytes(), HEX.as_bytes(), b"  ".as_slice(), written, b"\n"].concat();
            assert_eq!(line, expected, "{}", name.escape_ascii());
        }
    }
}
