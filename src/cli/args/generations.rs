//! The options of `dircopy generations`.

use std::path::PathBuf;

use clap::Parser;

use crate::copy::dated_name::DatedName;

const EXIT_CODES: &str = "\
Exit codes:
  0    the generations are listed, or those named are in the trash
  1    one could not be moved to the trash
  2    usage error, another run is at work there, or there is no such generation
       or output";

/// List the generations at an output, or move some to its trash
#[derive(Debug, Parser)]
#[command(name = "generations", after_help = EXIT_CODES)]
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
