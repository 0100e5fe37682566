//! What there is of a file that is rescued, at the output: the file that takes what is read, and its map.

use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, io::Read, ops::Range, path::PathBuf, sync::Arc,
};

use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Digest, hash::Sha256,
    io::ReadBack, manifest::Lookup, part::Transfer, path::RelPath, staged::StagedFile,
    state::Rescue, state::Rescues, state::rescues::ENDING, state::rescues::MAP_ENDING,
    state::rescues::name_of, sys, sys::Dir, sys::Medium, sys::Uninterrupted, sys::stat::Stat,
    transfer::rescue::Rescuer, transfer::rescue::map::MOST_TEXT, transfer::rescue::map::Map,
    tree::OutputDir,
};

/// The open file of a rescue.
pub struct Kept {
    output: Arc<OutputDir>,
    pub file: File,
    pub name: OsString,
    map: OsString,
    /// What its map is sealed with, but for the content.
    seal: Sha256,
}

/// What there is of a file.
pub struct Begun {
    pub kept: Kept,
    pub map: Map,
}

impl Kept {
    /// Where it is, for messages.
    pub fn path(&self) -> PathBuf {
        self.output.path_of(&self.name)
    }

    /// What the map is sealed with at the end of a run: who changes the content later, or what does, breaks the seal.
    /// Without the content if `is_to_stop` says so before all is read.
    fn seal_of_content(&self, is_to_stop: &dyn Fn() -> bool) -> Result<Sha256> {
        let medium = Medium::any(&self.file);
        let read = ReadBack::new().hash(medium, Algorithm::Sha256, is_to_stop, |_| ());
        let read = read.deed_at("read back", || self.path())?.and_then(|read| read.digest);
        let seal = |digest: Digest| Sha256::of(&[&self.seal.0, digest.to_string().as_bytes()]);
        Ok(read.map_or(self.seal, seal))
    }

    /// Makes what was read durable, and says so in a map that vouches for it at the end of the run.
    ///
    /// # Errors
    /// The system's. The map before stays.
    pub fn close(&self, map: &Map, is_to_stop: &dyn Fn() -> bool) -> Result<()> {
        self.save_by(map, &self.seal_of_content(is_to_stop)?)
    }

    /// Makes what was read durable, and then says so in the map. What a killed run leaves is vouched for by nothing.
    ///
    /// # Errors
    /// The system's. The map before stays.
    pub fn save(&self, map: &Map) -> Result<()> {
        self.save_by(map, &self.seal)
    }

    fn save_by(&self, map: &Map, seal: &Sha256) -> Result<()> {
        let write = || {
            sys::persist_content(&self.file)?;
            let dir = self.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
            StagedFile::in_tree(dir, self.output.volume.parts)?.write(
                dir,
                true,
                |file| sys::write_all(&*file, map.text(seal).as_bytes()),
                |staged| staged.give_name(dir, &self.map, true),
            )
        };
        write().deed_at("write", || self.output.path_of(&self.map))
    }
}

/// The map that an earlier run wrote, or another program, of a file of `size` bytes.
fn read_map(dir: &Dir, name: &OsStr, size: u64, seal: &Sha256) -> Result<Map, String> {
    let Some((file, _)) = dir.open_ours(name).map_err(|error| error.to_string())? else {
        // A run was killed before it wrote one.
        return match dir.stat(name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new(size)),
            _ => Err("it is no file of this user".into()),
        };
    };
    let mut text = Vec::new();
    let read = Uninterrupted(&file).take(MOST_TEXT + 1).read_to_end(&mut text);
    match read.map_err(|error| error.to_string())? as u64 > MOST_TEXT {
        true => Err("it is too long".into()),
        false => Map::parse(&String::from_utf8_lossy(&text), size, seal),
    }
}

