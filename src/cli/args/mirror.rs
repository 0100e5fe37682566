//! The options of outputs with a memory: mirrors and generations.

use std::time::Duration;

use crate::cli::args::values::{Choice, Choose, one_of};
use crate::cli::schedule;
use crate::copy::generations::keep::KeepRule;
use crate::copy::generations::options::Generations;
use crate::copy::job::CopyJob;
use crate::copy::mirror::options::{Mirror, MostDepartures};

/// A day, in seconds.
const DAY: u64 = 24 * 3600;

/// The options of outputs with a memory.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Files at the output")]
pub struct MirrorArgs {
    /// Move what has left the source into a dated trash at the output (OUTPUT/.dircopy-trash)
    ///
    /// At the end of a run in which nothing failed. What is excluded is not removed.
    #[arg(long, group = "memory", value_name = "WHICH", num_args = 0..=1, require_equals = true,
          default_missing_value = "listed", value_parser = one_of::<MirroredFiles>(),
          hide_short_help = true)]
    pub mirror: Option<MirroredFiles>,

    /// Make a tree of its own for each run: OUTPUT/2026-11-21T020000Z, and OUTPUT/latest
    ///
    /// What did not change is shared with the last one, as clones or hard links. Each tree has a manifest.
    #[arg(long, group = "memory", hide_short_help = true)]
    pub generations: bool,

    /// With --generations: keep only these (last=7,daily=14,weekly=8,monthly=12,yearly=5), move others to the trash
    #[arg(long, value_name = "RULE", value_parser = KeepRule::parse, requires = "generations",
          hide_short_help = true)]
    pub keep: Option<KeepRule>,

    /// With --generations: let others enter a new OUTPUT, as the umask has it
    ///
    /// Without it only its owner may. Who owns a file in the source could write to it in all trees that share it by
    /// hard links.
    #[arg(long, requires = "generations", hide_short_help = true)]
    pub open_generations: bool,

    /// With --mirror or --generations: refuse the run if more entries than N, or N%, have left the source
    #[arg(long, value_name = "N|N%", default_value = "50%", value_parser = parse_most, requires = "memory",
          hide_short_help = true)]
    pub max_delete: MostDepartures,

    /// With --mirror or --generations: after a complete run remove trash that is older (30d, 8w, 12h)
    #[arg(long, value_name = "AGE", value_parser = parse_age, requires = "memory", hide_short_help = true)]
    pub keep_trash: Option<Duration>,

    /// Do not enter directories on which another file system is mounted
    #[arg(short = 'x', long, hide_short_help = true, help_heading = "What is copied")]
    pub one_file_system: bool,
}

/// Which files a mirror removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirroredFiles {
    /// Those that earlier runs listed.
    Listed,
    /// All.
    All,
}

impl Choose for MirroredFiles {
    fn choices() -> Vec<Choice<Self>> {
        vec![
            ("listed", MirroredFiles::Listed, "What a manifest of an earlier run lists"),
            ("all", MirroredFiles::All, "Whatever is not in the source"),
        ]
    }
}

impl MirrorArgs {
    /// Sets the options that are the job's.
    pub fn apply(&self, job: &mut CopyJob) {
        job.one_file_system = self.one_file_system;
        job.mirror = self.mirror.map(|which| Mirror {
            all: which == MirroredFiles::All,
            most: self.max_delete,
            keep_trash: self.keep_trash,
        });
        job.generations = self.generations.then(|| Generations {
            keep: self.keep.clone(),
            most: self.max_delete,
            keep_trash: self.keep_trash,
            open: self.open_generations,
        });
    }
}

/// Reads `100` or `20%`.
fn parse_most(text: &str) -> Result<MostDepartures, String> {
    let expected = || "expected a number of entries, or a share such as 20%".to_owned();
    match text.strip_suffix('%') {
        Some(share) => match share.trim_end().parse() {
            Ok(share @ 0..=100) => Ok(MostDepartures::Percent(share)),
            _ => Err(expected()),
        },
        None => text.parse().map(MostDepartures::Number).map_err(|_| expected()),
    }
}

/// Reads an age: `30d`, `8w`, and what [`schedule::parse_duration`] reads.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let days = match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(days), _) => days.parse().ok(),
        (None, Some(weeks)) => weeks.parse().ok().and_then(|weeks: u64| weeks.checked_mul(7)),
        (None, None) => None,
    };
    match days.and_then(|days: u64| days.checked_mul(DAY)) {
        Some(0) => Err("an age of 0 would keep nothing".into()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => schedule::parse_duration(text)
            .map_err(|_| "expected an age such as 30d, 8w or 12h".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares() {
        assert_eq!(parse_most("0"), Ok(MostDepartures::Number(0)));
        assert_eq!(parse_most("1000"), Ok(MostDepartures::Number(1000)));
        assert_eq!(parse_most("20%"), Ok(MostDepartures::Percent(20)));
        for text in ["", "%", "101%", "-1", "a", "1.5%"] {
            assert!(parse_most(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages() {
        for (text, seconds) in [("30d", 30 * DAY), ("8w", 56 * DAY), ("12h", 43_200), ("2s", 2)] {
            assert_eq!(parse_age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0d", "d", "30", "-3d", "1x"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }
}
