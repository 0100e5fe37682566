//! The forms of names that may be one name at an output.
//!
//! File systems fold letter case, forms of Unicode or both, each by tables of its own: for ext4 `straße` is `STRASSE`,
//! and characters that are not shown count for nothing. Names are alike here if any file system may take
//! them for one. Whether an output does is asked of the output: to be alike proves nothing.

use std::ffi::{OsStr, OsString};
use std::{collections::HashMap, hash::BuildHasher, hash::RandomState, io};

use unicode_normalization::UnicodeNormalization;

use crate::sys::{Dir, DirListing, DirReader, name_from_bytes, stat::Kind, stat::Stat, stat::Time};
use crate::{hash::HashTable, path::RelPath};

/// The common form of all names that are alike. What is not UTF-8 stays as it is: where names are folded, such bytes
/// are not.
pub fn form_of(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let mut form = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        form.extend_from_slice(folded(chunk.valid()).as_bytes());
        form.extend_from_slice(chunk.invalid());
    }
    form
}

/// True if two names have the same form.
pub fn are_alike(one: &[u8], other: &[u8]) -> bool {
    form_of(one) == form_of(other)
}

/// True if a file may be found by this name that is called otherwise: NTFS and FAT give one with a long name a short
/// one too, of at most 8 and 3 characters ("LONGFI~1.TXT").
pub fn may_be_short_name(name: &[u8]) -> bool {
    let dot = name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len());
    let (base, ending) = name.split_at(dot);
    let is_short = base.len() <= 8 && ending.len() <= 4 && name.is_ascii();
    is_short && base.iter().skip(1).rev().skip(1).any(|byte| *byte == b'~')
}

/// The text without what tells simple forms of letter case and of Unicode apart, as most file systems fold.
pub fn fold_simply(text: &str) -> String {
    text.to_lowercase().nfc().collect()
}

/// The properties by which an entry is known again where its inode number is another for each name.
pub type Sameness = (Kind, u64, Time, Time);

/// The properties by which an entry is known again where inode numbers do not tell.
pub fn sameness(stat: &Stat) -> Sameness {
    (stat.kind, stat.size, stat.mtime, stat.ctime)
}

fn folded(text: &str) -> String {
    // What one round makes of a letter may have another case: a sign that stands for `Dž`, say.
    let mut before = ' ';
    let is_kept = |letter: &char| {
        // `İ` is `i` in some tables, and `i` with a dot in others.
        let is_dot = *letter == '\u{307}' && before == 'i';
        before = *letter;
        !is_dot
    };
    round(&round(text)).chars().filter(is_kept).collect()
}

/// Upper case comes before the decomposition: there `ᾳ` is two letters.
fn round(text: &str) -> String {
    let shown = text.chars().filter(|letter| !is_ignorable(*letter));
    let upper = shown.flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.nfkd().flat_map(char::to_lowercase).collect()
}

/// True for a character that is not shown (Default_Ignorable_Code_Point of Unicode 16).
fn is_ignorable(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

// The names of one directory, as hashes: 8 bytes each, however long they are.

/// A name in a set that has its key.
#[derive(Clone, Copy, Debug)]
pub struct NameHash(u64);

/// Names of one directory, and what they stand for.
#[derive(Default)]
pub struct NameSet {
    hasher: RandomState,
    kinds: HashTable<Option<Kind>>,
    /// True if the listing does not tell the kind of each entry.
    pub lacks_kinds: bool,
}

impl NameSet {
    /// The names that `dir` lists.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn read(dir: &Dir, reader: &mut DirReader) -> io::Result<Self> {
        let mut names = Self::default();
        loop {
            let batch = reader.next_batch(dir)?;
            if batch.is_empty() {
                return Ok(names);
            }
            for listed in &batch {
                names.kinds.insert(names.hash(&listed.name).0, listed.kind);
                names.lacks_kinds |= listed.kind.is_none();
            }
        }
    }

    /// A set of these names, which were hashed for this one.
    pub fn of(&self, names: &[NameHash]) -> Self {
        let kinds = names.iter().map(|name| (name.0, None)).collect();
        Self { hasher: self.hasher.clone(), kinds, lacks_kinds: true }
    }

    /// The hash by which a name is looked for here.
    pub fn hash(&self, name: &OsStr) -> NameHash {
        NameHash(self.hasher.hash_one(name.as_encoded_bytes()))
    }

    pub fn has(&self, name: NameHash) -> bool {
        self.kinds.contains_key(&name.0)
    }

    /// True if the name may be that of an entry of none of the kinds that a run `copies`; true where the listing does
    /// not tell.
    pub fn may_be_left_out(&self, name: NameHash, copies: impl Fn(Kind) -> bool) -> bool {
        self.kinds.get(&name.0).is_some_and(|kind| !kind.is_some_and(copies))
    }

    /// True if the name was listed for an entry of this kind; true where that was not told.
    pub fn has_kind(&self, name: NameHash, kind: Kind) -> bool {
        self.kinds.get(&name.0).is_some_and(|it| it.is_none_or(|it| it == kind))
    }
}

