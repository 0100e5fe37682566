//! Asking the catalogue: where something is, all that it has; and taking a place out of it.

use rusqlite::{Params, Row, params};

use crate::{
    catalog::{Catalog, kept, name_at, path_at},
    error::Result,
    event::Stop,
    hash::{Algorithm, Algorithms, Digest},
};

/// What is looked for.
#[derive(Clone, Debug)]
pub enum Sought {
    /// A name, or the end of a path.
    Name(Vec<u8>),
    /// A pattern of names; what is before its last slash is one of the ends of paths of directories.
    Glob(String),
    /// The content with one of these digests.
    Digests(Vec<Digest>),
    /// The content with a digest of these bytes, by whatever algorithm.
    Bytes(Vec<u8>),
}

/// A file, and where it is.
#[derive(Clone, Debug)]
pub struct CataloguedFile {
    pub place: String,
    pub uuid: Option<String>,
    /// Where the place was mounted last, if it was.
    pub mount: Option<Vec<u8>>,
    /// When the place was seen last, in seconds since 1970.
    pub seen: Option<i64>,
    /// Its path, from the top of the place.
    pub path: Vec<u8>,
    pub size: Option<i64>,
    pub algorithm: Option<String>,
    pub digest: Option<Vec<u8>>,
    /// When it was proven last, in seconds since 1970, if that is known; and how far.
    pub verified: Option<i64>,
    pub proof: &'static str,
}

/// The columns of a file, from that table first.
const FILES: &str = "SELECT p.name, p.uuid, p.mount, p.seen, t.below, d.path, f.name, f.size, a.name, f.digest, \
                     coalesce(f.verified, t.time), f.proof \
                     FROM file f CROSS JOIN directory d ON d.id = f.directory CROSS JOIN tree t ON t.id = d.tree \
                     CROSS JOIN place p ON p.id = t.place LEFT JOIN algorithm a ON a.id = f.algorithm";

/// Hears of a file; false if it wants no more.
pub type FileListener<'a> = dyn FnMut(&CataloguedFile) -> bool + 'a;

impl CataloguedFile {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            place: row.get(0)?,
            uuid: row.get(1)?,
            mount: name_at(row, 2)?,
            seen: row.get(3)?,
            path: path_at(row, 4)?,
            size: row.get(7)?,
            algorithm: row.get(8)?,
            digest: row.get(9)?,
            verified: row.get(10)?,
            proof: match row.get::<_, i64>(11)? {
                1 => "recorded",
                2 => "replugged",
                _ => "listed",
            },
        })
    }
}

impl Catalog {
    /// The algorithms by which it has digests, as far as they are known here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn algorithms(&self) -> Result<Algorithms> {
        let names = || -> rusqlite::Result<Vec<String>> {
            let mut all = self.connection.prepare("SELECT name FROM algorithm")?;
            all.query_map([], |row| row.get(0))?.collect()
        };
        let names = names().map_err(|error| self.told(error))?;
        let known = names.iter().filter_map(|name| Algorithm::named(name));
        Ok(known.fold(Algorithms::default(), Algorithms::with))
    }

    /// Hands out the files that are looked for.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn find(&self, sought: &Sought, see: &mut FileListener<'_>) -> Result<()> {
        match sought {
            Sought::Name(path) => {
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                let is_it = |file: &[u8]| {
                    let above = file.strip_suffix(&path[..]);
                    above.is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
                };
                self.files("WHERE f.name = ?1", params![kept(name)], &mut |file| {
                    !is_it(&file.path) || see(file)
                })
            }
            // Directories are few, and the index of names has all that is compared.
            Sought::Glob(pattern) => match pattern.rsplit_once('/') {
                Some((above, name)) => {
                    let of_path = "WHERE f.directory IN (SELECT d.id FROM directory d JOIN tree t ON t.id = d.tree \
                                   WHERE rtrim('/' || t.below || '/' || d.path, '/') GLOB '*/' || ?1) AND f.name GLOB ?2";
                    self.files(of_path, [above, name], see)
                }
                None => {
                    let of_name = "WHERE f.id IN (SELECT id FROM file WHERE name GLOB ?1)";
                    self.files(of_name, [pattern], see)
                }
            },
            Sought::Digests(digests) => digests.iter().try_for_each(|digest| {
                let by = "WHERE f.digest = ?1 AND a.name = ?2";
                self.files(by, params![digest.bytes(), digest.algorithm().name()], see)
            }),
            Sought::Bytes(bytes) => self.files("WHERE f.digest = ?1", [bytes], see),
        }
    }

    /// Hands out all files, or those of one place.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn each(&self, place: Option<&str>, see: &mut FileListener<'_>) -> Result<()> {
        match place {
            None => self.files("", [], see),
            Some(place) => {
                let of_place = "WHERE f.directory IN (SELECT d.id FROM place p JOIN tree t ON t.place = p.id JOIN directory d \
                                ON d.tree = t.id WHERE p.name = ?1 OR p.uuid = ?1)";
                self.files(of_place, [place], see)
            }
        }
    }

    fn files(&self, which: &str, with: impl Params, see: &mut FileListener<'_>) -> Result<()> {
        let read = || -> rusqlite::Result<()> {
            let mut all = self.connection.prepare(&format!("{FILES} {which}"))?;
            let mut rows = all.query(with)?;
            while let Some(row) = rows.next()? {
                if !see(&CataloguedFile::of(row)?) {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error| self.told(error))
    }

    /// Looks up files by their numbers.
    pub(super) fn by_number(
        &self,
    ) -> rusqlite::Result<impl FnMut(i64) -> rusqlite::Result<CataloguedFile>> {
        let mut one = self.connection.prepare(&format!("{FILES} WHERE f.id = ?1"))?;
        Ok(move |id| one.query_row([id], CataloguedFile::of))
    }

    /// Takes a place out, by its name or UUID, with all that is said of it; false if there is none.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn forget(&self, place: &str) -> Result<bool> {
        let sql = "DELETE FROM place WHERE name = ?1 OR uuid = ?1";
        let remove = || self.connection.execute(sql, [place]).map_err(|error| self.told(error));
        Ok(self.changing(&Stop::default(), remove)? > 0)
    }
}
