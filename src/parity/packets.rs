//! The packets of a PAR2 file (Parity Volume Set Specification 2.0), written and read.
//!
//! A file of ours has one set: the packets that describe it, the recovery slices, and the description once more. Beside
//! the packets of the specification there is one of our own, which others pass over: the digests and labels of the
//! files by the manifest. What is read is data until its sums hold: no size is believed, and nothing is as large in
//! memory as a packet says.

use std::{collections::HashMap, io};

use md5::{Digest as _, Md5};

use crate::{
    hash::Algorithm, hash::Digest, hash::hex, path::RelPath, sys::Attributes, sys::stat::Stat,
    sys::stat::Time,
};

use super::JoinedFiles;

/// The most slices that a set may have.
pub const MOST_SLICES: usize = 32_768;

/// Where files are larger, slices end where pages do.
pub const PAGE: u64 = 4096;

const MAGIC: &[u8] = b"PAR2\0PKT";

/// Magic, length, sum, set, kind.
pub const HEAD: usize = 64;

const MAIN: &[u8; 16] = b"PAR 2.0\0Main\0\0\0\0";
const FILE: &[u8; 16] = b"PAR 2.0\0FileDesc";
const SUMS: &[u8; 16] = b"PAR 2.0\0IFSC\0\0\0\0";
const RECOVERY: &[u8; 16] = b"PAR 2.0\0RecvSlic";
const CREATOR: &[u8; 16] = b"PAR 2.0\0Creator\0";
const LISTED: &[u8; 16] = b"dircopy\0Listed\0\0";

/// What the text of our creator packet begins with.
const NAME: &[u8] = b"dircopy ";

/// The version of our own packet.
const VERSION: &str = "dircopy-parity-1";

/// A packet that describes is no longer than this, …
const MOST_PACKET: u64 = 8 << 20;

/// … and all of a file together are not.
const MOST_PACKETS: usize = 64 << 20;

/// A file that is said to be larger is none.
const MOST_SIZE: u64 = 1 << 60;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

pub type Sum = [u8; 16];

/// The sums of a slice, the last of a file with zeros behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceSum {
    pub md5: Sum,
    pub crc: u32,
}

/// What the manifest and the file system said of a file when parity was made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub digest: Digest,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Time,
    /// When anything of it had changed. Earlier versions do not tell, nor is it told of a file with an access list: its
    /// permissions say nothing without that.
    pub ctime: Option<Time>,
}

impl Listed {
    /// That of a file with this digest.
    pub fn new(digest: Digest, stat: &Stat, attributes: &Attributes) -> Self {
        let Stat { mode, uid, gid, mtime, ctime, .. } = *stat;
        let ctime = Some(ctime).filter(|_| !attributes.has_access_list());
        Self { digest, mode, uid, gid, mtime, ctime }
    }

    fn line(&self) -> String {
        let Self { digest, mode, uid, gid, mtime, ctime } = self;
        let time = |Time { secs, nanos }| format!(" {secs} {nanos}");
        let times = [Some(*mtime), *ctime].into_iter().flatten().map(time).collect::<String>();
        let digest = format!("{} {digest}", digest.algorithm().name());
        format!("{digest} {mode:o} {uid} {gid}{times}")
    }

    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let algorithm = Algorithm::named(words.next()?)?;
        let digest = Digest::parse(algorithm, words.next()?.as_bytes())?;
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        let (uid, gid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let mut time =
            || Some(Time { secs: words.next()?.parse().ok()?, nanos: words.next()?.parse().ok()? });
        Some(Self { digest, mode, uid, gid, mtime: time()?, ctime: time() })
    }
}

/// A file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    pub path: RelPath,
    pub size: u64,
    /// MD5 of all of it, …
    pub md5: Sum,
    /// … and of its first 16 KiB.
    pub head: Sum,
    pub sums: Vec<SliceSum>,
    /// `None` if that packet is lost.
    pub listed: Option<Listed>,
}

