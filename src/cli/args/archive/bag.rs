//! The options of outputs that are bags.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::copy::bag::options::BagOptions;
use crate::manifest::archive::bag_info::InfoTag;
use crate::path::Shown;
use crate::sys::{self, PlainUse, Uninterrupted};

/// A file of tags is no longer than this; bytes.
const MOST_TAGS: u64 = 1 << 20;

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

    /// With --bag: take tags from FILE, which has "Label: value" lines as bag-info.txt has
    #[arg(long, value_name = "FILE", requires = "bag", hide_short_help = true)]
    pub bag_info_from: Option<PathBuf>,
}

impl BagArgs {
    /// What is asked of a bag, if one is asked for: the tags of the file come first.
    pub fn options(&self) -> Result<Option<BagOptions>, String> {
        if !self.bag {
            return Ok(None);
        }
        let mut tags = match &self.bag_info_from {
            Some(path) => read(path)
                .map_err(|why| format!("cannot take tags from {}: {why}", Shown::path(path)))?,
            None => Vec::new(),
        };
        tags.extend(self.bag_info.iter().cloned());
        Ok(Some(BagOptions { tags }))
    }
}

fn read(path: &Path) -> Result<Vec<InfoTag>, String> {
    let mut text = String::new();
    let file = sys::open_plain(path, PlainUse::Read).map_err(|error| error.to_string())?;
    Uninterrupted(file)
        .take(MOST_TAGS + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST_TAGS {
        return Err("it is larger than 1 MiB".into());
    }
    InfoTag::read_given(&text)
}
