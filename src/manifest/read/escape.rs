//! GNU escaping of names: how a name with a line feed fits on one line.
//!
//! A name that holds `\`, LF or CR is written with `\\`, `\n`, `\r` in their place, and its line is
//! flagged by one `\` at its start; every other byte stays as it is. (coreutils manual, "md5sum
//! invocation"; CR since coreutils 9.0.) Without the flag a `\` in a name means itself.

use memchr::{memchr, memchr3};

/// True if a line with this name must be flagged and its name escaped.
pub fn is_needed(name: &[u8]) -> bool {
    memchr3(b'\\', b'\n', b'\r', name).is_some()
}

/// Appends `name`, escaped, to `out`.
pub fn escape(name: &[u8], out: &mut Vec<u8>) {
    let mut rest = name;
    while let Some(at) = memchr3(b'\\', b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(match rest[at] {
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\\\",
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends `name`, unescaped, to `out`. Where an escape is not one of the three legal ones (or the
/// name ends in a lone `\`), the error is the position of its `\` in `name`.
pub fn unescape(name: &[u8], out: &mut Vec<u8>) -> Result<(), usize> {
    let mut done = 0;
    while let Some(at) = memchr(b'\\', &name[done..]) {
        let backslash = done + at;
        out.extend_from_slice(&name[done..backslash]);
        out.push(match name.get(backslash + 1) {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'\\') => b'\\',
            _ => return Err(backslash),
        });
        done = backslash + 2;
    }
    out.extend_from_slice(&name[done..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bytes_are_escaped_and_no_other() {
        for byte in 0..=255u8 {
            let name = [b'a', byte, b'b'];
            let (mut escaped, mut back) = (Vec::new(), Vec::new());
            escape(&name, &mut escaped);
            assert_eq!(is_needed(&name), b"\\\n\r".contains(&byte), "{byte:#x}");
            assert_eq!(escaped != name, is_needed(&name), "{byte:#x}");
            assert_eq!(unescape(&escaped, &mut back), Ok(()));
            assert_eq!(back, name);
        }
    }

    #[test]
    fn illegal_escapes_are_found_where_they_are() {
        type Case<'a> = (&'a [u8], Result<&'a [u8], usize>);
        let cases: &[Case] = &[
            (b"", Ok(b"")),
            (b"a\\nb\\rc\\\\d", Ok(b"a\nb\rc\\d")),
            (b"\\\\n", Ok(b"\\n")),
            (b"a\\", Err(1)),
            (b"a\\tb", Err(1)),
            (b"\\n\\\\\\", Err(4)),
            (b"\\0", Err(0)),
        ];
        for (input, expected) in cases {
            let mut out = Vec::new();
            let result = unescape(input, &mut out).map(|()| &out[..]);
            assert_eq!(result, *expected, "{}", input.escape_ascii());
        }
    }
}
