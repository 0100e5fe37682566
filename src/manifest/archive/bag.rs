//! The text files of a BagIt bag (RFC 8493): the lines of manifests, the declaration, and tags.

use std::borrow::Cow;

use crate::{hash::Algorithm, hash::Digest, manifest::Fault};

/// The name of the file that makes a directory a bag.
pub const DECLARATION: &str = "bagit.txt";

/// The declaration of a bag of this version.
pub const DECLARED: &str = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";

/// The name of the file that has the tags.
pub const INFO: &str = "bag-info.txt";

/// The name of the directory that has the payload.
pub const PAYLOAD: &str = "data";

/// The first bytes of the declaration, in every version.
pub const START: &[u8] = b"BagIt-Version";

/// The fault of a text file of a bag that has UTF-16 and declares something else, with the remedy.
pub const OTHER_ENCODING: &str =
    "it is UTF-16, and bagit.txt declares another encoding; make it that, as with iconv -f UTF-16";

/// The encodings of a bag's text files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// ASCII is among it.
    #[default]
    Utf8,
    /// Where a byte order mark says so; UTF-8 without one.
    Utf16,
    /// Each byte is a character.
    Latin1,
}

/// The content of `bagit.txt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// The version, as two numbers.
    pub version: (u32, u32),
    /// The encoding of the other text files.
    pub encoding: Encoding,
}

impl Declaration {
    /// Reads `bagit.txt`.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8")?;
        if text.starts_with('\u{feff}') {
            return Err("it starts with a byte order mark");
        }
        let mut lines = lines(text);
        let (Some(first), Some(second), None) = (lines.next(), lines.next(), lines.next()) else {
            return Err("it has not exactly two lines");
        };
        let version = first.strip_prefix("BagIt-Version:").ok_or("its first line is no version")?;
        let encoding = second
            .strip_prefix("Tag-File-Character-Encoding:")
            .ok_or("its second line is no encoding")?;
        let number = version.trim();
        let parts = number.split_once('.').and_then(|(major, minor)| {
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            (is_number(major) && is_number(minor)).then_some(())?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let version_is = parts.ok_or("its version is no number")?;
        if !matches!(version_is, (0, 93..=97) | (1, 0)) {
            return Err("it is of a version that is not known (0.93 to 0.97 and 1.0 are)");
        }
        let is_exact = |value: &str| value.strip_prefix(' ').is_some_and(|it| it.trim() == it);
        if version_is >= (1, 0) && !(is_exact(version) && is_exact(encoding)) {
            return Err("there is not exactly one space behind a colon");
        }
        let encoding = match encoding.trim().to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => Encoding::Utf8,
            "utf-16" => Encoding::Utf16,
            "iso-8859-1" | "latin1" => Encoding::Latin1,
            _ => return Err("the encoding of its text files is not known"),
        };
        Ok(Self { version: version_is, encoding })
    }

    /// True if `%` starts an escape in names.
    pub fn escapes(self) -> bool {
        self.version >= (1, 0)
    }
}

/// Lines that end with LF, CR or both.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = text.find(['\r', '\n']) else { return rest.take() };
        let len = if text[at..].starts_with("\r\n") { 2 } else { 1 };
        rest = Some(&text[at + len..]);
        Some(&text[..at])
    })
}

/// The name of the manifest of the payload by this algorithm.
pub fn payload_list(by: Algorithm) -> String {
    format!("manifest-{}.txt", by.name())
}

/// The name of the manifest of the tag files by this algorithm.
pub fn tag_list(by: Algorithm) -> String {
    format!("tag{}", payload_list(by))
}

/// True for the path of a text file that runs write beside the payload.
pub fn is_text_file(path: &[u8]) -> bool {
    let is_list = |name: &str| !name.contains('/') && manifest_name(name).is_some();
    path == DECLARATION.as_bytes()
        || path == INFO.as_bytes()
        || std::str::from_utf8(path).is_ok_and(is_list)
}

/// The algorithm of a manifest by its name, `manifest-sha512.txt`, and whether it is one of tag files; the
/// algorithm is an error where it is none that is known here.
pub fn manifest_name(name: &str) -> Option<(bool, Result<Algorithm, &str>)> {
    let (is_tag, rest) = match name.strip_prefix("tagmanifest-") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("manifest-")?),
    };
    let name = rest.strip_suffix(".txt")?;
    let found = Algorithm::of_bags().find(|algorithm| algorithm.name() == name);
    Some((is_tag, found.ok_or(name)))
}

/// A line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BagLine<'a> {
    /// The digest of the file's content.
    pub digest: Digest,
    /// The name, with what stood for line ends and `%` put back.
    pub name: Cow<'a, [u8]>,
    /// True if the program that wrote it marked the name with `*` or `./`, as those of lists do.
    pub is_odd: bool,
}

