//! Random damages, with lists of states that are right, torn, forged, of another file and of another version: every
//! damaged MiB is named and none beside, no bad file passes, no good one is condemned, and all is healed.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::Digest as _;

use crate::harness::{Random, Scene, content, long, shell};

use super::{MIB, copies, heal, is_whole};

/// Links of one MiB, and a rest; and one that has no states.
const SIZES: [usize; 6] = [3 * MIB + 5, 2 * MIB, 5 * MIB - 1, MIB + 1, 900_000, 4 * MIB + 70_000];

/// Where the states of a record begin, for names of two bytes.
const STATES: usize = 52 + 2;

/// What is done to the side file.
#[derive(Clone, Copy, Debug)]
enum Chains {
    Right,
    Gone,
    /// Cut off, or with a wrong bit, anywhere.
    Torn,
    /// A state is another one, and the sum is right.
    Forged,
    /// The states of each file stand under another's digest.
    OfAnotherFile,
    /// The states are those of another content of the same size.
    OfAnotherVersion,
}

const ALL: [Chains; 6] = [
    Chains::Right,
    Chains::Gone,
    Chains::Torn,
    Chains::Forged,
    Chains::OfAnotherFile,
    Chains::OfAnotherVersion,
];

fn name(number: usize) -> String {
    format!("f{number}")
}

/// The contents of the files; no MiB is like another.
fn contents(salt: usize) -> Vec<Vec<u8>> {
    let unlike = |(number, size): (usize, &usize)| {
        let mut bytes = content(*size);
        bytes.chunks_exact_mut(4096).enumerate().for_each(|(page, bytes)| {
            bytes[0] = (page + number * 7 + salt) as u8;
            bytes[1] = (page / 256 + number) as u8;
        });
        bytes
    };
    SIZES.iter().enumerate().map(unlike).collect()
}

/// The records of a side file: where each begins and ends.
fn records(side: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut records, mut at) = (Vec::new(), 17);
    while at < side.len() {
        let size = u64::from_le_bytes(side[at + 12..at + 20].try_into().unwrap()) as usize;
        let end = at + STATES + 32 * ((size - 1) / MIB) + 8;
        records.push(at..end);
        at = end;
    }
    records
}

fn sum_anew(record: &mut [u8]) {
    let (before, sum) = record.split_last_chunk_mut::<8>().unwrap();
    sum.copy_from_slice(&sha2::Sha256::digest(&before[..])[..8]);
}

/// The side file as it is to be; `other` has the same files of another version.
fn change(chains: Chains, side: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = side.to_vec();
    let all = records(side);
    match chains {
        Chains::Right => {}
        Chains::Gone => changed.clear(),
        Chains::Torn if random.below(2) == 0 => changed.truncate(random.below(side.len())),
        Chains::Torn => changed[random.below(side.len())] ^= 1 << random.below(8),
        Chains::Forged => {
            for record in all {
                let states = record.len() - STATES - 8;
                let record = &mut changed[record];
                record[STATES + random.below(states)] ^= 1 << random.below(8);
                sum_anew(record);
            }
        }
        Chains::OfAnotherFile => {
            let digests: Vec<_> =
                all.iter().map(|at| side[at.start + 20..at.start + 52].to_vec()).collect();
            for (at, record) in all.iter().enumerate() {
                let record = &mut changed[record.clone()];
                record[20..52].copy_from_slice(&digests[(at + 1) % digests.len()]);
                sum_anew(record);
            }
        }
        Chains::OfAnotherVersion => {
            let theirs: BTreeMap<_, _> = records(other)
                .into_iter()
                .map(|at| (other[at.start + 52..at.start + 54].to_vec(), at))
                .collect();
            for record in all {
                let name = side[record.start + 52..record.start + 54].to_vec();
                let states = STATES..record.len() - 8;
                let from = &other[theirs[&name].clone()][states.clone()];
                let record = &mut changed[record];
                record[states].copy_from_slice(from);
                sum_anew(record);
            }
        }
    }
    changed
}

