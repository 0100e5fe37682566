//! The options of `dircopy report`.

use std::path::PathBuf;

use clap::Parser;

const EXIT_CODES: &str = "\
Exit codes:
  0    the page has every receipt
  1    receipts could not be read: the page has the others, and says so
  2    usage error, none of them could be read, or the page could not be written

The newest run is shown in full, and of several a history. The page is one file
that needs neither script nor network, and prints on A4. Sizes of files are
looked up where the manifest is.";

/// Make a page that people read of the receipts that --report left
#[derive(Debug, Parser)]
#[command(name = "report", after_help = EXIT_CODES)]
pub struct ReportArgs {
    /// Receipts: the JSON files that --report wrote
    #[arg(value_name = "RECEIPT", required = true)]
    pub receipts: Vec<PathBuf>,

    /// The page; its name ends in .html, and only a page of dircopy is replaced
    #[arg(short, long, value_name = "FILE.html")]
    pub output: PathBuf,
}
