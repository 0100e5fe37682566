//! A file system's treatment of names, times, links and permissions: the results of trials.

use std::{ffi::OsStr, ffi::OsString, io};

use serde::{Deserialize, Serialize};

use crate::sys::stat::Time;

/// The longest name that Linux and Windows file systems have; bytes, or units of UTF-16.
pub const LONGEST_NAME: usize = 255;

/// The names that a file system holds as they are, class by class. A name of a class that is not held may be held all
/// the same, so it is tried by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameTraits {
    /// Names that differ only in letter case are the same.
    pub folds_case: bool,
    /// Names that differ only in their form of Unicode are the same.
    #[serde(default)]
    pub folds_forms: bool,
    /// Those that are UTF-8 and not ASCII are held.
    pub unicode: bool,
    /// Those that are not UTF-8 are.
    pub bytes: bool,
    /// Those with control characters, or with signs that have a meaning on Windows, are.
    pub signs: bool,
    /// Those that begin with a blank, or end with a blank or a dot, are.
    pub ends: bool,
    /// Those that mean devices on Windows are.
    pub devices: bool,
    /// The longest that was held; bytes.
    pub longest: usize,
}

impl NameTraits {
    /// The traits of a file system that holds every name as it is.
    pub const EVERY: Self = Self {
        folds_case: false,
        folds_forms: false,
        unicode: true,
        bytes: true,
        signs: true,
        ends: true,
        devices: true,
        longest: LONGEST_NAME,
    };

    /// True if a name is of a class that is not held.
    pub fn are_doubtful_for(&self, name: &OsStr) -> bool {
        let Self { folds_case, folds_forms, .. } = *self;
        if *self == (Self { folds_case, folds_forms, ..Self::EVERY }) {
            return false;
        }
        let bytes = name.as_encoded_bytes();
        let is_sign = |byte: &u8| *byte < 0x20 || *byte == 0x7f || b"\"*:<>?\\|".contains(byte);
        let has_odd_end = bytes.starts_with(b" ") || matches!(bytes.last(), Some(b' ' | b'.'));
        let is_held_as_text = match name.to_str() {
            Some(text) => self.unicode || text.is_ascii(),
            None => self.bytes,
        };
        bytes.len() > self.longest
            || !is_held_as_text
            || !self.signs && bytes.iter().any(is_sign)
            || !self.ends && has_odd_end
            || !self.devices && means_device(bytes)
    }
}

/// True if Windows takes a name for that of a device, whatever follows its first dot (Win32: "Naming Files, Paths, and
/// Namespaces").
fn means_device(name: &[u8]) -> bool {
    let stem = name.split(|&byte| byte == b'.').next().unwrap_or_default();
    let is = |device: &[u8]| stem.eq_ignore_ascii_case(device);
    let is_numbered = |device: &[u8]| {
        stem.split_last().is_some_and(|(number, device_part)| {
            number.is_ascii_digit() && device_part.eq_ignore_ascii_case(device)
        })
    };
    [&b"con"[..], b"prn", b"aux", b"nul"].into_iter().any(is)
        || [&b"com"[..], b"lpt"].into_iter().any(is_numbered)
}

/// The modification times that a file system holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeTraits {
    /// The step in which they are held, in nanoseconds; `None` where a time that was set is not there at all.
    pub step: Option<u32>,
    /// From here on they are held.
    pub earliest: Time,
    /// … up to here.
    pub latest: Time,
    /// True if times beyond these are kept in memory at most, and come from the disk as FAT makes them.
    pub are_of_fat: bool,
}

impl TimeTraits {
    /// The traits of a file system that holds every time that a trial asks for.
    pub const EVERY: Self = Self {
        step: Some(1),
        earliest: Time { secs: -6_000_000_000, nanos: 0 },
        latest: Time { secs: 20_000_000_000, nanos: 0 },
        are_of_fat: false,
    };

    /// The first second that FAT and exFAT hold, 1980, …
    pub const FAT_FIRST: i64 = 315_532_800;

    /// … and the last, of 2107.
    pub const FAT_LAST: i64 = 4_354_819_199;

    /// The same of FAT or exFAT, if `is_fat`: in memory they may hold more for a while.
    pub fn of_fat(self, is_fat: bool) -> Self {
        if !is_fat {
            return self;
        }
        let at = |secs| Time { secs, nanos: 0 };
        let earliest = self.earliest.max(at(Self::FAT_FIRST));
        let latest = self.latest.min(at(Self::FAT_LAST));
        Self { earliest, latest, are_of_fat: true, ..self }
    }