impl SetFile {
    /// What the set knows it by.
    pub fn id(&self) -> Sum {
        let hasher = Md5::new().chain_update(self.head).chain_update(self.size.to_le_bytes());
        hasher.chain_update(self.path.as_bytes()).finalize().into()
    }

    /// The order of files in a set: ids are numbers, the lowest byte first.
    pub fn order(&self) -> [u8; 16] {
        let mut id = self.id();
        id.reverse();
        id
    }
}

/// Files that have their parity together, in the order of their slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetFiles {
    /// Length of a slice in bytes.
    pub slice: u64,
    pub files: Vec<SetFile>,
}

impl SetFiles {
    /// Number of slices.
    pub fn slices(&self) -> usize {
        self.files.iter().map(|file| file.sums.len()).sum()
    }

    fn main(&self) -> Vec<u8> {
        let mut body = self.slice.to_le_bytes().to_vec();
        body.extend((self.files.len() as u32).to_le_bytes());
        self.files.iter().for_each(|file| body.extend(file.id()));
        body
    }

    /// The id of the set.
    pub fn id(&self) -> Sum {
        Md5::digest(self.main()).into()
    }

    /// All packets that describe it, as they stand before and behind so many recovery slices.
    pub fn describe(&self, recovery: u32, share: u32) -> Vec<u8> {
        let id = self.id();
        let mut all = packet(&id, MAIN, self.main());
        let mut own = format!("{VERSION} {recovery} {share}\n");
        for file in &self.files {
            let mut body = [file.id(), file.md5, file.head].concat();
            body.extend(file.size.to_le_bytes());
            body.extend(file.path.as_bytes());
            all.extend(packet(&id, FILE, body));
            let mut body = file.id().to_vec();
            for SliceSum { md5, crc } in &file.sums {
                body.extend(md5);
                body.extend(crc.to_le_bytes());
            }
            all.extend(packet(&id, SUMS, body));
            if let Some(listed) = &file.listed {
                own += &format!("{} {}\n", hex::text(&file.id()), listed.line());
            }
        }
        all.extend(packet(&id, LISTED, own.into_bytes()));
        let creator = concat!("dircopy ", env!("CARGO_PKG_VERSION")).as_bytes();
        all.extend(packet(&id, CREATOR, creator.to_vec()));
        all
    }

    /// Where the recovery slice of this number has its packet, and how long that is.
    pub fn recovery_place(&self, described: usize, number: usize) -> (u64, u64) {
        let len = HEAD as u64 + 4 + self.slice;
        (described as u64 + len * number as u64, len)
    }
}

/// The sum of a recovery packet up to its data.
pub fn begin_recovery(set: &Sum, exponent: u32) -> Md5 {
    let begun = Md5::new().chain_update(set).chain_update(RECOVERY);
    begun.chain_update(exponent.to_le_bytes())
}

/// What stands before the data of a recovery packet of this length, whose sum is complete.
pub fn recovery_head(set: &Sum, exponent: u32, len: u64, sum: Md5) -> Vec<u8> {
    let sum: Sum = sum.finalize().into();
    let mut head = head(len, &sum, set, RECOVERY);
    head.extend(exponent.to_le_bytes());
    head
}

fn head(len: u64, sum: &Sum, set: &Sum, kind: &[u8; 16]) -> Vec<u8> {
    [MAGIC, &len.to_le_bytes(), sum, set, kind].concat()
}

fn packet(set: &Sum, kind: &[u8; 16], mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    let sum = Md5::new().chain_update(set).chain_update(kind).chain_update(&body).finalize();
    let mut packet = head((HEAD + body.len()) as u64, &sum.into(), set, kind);
    packet.extend(body);
    packet
}

// Reading.

/// A recovery slice in a file: its exponent, and where its data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySlice {
    pub exponent: u32,
    pub at: u64,
}

