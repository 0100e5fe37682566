//! The lists that earlier streams left beside a file that is replaced, under the names of other digests.
//!
//! The list of the name that a run writes gives way to it. The others would say of the new content that it is damaged,
//! and a mend by them would bring back the old one; so they go before the file gets its name. Names prove nothing: only
//! what holds, byte for byte, what a stream writes about this file goes, and only if it is of nobody else.

use std::{ffi::OsString, path::Path, path::PathBuf};

use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Algorithms, hash::Digest,
    hash::Digests, io::Durability, manifest::Entries, manifest::Parsed, manifest::lists,
    manifest::states_name, path::Shown, stream::StreamContent, stream::manifest::is_side_file,
    stream::manifest::suffix, stream::place::FilePlace, sys, sys::Dir, sys::stat::Kind,
    transfer::Context,
};

/// The deed in messages about lists that stay; completes "cannot …".
pub const DEED: &str = "remove the old manifest";

/// Number of bytes of a list that are looked at; what a stream writes is shorter.
const MOST: usize = 1 << 16;

/// A list of another digest that is beside a file which is replaced.
pub struct OldList {
    list: FilePlace,
    /// Empty for the list of several.
    by: Algorithms,
    states: Option<FilePlace>,
}

/// What became of the lists of a file that is replaced.
#[derive(Default)]
pub struct Retired {
    /// Those that were removed.
    pub gone: Vec<PathBuf>,
    /// Why others stay.
    pub stays: Vec<Error>,
}

/// What a list says of the file beside it.
enum Says {
    /// Nothing.
    Nothing,
    /// A stream wrote just this.
    OfStream(Digests),
    /// It lists the file, and other things, or otherwise.
    Otherwise,
}

impl OldList {
    /// Those beside `file`, if that replaces one; `is_taken` says of what this run writes.
    pub fn find(file: &FilePlace, is_taken: &dyn Fn(&FilePlace) -> bool) -> Vec<Self> {
        let each = |algorithm| Algorithms::default().with(algorithm);
        let of_each = Algorithm::listed().map(each);
        let all = of_each.chain([Algorithms::default()]).filter(|_| file.there.is_some());
        let there = |name| file.present(name).filter(|place| !is_taken(place));
        all.filter_map(|by| {
            let mut name = file.name.clone();
            name.push(if by.is_empty() { ".bsd".into() } else { suffix(by) });
            let list = there(name)?;
            let states = states_name(Path::new(&list.name)).and_then(there).filter(is_side_file);
            Some(Self { list, by, states })
        })
        .collect()
    }

    /// The files that go, as far as that can be told before anything is read.
    pub fn files(&self, file: &FilePlace) -> impl Iterator<Item = &FilePlace> {
        let goes = matches!(self.says(file, None), Ok(Says::OfStream(_)));
        [Some(&self.list), self.states.as_ref()].into_iter().flatten().filter(move |_| goes)
    }

    /// Removes it if it is of another content of `file` than the one that came.
    fn retire(
        &self,
        file: &FilePlace,
        content: Option<&StreamContent>,
        retired: &mut Retired,
    ) -> Result<()> {
        let new = content.map(|content| &content.digests);
        let name = Shown::path(Path::new(&file.name));
        let finding = match self.says(file, new) {
            Ok(Says::Nothing) => return Ok(()),
            Ok(Says::OfStream(old)) if is_of(&old, new) => return Ok(()),
            Ok(Says::OfStream(_)) if !self.list.is_strange() => {
                let states = self.states.as_ref().filter(|states| !states.is_strange());
                for place in std::iter::once(&self.list).chain(states) {
                    let Some(dir) = &place.dir.handle else { continue };
                    dir.remove(&place.name).if_there().deed_at(DEED, || place.path())?;
                    retired.gone.push(place.path());
                }
                return Ok(());
            }
            Ok(Says::OfStream(_)) => format!(
                "it is a list of an earlier content of {name}, and another user's; remove it if it is of no use"
            ),
            Ok(Says::Otherwise) => format!(
                "it is a list of an earlier content of {name}, and no stream made it as it is; remove it if it is of no use"
            ),
            Err(error) => {
                retired.stays.push(error);
                return Ok(());
            }
        };
        retired.stays.push(Error::finding(DEED, self.list.path(), finding));
        Ok(())
    }

