//! The catalogue: a database of what is at which disk, also at one in the drawer, as records and lists said when they
//! were added to it.
//!
//! It is a convenience: nothing that a run proves rests on it, and all in it can be made anew from manifests. So one
//! that is damaged, foreign or of a newer version is refused and never written over. What is read of it is data, as of
//! any list.

mod add;
mod ask;
mod status;

pub use add::{AddJob, Added};
pub use ask::{CataloguedFile, Sought};
pub use status::{CatalogStatus, PlaceStatus};

use std::{cell::Cell, io, path::Path, path::PathBuf, time::Duration};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, Row, config::DbConfig, types::ToSqlOutput, types::ValueRef,
};

use crate::{
    error::{Deed, Error, Result},
    event::Stop,
    path::directory_of,
    state::user_data,
    sys::{self, Dir, PlainUse},
};

const DEED: &str = "use the catalogue";

/// The tables; docs/guide/catalog.md says what is in them.
const SCHEMA: &str = include_str!("schema.sql");

/// By this a catalogue is known: "dcpy".
const MARK: i64 = 0x6463_7079;

/// The version of the tables.
const VERSION: i64 = 1;

/// The time that one call waits for another program that is at work on it, and how often it is made to change it.
const PATIENCE: Duration = Duration::from_secs(5);
const TRIES: u32 = 12;

/// The steps of a statement after which it is asked whether it is to end: some thousandths of a second.
const STEPS: i32 = 10_000;

/// A catalogue that is open.
pub struct Catalog {
    connection: Connection,
    path: PathBuf,
}

/// The first error of a database, where what was handed a row can only say that it failed.
type Failed = Cell<Option<rusqlite::Error>>;

impl Catalog {
    /// Where it is unless another file is named.
    pub fn usual_path() -> Option<PathBuf> {
        Some(sys::data_directory()?.join("dircopy").join("catalog.sqlite"))
    }

    fn is_usual(path: &Path) -> bool {
        Self::usual_path().as_deref() == Some(path)
    }

    /// Looks whether there can be one at `path`; nothing is made.
    ///
    /// # Errors
    /// There cannot, or what is there cannot be used.
    pub fn look_at(path: &Path) -> Result<()> {
        if Self::open_if_any(path, &Stop::default())?.is_some() {
            return sys::open_plain(path, PlainUse::Append).map(drop).deed(DEED, path);
        }
        if !Self::is_usual(path) {
            let dir = Dir::open_named(directory_of(path));
            dir.and_then(|dir| dir.check_writable()).deed(DEED, path)?;
        }
        refuse_others(path)
    }