/// A set as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSet {
    pub files: SetFiles,
    /// The recovery slices whose sums hold.
    pub recovery: Vec<RecoverySlice>,
    /// What they are a share of, in 10,000 parts of the slices; `None` if it is lost.
    pub share: Option<u32>,
    /// True if all of the file is as it was written.
    pub is_whole: bool,
    /// True if another program made it, or too little is left to tell.
    pub is_foreign: bool,
}

/// The packets of a file whose sums hold.
#[derive(Default)]
struct Found {
    packets: Vec<(Sum, [u8; 16], Vec<u8>)>,
    weight: usize,
    /// With the set, and the length of the data.
    recovery: Vec<(Sum, u64, RecoverySlice)>,
    /// True if something in between is no such packet.
    has_gaps: bool,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// Reads the set that files have; `None` if it is so damaged that the set is not known any more, or `is_to_stop` said
/// so.
///
/// # Errors
/// They cannot be read.
pub fn read(files: &JoinedFiles, is_to_stop: &dyn Fn() -> bool) -> io::Result<Option<StoredSet>> {
    let found = Found::of(files, is_to_stop)?;
    Ok(found.and_then(|found| found.set()))
}

impl Found {
    /// The packets are looked for from the beginning; behind what is none, from the next byte on.
    fn of(files: &JoinedFiles, is_to_stop: &dyn Fn() -> bool) -> io::Result<Option<Self>> {
        let (len, mut found, mut at) = (files.size(), Self::default(), 0);
        // Who plants packets that reach into each other gets no more reading than this.
        let mut most = len.saturating_mul(4);
        let (mut room, mut window, mut window_at) = (vec![0; CHUNK], Vec::new(), 0);
        while at + HEAD as u64 <= len {
            if is_to_stop() {
                return Ok(None);
            }
            // Small packets are thousands: what was read is looked through to its end before more is read.
            if at + HEAD as u64 > window_at + window.len() as u64 {
                window.resize(CHUNK, 0);
                let read = files.fill_at(&mut window, at)?;
                window.truncate(read);
                window_at = at;
            }
            let rest = window.get((at - window_at) as usize..).unwrap_or_default();
            let read = rest.len();
            let Some(magic) = memchr::memmem::find(rest, MAGIC) else {
                found.has_gaps = true;
                at += (read.saturating_sub(MAGIC.len() - 1) as u64).max(1);
                continue;
            };
            found.has_gaps |= magic > 0;
            at += magic as u64;
            let packet = long(rest, magic + 8).filter(|packet| {
                *packet >= HEAD as u64 && packet % 4 == 0 && *packet <= len - at && *packet <= most
            });
            let Some(packet) = packet else {
                // The rest of the head may be behind what was read.
                let is_cut = magic > 0 && magic + HEAD > read;
                if !is_cut {
                    found.has_gaps = true;
                    at += 1;
                }
                continue;
            };
            most -= packet;
            match found.take(files, at, packet, &mut room)? {
                true => at += packet,
                false => {
                    found.has_gaps = true;
                    at += 1;
                }
            }
        }
        found.has_gaps |= at < len;
        Ok(Some(found))
    }

    /// Takes the packet at this place, if its sum holds.
    fn take(
        &mut self,
        files: &JoinedFiles,
        at: u64,
        len: u64,
        room: &mut [u8],
    ) -> io::Result<bool> {
        let (mut done, mut sum, mut head, mut kept) = (0, Md5::new(), Vec::new(), Vec::new());
        while done < len {
            let want = (len - done).min(room.len() as u64) as usize;
            let read = files.fill_at(&mut room[..want], at + done)?.min(want);
            if read == 0 {
                return Ok(false);
            }
            let bytes = &room[..read];
            if done == 0 {
                head = bytes.get(..bytes.len().min(HEAD + 4)).unwrap_or_default().to_vec();
                sum.update(bytes.get(32..).unwrap_or_default());
            } else {
                sum.update(bytes);
            }
            if len <= MOST_PACKET {
                kept.extend_from_slice(bytes);
            }
            done += read as u64;
        }
        let (Some(said), Some(set), Some(kind)) =
            (number::<16>(&head, 16), number(&head, 32), number(&head, 48))
        else {
            return Ok(false);
        };
        if said != <Sum>::from(sum.finalize()) {
            return Ok(false);
        }
        if &kind == RECOVERY {
            let exponent = number(&head, HEAD).map(u32::from_le_bytes);
            if let Some(exponent) = exponent.filter(|_| self.recovery.len() <= MOST_SLICES) {
                let slice = RecoverySlice { exponent, at: at + HEAD as u64 + 4 };
                self.recovery.push((set, len - HEAD as u64 - 4, slice));
            }
        } else if self.weight + kept.len() <= MOST_PACKETS && len <= MOST_PACKET {
            self.weight += kept.len();
            self.packets.push((set, kind, kept.split_off(HEAD)));
        }
        Ok(true)
    }

