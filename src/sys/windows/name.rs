//! Names: between the bytes of manifests and Windows' UTF-16, which of them may be made, and how a file system treats
//! them and all else that it is given.
//!
//! Windows' names are 16-bit units that need not be valid UTF-16. A [`RelPath`](crate::path::RelPath) and a manifest
//! hold them as UTF-8, and a surrogate without its partner in the three bytes that UTF-8 would have for it if it
//! allowed it (this is called WTF-8, and is how Rust itself holds them). So every name has exactly one form in bytes,
//! and comes back from it.

use std::path::{Component, Path, Prefix};
use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, os::windows::ffi::OsStrExt,
    os::windows::ffi::OsStringExt, sync::Arc,
};

use crate::sys::traits::{NameTraits, TimeTraits, Traits, TriedName};
use crate::{
    sys::part_name::PartOwner, sys::stat::Stat, sys::stat::Time, sys::windows::dir::Dir,
    sys::windows::link::LinkTarget, sys::windows::volume::close_file,
};

/// A file name from the bytes that a manifest or a [`RelPath`](crate::path::RelPath) holds.
///
/// # Errors
/// The bytes are no name on Windows: they are neither UTF-8 nor the form of a lone surrogate.
pub fn name_from_bytes(bytes: &[u8]) -> io::Result<&OsStr> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(OsStr::new(text));
    }
    match units(bytes).map(|units| OsString::from_wide(&units)) {
        // SAFETY: these very bytes are what `as_encoded_bytes` gives for a string made just now.
        Some(name) if name.as_encoded_bytes() == bytes => {
            Ok(unsafe { OsStr::from_encoded_bytes_unchecked(bytes) })
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "the name is not UTF-8, and Windows has no name for it",
        )),
    }
}

/// The 16-bit units of a name that may hold surrogates, each in three bytes; `None` for other bytes.
fn units(bytes: &[u8]) -> Option<Vec<u16>> {
    let (mut units, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        if let [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, tail @ ..] = rest {
            units.push(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f));
            rest = tail;
            continue;
        }
        let len = (1..=rest.len().min(4)).find(|&len| std::str::from_utf8(&rest[..len]).is_ok())?;
        units.extend(std::str::from_utf8(&rest[..len]).ok()?.encode_utf16());
        rest = &rest[len..];
    }
    Some(units)
}

/// One component as the calls want it. `.` becomes the empty name, which is the directory itself.
///
/// # Errors
/// It would name something else than one entry: `\` and `/` divide paths, and what is behind a `:` is
/// a stream of the file before it.
pub(super) fn component(name: &OsStr) -> io::Result<Vec<u16>> {
    let bytes = name.as_encoded_bytes();
    match bytes {
        b"." => return Ok(Vec::new()),
        b"" | b".." => return Err(refused("the name is not that of an entry")),
        _ => {}
    }
    match bytes.iter().find(|&&byte| matches!(byte, b'\\' | b'/' | b':' | 0)) {
        Some(b':') => Err(refused(COLON)),
        Some(b'\\' | b'/') => Err(refused(SEPARATOR)),
        Some(_) => Err(refused(CONTROL)),
        None => Ok(name.encode_wide().collect()),
    }
}

/// Like [`component`] for something that is to be made under this name.
pub(super) fn new_component(name: &OsStr) -> io::Result<Vec<u16>> {
    match unusable(name) {
        Some(why) => Err(refused(why)),
        None => component(name),
    }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidFilename, why)
}

const SEPARATOR: &str = "Windows allows no \"\\\" or \"/\" in a name";
const COLON: &str = "Windows allows no \":\" in a name";
const CONTROL: &str = "Windows allows no control character in a name";
const RESERVED: &str = "the name is reserved for a device on Windows";
const TRAILING: &str = "programs on Windows cannot open a name that ends with a dot or a space";

/// Why nothing of this name can be made, or nothing that the programs of Windows could open again;
/// `None` for an ordinary name. ("Naming Files, Paths, and Namespaces" in Microsoft's documentation.)
pub fn unusable(name: &OsStr) -> Option<&'static str> {
    let bytes = name.as_encoded_bytes();
    for byte in bytes {
        match byte {
            b'\\' | b'/' => return Some(SEPARATOR),
            b':' => return Some(COLON),
            0..32 => return Some(CONTROL),
            b'<' | b'>' | b'"' | b'|' | b'?' | b'*' => {
                return Some("Windows allows none of < > \" | ? * in a name");
            }
            _ => {}
        }
    }
    if matches!(bytes.last(), Some(b'.' | b' ')) {
        return Some(TRAILING);
    }
    is_reserved(bytes).then_some(RESERVED)
}