// Files that an earlier run listed by another spelling: the output takes both for one name, and the file is listed by
// the spelling that the source has now.

/// Finds what the source has under other spellings. The directories on the way to the last path are kept, because paths
/// come in the order of a walk.
pub struct OtherSpellings<'a> {
    source: &'a Dir,
    follow: bool,
    way: Vec<SpelledDir>,
}

/// A directory on the way; nothing is in one that the source does not have.
struct SpelledDir {
    /// The name that was asked for, and the path as the source lists it: a source that folds names opens it by either.
    asked: Vec<u8>,
    path: RelPath,
    /// The names in it, by their common form.
    names: HashMap<Vec<u8>, Vec<OsString>>,
}

impl<'a> OtherSpellings<'a> {
    /// Those of this source, in which links stand for what they point to if the run is to `follow` them.
    pub fn new(source: &'a Dir, follow: bool) -> Self {
        Self { source, follow, way: Vec::new() }
    }

    /// The paths at the source that are [alike](crate::volume::alike) to this one and are not the same.
    ///
    /// # Errors
    /// A directory of the source cannot be listed.
    pub fn of(&mut self, path: &RelPath) -> io::Result<Vec<RelPath>> {
        let Some((above, name)) = path.split() else { return Ok(Vec::new()) };
        self.enter(&above)?;
        let Some(dir) = self.way.last() else { return Ok(Vec::new()) };
        let alike = dir.alike(name).iter().map(|other| dir.path.join(other));
        Ok(alike.filter(|other| other != path).collect())
    }

    /// Goes to the directory that is at `path`, in any spelling.
    fn enter(&mut self, path: &RelPath) -> io::Result<()> {
        if self.way.is_empty() {
            let root = self.read(Vec::new(), RelPath::root())?;
            self.way.push(root);
        }
        let known = self.way[1..].iter().zip(path.components());
        let kept = known.take_while(|(dir, name)| dir.asked == *name).count();
        self.way.truncate(1 + kept);
        for name in path.components().skip(kept) {
            let next = self.next(name)?;
            self.way.push(next);
        }
        Ok(())
    }

    /// The directory that is called `name` in the last one on the way, and by that spelling if there are several.
    fn next(&self, name: &[u8]) -> io::Result<SpelledDir> {
        let missing =
            SpelledDir { asked: name.to_vec(), path: RelPath::root(), names: HashMap::new() };
        let Some(above) = self.way.last() else { return Ok(missing) };
        let is_it = |other: &&OsString| other.as_encoded_bytes() == name;
        let (it, others): (Vec<_>, Vec<_>) = above.alike(name).iter().partition(is_it);
        let paths: Vec<_> =
            it.into_iter().chain(others).map(|name| above.path.join(name)).collect();
        match paths.into_iter().find(|path| self.open(path).is_ok()) {
            Some(path) => self.read(name.to_vec(), path),
            None => Ok(missing),
        }
    }

    fn read(&self, asked: Vec<u8>, path: RelPath) -> io::Result<SpelledDir> {
        let mut names = HashMap::<_, Vec<_>>::new();
        for listed in DirListing::of(&self.open(&path)?)? {
            let name = listed?.name;
            names.entry(form_of(name.as_encoded_bytes())).or_default().push(name.to_os_string());
        }
        Ok(SpelledDir { asked, path, names })
    }

    fn open(&self, path: &RelPath) -> io::Result<Dir> {
        let enter = |dir: Dir, name: &[u8]| dir.open_dir(name_from_bytes(name)?, self.follow);
        path.components().try_fold(self.source.try_clone()?, enter)
    }
}

