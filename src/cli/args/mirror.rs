//! The options of outputs with a memory: mirrors and generations.

use std::{path::PathBuf, time::Duration};

use clap::Parser;

use crate::{
    cli::args::values::Choice, cli::args::values::Choose, cli::args::values::one_of, cli::jobs,
    copy::CopyJob, copy::KeepRule, copy::MostDepartures, copy::bag::BagOptions,
    copy::generations::Generations, copy::mirror::Mirror, manifest::InfoTag, state::DatedName,
};

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
    const CHOICES: &'static [Choice<Self>] = &[
        ("listed", MirroredFiles::Listed, "What a manifest of an earlier run lists"),
        ("all", MirroredFiles::All, "Whatever is not in the source"),
    ];
}

impl MirrorArgs {
    /// Sets the options that are the job's.
    pub fn apply(&self, job: &mut CopyJob) {
        job.mirror = self.mirror.map(|which| Mirror {
            all: which == MirroredFiles::All,
            most: self.max_delete,
            keep_trash: self.keep_trash,
        });
        job.generations = self.generations.then(|| Generations {
            keep: self.keep.clone(),
            most: self.max_delete,
            keep_trash: self.keep_trash,
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
        None => {
            jobs::parse_duration(text).map_err(|_| "expected an age such as 30d, 8w or 12h".into())
        }
    }
}

// The options of `dircopy generations`.

const GENERATIONS_EXIT_CODES: &str = "\
Exit codes:
  0    the generations are listed, or those named are in the trash
  1    one could not be moved to the trash
  2    usage error, another run is at work there, or there is no such generation
       or output";

/// List the generations at an output, or move some to its trash
#[derive(Clone, Debug, Parser)]
#[command(name = "generations", after_help = GENERATIONS_EXIT_CODES)]
pub struct GenerationsArgs {
    /// The output that --generations copied to
    #[arg(value_name = "OUTPUT")]
    pub output: PathBuf,

    /// Move this generation to the trash; repeatable, and never the newest
    #[arg(long, value_name = "DATE", value_parser = parse_name)]
    pub remove: Vec<DatedName>,

    /// List as JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

fn parse_name(text: &str) -> Result<DatedName, String> {
    DatedName::parse(text).ok_or_else(|| "expected a date such as 2026-11-21T020000Z".into())
}

// The options of outputs that are bags.

/// The options of outputs that are bags.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Files at the output")]
pub struct BagArgs {
    /// Make the output a bag (BagIt 1.0): the source in OUTPUT/data, with manifests of each digest of --hash
    ///
    /// bagit.txt comes last: a directory without it is no bag yet, and the same command goes on with it.
    #[arg(long, hide_short_help = true)]
    pub bag: bool,

    /// With --bag: a tag for bag-info.txt, as in Contact-Name=Ann; may be given more than once
    ///
    /// A tag that the bag has stays, unless one of its label is given.
    #[arg(long, value_name = "LABEL=VALUE", value_parser = InfoTag::parse, requires = "bag",
          hide_short_help = true)]
    pub bag_info: Vec<InfoTag>,
}

impl BagArgs {
    /// What is asked of a bag, if one is asked for.
    pub fn options(&self) -> Option<BagOptions> {
        self.bag.then(|| BagOptions { tags: self.bag_info.clone() })
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
