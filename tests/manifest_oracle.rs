//! Our reader of manifests beside `sha256sum -c`: the same lines malformed, the same files OK.
//!
//! Manifests of good, odd and broken lines are made over a small tree, each is given to both, and
//! their judgements must agree, but for the differences that are meant (the last test). Skipped
//! where there is no `sha256sum` of coreutils 9 to ask, or it is 9.2, which says OK falsely; with
//! `DIRCOPY_TEST_ALL=1` that is a failure.

#![cfg(unix)]
// Everything here is a test, also what has no `#[test]`.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/harness/skipped.rs"]
mod skipped;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use dircopy::internals::{escape, line};
use dircopy::{Digest, Entries, Parsed, RelPath, Sha256};
use tempfile::TempDir;

/// What a reader says about a manifest.
#[derive(Debug, PartialEq, Eq)]
struct Judgement {
    /// The numbers of the malformed lines.
    malformed: Vec<u64>,
    /// For each record in order, whether the file is there and right.
    right: Vec<bool>,
}

/// Whether there is an oracle worth asking.
fn has_oracle() -> bool {
    let said = match Command::new("sha256sum").arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => error.to_string(),
    };
    let version = said.lines().next().unwrap_or_default();
    let is_gnu_9 = version.contains("GNU coreutils) 9.") && !version.ends_with(" 9.2");
    if !is_gnu_9 {
        skipped::lacking("sha256sum of GNU coreutils 9 (other than 9.2)");
    }
    is_gnu_9
}

/// What `sha256sum` says about the manifest.
fn theirs(tree: &Path, manifest: &[u8]) -> Judgement {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), manifest).unwrap();
    let output = Command::new("sha256sum")
        .args(["--check", "--warn"])
        .arg(file.path())
        .current_dir(tree)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let right = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| line.ends_with(b": OK"))
        .collect();
    let malformed = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter_map(|line| line.strip_suffix(": improperly formatted SHA256 checksum line"))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    Judgement { malformed, right }
}

/// What we say about it, opening every name as it stands, as they do.
fn ours(tree: &Path, manifest: &[u8]) -> Judgement {
    let mut judgement = Judgement { malformed: Vec::new(), right: Vec::new() };
    let mut entries = Entries::new(manifest);
    while let Some(entry) = entries.next_entry().unwrap() {
        match entry.parsed {
            Parsed::Record(record) => {
                let content = fs::read(tree.join(OsStr::from_bytes(record.name)));
                let right = content.is_ok_and(|content| digest(&content) == record.digest);
                judgement.right.push(right);
            }
            Parsed::Unhashed { .. } | Parsed::Malformed(_) => {
                judgement.malformed.push(entry.number)
            }
            Parsed::Comment | Parsed::Blank => {}
        }
    }
    judgement
}

fn digest(content: &[u8]) -> Digest {
    Sha256::of(&[content]).into()
}

/// The files of the tree; each holds its own name.
const NAMES: [&[u8]; 19] = [
    b"plain",
    b"dir/file",
    b" lead",
    b"  two",
    b"*star",
    b" ",
    b"*",
    b"trail ",
    b"t\tab",
    b"paren) = x",
    b"(open",
    b"back\\slash",
    b"n\\n",
    b"line\nfeed",
    b"cr\rcr",
    b"end\r",
    b"\xff\xfe",
    b"#hash",
    b"SHA256 (x) = y",
];

fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("dir")).unwrap();
    for name in NAMES {
        fs::write(tree.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    tree
}

/// Shapes of lines: `H` the file's digest, `U` the same in upper case, `W` a wrong one, `S` one
/// digit short, `N` the name, `E` the name escaped.
const SHAPES: [&str; 46] = [
    "H  N",
    "H *N",
    "H N",
    "H\tN",
    "H\t*N",
    "H   N",
    "U  N",
    "W  N",
    "W N",
    "S  N",
    "S0  N",
    "Sg  N",
    "H0  N",
    "HN",
    "H",
    "H ",
    "H  ",
    "H *",
    "H  N\r",
    "H  N\r\r",
    " H  N",
    "\t H N",
    "#H  N",
    " #H  N",
    "\\H  E",
    "\\H *E",
    "\\H E",
    " \\H  E",
    "\\ H  E",
    "\\\\H  E",
    "\\H  N",
    "\\H  E\\",
    "\\H  E\\t",
    "H  E",
    "H  missing",
    "SHA256 (N) = H",
    "SHA256(N)= H",
    "SHA256 (N)=\t U",
    "\\SHA256 (E) = H",
    "SHA256 (N) = W",
    "SHA256 (N) = H ",
    "SHA256 (N) H",
    "SHA256  (N) = H",
    "SHA256 (N = H",
    "MD5 (N) = H",
    "",
];

fn fill(shape: &str, name: &[u8]) -> Vec<u8> {
    let hex = digest(name).to_string().into_bytes();
    let mut out = Vec::new();
    let mut rest = shape.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'S' if after.starts_with(b"HA") => {
                out.extend_from_slice(b"SHA");
                rest = &after[2..];
            }
            b'H' => out.extend_from_slice(&hex),
            b'U' => out.extend_from_slice(&hex.to_ascii_uppercase()),
            b'W' => out.extend_from_slice(digest(b"wrong").to_string().as_bytes()),
            b'S' => out.extend_from_slice(&hex[..Sha256::HEX_LEN - 1]),
            b'N' => out.extend_from_slice(name),
            b'E' => escape::escape(name, &mut out),
            other => out.push(other),
        }
    }
    out.push(b'\n');
    out
}