impl SpelledDir {
    fn alike(&self, name: &[u8]) -> &[OsString] {
        self.names.get(&form_of(name)).map_or(&[], |names| names)
    }
}

#[cfg(test)]
mod alike_tests {
    use super::*;

    #[test]
    fn short_names_are_told_by_their_shape() {
        for name in ["LONGFI~1.TXT", "PROGRA~1", "a~1", "LOE1B4~1.TXT", "docu~2"] {
            assert!(may_be_short_name(name.as_bytes()), "{name}");
        }
        for name in [
            "~1.txt",
            "file.txt~",
            "a~",
            "LONGFILE~1.TXT",
            "A~1.HTML",
            "plain.txt",
            "",
            "\u{e9}a~1",
        ] {
            assert!(!may_be_short_name(name.as_bytes()), "{name}");
        }
    }

    fn are_alike(one: &str, other: &str) -> bool {
        super::are_alike(one.as_bytes(), other.as_bytes())
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_are_alike() {
        for (one, other) in [
            ("Straße", "STRASSE"),
            ("STRA\u{1e9e}E", "strasse"),
            ("\u{fb01}n", "FIN"),
            ("\u{212a}", "k"),
            ("\u{130}", "i"),
            ("\u{131}", "I"),
            ("\u{3bf}\u{3c2}", "\u{39f}\u{3a3}"),
            ("\u{17f}", "S"),
            ("e\u{301}", "\u{c9}"),
            ("\u{1fb3}", "\u{3b1}\u{3b9}"),
            ("a\u{200d}b\u{ad}", "AB"),
            ("\u{ff21}", "a"),
        ] {
            assert!(are_alike(one, other), "{one} {other}");
        }
        for (one, other) in
            [("a", "b"), ("e", "\u{e9}"), ("z", "\u{17c}"), ("a.", "a"), ("s", "ss")]
        {
            assert!(!are_alike(one, other), "{one} {other}");
        }
        assert_ne!(form_of(b"\xff"), form_of(b"\xfe"));
        assert_eq!(form_of(b"A\xff\xc3\x89"), form_of(b"a\xffe\xcc\x81"));
    }

    /// Whatever a file system does to a letter by tables of Unicode, the two are alike.
    #[test]
    fn every_letter_is_alike_to_what_folding_makes_of_it() {
        for letter in '\u{80}'..='\u{2ffff}' {
            let text = letter.to_string();
            let others: [String; 6] = [
                letter.to_lowercase().collect(),
                letter.to_uppercase().collect(),
                text.nfd().collect(),
                text.nfkd().collect(),
                text.nfkc().collect(),
                fold_simply(&text),
            ];
            for other in others.iter().filter(|other| **other != text) {
                assert!(are_alike(&text, other), "{letter:?} {other:?}");
            }
        }
    }
}

#[cfg(test)]
mod other_spellings_tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_and_directories_are_found_in_other_spellings() {
        let temp = tempfile::tempdir().unwrap();
        for path in ["Dir/Sub", "Dir/other", "plain"] {
            fs::create_dir_all(temp.path().join(path)).unwrap();
        }
        for path in ["Dir/Sub/Notes", "Dir/Sub/notes.txt", "plain/a", "plain/A"] {
            fs::write(temp.path().join(path), "").unwrap();
        }
        // Such a source has one file of that name.
        let folds = temp.path().join("PLAIN").exists();
        let source = Dir::open(temp.path()).unwrap();
        let mut spellings = OtherSpellings::new(&source, false);
        let mut of = |path: &str| -> Vec<String> {
            let found = spellings.of(&RelPath::parse(path.as_bytes()).unwrap()).unwrap();
            found.iter().map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap()).collect()
        };
        assert_eq!(of("dir/sub/NOTES"), ["Dir/Sub/Notes"]);
        assert_eq!(of("Dir/Sub/Notes"), [""; 0]);
        assert_eq!(of("dir/sub/Notes"), ["Dir/Sub/Notes"]);
        assert_eq!(of("dir/sub/gone"), [""; 0]);
        assert_eq!(of("plain/a"), ["plain/A"][usize::from(folds)..]);
        assert_eq!(of("PLAIN/sub/a"), [""; 0]);
        assert!(of("PLAIN/a").contains(&"plain/a".to_owned()));
        assert_eq!(of("none/a"), [""; 0]);
    }
}