    /// True if a file's time comes out as it is, or cut to a step.
    pub fn hold(&self, time: Time) -> bool {
        self.step.is_some() && (self.earliest..=self.latest).contains(&time)
    }
}

/// A file system's treatment of everything that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// The names that it holds.
    pub names: NameTraits,
    /// The times that it holds.
    pub times: TimeTraits,
    /// True if it has symbolic links.
    pub links: bool,
    /// True if a file of the longest name can take the place of another without leaving a stray.
    pub replaces_longest: bool,
    /// True if owner and times of a link can be set without changing its target.
    pub labels_links: bool,
    /// True if links that lead out of the file system can be read again.
    pub outward_links: bool,
    /// True if files that were just made keep their time while they are read.
    pub keeps_times: bool,
    /// True if files have the permissions that they are given.
    pub permissions: bool,
    /// True if files have the owner that root gives them; true for other users, for which it is not tried.
    pub owners: bool,
    /// True if the names in a directory can be made durable.
    pub syncs_names: bool,
    /// True if a file that gets another name keeps its number.
    #[serde(default = "kept")]
    pub keeps_numbers: bool,
    /// … and the time of its making.
    #[serde(default = "kept")]
    pub keeps_births: bool,
    /// True if files have a change time of their own, which no program can set; false if the modification time is told
    /// for it.
    #[serde(default = "kept")]
    pub change_times: bool,
}

/// The value for notes of earlier versions, which say nothing of it.
fn kept() -> bool {
    true
}

impl Traits {
    /// The traits of a file system that changes nothing.
    pub const FAITHFUL: Self = Self {
        names: NameTraits::EVERY,
        times: TimeTraits::EVERY,
        links: true,
        replaces_longest: true,
        labels_links: true,
        outward_links: true,
        keeps_times: true,
        permissions: true,
        owners: true,
        syncs_names: true,
        keeps_numbers: true,
        keeps_births: true,
        change_times: true,
    };

    /// True if it is a disk on which a change time proves nothing, also where nothing but a trial tells (exfat-fuse).
    /// What a server tells is all that there is to go by.
    pub fn are_of_disk_without_change_times(&self) -> bool {
        self.times.are_of_fat && !self.change_times
    }
}

impl Default for Traits {
    /// The traits of one that was not tried: as if it changed nothing, but that links are left alone.
    fn default() -> Self {
        Self { labels_links: false, ..Self::FAITHFUL }
    }
}

/// The result of trying a name.
#[derive(Debug)]
pub enum TriedName {
    /// The file is called so.
    Held,
    /// The file is called otherwise.
    Becomes(OsString),
    /// There can be no file of that name.
    Refused(io::Error),
    /// Names like it are not held, and this one was not tried, because nothing may be made.
    Doubtful,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_classes_that_are_not_held_are_doubtful() {
        const EVERY: NameTraits = NameTraits::EVERY;
        let none = NameTraits {
            folds_case: true,
            folds_forms: true,
            unicode: false,
            bytes: false,
            signs: false,
            ends: false,
            devices: false,
            longest: 30,
        };
        let long = "n".repeat(31);
        for (name, held) in [
            ("plain-name_1.txt", EVERY),
            ("dot.", NameTraits { ends: false, ..EVERY }),
            (" blank", NameTraits { ends: false, ..EVERY }),
            ("a:b", NameTraits { signs: false, ..EVERY }),
            ("Con.txt", NameTraits { devices: false, ..EVERY }),
            ("lpt1", NameTraits { devices: false, ..EVERY }),
            ("\u{e9}", NameTraits { unicode: false, ..EVERY }),
            (&long, NameTraits { longest: 30, ..EVERY }),
        ] {
            let is_plain = held == EVERY;
            assert_eq!(held.are_doubtful_for(name.as_ref()), !is_plain, "{name}");
            assert_eq!(none.are_doubtful_for(name.as_ref()), !is_plain, "{name}");
            assert!(!EVERY.are_doubtful_for(name.as_ref()), "{name}");
        }
        for plain in ["console", "com", "com10", "lead.ing", "under score", "1"] {
            assert!(!none.are_doubtful_for(plain.as_ref()), "{plain}");
        }
    }
}
