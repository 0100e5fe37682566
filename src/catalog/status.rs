//! What the catalogue says of the whole shelf: contents that are at too few places, files that were not verified for
//! long, and which disk to fetch next.

use std::{collections::BTreeMap, io};

use crate::{
    catalog::{Catalog, CataloguedFile, name_at, path_at},
    error::{Error, Result},
    event::Stop,
    path::Shown,
    tree::{PathRecord, Sorter, by_path},
};

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct CatalogStatus {
    /// Contents that have a digest by which they are told apart, and those of them at too few places.
    pub contents: u64,
    pub lacking: u64,
    pub places: Vec<PlaceStatus>,
    pub interrupted: Option<usize>,
}

/// A place.
#[derive(Clone, Debug, Default)]
pub struct PlaceStatus {
    pub name: String,
    pub uuid: Option<String>,
    pub mount: Option<Vec<u8>>,
    pub seen: Option<i64>,
    pub files: u64,
    /// Its files whose content is at too few places.
    pub lacking: u64,
    /// Its files that were not verified since, or of which that is not known.
    pub stale: u64,
    /// Its files without a digest by which contents are told apart.
    pub untold: u64,
    /// True if nothing says which disk it is: it is called as a list that was added, and may be a disk that others are.
    pub is_unknown: bool,
    /// When the one was verified that was not for the longest time; `None` if that is not known of one.
    pub oldest: Option<i64>,
}

impl PlaceStatus {
    /// How urgently it is to be fetched.
    pub fn wants(&self) -> u64 {
        self.lacking + self.stale
    }
}

/// Hears of a content that is at too few places: one of its files, and at how many; false if it wants no more.
pub type LackingListener<'a> = dyn FnMut(&CataloguedFile, usize) -> bool + 'a;

/// The files of one content.
#[derive(Default)]
struct Content {
    digest: Vec<u8>,
    /// One of them, its path, and how many each place has.
    file: i64,
    path: Vec<u8>,
    at: BTreeMap<i64, u64>,
}

/// Why looking at everything failed.
enum Trouble {
    Database(rusqlite::Error),
    Sorting(io::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Sorting(error)
    }
}

/// All files in the order of their contents: the index has them so. With their paths, as looking those up afterwards
/// takes as long again.
const CONTENTS: &str = "SELECT f.id, f.digest, t.place, coalesce(f.verified, t.time), a.is_enough, t.below, d.path, f.name \
                        FROM file f INDEXED BY file_digest CROSS JOIN directory d ON d.id = f.directory \
                        CROSS JOIN tree t ON t.id = d.tree LEFT JOIN algorithm a ON a.id = f.algorithm \
                        ORDER BY f.digest";

impl Catalog {
    /// Looks at everything; contents at fewer than so many places are told in the order of their paths, each by one of
    /// its files.
    ///
    /// # Errors
    /// It cannot be read, or what is sorted cannot be kept.
    pub fn status(
        &self,
        copies: usize,
        since: i64,
        stop: &Stop,
        listen: &mut LackingListener<'_>,
    ) -> Result<CatalogStatus> {
        let looked = self.look_at_all(copies, since, stop, listen);
        looked.or_else(|trouble| match (stop.requested(), trouble) {
            (Some(_), _) => {
                Ok(CatalogStatus { interrupted: stop.requested(), ..Default::default() })
            }
            (None, Trouble::Database(error)) => Err(self.told(error)),
            (None, Trouble::Sorting(error)) => {
                Err(Error::io("sort the contents of", &self.path, error))
            }
        })
    }

    fn look_at_all(
        &self,
        copies: usize,
        since: i64,
        stop: &Stop,
        listen: &mut LackingListener<'_>,
    ) -> Result<CatalogStatus, Trouble> {
        let mut places = self.places()?;
        let (mut status, mut sorter) = (CatalogStatus::default(), Sorter::new(by_path));
        let mut content = Content::default();
        let mut end = |content: &Content, places: &mut BTreeMap<i64, PlaceStatus>| {
            status.contents += u64::from(!content.at.is_empty());
            let is_known = |place| places.get(place).is_none_or(|place| !place.is_unknown);
            let known = content.at.keys().filter(|place| is_known(place)).count();
            // What may be one place is no further one.
            let at = known.max(1);
            if content.at.is_empty() || at >= copies {
                return Ok(());
            }
            status.lacking += 1;
            for (place, files) in &content.at {
                places.entry(*place).or_default().lacking += files;
            }
            sorter.add(format!("{} {at}", content.file), &content.path)
        };
        let mut all = self.connection.prepare(CONTENTS)?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()?
            && !stop.is_requested()
        {
            let place: i64 = row.get(2)?;
            let known = places.entry(place).or_default();
            known.take(row.get(3)?, since);
            let digest = row.get_ref(1)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
            let Some(digest) = digest.filter(|_| matches!(row.get(4), Ok(1))) else {
                known.untold += 1;
                continue;
            };
            if digest != content.digest {
                end(&content, &mut places)?;
                let (digest, file, path) = (digest.to_vec(), row.get(0)?, path_at(row, 5)?);
                content = Content { digest, file, path, at: BTreeMap::new() };
            }
            *content.at.entry(place).or_default() += 1;
        }
        end(&content, &mut places)?;
        let sorted = sorter.finish()?;
        let (mut records, mut file_of) = (sorted.reader(), self.by_number()?);
        while let Some((words, _)) = records.next_record()?.map(PathRecord::told) {
            let mut words = words.split(' ').filter_map(|word| word.parse().ok());
            if let (Some(file), Some(at)) = (words.next(), words.next())
                && !listen(&file_of(file)?, usize::try_from(at).unwrap_or(0))
            {
                break;
            }
        }
        status.places = places.into_values().collect();
        status.interrupted = stop.requested();
        Ok(status)
    }

    fn places(&self) -> rusqlite::Result<BTreeMap<i64, PlaceStatus>> {
        let mut all = self.connection.prepare(
            "SELECT p.id, p.name, p.uuid, p.mount, p.seen, t.list FROM place p LEFT JOIN tree t ON t.place = p.id",
        )?;
        let (mut rows, mut places) = (all.query([])?, BTreeMap::new());
        while let Some(row) = rows.next()? {
            let (name, mount): (String, _) = (row.get(1)?, name_at(row, 3)?);
            let list = name_at(row, 5)?.unwrap_or_default();
            let list = list.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is_unknown = mount.is_none() && Shown::bytes(list).to_string() == name;
            let known = places.entry(row.get(0)?).or_insert_with(|| PlaceStatus {
                name,
                mount,
                ..PlaceStatus::default()
            });
            (known.uuid, known.seen) = (row.get(2)?, row.get(4)?);
            known.is_unknown |= is_unknown;
        }
        Ok(places)
    }
}

impl PlaceStatus {
    /// Counts a file that was verified then, if that is known.
    fn take(&mut self, verified: Option<i64>, since: i64) {
        self.oldest = match self.files {
            0 => verified,
            _ => self.oldest.zip(verified).map(|(oldest, verified)| oldest.min(verified)),
        };
        self.files += 1;
        self.stale += u64::from(verified.is_none_or(|verified| verified < since));
    }
}