#[track_caller]
fn assert_agreed(tree: &Path, manifest: &[u8]) -> Judgement {
    let (ours, theirs) = (ours(tree, manifest), theirs(tree, manifest));
    assert_eq!(ours, theirs, "we (left) and sha256sum (right) on {}", manifest.escape_ascii());
    ours
}

#[test]
fn every_line_alone_is_judged_alike() {
    if !has_oracle() {
        return;
    }
    let tree = tree();
    let (mut right, mut wrong, mut malformed) = (0, 0, 0);
    for name in NAMES {
        for shape in SHAPES {
            let judgement = assert_agreed(tree.path(), &fill(shape, name));
            right += judgement.right.iter().filter(|right| **right).count();
            wrong += judgement.right.iter().filter(|right| !**right).count();
            malformed += judgement.malformed.len();
        }
    }
    // The comparison is worth something only if there was much of each.
    assert!(right > 200 && wrong > 50 && malformed > 200, "{right} {wrong} {malformed}");
}

#[test]
fn lines_together_are_judged_alike() {
    if !has_oracle() {
        return;
    }
    let tree = tree();
    // A small generator with a fixed seed: what failed once fails again.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut pick = |count: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % count as u64) as usize
    };
    for _ in 0..300 {
        let mut manifest = Vec::new();
        for _ in 0..=pick(8) {
            manifest.extend_from_slice(&fill(SHAPES[pick(SHAPES.len())], NAMES[pick(NAMES.len())]));
        }
        if pick(4) == 0 {
            manifest.pop();
        }
        assert_agreed(tree.path(), &manifest);
    }
}

#[test]
fn what_we_write_is_right_for_both() {
    if !has_oracle() {
        return;
    }
    let tree = tree();
    let mut manifest = Vec::new();
    for name in NAMES {
        line::write_path(&mut manifest, &digest(name), name);
    }
    let judgement = assert_agreed(tree.path(), &manifest);
    assert_eq!(judgement.right, [true; NAMES.len()]);
    assert!(judgement.malformed.is_empty());
}

#[test]
fn the_differences_are_those_that_are_meant() {
    if !has_oracle() {
        return;
    }
    let tree = tree();
    let judge = |right: &[bool], malformed: &[u64]| Judgement {
        right: right.to_vec(),
        malformed: malformed.to_vec(),
    };
    // The lines, our judgement, theirs; all of the file `plain`.
    let cases = [
        // A byte order mark before the first line.
        ("\u{feff}H  N", judge(&[true], &[]), judge(&[], &[1])),
        // How OpenSSL 3 calls SHA-256.
        ("SHA2-256(N)= H", judge(&[true], &[]), judge(&[], &[1])),
        // They end the name at the NUL.
        ("H  N\0more", judge(&[], &[1]), judge(&[true], &[])),
        // They open the file "".
        ("SHA256 () = H", judge(&[], &[1]), judge(&[false], &[])),
    ];
    for (shape, we, they) in cases {
        let manifest = fill(shape, NAMES[0]);
        assert_eq!(ours(tree.path(), &manifest), we, "we on {}", manifest.escape_ascii());
        assert_eq!(theirs(tree.path(), &manifest), they, "they on {}", manifest.escape_ascii());
    }
    // Names that lead out of the tree are records for both; they open them, and for us a `RelPath`
    // cannot be made of them.
    fs::write(tree.path().join("dir/file"), "plain").unwrap();
    let outside = tree.path().join("plain");
    for name in [b"dir/../plain".as_slice(), outside.as_os_str().as_bytes()] {
        let mut manifest = Vec::new();
        line::write_path(&mut manifest, &digest(NAMES[0]), name);
        assert_eq!(theirs(tree.path(), &manifest), judge(&[true], &[]));
        assert_eq!(ours(tree.path(), &manifest), judge(&[true], &[]));
        assert!(RelPath::parse(name).is_err());
    }
}
