//! What a list is a part of.

use std::borrow::Cow;

use crate::hash::Algorithm;
use crate::manifest::archive::bag::{self, Declaration};
use crate::manifest::archive::mhl::Named;
use crate::path::RelPath;

/// What a list is a part of, which says how it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartOf {
    /// Of nothing; what it is shows by its content.
    #[default]
    Alone,
    /// A manifest of a bag.
    Bag(BagPart),
    /// A generation of a history. What newer ones list is checked by these alone.
    Generation {
        /// Whether it is the newest.
        newest: bool,
        /// Which of its entries are read.
        entries: GenerationEntries,
    },
}

/// Which entries of a generation are read. The histories that it refers to may lie elsewhere than its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationEntries {
    /// All of them, where both lie below one directory.
    All,
    /// Those of files, and all else that it says.
    Files,
    /// Those of generations of histories further below, and nothing else.
    References,
}

/// A manifest of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BagPart {
    /// Whether it lists tag files, not the payload.
    pub is_tag: bool,
    /// The algorithm of its digests.
    pub algorithm: Algorithm,
    /// What `bagit.txt` says.
    pub declaration: Declaration,
}

impl PartOf {
    /// Whether it may list nothing.
    pub fn may_be_empty(self) -> bool {
        self != PartOf::Alone
    }

    /// Whether only what a generation refers to is read, which lies elsewhere than the files.
    pub fn is_references(self) -> bool {
        matches!(self, PartOf::Generation { entries: GenerationEntries::References, .. })
    }

    /// Whether entries of what is `named` are read; with `None`, what is no entry.
    pub fn reads(self, named: Option<Named>) -> bool {
        let PartOf::Generation { entries, .. } = self else { return true };
        match entries {
            GenerationEntries::All => true,
            GenerationEntries::Files => named != Some(Named::Reference),
            GenerationEntries::References => named == Some(Named::Reference),
        }
    }

    /// The manifest of a bag that it is.
    pub fn bag(self) -> Option<BagPart> {
        match self {
            PartOf::Bag(bag) => Some(bag),
            _ => None,
        }
    }
}

impl BagPart {
    /// Why a name must not be listed here, if it must not.
    pub fn refuses(&self, name: &[u8]) -> Option<&'static str> {
        let is_payload = name.starts_with(b"data/");
        match self.is_tag {
            false if !is_payload => Some("it is not below data/"),
            true if is_payload => Some("it is a file of the payload, in a list of tag files"),
            true if name.starts_with(b"~") => Some("it starts with \"~\""),
            true if name.starts_with(b"tagmanifest-") => Some("it is a list of tag files itself"),
            _ => None,
        }
    }

    /// How else programs write the name: some do not escape `%`, and some escape line ends where it is not due.
    pub fn other_spelling(&self, path: &RelPath) -> Option<RelPath> {
        let name = path.as_bytes();
        let other = match self.declaration.escapes() {
            true => Cow::Owned(bag::escaped(name)),
            false => bag::unescaped(Cow::Borrowed(name)),
        };
        RelPath::parse(&other).ok().filter(|_| *other != *name)
    }
}