/// Reads a line of a manifest, without its end.
///
/// # Errors
/// The fault of the line.
pub fn line<'a>(
    line: &'a [u8],
    algorithm: Algorithm,
    declaration: Declaration,
) -> Result<BagLine<'a>, Fault> {
    let end = digest_end(line)?;
    let digest = Digest::parse(algorithm, &line[..end])
        .ok_or(Fault::Form("the digest is not one of the algorithm of this manifest"))?;
    let (name, is_odd) = name_behind(line, end, declaration)?;
    Ok(BagLine { digest, name, is_odd })
}

/// The name on a line of a manifest whose digests are by an algorithm that is not known here.
///
/// # Errors
/// There is none.
pub fn name_on(line: &[u8], declaration: Declaration) -> Result<Cow<'_, [u8]>, Fault> {
    name_behind(line, digest_end(line)?, declaration).map(|(name, _)| name)
}

/// Where the digest of a line ends.
fn digest_end(line: &[u8]) -> Result<usize, Fault> {
    line.iter().position(|byte| matches!(byte, b' ' | b'\t')).ok_or(Fault::NoName)
}

/// The name behind the digest that ends there, and whether it is marked.
fn name_behind(
    line: &[u8],
    end: usize,
    declaration: Declaration,
) -> Result<(Cow<'_, [u8]>, bool), Fault> {
    let rest = &line[end..];
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let mut name = &rest[blanks..];
    let mut is_odd = false;
    if let Some(plain) = name.strip_prefix(b"*") {
        (name, is_odd) = (plain, true);
    }
    while let Some(plain) = name.strip_prefix(b"./") {
        (name, is_odd) = (plain, true);
    }
    if name.is_empty() {
        return Err(Fault::NoName);
    }
    if let Some(nul) = memchr::memchr(0, name) {
        return Err(Fault::Nul { column: end + blanks + nul + 1 });
    }
    let name = match declaration.encoding {
        Encoding::Latin1 if !name.is_ascii() => {
            Cow::Owned(name.iter().map(|&byte| char::from(byte)).collect::<String>().into_bytes())
        }
        _ => Cow::Borrowed(name),
    };
    Ok((if declaration.escapes() { unescaped(name) } else { name }, is_odd))
}

/// The name with `%0A`, `%0D` and `%25` put back, and nothing else.
pub fn unescaped(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if !name.contains(&b'%') {
        return name;
    }
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = &name[..];
    while let [first, after @ ..] = rest {
        let byte = match after {
            [b'0', b'a' | b'A', ..] => b'\n',
            [b'0', b'd' | b'D', ..] => b'\r',
            [b'2', b'5', ..] => b'%',
            _ => 0,
        };
        let is_escape = *first == b'%' && byte != 0;
        plain.push(if is_escape { byte } else { *first });
        rest = if is_escape { &after[2..] } else { after };
    }
    Cow::Owned(plain)
}

/// A name as manifests of version 1.0 have it.
pub fn escaped(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'\n' => text.extend_from_slice(b"%0A"),
            b'\r' => text.extend_from_slice(b"%0D"),
            b'%' => text.extend_from_slice(b"%25"),
            _ => text.push(byte),
        }
    }
    text
}

/// The value of `Payload-Oxum` in the text of `bag-info.txt`: bytes and files.
///
/// # Errors
/// The fault of the file.
pub fn payload_oxum(text: &str) -> Result<Option<(u64, u64)>, &'static str> {
    let (mut found, mut is_oxum) = (None, false);
    for line in lines(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            // It belongs to the value before.
            match is_oxum {
                true => return Err("its Payload-Oxum is not of the form BYTES.FILES"),
                false => continue,
            }
        }
        let (label, value) = line.split_once(':').ok_or("a line has no label")?;
        is_oxum = label.trim().eq_ignore_ascii_case("payload-oxum");
        if !is_oxum {
            continue;
        }
        let number = |text: &str| text.parse().ok();
        let parts = value.trim().split_once('.');
        let oxum = parts.and_then(|(bytes, files)| Some((number(bytes)?, number(files)?)));
        let oxum = oxum.ok_or("its Payload-Oxum is not of the form BYTES.FILES")?;
        if found.replace(oxum).is_some() {
            return Err("it has two Payload-Oxum");
        }
    }
    Ok(found)
}