/// Does something to a content.
fn harm(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len().max(1));
    match random.below(6) {
        0..3 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            let end = (at + 1 + random.below(MIB)).min(bytes.len());
            bytes.get_mut(at..end).unwrap_or_default().fill(0);
        }
        4 => bytes.truncate(at),
        _ => {
            let more = vec![7; 1 + random.below(5000)];
            bytes.splice(at..at, more);
        }
    }
}

/// The ranges that differ in whole MiBs, as far as the file goes.
fn expected(good: &[u8], bad: &[u8]) -> Vec<[usize; 2]> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for at in (0..good.len()).step_by(MIB) {
        let end = (at + MIB).min(good.len());
        if end > bad.len() || good[at..end] == bad[at..end] {
            continue;
        }
        match ranges.last_mut() {
            Some([start, len]) if *start + *len == at => *len += end - at,
            _ => ranges.push([at, end - at]),
        }
    }
    ranges
}

#[test]
fn every_damage_is_found_where_it_is_and_healed() {
    let scene = Scene::new();
    let (good, mut random) = (contents(0), Random::new(4711));
    for (number, bytes) in contents(1).iter().enumerate() {
        scene.src.file(name(number), bytes);
    }
    copies(&scene, &["V"], &["--no-sync"]);
    for (number, bytes) in good.iter().enumerate() {
        scene.src.file(name(number), bytes);
    }
    copies(&scene, &["A", "B"], &["--no-sync"]);
    let [a, b, v] = ["A", "B", "V"].map(|tree| scene.tree(tree));
    let side_name =
        |tree: &str| shell(&scene, &format!("ls {tree} | grep states")).trim().to_owned();
    let (side, other) = (a.read(side_name("A")), v.read(side_name("V")));
    assert_eq!(records(&side).len(), SIZES.len() - 1);
    let most = if long() { 10_000 } else { 40 };
    let mut harms = 0;
    for round in 0.. {
        if harms >= most && round >= ALL.len() {
            break;
        }
        let chains = ALL[round % ALL.len()];
        let changed = change(chains, &side, &other, &mut random);
        a.file(side_name("A"), &changed);
        let mut bad = BTreeMap::new();
        for (number, whole) in good.iter().enumerate() {
            let mut bytes = whole.clone();
            for _ in 0..random.below(4) {
                harm(&mut bytes, &mut random);
                harms += 1;
            }
            if bytes != *whole {
                a.file(name(number), &bytes);
                bad.insert(format!("A/{}", name(number)), expected(whole, &bytes));
            }
        }
        let seed = format!("round {round}, {chains:?}");
        let from = ["medium", "cache"][random.below(2)];
        let args = ["verify", "A", "-q", "--from", from, "--list-failed", "bad.jsonl"];
        let run = scene.bare(args).run();
        run.assert_code(if bad.is_empty() { 0 } else { 4 });
        let list = std::fs::read_to_string(scene.path("bad.jsonl")).unwrap();
        let mut named = BTreeMap::new();
        for line in list.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            named.insert(entry["path"].as_str().unwrap().to_owned(), entry["ranges"].clone());
        }
        let names = |map: &BTreeMap<String, _>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(named.keys().cloned().collect::<Vec<_>>(), names(&bad), "{seed}");
        if let Chains::Right = chains {
            for (name, ranges) in bad.iter().filter(|(name, _)| **name != "A/f4") {
                assert_eq!(named[name], serde_json::json!(ranges), "{seed}: {name}");
            }
        }
        let run = heal(&scene, &["-q", "A", "B"]);
        run.assert_code(0);
        for (number, whole) in good.iter().enumerate() {
            assert!(a.read(name(number)) == *whole, "{seed}: {number}\n{}", run.err());
            assert!(b.read(name(number)) == *whole, "{seed}: {number}");
        }
        is_whole(a.root());
    }
    eprintln!("{harms} damages");
}
