//! Adding to the catalogue: a tree, by this user's own record of it, or a list. What is said of the same tree before is
//! replaced, all in one transaction.

use std::{
    ffi::OsStr, ffi::OsString, io, path::Path, path::PathBuf, time::SystemTime, time::UNIX_EPOCH,
};

use rusqlite::{OptionalExtension, Row, Statement, params};

use crate::{
    catalog::{Catalog, DEED, Failed, kept, kept_path},
    error::{Deed, Error, Result},
    event::EventObserver,
    hash::{Algorithm, Digest},
    manifest::ManifestName,
    path::{Examples, RelPath, Shown, directory_of},
    state::{FinishedManifest, PrivateDir},
    sys::{self, Dir, Place, PlainUse},
    verify::{
        CoveredJob, DiffJob, Found, OwnManifests, Proof, Recorded, Tree, is_enough, refuse_index,
        time_of_list,
    },
};

/// What is to be added.
#[derive(Clone, Debug, Default)]
pub struct AddJob {
    /// A directory, or a list.
    pub path: PathBuf,
    /// Of a directory that has generations: the newest, which stands for it.
    pub newest: Option<PathBuf>,
    /// What the place is called, if not after its disk or the list.
    pub place: Option<String>,
    /// Of a list: the directory at the place that its names start at.
    pub below: PathBuf,
    /// Where private directories are kept, if not in the trees.
    pub state: Option<PathBuf>,
}

/// What was added.
#[derive(Clone, Debug, Default)]
pub struct Added {
    pub place: String,
    pub files: u64,
    /// Files of a tree of which no record says anything, and those that are in doubt.
    pub unknown: Examples,
    pub doubtful: Examples,
    /// Files that the record has, and that are not there.
    pub gone: Examples,
    /// Lines of a list that cannot be used.
    pub unusable: u64,
    /// True for a list of which nothing says what disk it is of.
    pub is_of_unknown: bool,
    pub interrupted: Option<usize>,
}

/// A tree that is added: its place, and where it is there.
#[derive(Default)]
struct Whereabouts {
    name: String,
    /// True if that was asked for.
    is_asked: bool,
    uuid: Option<String>,
    serial: Option<String>,
    mount: Option<PathBuf>,
    below: Vec<u8>,
    list: Option<PathBuf>,
    /// As of when; `None` if that is not known.
    time: Option<u32>,
}

impl Catalog {
    /// Adds a tree or a list. Nothing is changed if that fails, or is interrupted.
    ///
    /// # Errors
    /// Nothing is known of the tree, the list is older than what is known, or something cannot be read or written.
    pub fn add(&self, job: &AddJob, observer: &EventObserver<'_>) -> Result<Added> {
        PrivateDir::look_for(job.state.as_deref())?;
        let is_tree = job.path.is_dir();
        let at = if is_tree { of_tree(job)? } else { of_list(job)? };
        let refuse = |finding: String| Error::finding("add to the catalogue", &job.path, finding);
        let failed = Failed::default();
        let done = self.changing(&observer.stop, || {
            let place = self.place(&at).map_err(|error| self.told(error))?;
            let tree = self.tree(place, &at)?;
            let mut rows = Rows::new(self, tree).map_err(|error| self.told(error))?;
            let read = match is_tree {
                true => rows.take_tree(job, observer, &failed),
                false => rows.take_list(&job.path, observer, &failed),
            };
            failed.take().map_or(read, |error| Err(self.told(error)))?;
            let find = "SELECT name FROM place WHERE id = ?1";
            let place = self.connection.query_row(find, [place], |row| row.get(0));
            match rows.added.files {
                _ if observer.stop.is_requested() => Err(refuse("it was interrupted".into())),
                // Where all that it had is gone, that is told, and noted.
                0 if is_tree && rows.added.gone.number == 0 => {
                    Err(refuse(unrecorded(job, &rows.added)))
                }
                0 if !is_tree => Err(refuse("it lists no file that can be added".into())),
                _ => {
                    let place = place.map_err(|error| self.told(error))?;
                    let is_of_unknown = at.mount.is_none() && !at.is_asked;
                    Ok(Added { place, is_of_unknown, ..rows.added })
                }
            }
        });
        match observer.stop.requested() {
            Some(code) if done.is_err() => {
                Ok(Added { interrupted: Some(code), ..Added::default() })
            }
            _ => done,
        }
    }

