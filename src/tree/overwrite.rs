//! What becomes of a file whose name may be taken at the output: the overwrite policies.
//!
//! A pure function of what is known of both sides. Source and destination are named in the types,
//! not by position: swapping them is how a copier comes to overwrite the newer file and keep the
//! cut-off one.

use serde::{Deserialize, Serialize};

use crate::sys::stat::{Kind, Stat};

/// What to do about a destination that is there already and is not the same file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Replace what is evidently a cut-off copy; leave everything else that differs, and say so.
    #[default]
    Default,
    /// Also replace what is older than the source.
    Update,
    /// Replace nothing.
    Never,
    /// Replace everything, also what looks the same.
    Always,
}

/// What a copy would put somewhere.
#[derive(Clone, Copy, Debug)]
pub struct SourceStat<'a>(pub &'a Stat);

#[derive(Clone, Copy, Debug)]
pub struct DestinationStat<'a> {
    /// What the system says of it.
    pub stat: &'a Stat,
    /// Whether its time is the source's.
    pub same_time: bool,
}

/// What becomes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is in the way.
    Create,
    /// What is in the way gives way.
    Replace,
    /// It is there already.
    Keep,
    /// It differs and stays; why, in words.
    Leave(&'static str),
    /// The file cannot be copied; why, in words.
    Refuse(&'static str),
}

/// Why a file is left, whatever is at the output, if it is larger than `max_size`; bytes.
pub fn leave_large(max_size: Option<u64>, source: SourceStat<'_>) -> Option<&'static str> {
    let is_large = max_size.is_some_and(|most| source.0.size > most);
    is_large.then_some("it is larger than --max-size")
}

/// Why a file cannot be copied, whatever is at the output, if no file there can be larger than `most`; bytes.
pub fn refuse_large(most: Option<u64>, source: SourceStat<'_>) -> Option<&'static str> {
    let is_large = most.is_some_and(|most| source.0.size > most);
    is_large.then_some("the output's file system is FAT, where no file can have 4 GiB")
}

/// Decides about a regular file.
pub fn decide(
    policy: Policy,
    source: SourceStat<'_>,
    destination: Option<DestinationStat<'_>>,
) -> Decision {
    let Some(DestinationStat { stat: destination, same_time }) = destination else {
        return Decision::Create;
    };
    let source = source.0;
    match destination.kind {
        Kind::File => {}
        Kind::Dir => return Decision::Refuse("a directory is in its place at the output"),
        Kind::Symlink if policy == Policy::Always => return Decision::Replace,
        Kind::Symlink => return Decision::Refuse("a symbolic link is in its place at the output"),
        Kind::Fifo | Kind::Socket | Kind::Device => {
            return Decision::Refuse("a special file is in its place at the output");
        }
    }
    if policy == Policy::Always {
        return Decision::Replace;
    }
    if same_time && destination.size == source.size {
        return Decision::Keep;
    }
    let newer = !same_time && destination.mtime > source.mtime;
    match policy {
        Policy::Never => Decision::Leave("it differs, and nothing is to be replaced"),
        _ if newer => Decision::Leave("it differs, and the output's is newer"),
        _ if destination.size < source.size => Decision::Replace,
        Policy::Update if !same_time => Decision::Replace,
        Policy::Update => Decision::Leave("it differs in size, though its time is the same"),
        _ => Decision::Leave("it differs, and the output's is older"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::stat::{Identity, Time};

    fn file(size: u64, secs: i64) -> Stat {
        Stat {
            kind: Kind::File,
            size,
            allocated: size,
            mtime: Time { secs, nanos: 5 },
            ctime: Time::default(),
            id: Identity::default(),
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
        }
    }

    fn beside<'a>(source: &Stat, stat: &'a Stat) -> Option<DestinationStat<'a>> {
        Some(DestinationStat { stat, same_time: source.mtime == stat.mtime })
    }

    const POLICIES: [Policy; 4] = [Policy::Default, Policy::Update, Policy::Never, Policy::Always];

    /// Every cell: what is at the output beside a source of 100 bytes from second 50.
    #[test]
    fn the_whole_table() {
        use Decision::{Keep, Replace};
        let left = Decision::Leave("");
        for (what, size, secs, expected) in [
            ("the same", 100, 50, [Keep, Keep, Keep, Replace]),
            ("shorter and older", 60, 40, [Replace, Replace, left, Replace]),
            ("shorter, same time", 60, 50, [Replace, Replace, left, Replace]),
            ("empty and older", 0, 40, [Replace, Replace, left, Replace]),
            ("shorter but newer", 60, 60, [left, left, left, Replace]),
            ("same size, older", 100, 40, [left, Replace, left, Replace]),
            ("longer, older", 200, 40, [left, Replace, left, Replace]),
            ("longer, same time", 200, 50, [left, left, left, Replace]),
            ("same size, newer", 100, 60, [left, left, left, Replace]),
            ("longer, newer", 200, 60, [left, left, left, Replace]),
        ] {
            for (policy, expected) in POLICIES.into_iter().zip(expected) {
                let (source, there) = (file(100, 50), file(size, secs));
                let mut decision = decide(policy, SourceStat(&source), beside(&source, &there));
                if let Decision::Leave(why) = decision {
                    assert!(!why.is_empty());
                    decision = left;
                }
                assert_eq!(decision, expected, "{what}, {policy:?}");
            }
        }
    }

    #[test]
    fn nothing_there() {
        for policy in POLICIES {
            assert_eq!(decide(policy, SourceStat(&file(1, 1)), None), Decision::Create);
        }
    }

    #[test]
    fn something_else_in_the_way() {
        for kind in [Kind::Dir, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::Device] {
            for policy in POLICIES {
                let there = Stat { kind, ..file(100, 50) };
                let source = file(100, 50);
                let decision = decide(policy, SourceStat(&source), beside(&source, &there));
                if kind == Kind::Symlink && policy == Policy::Always {
                    assert_eq!(decision, Decision::Replace);
                } else {
                    assert!(matches!(decision, Decision::Refuse(_)), "{kind:?} {policy:?}");
                }
            }
        }
    }
}