    /// The set that the first main packet is of.
    fn set(&self) -> Option<StoredSet> {
        let is_own = |(set, kind, body): &&(Sum, [u8; 16], Vec<u8>)| {
            kind == MAIN && *set == <Sum>::from(Md5::digest(body))
        };
        let (id, _, main) = self.packets.iter().find(is_own)?;
        let of = |wanted: &[u8; 16]| {
            let own = self.packets.iter().filter(move |(set, _, _)| set == id);
            let wanted = *wanted;
            own.filter(move |(_, kind, _)| *kind == wanted).map(|(.., body)| body)
        };
        let slice = long(main, 0).filter(|slice| *slice > 0 && slice % 4 == 0)?;
        let files = number(main, 8).map(u32::from_le_bytes)? as usize;
        let ids = main.get(12..).filter(|ids| files <= MOST_SLICES && ids.len() >= 16 * files)?;
        let (mut named, mut sums) = (HashMap::new(), HashMap::new());
        of(FILE).filter_map(|body| describe(body)).for_each(|(id, file)| {
            named.insert(id, file);
        });
        for body in of(SUMS) {
            if let Some((id, rest)) = body.split_first_chunk::<16>() {
                sums.insert(*id, rest.chunks_exact(20).filter_map(slice_sum).collect::<Vec<_>>());
            }
        }
        let mut listed = of(LISTED).find_map(|body| listed(body));
        let is_foreign = listed.is_none() && !of(CREATOR).any(|body| body.starts_with(NAME));
        let (mut set, mut all) = (SetFiles { slice, files: Vec::new() }, 0);
        for id in ids.chunks_exact(16).take(files) {
            let mut file = named.remove(id)?;
            // Other programs have no sums of an empty file.
            file.sums = sums.remove(id).or_else(|| (file.size == 0).then(Vec::new))?;
            file.listed = listed.as_mut().and_then(|listed| listed.files.remove(id));
            if is_foreign {
                // Programs on Windows write names so, and par2cmdline reads them so.
                let slashes = file.path.as_bytes().iter().map(|byte| match byte {
                    b'\\' => b'/',
                    byte => *byte,
                });
                file.path = RelPath::parse(&slashes.collect::<Vec<u8>>()).ok()?;
            }
            all += file.sums.len();
            let slices = file.size.div_ceil(slice);
            if file.size > MOST_SIZE || file.sums.len() as u64 != slices || all > MOST_SLICES {
                return None;
            }
            set.files.push(file);
        }
        let of_set = self.recovery.iter().filter(|(of, len, _)| of == id && *len == slice);
        let mut recovery: Vec<RecoverySlice> = of_set.map(|(.., slice)| *slice).collect();
        recovery.sort_by_key(|slice| slice.exponent);
        recovery.dedup_by_key(|slice| slice.exponent);
        // A slice that is longer than every file would be zeros for as long as it pleases.
        let largest = set.files.iter().map(|file| file.size).max().unwrap_or(0);
        if slice > largest.next_multiple_of(PAGE) {
            return None;
        }
        let descriptions = of(MAIN).count().min(of(LISTED).count()).min(of(CREATOR).count());
        let is_whole = !self.has_gaps
            && descriptions == 2
            && listed.as_ref().is_some_and(|it| it.recovery == recovery.len());
        let share = listed.map(|listed| listed.share);
        Some(StoredSet { files: set, recovery, share, is_whole, is_foreign })
    }
}

/// A file by its description, without its sums.
fn describe(body: &[u8]) -> Option<(Sum, SetFile)> {
    let (id, md5, head, size) =
        (number(body, 0)?, number(body, 16)?, number(body, 32)?, long(body, 48)?);
    let name = body.get(56..)?;
    let len = name.iter().rposition(|byte| *byte != 0)? + 1;
    let path = RelPath::parse(&name[..len]).ok()?;
    let file = SetFile { path, size, md5, head, sums: Vec::new(), listed: None };
    (file.id() == id && file.path.as_bytes() == &name[..len]).then_some((id, file))
}

fn slice_sum(bytes: &[u8]) -> Option<SliceSum> {
    Some(SliceSum { md5: number(bytes, 0)?, crc: number(bytes, 16).map(u32::from_le_bytes)? })
}

/// Our own packet.
struct AllListed {
    /// Number of recovery slices, …
    recovery: usize,
    /// … and the share that they are.
    share: u32,
    files: HashMap<Sum, Listed>,
}

fn listed(body: &[u8]) -> Option<AllListed> {
    let text = std::str::from_utf8(body).ok()?.trim_end_matches('\0');
    let mut lines = text.lines();
    let (recovery, share) = lines.next()?.strip_prefix(VERSION)?.trim_start().split_once(' ')?;
    let (recovery, share) = (recovery.parse().ok()?, share.parse().ok()?);
    let of_line = |line: &str| {
        let mut words = line.split(' ');
        let id = hex::parse(words.next()?.as_bytes())?.try_into().ok()?;
        Some((id, Listed::parse(words)?))
    };
    let files = lines.map(of_line).collect::<Option<_>>()?;
    Some(AllListed { recovery, share, files })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, size: u64, slice: u64) -> SetFile {
        let digest = Digest::sha256([7; 32]);
        let mtime = Time { secs: -5, nanos: 9 };
        let listed = Listed { digest, mode: 0o640, uid: 1, gid: 2, mtime, ctime: Some(mtime) };
        let sums = vec![SliceSum { md5: [3; 16], crc: 4 }; size.div_ceil(slice) as usize];
        let path = RelPath::parse(name.as_bytes()).unwrap();
        SetFile { path, size, md5: [1; 16], head: [2; 16], sums, listed: Some(listed) }
    }

