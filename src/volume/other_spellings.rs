//! Files that an earlier run listed by another spelling: the output takes both for one name, and the file is listed by
//! the spelling that the source has now.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;

use crate::path::RelPath;
use crate::sys::{Dir, DirReader, name_from_bytes};
use crate::volume::alike::form_of;

/// Finds what the source has under other spellings. The directories on the way to the last path are kept, because paths
/// come in the order of a walk.
pub struct OtherSpellings<'a> {
    source: &'a Dir,
    follow: bool,
    reader: DirReader,
    way: Vec<SpelledDir>,
}

/// A directory on the way; nothing is in one that the source does not have.
struct SpelledDir {
    /// The name that was asked for, and the path as the source lists it: a source that folds names opens it by either.
    asked: Vec<u8>,
    path: RelPath,
    /// What is in it, by what the names have in common.
    names: HashMap<Vec<u8>, Vec<OsString>>,
}

impl<'a> OtherSpellings<'a> {
    /// Those of this source, in which links stand for what they point to if the run is to `follow` them.
    pub fn new(source: &'a Dir, follow: bool) -> Self {
        Self { source, follow, reader: DirReader::default(), way: Vec::new() }
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
    fn next(&mut self, name: &[u8]) -> io::Result<SpelledDir> {
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

    fn read(&mut self, asked: Vec<u8>, path: RelPath) -> io::Result<SpelledDir> {
        let (dir, mut names) = (self.open(&path)?, HashMap::<_, Vec<_>>::new());
        loop {
            let batch = self.reader.next_batch(&dir)?;
            if batch.is_empty() {
                return Ok(SpelledDir { asked, path, names });
            }
            for listed in batch {
                let form = form_of(listed.name.as_encoded_bytes());
                names.entry(form).or_default().push(listed.name.to_os_string());
            }
        }
    }

    fn open(&self, path: &RelPath) -> io::Result<Dir> {
        let mut dir = self.source.open_dir(".".as_ref(), false)?;
        for name in path.components() {
            dir = dir.open_dir(name_from_bytes(name)?, self.follow)?;
        }
        Ok(dir)
    }
}

impl SpelledDir {
    fn alike(&self, name: &[u8]) -> &[OsString] {
        self.names.get(&form_of(name)).map_or(&[], |names| names)
    }
}

#[cfg(test)]
mod tests {
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
