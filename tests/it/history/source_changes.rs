//! What a day does to a source: edits with and without a trace, renames, removals, permissions, links.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::harness::{Random, Scene, content};

/// The files, or the directories, of the source; `fixed` is left alone.
fn all(scene: &Scene, dirs: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![scene.src.root().to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
            let kind = entry.file_type().unwrap();
            if entry.file_name() != "fixed" && kind.is_dir() {
                todo.push(entry.path());
            }
            if entry.file_name() != "fixed" && (if dirs { kind.is_dir() } else { kind.is_file() }) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Writes other bytes into a file in place, and keeps its times if that is asked for.
fn edit(path: &Path, random: &mut Random, keeps_time: bool) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    for _ in 0..3 {
        if !bytes.is_empty() {
            let at = random.below(bytes.len());
            bytes[at] = bytes[at].wrapping_add(1);
        }
    }
    let file = fs::File::options().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut &file, &bytes).unwrap();
    if keeps_time {
        file.set_modified(time).unwrap();
    }
}

/// A file is of now.
fn touch(path: &Path) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(std::time::SystemTime::now())
        .unwrap();
}

/// Some of what can happen. A mirror sees neither edits that keep size and time, nor takes a file for another that is
/// older, nor a directory in the place of a file.
pub fn day(scene: &Scene, random: &mut Random, number: usize, is_mirror: bool) {
    let root = scene.src.root().to_path_buf();
    for step in 0..6 + random.below(8) {
        let (files, dirs) = (all(scene, false), all(scene, true));
        if files.len() < 5 {
            for i in 0..20 {
                scene.src.file(format!("more {number}.{step}/{i}"), content(500 + i));
            }
            continue;
        }
        let file = files[random.below(files.len())].clone();
        let other = files[random.below(files.len())].clone();
        let dir =
            dirs.get(random.below(dirs.len().max(1))).cloned().unwrap_or_else(|| root.clone());
        let new = |name: &str| dir.join(format!("{name} {number}.{step}"));
        match random.below(18) {
            0 | 1 => fs::write(new("new"), content(random.below(30_000))).unwrap(),
            2 => {
                let bytes = [fs::read(&file).unwrap(), b"more".to_vec()].concat();
                fs::write(&file, bytes).unwrap();
            }
            3 => edit(&file, random, false),
            4 if !is_mirror => edit(&file, random, true),
            5 => fs::rename(&file, new("moved\n")).unwrap(),
            6 if dir != root => {
                fs::rename(&dir, root.join(format!("dir {number}.{step}"))).unwrap()
            }
            7 if files.len() > 10 => fs::remove_file(&file).unwrap(),
            8 if dirs.len() > 3 && files.len() > 20 => fs::remove_dir_all(&dir).unwrap(),
            9 => {
                let mode = [0o600, 0o644, 0o640, 0o755][random.below(4)];
                fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            }
            10 => {
                let mode = [0o700, 0o755, 0o750][random.below(3)];
                fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            }
            11 => fs::hard_link(&file, new("link")).unwrap(),
            12 => {
                let link = root.join("sym");
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(format!("to {number}.{step}"), link).unwrap();
            }
            // Two names are exchanged, as of a file and its backup.
            13 if file != other => {
                let aside = root.join("aside");
                fs::rename(&file, &aside).unwrap();
                fs::rename(&other, &file).unwrap();
                fs::rename(&aside, &other).unwrap();
                if is_mirror {
                    touch(&file);
                    touch(&other);
                }
            }
            // As a log is rotated.
            14 if file != other => {
                fs::rename(&file, &other).unwrap();
                if is_mirror && other.exists() {
                    touch(&other);
                }
            }
            15 if !is_mirror => {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
                fs::write(file.join("in"), "in").unwrap();
            }
            16 => {
                fs::create_dir(new("empty")).unwrap();
                fs::write(new("nothing"), "").unwrap();
            }
            17 => fs::File::options().write(true).open(&file).unwrap().set_len(77).unwrap(),
            _ => {}
        }
    }
}
