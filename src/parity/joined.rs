//! Files that are read as if they were one: other programs write a set into several.

use std::{ffi::OsStr, fs::File, io};

use crate::sys::{Dir, Medium};

use super::ENDING;

/// Files one behind the other.
#[derive(Debug)]
pub struct JoinedFiles(Vec<(File, u64)>);

impl JoinedFiles {
    /// These files, as long as they are now.
    ///
    /// # Errors
    /// The length of one is not told.
    pub fn new(files: Vec<File>) -> io::Result<Self> {
        let with_len = |file| Dir::stat_file(&file).map(|stat| (file, stat.size));
        files.into_iter().map(with_len).collect::<io::Result<_>>().map(Self)
    }

    /// The first of them, if there is one.
    pub fn first(&self) -> Option<&File> {
        self.0.first().map(|(file, _)| file)
    }

    /// The length of all.
    pub fn size(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }

    /// Fills `room` with what is at `at`, as far as the files go.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn fill_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let (mut filled, mut start) = (0, 0);
        for (file, len) in &self.0 {
            let from = (at + filled as u64).saturating_sub(start);
            let want = (room.len() - filled).min(len.saturating_sub(from) as usize);
            let read = Medium::any(file).fill_at(&mut room[filled..filled + want], from)?;
            filled += read;
            if read < want || filled == room.len() {
                break;
            }
            start += len;
        }
        Ok(filled)
    }
}

/// The name of the set that a file of this name has a part of: `NAME.vol003+04.par2` is of `NAME`.
pub fn set_name(file: &OsStr) -> &[u8] {
    let name = file.as_encoded_bytes();
    let name = name.strip_suffix(ENDING.as_bytes()).unwrap_or(name);
    let Some(at) = memchr::memmem::rfind(name, b".vol") else { return name };
    let number = &name[at + 4..];
    let is_number = number.iter().all(|byte| byte.is_ascii_digit() || b"+-_".contains(byte));
    if is_number { &name[..at] } else { name }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_are_read_as_one() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file
        };
        let joined = JoinedFiles::new(vec![file(b"abc"), file(b""), file(b"defg")]).unwrap();
        assert_eq!(joined.size(), 7);
        for from in 0..9 {
            for len in 0..9 {
                let mut room = vec![0; len];
                let read = joined.fill_at(&mut room, from).unwrap();
                let (from, all) = ((from as usize).min(7), b"abcdefg");
                assert_eq!(&room[..read], &all[from..(from + len).min(7)]);
            }
        }
    }

    #[test]
    fn parts_have_the_name_of_their_set() {
        for (name, set) in [
            ("a.par2", "a"),
            ("a.vol000+01.par2", "a"),
            ("a.vol3-4.par2", "a"),
            ("a.volume.par2", "a.volume"),
            ("a.b.vol1+2.c.par2", "a.b.vol1+2.c"),
        ] {
            assert_eq!(set_name(OsStr::new(name)), set.as_bytes());
        }
    }
}