/// The path on a line of `fetch.txt`, still escaped.
pub fn fetched(line: &str) -> Option<&str> {
    let (_, rest) = line.trim_ascii_start().split_once([' ', '\t'])?;
    let (len, path) = rest.trim_ascii_start().split_once([' ', '\t'])?;
    let is_len = len == "-" || len.bytes().all(|byte| byte.is_ascii_digit());
    Some(path.trim_ascii_start()).filter(|path| is_len && !path.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEW: Declaration = Declaration { version: (1, 0), encoding: Encoding::Utf8 };

    #[test]
    fn declarations_are_exact() {
        let parse = |text: &str| Declaration::parse(text.as_bytes());
        let good = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
        assert_eq!(parse(good), Ok(NEW));
        assert_eq!(parse(&good.replace('\n', "\r\n")), Ok(NEW));
        assert_eq!(parse(&good.replace('\n', "\r")), Ok(NEW));
        assert_eq!(parse(good.trim_end()), Ok(NEW));
        let old = good.replace("1.0", "0.97").replace("UTF-8", "ISO-8859-1");
        let latin = Declaration { version: (0, 97), encoding: Encoding::Latin1 };
        assert_eq!(parse(&old), Ok(latin));
        assert_eq!(parse(&old.replace(": ", " :")), Err("its first line is no version"));
        assert!(parse(&old.replace(": ", ":  ")).is_ok());
        for bad in [
            good.replace(": ", ":  "),
            good.replace(": ", ":"),
            good.replace(": ", " : "),
            good.replace("1.0", "2.0"),
            good.replace("1.0", "1.+0"),
            good.replace("UTF-8", "EBCDIC"),
            format!("\u{feff}{good}"),
            format!("{good}\n"),
            good.lines().next().unwrap().to_owned(),
            String::new(),
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
        assert!(Declaration::parse(b"\xff\xfe").is_err());
    }

    #[test]
    fn lines_are_taken_apart() {
        let hex = "d41d8cd98f00b204e9800998ecf8427e";
        let parse = |text: &str, declaration| {
            let text = text.replace('@', hex).into_bytes();
            let read = line(&text, Algorithm::Md5, declaration);
            read.map(|line| (line.name.to_vec(), line.is_odd))
        };
        let name = |name: &str| Ok((name.as_bytes().to_vec(), false));
        assert_eq!(parse("@  data/a b", NEW), name("data/a b"));
        assert_eq!(parse("@ \t data/a ", NEW), name("data/a "));
        assert_eq!(parse("@ data/%250A%0a%0D%41%", NEW), name("data/%0A\n\r%41%"));
        let old = Declaration { version: (0, 97), encoding: Encoding::Utf8 };
        assert_eq!(parse("@ data/%25", old), name("data/%25"));
        assert_eq!(parse("@ *./data/a", old), Ok((b"data/a".to_vec(), true)));
        assert_eq!(parse("@", NEW), Err(Fault::NoName));
        assert_eq!(parse("@  ", NEW), Err(Fault::NoName));
        assert!(matches!(parse("abc data/a", NEW), Err(Fault::Form(_))));
        let latin = Declaration { version: (0, 97), encoding: Encoding::Latin1 };
        let read = [hex.as_bytes(), b" data/\xe9"].concat();
        let read = line(&read, Algorithm::Md5, latin).map(|line| line.name.to_vec());
        assert_eq!(read, Ok("data/é".as_bytes().to_vec()));
    }

    #[test]
    fn names_and_tags_are_read() {
        assert_eq!(manifest_name("manifest-sha512.txt"), Some((false, Ok(Algorithm::Sha512))));
        assert_eq!(manifest_name("tagmanifest-md5.txt"), Some((true, Ok(Algorithm::Md5))));
        assert_eq!(manifest_name("manifest-sha3256.txt"), Some((false, Err("sha3256"))));
        assert_eq!(manifest_name("manifest.txt"), None);
        let info = "Source: a\n  folded: b\r\npayload-oxum: 12.3\n";
        assert_eq!(payload_oxum(info), Ok(Some((12, 3))));
        assert_eq!(payload_oxum("A: b\n"), Ok(None));
        assert!(payload_oxum("nothing\n").is_err());
        assert!(payload_oxum("Payload-Oxum: 12\n").is_err());
        assert!(payload_oxum("Payload-Oxum: 1.2\nPayload-Oxum: 1.2\n").is_err());
        assert_eq!(fetched("http://x/%20 - data/a b"), Some("data/a b"));
        assert_eq!(fetched("http://x/ 12"), None);
        assert_eq!(fetched("http://x/ x data/a"), None);
    }

    proptest! {
        #[test]
        fn names_round_trip(name in prop::collection::vec(
            prop_oneof![Just(b'%'), Just(b'0'), Just(b'A'), Just(b'2'), Just(b'5'), Just(b'\n'), 1..=255u8], 1..30)
        ) {
            let text = escaped(&name);
            prop_assert!(!text.contains(&b'\n') && !text.contains(&b'\r'));
            prop_assert_eq!(&unescaped(Cow::Borrowed(&text))[..], &name[..]);
        }

        #[test]
        fn anything_is_a_line_or_a_fault(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = line(&text, Algorithm::Md5, NEW);
            let _ = Declaration::parse(&text);
            let text = String::from_utf8_lossy(&text);
            let _ = payload_oxum(&text);
            let _ = fetched(&text);
        }
    }
}