/// Why what this path names could not be read: it names a device. There are files with such names, too, on
/// some versions of Windows, so this is asked when one cannot be.
pub fn names_device(path: &Path) -> Option<&'static str> {
    let is_device = match (path.file_name(), path.components().next()) {
        (Some(name), _) => {
            let name = name.as_encoded_bytes();
            is_reserved(name.strip_suffix(b":").unwrap_or(name))
        }
        (None, Some(Component::Prefix(prefix))) => matches!(prefix.kind(), Prefix::DeviceNS(_)),
        (None, _) => false,
    };
    is_device.then_some(
        "the name is reserved for a device on Windows, and that device cannot be read; standard input is \
         \"-i -\", and nothing at all an empty file",
    )
}

/// True if the part before the first dot is the name of a device, in either case, spaces behind it left out of account.
/// The superscript digits ¹ ² ³ count too.
fn is_reserved(name: &[u8]) -> bool {
    let stem = name.split(|&byte| byte == b'.').next().unwrap_or_default().trim_ascii_end();
    let is = |word: &str| stem.eq_ignore_ascii_case(word.as_bytes());
    if ["con", "prn", "aux", "nul", "conin$", "conout$"].into_iter().any(is) {
        return true;
    }
    let Some((port, number)) = stem.split_at_checked(3) else { return false };
    let digits = [b"\xc2\xb9".as_slice(), b"\xc2\xb2", b"\xc2\xb3"];
    (port.eq_ignore_ascii_case(b"com") || port.eq_ignore_ascii_case(b"lpt"))
        && (matches!(number, [b'1'..=b'9']) || digits.contains(&number))
}

/// True if an argument shows that a quotation mark was swallowed: on the command line `\"` stands for the mark itself,
/// so that `"C:\photos\"` does not end where it seems to, and the text behind it becomes part of it. No path, pattern
/// or number of Windows has the mark in it.
pub fn swallowed_quote(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().contains(&b'"')
}

// A file system's treatment of everything that it is given: names that Windows does not hold are known, and all but
// letter case is taken to be done.

impl Dir {
    /// The file system's treatment of everything that it is given. The times of a link are set by a handle of the link.
    pub fn traits(&self, owner: PartOwner) -> Traits {
        let names = NameTraits { folds_case: self.folds_case(owner), ..NameTraits::EVERY };
        let keeps_numbers = self.keeps_identity().is_ok_and(|(numbers, _)| numbers);
        Traits { names, keeps_numbers, ..Traits::FAITHFUL }
    }

    /// True if names here that differ only in letter case are the same name; found out by a trial.
    fn folds_case(&self, owner: PartOwner) -> bool {
        let Ok((_, part)) = self.create_part(owner) else { return false };
        let other: String = part.to_string_lossy().chars().map(other_case).collect();
        let folds = self.stat(OsStr::new(&other), false).is_ok();
        self.remove(&part).is_ok() && folds
    }

    /// The treatment of a file of this name here.
    ///
    /// # Errors
    /// It is not tried: [`unusable`](crate::sys::unusable) knows.
    pub fn try_name(&self, _: PartOwner, _: &OsStr) -> io::Result<TriedName> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The one of `others`, by its number, that is one name with `name` here. It is not tried: letters are folded one
    /// by one.
    ///
    /// # Errors
    /// None.
    pub fn find_one_name(
        &self,
        _: PartOwner,
        name: &OsStr,
        others: &[Arc<OsStr>],
    ) -> io::Result<Option<usize>> {
        let folded = |name: &OsStr| name.encode_wide().map(folded).collect::<Vec<_>>();
        let name = folded(name);
        Ok(others.iter().position(|other| folded(other) == name))
    }

    /// True if what is made here under one of these names may be found by the other: names are taken to be folded, and
    /// dots and spaces at their ends are not part of them.
    pub fn may_be_one(&self, one: &OsStr, other: &OsStr) -> bool {
        let meant = |name: &OsStr| {
            let mut units: Vec<u16> = name.encode_wide().map(folded).collect();
            let is_end = |unit: &u16| [u16::from(b'.'), u16::from(b' ')].contains(unit);
            while units.pop_if(|unit| is_end(unit)).is_some() {}
            units
        };
        meant(one) == meant(other)
    }

    /// True if single directories of the file system may fold names where others do not: it is not asked.
    pub fn may_fold_by_directory(&self) -> bool {
        false
    }

    /// True if this directory is one that folds names: it is not asked.
    pub fn folds_by_itself(&self) -> bool {
        false
    }

