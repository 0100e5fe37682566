//! Random damages: flipped bits, runs of other bytes, files cut off and files removed, and parity damaged in the same
//! ways. What the code can repair is repaired by `dircopy heal`, and by `par2 repair` on a copy of the tree, byte by byte
//! the same; what it cannot repair is named; no good file is touched, and nothing false gets a name.
//!
//! `DIRCOPY_TEST_LONG=1` makes 5,000 of them where 60 have to do otherwise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::harness::{long, shell};

type Contents = BTreeMap<PathBuf, Vec<u8>>;

fn files(root: &Path) -> Contents {
    let mut found = Contents::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(".dircopy") || name.starts_with("dircopy-") {
                continue;
            }
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_path_buf();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Damages a file in a way that leaves its slices where they are.
fn damage(random: &mut Random, path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => return std::fs::remove_file(path).unwrap(),
        1 => bytes.truncate(at),
        2 => {
            let end = (at + 1 + random.below(9000)).min(bytes.len());
            let run = noise(random, end - at);
            bytes[at..end].copy_from_slice(&run);
        }
        3 => bytes.extend([0; 5]),
        _ => bytes[at] ^= 1 << random.below(8),
    }
    std::fs::write(path, bytes).unwrap();
}

/// The good slices that are left suffice, as `par2` sees it on a copy of the damaged tree.
fn is_repaired_by_par2(scene: &Scene, good: &Contents) -> bool {
    shell(scene, "rm -rf copy && cp -a dst copy");
    par2(scene, "repair", "copy");
    // It keeps the damaged ones beside.
    shell(scene, "find copy -name '*.[0-9]' -delete");
    files(&scene.path("copy")) == *good
}

#[test]
fn what_can_be_repaired_is_and_what_cannot_is_named() {
    if !has_par2() {
        return;
    }
    let mut random = Random::new(2);
    let (mut repaired, mut beyond, mut lost) = (0, 0, 0);
    let rounds = if long() { 5001 } else { 60 };
    for share in ["2%", "5%", "10%"] {
        let scene = copied();
        protect(&scene, &["--parity", share]).assert_code(0);
        shell(&scene, "cp -a dst whole");
        let good = files(&scene.path("whole"));
        for round in 0..rounds / 3 {
            shell(&scene, "rm -rf dst && cp -a whole dst");
            let names: Vec<_> = good.keys().filter(|it| !it.ends_with("empty")).collect();
            for _ in 0..1 + random.below(3) {
                let path = scene.path("dst").join(names[random.below(names.len())]);
                if path.exists() {
                    damage(&mut random, &path);
                }
            }
            let all = sets(&scene);
            let set = scene.path(PARITY).join(&all[random.below(all.len())]);
            if random.below(3) == 0 {
                damage(&mut random, &set);
            }
            let damaged = files(&scene.path("dst"));
            let can_be = is_repaired_by_par2(&scene, &good);
            let run = scene.bare(["heal", "-q", "dst"]).run();
            let now = files(&scene.path("dst"));
            if can_be {
                repaired += 1;
                run.assert_code(0);
                assert!(now == good, "{share}, round {round}");
                // Damaged parity was made anew.
                let is_whole = par2(&scene, "verify", "dst").iter().all(|it| it.status.success());
                lost += usize::from(!is_whole);
            } else if run.code == Some(0) {
                // What is put behind the end of a file makes no slice bad.
                assert!(now == good, "{share}, round {round}");
            } else {
                beyond += 1;
                run.assert_code(4).assert_says("not healed: ");
            }
            for (name, content) in &now {
                let is_right =
                    good.get(name) == Some(content) || damaged.get(name) == Some(content);
                assert!(is_right, "{share}, round {round}: {}", name.display());
            }
            let touched = good.iter().filter(|(name, content)| {
                damaged.get(*name) == Some(content) && now.get(*name) != Some(content)
            });
            assert_eq!(touched.count(), 0);
        }
    }
    eprintln!(
        "{rounds} damages: {repaired} repaired, {beyond} beyond repair, {lost} with parity lost"
    );
    assert!(repaired > rounds / 10 && beyond > rounds / 20, "{repaired} and {beyond}");
    assert_eq!(lost, 0);
}