impl Rescuer<'_> {
    /// The file of an earlier run, or a new one, and its map.
    ///
    /// # Errors
    /// What is there is not known to be of this user's runs, or it cannot be made or read.
    pub(super) fn begin(&self, transfer: &Transfer, warnings: &mut Vec<Error>) -> Result<Begun> {
        let (target, stat) = (&transfer.target, &transfer.entry().stat);
        let (output, name, path) = (&target.output, &transfer.entry().name, target.rel_path());
        let names = [name_of(name, ENDING), name_of(name, MAP_ENDING)];
        let refuse =
            |name: &OsStr, why: String| Error::finding("rescue into", output.path_of(name), why);
        let dir = output.handle.as_ref().ok_or_else(|| refuse(name, "it is not there".into()))?;
        if target.look()?.is_some() && !target.replaces {
            return Err(refuse(name, "it is there, and is not to be replaced".into()));
        }
        let is_in_source = |name: &&OsString| transfer.source.handle.stat(name, false).is_ok();
        if let Some(name) = names.iter().find(is_in_source) {
            return Err(refuse(name, "the source has a file of this name".into()));
        }
        let is_there = |name: &&OsString| dir.stat(name, false).is_ok();
        let noted = self.rescues.of(&path).filter(|_| is_there(&&names[0]));
        let Some(rescue) = noted else {
            return match names.iter().find(is_there) {
                Some(name) => {
                    let why = "it is not known to be of this user's runs; move or remove it";
                    Err(refuse(name, why.into()))
                }
                None => self.make(transfer, dir, names),
            };
        };
        let keeps_numbers = output.volume.tried.traits.keeps_numbers;
        let opened = self.rescues.open(dir, &path, keeps_numbers);
        let Some(file) = opened.deed_at("open", || output.path_of(&names[0]))? else {
            let why = "it is not the file that an earlier run made; move or remove it";
            return Err(refuse(&names[0], why.into()));
        };
        if !rescue.is_of(stat) {
            let finding = "the source's file has changed since, so it is read from its beginning";
            warnings.push(Error::finding("go on with", output.path_of(&names[0]), finding));
            forget(self.rescues, output, name)?;
            return self.make(transfer, dir, names);
        }
        if let expected @ Some(_) = self.expected(&path, stat)?
            && rescue.expected() != expected
        {
            let noted = self.rescues.add(&path, rescue.expecting(expected));
            noted.deed_at("rescue into", || output.path_of(name))?;
        }
        let kept = self.kept(transfer, file, names);
        let seal = kept.seal_of_content(&|| self.context.control.stop.is_requested())?;
        let map = read_map(dir, &kept.map, stat.size, &seal);
        let map = map.map_err(|why| refuse(&kept.map, why))?;
        Ok(Begun { kept, map })
    }

    /// Makes a new one. It has a temporary name until it is noted which file it is.
    fn make(&self, transfer: &Transfer, dir: &Dir, names: [OsString; 2]) -> Result<Begun> {
        let (output, entry) = (&transfer.target.output, transfer.entry());
        let path = transfer.target.rel_path();
        let expected = self.expected(&path, &entry.stat)?;
        let make = || {
            let staged = StagedFile::in_tree(dir, output.volume.parts)?;
            let file = staged.file()?.try_clone()?;
            let staged =
                staged.fill(dir, |file| file.set_len(entry.stat.size))?.close(dir, true)?;
            let rescue = Rescue::new(&entry.stat, &Dir::inode_of(&file)?).expecting(expected);
            staged.publish_by(dir, |staged| {
                self.rescues.add(&path, rescue)?;
                staged.give_name(dir, &names[0], false)
            })?;
            Ok(file)
        };
        let file = make().deed_at("create", || output.path_of(&names[0]))?;
        Ok(Begun { kept: self.kept(transfer, file, names), map: Map::new(entry.stat.size) })
    }

    /// The digest that a file is to have, if the baseline has one, and it was not edited since.
    fn expected(&self, path: &RelPath, stat: &Stat) -> Result<Option<Digest>> {
        let baseline = self.context.shared.baseline.filter(|it| !it.is_older_than(stat));
        let Some(baseline) = baseline else { return Ok(None) };
        Ok(match baseline.listed(path.as_bytes())? {
            Lookup::Agreed { digest, .. } => Some(digest),
            _ => None,
        })
    }

    fn kept(&self, transfer: &Transfer, file: File, names: [OsString; 2]) -> Kept {
        let [name, map] = names;
        let path = transfer.target.rel_path();
        let seal = Sha256::of(&[b"rescue", &self.secret.0, path.as_bytes()]);
        Kept { output: Arc::clone(&transfer.target.output), file, name, map, seal }
    }
}

/// Removes what earlier runs rescued of a file, and forgets it.
///
/// # Errors
/// It stays behind.
pub fn forget(rescues: &Rescues<'_>, output: &OutputDir, name: &OsStr) -> Result<()> {
    let Some(dir) = &output.handle else { return Ok(()) };
    let keeps_numbers = output.volume.tried.traits.keeps_numbers;
    let path = output.rel.join(name);
    let removed = rescues.remove(dir, &path, keeps_numbers).and_then(|()| rescues.forget(&path));
    removed.deed_at("forget the rescue of", || output.path_of(name))
}

/// What is missing of the rescued file `name` in `dir`, of `size` bytes, by the map there. Who wrote the map does not
/// matter to who proves the file by other means.
///
/// # Errors
/// There is no map of it, in words.
pub fn missing(dir: &Dir, name: &OsStr, size: u64) -> Result<Vec<Range<u64>>, String> {
    let map = read_map(dir, &name_of(name, MAP_ENDING), size, &Sha256([0; 32]))?;
    Ok(map.missing().iter().map(|part| part.at..part.end).collect())
}