    /// The metadata of an open file: nothing stands between.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn stat_file_anew(file: &File) -> io::Result<Stat> {
        Self::stat_file(file)
    }

    /// False, as it cannot be told from the metadata of an entry.
    pub fn may_lack_permissions(&self) -> bool {
        false
    }

    /// True if it is known to be FAT or exFAT: here nothing depends on that.
    pub fn is_fat(&self) -> bool {
        false
    }

    /// True if a file of this name can take the place of another here.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_replacing(&self, _: PartOwner, _: &OsStr) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The modification time that a file has here that is given a time.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_time(&self, _: PartOwner, _: Time) -> io::Result<Time> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Closes and removes a file of a trial.
    ///
    /// # Errors
    /// It cannot be closed or removed.
    pub fn remove_trial(&self, file: File, name: &OsStr) -> io::Result<()> {
        close_file(file)?;
        self.remove(name)
    }

    /// The target that a link shows that is made here.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_link(&self, _: PartOwner, _: &LinkTarget) -> io::Result<LinkTarget> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// True if a link to a target leads out of a root that it is below: every link is shown.
    pub fn leads_out(_: &LinkTarget, _: usize) -> bool {
        false
    }

    /// The times that entries have here: any.
    pub fn own_time_traits(&self) -> TimeTraits {
        TimeTraits::EVERY
    }

    /// The modification time that this directory has when it is given a time.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_own_time(&self, _: Time) -> io::Result<Time> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a directory that a trial was made in; here there are none.
    ///
    /// # Errors
    /// None.
    pub fn remove_trial_dir(&self, _: &OsStr) -> io::Result<bool> {
        Ok(false)
    }
}

/// An ASCII letter in the other case.
fn other_case(letter: char) -> char {
    match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    }
}

/// The form in which a file system of Windows compares a letter: another single letter, or nothing.
fn folded(unit: u16) -> u16 {
    let only = |all: &mut dyn Iterator<Item = char>, unit| match (all.next(), all.next()) {
        (Some(one), None) => u16::try_from(u32::from(one)).unwrap_or(unit),
        _ => unit,
    };
    let letter = |unit: u16| char::from_u32(unit.into());
    let upper = letter(unit).map_or(unit, |it| only(&mut it.to_uppercase(), unit));
    letter(upper).map_or(upper, |it| only(&mut it.to_lowercase(), upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_from_its_bytes() {
        let names: [&[u16]; 6] = [
            &[0x61, 0xe9, 0x4e2d],
            &[0xd83d, 0xde00],
            &[0xd83d],
            &[0xde00, 0xd83d],
            &[0x61, 0xdfff, 0x62],
            &[0xd800, 0xd83d, 0xde00],
        ];
        for units in names {
            let name = OsString::from_wide(units);
            let back = name_from_bytes(name.as_encoded_bytes()).unwrap();
            assert_eq!(back.encode_wide().collect::<Vec<_>>(), units);
        }
    }

    #[test]
    fn other_bytes_are_no_name() {
        // Not UTF-8; a pair of surrogates in the form of lone ones; cut off; overlong.
        for bytes in [
            &b"\xff"[..],
            b"a\xe9b",
            b"\xed\xa0\xbd\xed\xb8\x80",
            b"\xed\xa0",
            b"\xc0\xaf",
            b"\xf4\x90\x80\x80",
        ] {
            assert!(name_from_bytes(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn names_that_cannot_be_made_say_why() {
        for (name, word) in [
            ("con", "device"),
            ("Con.tar.gz", "device"),
            ("NUL ", "dot or a space"),
            ("nul .txt", "device"),
            ("com1", "device"),
            ("LPT9.log", "device"),
            ("com\u{b9}", "device"),
            ("conout$", "device"),
            ("a.", "dot or a space"),
            ("a ", "dot or a space"),
            ("a:b", "\":\""),
            ("a\\b", "\"\\\""),
            ("a\nb", "control"),
            ("what?", "? *"),
            ("\"q\"", "\""),
        ] {
            let why = unusable(OsStr::new(name)).unwrap_or("");
            assert!(why.contains(word), "{name:?}: {why:?}");
        }
        for name in ["console", "com", "com0", "com10", "lpt", "a.con", ".a", "a b", "nu", "auxx.c"]
        {
            assert_eq!(unusable(OsStr::new(name)), None, "{name:?}");
        }
    }

    #[test]
    fn a_component_is_one_entry() {
        for name in ["", "..", "a\\b", "a/b", "a:b", "a:b:$DATA", "a\0"] {
            let error = component(OsStr::new(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidFilename, "{name:?}");
        }
        assert!(component(OsStr::new(".")).unwrap().is_empty());
        // What is there already may be read, whatever it is called.
        assert_eq!(component(OsStr::new("nul.")).unwrap().len(), 4);
    }
}
