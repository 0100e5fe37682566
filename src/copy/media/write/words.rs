//! Dates, names and orders as Media Hash Lists have them, and who writes them.

use std::path::Path;

use jiff::Timestamp;

use crate::hash::{Algorithm, Digest};
use crate::manifest::archive::mhl_writer::{Creator, is_text};
use crate::path::RelPath;
use crate::sys;
use crate::sys::stat::Time;

/// A name of a directory is no longer than this in the name of a list; bytes.
const MOST_NAME: usize = 180;

/// Who writes the lists of a run that began then.
pub fn creator(started: Timestamp) -> Creator {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|it| std::env::var(it).ok());
    let text = |text: String| if is_text(text.as_bytes()) { text } else { String::new() };
    Creator {
        host: text(sys::host_name()),
        user: text(user.unwrap_or_else(|| "unknown".into())),
        started: date(started),
        finished: date(Timestamp::now()),
    }
}

/// The path below the directory `rel`, as text.
pub fn below<'p>(path: &'p [u8], rel: &RelPath) -> Option<&'p str> {
    let rest = match rel.is_root() {
        true => path,
        false => path.strip_prefix(rel.as_bytes())?.strip_prefix(b"/")?,
    };
    std::str::from_utf8(rest).ok().filter(|text| !text.is_empty() && is_text(rest))
}

/// The name of a directory, as the name of its lists has it.
pub fn folder(path: &Path) -> String {
    let whole = path.canonicalize();
    let name = whole.as_deref().unwrap_or(path).file_name().unwrap_or_default();
    let name = name.to_string_lossy().replace(|c: char| c.is_control() || "/\\:".contains(c), "_");
    let mut end = name.len().min(MOST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { "root".into() } else { name[..end].to_owned() }
}

/// Where an algorithm stands in the order of a schema.
pub fn place(algorithm: Algorithm, order: &[Algorithm]) -> usize {
    order.iter().position(|it| *it == algorithm).unwrap_or(order.len())
}

/// The digests in the order of a schema.
pub fn ordered(digests: &[Digest], order: &[Algorithm]) -> Vec<Digest> {
    let mut digests = digests.to_vec();
    digests.sort_by_key(|digest| place(digest.algorithm(), order));
    digests
}

/// A moment as XML has it.
pub fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

/// A time of a file as XML has it.
pub fn date_of(time: Time) -> String {
    date(Timestamp::from_second(time.secs).unwrap_or_default())
}