    /// The place, which is made if it is a new one: by its UUID, or else by its name.
    fn place(&self, at: &Whereabouts) -> rusqlite::Result<i64> {
        let find = |what: &str, value: &str| {
            let sql = format!("SELECT id, uuid FROM place WHERE {what} = ?1");
            let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            self.connection.query_row(&sql, [value], found).optional()
        };
        let by_uuid: Option<(i64, Option<String>)> =
            at.uuid.as_deref().map_or(Ok(None), |uuid| find("uuid", uuid))?;
        let by_name = find("name", &at.name)?;
        // Another disk of the same label has a name of its own.
        let is_other = |known: &Option<String>| match (known, &at.uuid) {
            (Some(known), Some(uuid)) => known != uuid,
            (Some(_), None) => !at.is_asked,
            (None, _) => false,
        };
        let is_taken = by_name.as_ref().is_some_and(|(_, uuid)| is_other(uuid));
        let own = match &at.uuid {
            Some(uuid) if is_taken => format!("{} {uuid}", at.name),
            _ => at.name.clone(),
        };
        let known = by_uuid.or(by_name.filter(|_| !is_taken)).map(|(id, _)| id);
        let id = match known {
            Some(id) => id,
            None => {
                // One that was given a name keeps it.
                let label = at.uuid.as_ref().filter(|_| !at.is_asked).map(|_| &at.name);
                let sql = "INSERT INTO place (name, label) VALUES (?1, ?2)";
                self.connection.execute(sql, params![own, label])?;
                self.connection.last_insert_rowid()
            }
        };
        if at.mount.is_some() {
            let mount = at.mount.as_deref().map(kept_path);
            let sql = "UPDATE place SET uuid = coalesce(?2, uuid), serial = coalesce(?3, serial), mount = ?4, seen = ?5 \
                       WHERE id = ?1";
            self.connection.execute(sql, params![id, at.uuid, at.serial, mount, now()])?;
        }
        let sql = match at.is_asked {
            true => "UPDATE place SET name = ?2, label = NULL WHERE id = ?1",
            false => "UPDATE place SET label = ?2 WHERE id = ?1 AND label IS NOT NULL",
        };
        self.connection.execute(sql, params![id, if at.is_asked { &own } else { &at.name }])?;
        self.call_after_labels().map(|()| id)
    }

    /// Calls the disks that were given no name after their labels: labels are changed, and exchanged. One that another
    /// disk had when that was here last tells neither by itself.
    fn call_after_labels(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch(
            "UPDATE place SET name = label || ' ' || uuid WHERE label IS NOT NULL; \
             UPDATE place SET name = label WHERE label IS NOT NULL AND NOT EXISTS (SELECT 1 FROM place AS other \
             WHERE other.id <> place.id AND (other.label = place.label OR other.name = place.label))",
        )
    }

    /// A tree in the place of which nothing is said yet.
    ///
    /// # Errors
    /// What is known of it is newer.
    fn tree(&self, place: i64, at: &Whereabouts) -> Result<i64> {
        let told = |error| self.told(error);
        let find = "SELECT time FROM tree WHERE place = ?1 AND below = ?2";
        let of_it = params![place, kept(&at.below)];
        let known = self.connection.query_row(find, of_it, |row| row.get(0)).optional();
        let known: Option<i64> = known.map_err(told)?.flatten();
        if known.zip(at.time).is_some_and(|(known, time)| known > time.into()) {
            let finding = format!(
                "what it has of {} is newer than the list: dircopy catalog forget takes that out",
                Shown::bytes(at.name.as_bytes())
            );
            return Err(Error::finding(DEED, &self.path, finding));
        }
        let change = || {
            let remove = "DELETE FROM tree WHERE place = ?1 AND below = ?2";
            self.connection.execute(remove, of_it)?;
            let sql = "INSERT INTO tree (place, below, list, time) VALUES (?1, ?2, ?3, ?4)";
            let list = at.list.as_deref().map(kept_path);
            self.connection.execute(sql, params![place, kept(&at.below), list, at.time])?;
            Ok(self.connection.last_insert_rowid())
        };
        change().map_err(told)
    }
}

/// The whereabouts of a directory: its disk, and where it is there.
fn of_tree(job: &AddJob) -> Result<Whereabouts> {
    let path = job.path.canonicalize().deed("look at", &job.path)?;
    let root = Dir::open(&path).deed("open the directory", &path)?;
    let device = root.identity().deed("look at", &path)?.dev;
    let is_on_it = |dir: &&Path| {
        Dir::open(dir).and_then(|dir| dir.identity()).is_ok_and(|there| there.dev == device)
    };
    let mount = path.ancestors().take_while(is_on_it).last().unwrap_or(&path).to_path_buf();
    let details = sys::volume_details(&root);
    let text = |it: OsString| match it.into_string() {
        Ok(text) => text,
        Err(other) => Shown::bytes(other.as_encoded_bytes()).to_string(),
    };
    let uuid = details.uuid.filter(|uuid| uuid.chars().any(|c| !matches!(c, '0' | '-')));
    // Of one that is known whatever is mounted of it: bind mounts and subvolumes begin elsewhere than at its top.
    let place = if uuid.is_some() { Place::of(&root).ok().flatten() } else { None };
    let below =
        place.as_ref().and_then(Place::way_from_top).or_else(|| path.strip_prefix(&mount).ok());
    let below = RelPath::of(below.unwrap_or(Path::new(""))).as_bytes().to_vec();
    let label = details.label.filter(|label| !label.is_empty()).map(text);
    let of_disk = || label.or(uuid.clone()).unwrap_or_else(|| Shown::path(&mount).to_string());
    Ok(Whereabouts {
        name: job.place.clone().unwrap_or_else(of_disk),
        is_asked: job.place.is_some(),
        serial: details.serial.map(text),
        below,
        time: Some(now()),
        list: None,
        uuid,
        mount: Some(mount),
    })
}