    fn set(names: &[&str]) -> SetFiles {
        let mut files: Vec<_> = names.iter().map(|name| file(name, 9000, 4096)).collect();
        files.sort_by_cached_key(SetFile::order);
        SetFiles { slice: 4096, files }
    }

    /// A file with the set and recovery slices, each of other bytes.
    fn bytes_of(set: &SetFiles, recovery: u32) -> Vec<u8> {
        let mut all = set.describe(recovery, 500);
        for exponent in 0..recovery {
            let data = vec![exponent as u8 + 1; set.slice as usize];
            let sum = begin_recovery(&set.id(), exponent).chain_update(&data);
            all.extend(recovery_head(&set.id(), exponent, HEAD as u64 + 4 + set.slice, sum));
            all.extend(data);
        }
        all.extend(set.describe(recovery, 500));
        all
    }

    fn file_of(bytes: &[u8]) -> JoinedFiles {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        JoinedFiles::new(vec![file]).unwrap()
    }

    fn read_bytes(bytes: &[u8]) -> Option<StoredSet> {
        read(&file_of(bytes), &|| false).unwrap()
    }

    #[test]
    fn a_set_is_read_as_it_was_written() {
        let set = set(&["a", "b/c \u{e4}", "four"]);
        let stored = read_bytes(&bytes_of(&set, 3)).unwrap();
        assert_eq!((&stored.files, stored.recovery.len(), stored.is_whole), (&set, 3, true));
        // Behind what another program put before it, it is no longer whole, and all there.
        let moved = read_bytes(&[b"PAR2\0PKT and more", &bytes_of(&set, 3)[..]].concat()).unwrap();
        assert_eq!((moved.files, moved.recovery.len(), moved.is_whole), (set, 3, false));
        assert_eq!((stored.share, moved.share), (Some(500), Some(500)));
    }

