//! Asks the reader of private records everything that a run asks it, of any bytes: for property tests and
//! the fuzz target.

use std::{fs, path::Path, path::PathBuf};

use crate::{
    hash::Sha256, state::Belief, state::FinishedManifest, state::Knowledge, state::Missing,
    state::PrivateDir, state::RecordFile, state::closing::FINISHED, state::row::strip, sys::Dir,
    sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
};

/// An output with a private directory.
#[derive(Debug)]
pub struct RecordProbe {
    path: PathBuf,
    root: Dir,
    private: PrivateDir,
}

impl RecordProbe {
    /// That of an output at `path`; `None` if it cannot be opened.
    pub fn new(path: &Path) -> Option<Self> {
        let root = Dir::open(path).ok()?;
        let private = PrivateDir::open(&root, path, None, Missing::Make).ok()??;
        Some(Self { path: path.to_path_buf(), root, private })
    }

    /// Number of files that are remembered if the record is these bytes.
    pub fn as_it_is(&self, bytes: &[u8]) -> Option<usize> {
        fs::write(self.private.path().join(FINISHED), bytes).ok()?;
        Some(self.remembered())
    }

    /// The same if they are rows that a good sum closes, and how many of them are rows.
    pub fn closed(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let rows = [bytes, b"\n"].concat();
        let number = rows.split(|&byte| byte == b'\n').filter(|line| strip(line).is_some()).count();
        // Of the one before, if that was not finished.
        let _ = fs::remove_file(self.private.path().join(format!("{FINISHED}.1")));
        let mut file = RecordFile::create(&self.private, 1).ok()?;
        file.append(&rows, number as u64).ok()?;
        let name = "dircopy-20260101T000000Z.sha256sum".to_owned();
        let manifest = FinishedManifest { name, digest: Sha256([0; 32]) };
        file.seal(&manifest, false).ok()?;
        file.publish(&self.private, false).ok()?;
        Some((self.remembered(), number))
    }

    fn remembered(&self) -> usize {
        let never = || false;
        let (known, _) =
            Knowledge::load(Some(&self.private), &self.root, &self.path, &|_| false, &never);
        let time = Time { secs: 1, nanos: 0 };
        let there = Stat {
            kind: Kind::File,
            size: 1,
            allocated: 1,
            mtime: time,
            ctime: time,
            id: Identity { dev: 1, ino: 1 },
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
        };
        if let Belief::Untouched(row, _) = known.belief(b"a", &there) {
            assert!(row.sure && !row.late && row.trace.is_of(&there), "{row:?}");
        }
        known.reopen(b"a");
        let mut rows = 0;
        let read = known.unsettled(&never, |path, _| {
            assert!(!path.is_root());
            rows += 1;
            Ok(())
        });
        assert!(read.is_ok(), "{read:?}");
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = Vec<u8>> {
        let digits = "[0-9a-f]{1,17}";
        let row = (
            "[st][=?][m-]",
            prop::collection::vec(digits, 6),
            "[0-9a-f]{63,65}",
            "\\\\?(a|b/c|\\.\\./x|/y|[a-c]{1,3}|\\\\n)",
        );
        let row = row.prop_map(|(flags, n, digest, path)| {
            let [ino, size, a, b, c, d] = &n[..] else { return Vec::new() };
            format!("{flags} {ino} {size} {a}.{b} {c}.{d} {digest}  {path}").into_bytes()
        });
        prop_oneof![4 => row, 1 => any::<Vec<u8>>(), 1 => "[=.] ?[0-9a-f]{0,70}".prop_map(Vec::from)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn whatever_stands_there_no_more_is_known_than_is_closed(
            lines in prop::collection::vec(line(), 0..12),
        ) {
            let root = tempfile::tempdir().unwrap();
            let probe = RecordProbe::new(root.path()).unwrap();
            let bytes = lines.join(&b'\n');
            prop_assert_eq!(probe.as_it_is(&bytes), Some(0));
            let (remembered, rows) = probe.closed(&bytes).unwrap();
            prop_assert!(remembered <= rows);
        }
    }

    #[test]
    fn rows_that_a_sum_closes_are_known() {
        let root = tempfile::tempdir().unwrap();
        let probe = RecordProbe::new(root.path()).unwrap();
        let row = |path: &str| format!("s=- 1 1 1.0 1.0 {:064}  {path}", 7);
        assert_eq!(probe.closed([row("a"), row("b")].join("\n").as_bytes()), Some((2, 2)));
        assert_eq!(probe.closed([row("a"), row("a")].join("\n").as_bytes()), Some((1, 2)));
    }
}