/// The whereabouts of a list. The manifest that this user's last run to a tree left there is of that, unless another
/// place is named; what only has such a name may be of any disk.
fn of_list(job: &AddJob) -> Result<Whereabouts> {
    let path = job.path.canonicalize().deed("open the list", &job.path)?;
    let list = sys::open_plain(&path, PlainUse::Read).deed("open the list", &job.path)?;
    refuse_index(&job.path, &list)?;
    let (name, dir) = (path.file_name().unwrap_or_default(), directory_of(&path));
    let time = Some(time_of_list(&path)).filter(|time| *time > 0);
    if job.place.is_none() && is_recorded(dir, name, job.state.as_deref()) {
        let at = of_tree(&AddJob { path: dir.to_path_buf(), ..job.clone() })?;
        let below = match job.below.as_os_str().is_empty() {
            true => at.below,
            false => RelPath::of(&job.below).as_bytes().to_vec(),
        };
        return Ok(Whereabouts { below, time, list: Some(path), ..at });
    }
    Ok(Whereabouts {
        name: job.place.clone().unwrap_or_else(|| Shown::path(Path::new(name)).to_string()),
        is_asked: job.place.is_some(),
        below: RelPath::of(&job.below).as_bytes().to_vec(),
        time,
        list: Some(path),
        ..Whereabouts::default()
    })
}

/// True for the manifest that this user's last run to a directory left in it. A record that was copied there with it is
/// of another directory, whose files may not have come along.
fn is_recorded(dir: &Path, name: &OsStr, state: Option<&Path>) -> bool {
    let valid = || OwnManifests::look(dir, state)?.open_valid(dir);
    let private = || PrivateDir::consult(&Dir::open(dir).ok()?, dir, state).ok()?;
    ManifestName::parse(name)
        .is_some_and(|name| valid().is_ok_and(|valid| valid.is_recorded && valid.name == name))
        && private().is_some_and(|private| FinishedManifest::is_of_here(&private))
}

fn now() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
}

/// Why nothing of a tree can be added.
fn unrecorded(job: &AddJob, added: &Added) -> String {
    let consult = |dir: Dir| PrivateDir::consult(&dir, &job.path, job.state.as_deref());
    let dir = Dir::open(&job.path);
    // There times and numbers are kept, so that it is the file that has others.
    let keeps = dir.as_ref().is_ok_and(Dir::keeps_numbers);
    let changed = added.doubtful.names().filter(|_| keeps);
    match (dir.map(consult), changed) {
        (Ok(Err(_)), _) => {
            "your record of it cannot be believed: add its manifest, with --place NAME".to_owned()
        }
        (_, Some(names)) => format!(
            "what your record has there may have changed since, or was made whole by heal ({names}): run the copy again, \
             which records it, or add its manifest, with --place NAME"
        ),
        _ if added.doubtful.number > 0 => {
            "nothing shows that what your record has there is untouched, as on file systems without change times (exFAT, \
             FAT): add its manifest, with --place NAME"
                .to_owned()
        }
        _ => "no record of yours says what is there: add its manifest, or copy there with dircopy"
            .to_owned(),
    }
}

/// The rows of a tree on their way.
struct Rows<'c> {
    catalog: &'c Catalog,
    tree: i64,
    file: Statement<'c>,
    /// The directories above the last file that have a row, each with its number: names come in the order of a walk.
    above: Vec<(Vec<u8>, i64)>,
    /// The last algorithm, and its number.
    algorithm: Option<(Algorithm, i64)>,
    added: Added,
}