    /// Opens the catalogue at `path`. Whatever is at work on it ends, and changes nothing, when `stop` asks for it.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    pub fn open(path: &Path, stop: &Stop) -> Result<Self> {
        let none = "there is none yet: dircopy catalog add TREE|MANIFEST";
        Self::open_if_any(path, stop)?.ok_or_else(|| Error::finding(DEED, path, none))
    }

    /// The same; `None` if there is none, or an empty one.
    fn open_if_any(path: &Path, stop: &Stop) -> Result<Option<Self>> {
        match sys::open_plain(path, PlainUse::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked => drop(looked.deed(DEED, path)?),
        }
        refuse_others(path)?;
        let catalog = Self::connect(path, stop)?;
        if catalog.is_empty()? {
            return Ok(None);
        }
        catalog.look().map(|()| Some(catalog))
    }

    /// Opens it; an empty one is made, for its owner alone, if there is none.
    ///
    /// # Errors
    /// It cannot be made or used.
    pub fn open_or_make(path: &Path, stop: &Stop) -> Result<Self> {
        if let Some(dir) = path.parent().filter(|_| Self::is_usual(path)) {
            user_data::make_private(dir).deed("make the directory", dir)?;
        }
        refuse_others(path)?;
        sys::open_plain(path, PlainUse::Append).deed(DEED, path)?;
        let catalog = Self::connect(path, stop)?;
        if catalog.is_empty()? {
            let marks = format!("PRAGMA application_id={MARK}; PRAGMA user_version={VERSION}");
            let make = || match catalog.number("SELECT count(*) FROM sqlite_schema")? {
                0 => catalog.connection.execute_batch(&format!("{SCHEMA}{marks}")),
                // Another program was faster.
                _ => Ok(()),
            };
            catalog.changing(&Stop::default(), || make().map_err(|error| catalog.told(error)))?;
        }
        catalog.look()?;
        Ok(catalog)
    }

    /// True if nothing was ever done to it as a whole. Asking takes back what a killed program began.
    fn is_empty(&self) -> Result<bool> {
        let pages = self.number("PRAGMA page_count").map_err(|error| self.told(error))?;
        Ok(pages == 0)
    }

    fn connect(path: &Path, stop: &Stop) -> Result<Self> {
        // A name that begins with "file:" would be taken for an address.
        let full = std::path::absolute(path).deed(DEED, path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connect = || -> rusqlite::Result<Connection> {
            let mut connection = Connection::open_with_flags(&full, flags)?;
            let stop = stop.clone();
            connection.progress_handler(STEPS, Some(move || stop.is_requested()))?;
            connection.busy_timeout(PATIENCE)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.execute_batch(
                "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON; PRAGMA cache_size=-131072",
            )?;
            Ok(connection)
        };
        let connection = connect().map_err(|error| refusal(path, error))?;
        Ok(Self { connection, path: path.to_path_buf() })
    }

    /// Refuses what is no catalogue of this version, with these very tables and nothing that acts by itself.
    fn look(&self) -> Result<()> {
        let refuse = |finding: String| Err(Error::finding(DEED, &self.path, finding));
        let tell = |error| self.told(error);
        let mark = self.number("PRAGMA application_id").map_err(tell)?;
        let version = self.number("PRAGMA user_version").map_err(tell)?;
        if mark != MARK {
            return refuse(
                "it is another file, and no catalogue of dircopy: give a name of its own".into(),
            );
        }
        if version != VERSION {
            return refuse(format!(
                "it is of version {version} and this dircopy knows {VERSION}: use the dircopy that made it, or make another \
                 one from your manifests"
            ));
        }
        let tables = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
            let all = "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY sql";
            connection.prepare(all)?.query_map([], |row| row.get(0))?.collect()
        };
        let own = Connection::open_in_memory().and_then(|own| {
            own.execute_batch(SCHEMA)?;
            tables(&own)
        });
        match own.and_then(|own| Ok(own == tables(&self.connection)?)).map_err(tell)? {
            true => Ok(()),
            false => refuse(format!("it has other tables than dircopy makes; {ANEW}")),
        }
    }

    fn number(&self, sql: &str) -> rusqlite::Result<i64> {
        self.connection.query_row(sql, [], |row| row.get(0))
    }

    /// Changes it, all or nothing.
    fn changing<T>(&self, stop: &Stop, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let batch = |sql| self.connection.execute_batch(sql).map_err(|error| self.told(error));
        let begin = || self.connection.execute_batch("BEGIN IMMEDIATE");
        let is_busy = |begun: &rusqlite::Result<()>| {
            let error = begun.as_ref().err();
            error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::DatabaseBusy)
        };
        let mut begun = begin();
        for _ in 1..TRIES {
            if !is_busy(&begun) || stop.is_requested() {
                break;
            }
            begun = begin();
        }
        begun.map_err(|error| self.told(error))?;
        let done = change().and_then(|done| batch("COMMIT").map(|()| done));
        if done.is_err() {
            // What failed is told; where this fails too the next that opens it takes back what was begun.
            let _ = batch("ROLLBACK");
        }
        done
    }

    fn told(&self, error: rusqlite::Error) -> Error {
        refusal(&self.path, error)
    }
}

/// Refuses one that another user may change. He could also put a journal beside it, which is played into it when it is
/// opened.
fn refuse_others(path: &Path) -> Result<()> {
    let remedy = "give a FILE in a directory of your own (--catalog FILE)";
    user_data::refuse_others(DEED, path, remedy)
}

/// What is to be done about one that cannot be used.
const ANEW: &str =
    "move it away, and make another one from your trees and manifests (dircopy catalog add)";

/// The error of the database, in words.
fn refusal(path: &Path, error: rusqlite::Error) -> Error {
    let finding = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            format!("it is damaged; {ANEW}")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program is at work on it; try again when that has ended".into()
        }
        Some(ErrorCode::ConstraintViolation) => {
            format!(
                "another place has that name or UUID ({error}): forget that, or give another --place"
            )
        }
        Some(_) => error.to_string(),
        None => format!("it has what no catalogue has ({error}); {ANEW}"),
    };
    Error::finding(DEED, path, finding)
}

/// A name as it is kept: text if it is UTF-8, and else its bytes.
fn kept(name: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match std::str::from_utf8(name) {
        Ok(_) => ValueRef::Text(name),
        Err(_) => ValueRef::Blob(name),
    })
}

/// The same of a path.
fn kept_path(path: &Path) -> ToSqlOutput<'_> {
    kept(path.as_os_str().as_encoded_bytes())
}

/// A name that was kept, if there is one. None has a NUL in it.
fn name_at(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(name) | ValueRef::Blob(name) if !name.contains(&0) => {
            Ok(Some(name.to_vec()))
        }
        other => Err(rusqlite::Error::InvalidColumnType(at, "a name".into(), other.data_type())),
    }
}

/// A path that is kept in three parts, from this one on: below the place, of the directory, and the name.
fn path_at(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<u8>> {
    let parts = [name_at(row, at)?, name_at(row, at + 1)?, name_at(row, at + 2)?];
    let parts: Vec<Vec<u8>> = parts.into_iter().flatten().filter(|it| !it.is_empty()).collect();
    Ok(parts.join(&b'/'))
}