    /// What it says of `file`; nothing if all that is of the content with the digests `new`.
    fn says(&self, file: &FilePlace, new: Option<&Digests>) -> Result<Says> {
        let Some(dir) = &self.list.dir.handle else { return Ok(Says::Nothing) };
        let mut bytes = vec![0; MOST];
        let opened = dir.open_file(&self.list.name, false);
        let read = opened.and_then(|list| sys::read_at(&list, &mut bytes, 0));
        let read = read.if_there().deed_at(DEED, || self.list.path())?;
        let Some(read) = read else { return Ok(Says::Nothing) };
        bytes.truncate(read);
        if let Some(digests) = self.digests(&bytes, file) {
            return Ok(Says::OfStream(digests));
        }
        let mut entries = Entries::of_all(bytes.as_slice());
        while let Some(entry) = entries.next_entry().deed_at(DEED, || self.list.path())? {
            let Parsed::Record(record) = entry.parsed else { continue };
            let name = record.name.strip_prefix(b"./").unwrap_or(record.name);
            if name == file.name.as_encoded_bytes() && !is_of(&record.digest.into(), new) {
                return Ok(Says::Otherwise);
            }
        }
        Ok(Says::Nothing)
    }

    /// The digests in these bytes, if they are what a stream writes about `file`.
    fn digests(&self, bytes: &[u8], file: &FilePlace) -> Option<Digests> {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let found: Option<Vec<Digest>> = lines.map(|line| self.digest(line, file)).collect();
        let (proof, further) = found?.split_first().map(|(first, rest)| (*first, rest.to_vec()))?;
        // The list of one has one line, that of several more.
        (further.is_empty() == (self.by.len() == 1)).then(|| Digests::new(proof, further))
    }

    /// The digest on a line, if it is one that a stream writes about `file`.
    fn digest(&self, line: &[u8], file: &FilePlace) -> Option<Digest> {
        let path = file.name.as_encoded_bytes();
        let is_line = |digest: &Digest| {
            let mut written = Vec::new();
            match self.by.len() {
                0 => lists::write_tagged(&mut written, digest, path, true),
                _ => lists::write_path(&mut written, digest, path),
            }
            written == line
        };
        let by = |algorithm: &Algorithm| self.by.is_empty() || self.by.has(*algorithm);
        Algorithm::listed().filter(by).find_map(|algorithm| {
            let words = line.split(|byte| b" \\\n".contains(byte));
            words.filter_map(|word| Digest::parse(algorithm, word)).find(is_line)
        })
    }
}

/// True if the content with the digests `new` has these, as far as both are known.
fn is_of(old: &Digests, new: Option<&Digests>) -> bool {
    let Some(new) = new else { return false };
    let mut known = old.iter().filter_map(|old| Some(*old == new.of(old.algorithm())?)).peekable();
    known.peek().is_some() && known.all(|same| same)
}

/// Removes the lists of an earlier content of `file`, which is about to get the one that came.
pub fn retire(
    context: &Context<'_>,
    lists: &[OldList],
    file: &FilePlace,
    content: Option<&StreamContent>,
    retired: &mut Retired,
) -> Result<()> {
    lists.iter().try_for_each(|list| list.retire(file, content, retired))?;
    match &file.dir.handle {
        Some(dir) if !retired.gone.is_empty() && context.options.durability != Durability::Off => {
            dir.persist().deed_at(DEED, || file.dir.path_of(&file.name))
        }
        _ => Ok(()),
    }
}

impl Retired {
    /// The error of a file that did not come to be, after its old lists were removed.
    pub fn note(&self, error: Error) -> Error {
        if self.gone.is_empty() {
            return error;
        }
        let gone: Vec<String> =
            self.gone.iter().map(|path| Shown::path(path).to_string()).collect();
        error.with_note(format!(
            "; what stands there is not listed any more: {} was removed before",
            gone.join(", ")
        ))
    }
}

impl FilePlace {
    /// The regular file of this name beside this one, if there is one.
    fn present(&self, name: OsString) -> Option<Self> {
        let there = self.dir.handle.as_ref()?.stat(&name, false).ok()?;
        let place = Self { name, there: Some(there), ..self.clone() };
        (there.kind == Kind::File).then_some(place)
    }

    /// True if what is there by now is no file, or of another user, whose the directory is not.
    fn is_strange(&self) -> bool {
        let dir = self.dir.handle.as_ref().and_then(|dir| dir.stat_self().ok());
        match (self.present(self.name.clone()).and_then(|place| place.there), dir) {
            (Some(there), Some(dir)) => Dir::is_strange(&there, &dir),
            _ => true,
        }
    }
}