impl<'c> Rows<'c> {
    fn new(catalog: &'c Catalog, tree: i64) -> rusqlite::Result<Self> {
        let file = catalog.connection.prepare(
            "INSERT INTO file (directory, name, algorithm, digest, size, verified, proof) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let (above, algorithm, added) = Default::default();
        Ok(Self { catalog, tree, file, above, algorithm, added })
    }

    /// Takes what this user's record has of a tree.
    fn take_tree(
        &mut self,
        job: &AddJob,
        observer: &EventObserver<'_>,
        failed: &Failed,
    ) -> Result<()> {
        // That asks for times.
        let asked =
            CoveredJob { state: job.state.clone(), not_before: Some(0), ..CoveredJob::default() };
        let path = job.newest.as_deref().unwrap_or(&job.path);
        let begin = path.strip_prefix(&job.path).unwrap_or(Path::new(""));
        let begin = match begin.as_os_str().as_encoded_bytes() {
            b"" => Vec::new(),
            name => [name, b"/"].concat(),
        };
        let tree = Tree::open(path, &asked, observer)?;
        let mut gone = Examples::default();
        let see = &mut |path: &[u8], size: u64, recorded: Option<&Recorded>| {
            let path = [&begin[..], path].concat();
            match recorded.map(|it| (it, it.found)) {
                None => self.added.unknown.add(&path),
                Some((_, None)) => self.added.doubtful.add(&path),
                Some((recorded, found)) => {
                    let row = self.add(&path, &recorded.digests, Some(size), found);
                    row.map_err(|error| fail(failed, error))?;
                }
            }
            Ok(())
        };
        // What cannot be read may be there: then what was known of the tree stays.
        let whole = tree.each_recorded(observer, see, &mut |path| {
            gone.add(&[&begin[..], path].concat());
        });
        whole.map_err(|error| error.of_deed("add to the catalogue"))?;
        self.added.gone = gone;
        Ok(())
    }

    /// Takes the files of a list.
    fn take_list(
        &mut self,
        list: &Path,
        observer: &EventObserver<'_>,
        failed: &Failed,
    ) -> Result<()> {
        let lists = DiffJob { lists: vec![list.to_path_buf()], ..DiffJob::default() };
        self.added.unusable = lists.each_file(observer, &mut |_, path, digests| {
            self.add(path, digests, None, None).map_err(|error| fail(failed, error))
        })?;
        Ok(())
    }

    fn add(
        &mut self,
        path: &[u8],
        digests: &[Digest],
        size: Option<u64>,
        found: Option<Found>,
    ) -> rusqlite::Result<()> {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (dir, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        let directory = self.directory(dir)?;
        let digest = digests.iter().min_by_key(|it| (!is_enough(it.algorithm()), it.algorithm()));
        let algorithm = digest.map(|it| self.algorithm(it.algorithm())).transpose()?;
        let digest = digest.map(Digest::bytes);
        let size = size.and_then(|size| i64::try_from(size).ok());
        let verified = found.map(|found| found.time).filter(|time| *time > 0);
        let proof = match found.map(|found| found.proof) {
            None | Some(Proof::Listed) => 0,
            Some(Proof::Recorded) => 1,
            Some(_) => 2,
        };
        let name = kept(name);
        self.file.execute(params![directory, name, algorithm, digest, size, verified, proof])?;
        self.added.files += 1;
        Ok(())
    }

    /// The number of a directory, which gets a row with its first file.
    fn directory(&mut self, path: &[u8]) -> rusqlite::Result<i64> {
        let is_in = |above: &[u8]| {
            let rest = path.strip_prefix(above);
            above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        while self.above.last().is_some_and(|(above, _)| !is_in(above)) {
            self.above.pop();
        }
        if let Some((above, id)) = self.above.last()
            && above == path
        {
            return Ok(*id);
        }
        let sql = "INSERT INTO directory (tree, path) VALUES (?1, ?2)";
        let name = kept(path);
        self.catalog.connection.execute(sql, params![self.tree, name])?;
        let id = self.catalog.connection.last_insert_rowid();
        self.above.push((path.to_vec(), id));
        Ok(id)
    }

    /// The number of an algorithm, which gets a row with its first digest.
    fn algorithm(&mut self, algorithm: Algorithm) -> rusqlite::Result<i64> {
        if let Some((last, id)) = self.algorithm
            && last == algorithm
        {
            return Ok(id);
        }
        let connection = &self.catalog.connection;
        let sql = "INSERT INTO algorithm (name, is_enough) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        connection.execute(sql, params![algorithm.name(), is_enough(algorithm)])?;
        let find = "SELECT id FROM algorithm WHERE name = ?1";
        let id = connection.query_row(find, [algorithm.name()], |row| row.get(0))?;
        self.algorithm = Some((algorithm, id));
        Ok(id)
    }
}

/// Keeps the database's error for who asked, and ends what was handing out rows.
fn fail(failed: &Failed, error: rusqlite::Error) -> io::Error {
    failed.set(Some(error));
    io::ErrorKind::Other.into()
}
