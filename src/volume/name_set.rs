//! The names of one directory, as hashes: 8 bytes each, however long they are.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;

use crate::hash::table::HashTable;
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirReader};

/// A name in a set that has its key.
#[derive(Clone, Copy, Debug)]
pub struct NameHash(u64);

/// Names of one directory, and what they stand for.
#[derive(Default)]
pub struct NameSet {
    hasher: RandomState,
    kinds: HashTable<Option<Kind>>,
    /// Whether the listing does not tell of each what it stands for.
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

    /// By what a name is looked for here.
    pub fn hash(&self, name: &OsStr) -> NameHash {
        NameHash(self.hasher.hash_one(name.as_encoded_bytes()))
    }

    pub fn has(&self, name: NameHash) -> bool {
        self.kinds.contains_key(&name.0)
    }

    /// Whether the name may be that of something that is of none of the kinds that a run `copies`; true where the
    /// listing does not tell.
    pub fn may_be_left_out(&self, name: NameHash, copies: impl Fn(Kind) -> bool) -> bool {
        self.kinds.get(&name.0).is_some_and(|kind| !kind.is_some_and(copies))
    }

    /// Whether the name was listed for something of this kind; true where that was not told.
    pub fn has_kind(&self, name: NameHash, kind: Kind) -> bool {
        self.kinds.get(&name.0).is_some_and(|it| it.is_none_or(|it| it == kind))
    }
}