    /// The packets of a set of one file, with something else in the place of its size, slice or name; all sums hold.
    fn planted(size: u64, slice: u64, sums: usize, name: &[u8]) -> Option<StoredSet> {
        let head = [2; 16];
        let id: Sum = Md5::new()
            .chain_update(head)
            .chain_update(size.to_le_bytes())
            .chain_update(name)
            .finalize()
            .into();
        let main = [&slice.to_le_bytes()[..], &1_u32.to_le_bytes(), &id].concat();
        let set: Sum = Md5::digest(&main).into();
        let file = [&id[..], &[1; 16], &head, &size.to_le_bytes(), name].concat();
        let sums = [&id[..], &vec![5; 20 * sums]].concat();
        let packets = [(MAIN, main), (FILE, file), (SUMS, sums)];
        read_bytes(&packets.map(|(kind, body)| packet(&set, kind, body)).concat())
    }

    #[test]
    fn planted_sets_are_none() {
        assert!(planted(5, 8, 1, b"name").is_some());
        let path = |set: StoredSet| set.files.files[0].path.clone();
        let of_windows = planted(5, 8, 1, br"dir\name").map(path);
        assert_eq!(of_windows.unwrap().as_bytes(), b"dir/name");
        for name in ["../x", r"..\x", "/etc/passwd", "a/../../x", "a//x", ".", "a/."] {
            assert!(planted(5, 8, 1, name.as_bytes()).is_none(), "{name}");
        }
        for (size, slice, sums) in [
            (5, 0, 1),
            (5, 6, 1),
            (5, u64::MAX - 3, 1),
            (5, 1 << 40, 1),
            (5, 4, 1),
            (u64::MAX, u64::MAX - 3, 2),
            (u64::MAX, 1 << 50, 1 << 14),
            (MOST_SLICES as u64 * 4 + 4, 4, MOST_SLICES + 1),
        ] {
            assert!(planted(size, slice, sums, b"name").is_none(), "{size} {slice} {sums}");
        }
    }

    #[test]
    fn packets_that_reach_into_each_other_end() {
        // Each says that it goes to the end.
        let (len, mut bytes) = (64 * 4096_u64, Vec::new());
        for at in 0..len / 64 {
            bytes.extend(head(len - 64 * at, &[0; 16], &[0; 16], FILE));
        }
        let found = Found::of(&file_of(&bytes), &|| false);
        assert!(found.unwrap().unwrap().packets.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_read_of_damaged_packets_is_right(
            flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 0..6),
            end in any::<prop::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let set = set(&["a", "b"]);
            let mut bytes = bytes_of(&set, 4);
            for (at, bit) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            if is_cut {
                bytes.truncate(end.index(bytes.len()));
            }
            if let Some(stored) = read_bytes(&bytes) {
                for (file, known) in stored.files.files.iter().zip(&set.files) {
                    prop_assert_eq!((&file.path, file.size, &file.sums), (&known.path, known.size, &known.sums));
                    prop_assert!(file.listed.is_none() || file.listed == known.listed);
                }
                for RecoverySlice { exponent, at } in &stored.recovery {
                    let data = &bytes[*at as usize..][..set.slice as usize];
                    prop_assert!(data.iter().all(|byte| *byte == *exponent as u8 + 1));
                }
                prop_assert!(!stored.is_whole || stored.recovery.len() == 4);
            }
        }
    }
}
