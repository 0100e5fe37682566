//! The same tests with several outputs: `DIRCOPY_TEST_OUTPUTS=3` adds two further outputs to every plain
//! copy, and each of them is judged as the first is.
//!
//! What a test makes of the first output before a run, the others are made too. What it does to the first
//! one on its way (a mount, a fault) is done to that alone, and the others must be right all the same.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use super::judge::ctimes;

/// The tests that run with one output whatever is asked for, by how their names begin (with or without the
/// folder of their promise), and why.
const ALONE: [(&str, &str); 52] = [
    ("outputs::", "has outputs of its own"),
    ("basics::a_dry_run_says", "looks at all that is beside the output"),
    ("cache::", "counts the pages that one output brings in"),
    ("calls::", "counts calls"),
    (
        "defects::defect_2",
        "an error that does not come again is none where another output reads on",
    ),
    ("defects::defect_9", "counts threads"),
    ("documents::", "no copy"),
    ("expect::a_line_that_cannot", "the verdict over several outputs is another"),
    ("expect::a_file_is_read_once", "counts reads, also those of what each output has"),
    ("expect::a_list_that_changes", "is stopped at the first open"),
    ("expect::programs_are_told", "the report of several outputs is another"),
    ("expect::what_is_listed_with_two_digests", "the report of several outputs is another"),
    ("faults::a_directory_that", "counts what is said, which each output says"),
    ("faults::a_disk_that_is_full_at_the_last_block", "only the first output is full"),
    ("faults::a_file_that_cannot_be_opened", "counts what is said"),
    ("faults::a_name_for_the_manifest", "the words for one output"),
    ("faults::a_read_error", "an error that does not come again"),
    ("faults::a_rename_error", "counts what is said"),
    ("interrupt::", "looks at what one output has at the moment of the signal"),
    ("kill::", "counts bytes that one output reads again"),
    ("limits::", "counts threads and memory of one output"),
    ("metadata::a_file_that_is_made_with_its_mode", "counts calls of one output"),
    ("metadata::a_file_that_lacks", "generations are made at one output"),
    ("metadata::permissions_that_changed", "counts what is said"),
    ("random_source::", "the report of several outputs is another"),
    ("policies::lines_of_files_that_left", "a further output is a copy, whose times are of now"),
    ("powercut::", "one output is on the disk that loses power"),
    ("prove::a_copy_that_the_disk_changes_again", "the words for one output"),
    ("prove::a_large_copy_is_proven", "counts the reads of one output"),
    ("prove::a_source_that_changes_before", "the words for one output"),
    ("prove::damaged_copies_are_kept", "one disk lies"),
    ("prove::many_files_in_many_directories", "so few descriptors are enough for one"),
    ("prove::what_cannot_be_read_back", "the words for one output"),
    ("races::a_directory_that_vanishes", "is stopped at the first read, and each output has one"),
    ("races::a_file_that_appears", "it appears at one output"),
    ("races::a_file_that_changes", "is stopped at the first read"),
    ("races::a_file_that_is_removed", "is stopped at the first read"),
    ("races::a_touched_inode", "is stopped at the first read"),
    ("races::hard_links", "is stopped at the first read"),
    (
        "races::an_output_that_is_moved",
        "one output is moved, and what ends its run leaves the others",
    ),
    ("refusals::an_output_that_another_run", "another run is at one output"),
    ("report::", "the report of several outputs is another"),
    ("resume::", "is killed by the calls of one output, and counts what that one reads again"),
    ("scheduled::", "the rate is that of all outputs, and the locks are of one"),
    ("screen::", "shows one output"),
    ("sparse::holes_stay_holes", "hashes its holes once for each output"),
    ("space::", "there is room for one output"),
    ("sweep::", "a fault that strikes one of several outputs leaves the others"),
    ("page::", "the report of several outputs is another"),
    ("tidy::", "no copy"),
    ("unattended::", "the report of several outputs is another"),
    ("view::", "shows one output or two"),
];

/// How the first outputs were when the last runs to them were over.
static LAST: LazyLock<Mutex<HashMap<PathBuf, BTreeSet<Vec<u8>>>>> = LazyLock::new(Mutex::default);

/// The further outputs of a copy to `first` in this test.
pub fn outputs(first: &Path) -> Vec<PathBuf> {
    let asked = std::env::var("DIRCOPY_TEST_OUTPUTS").ok();
    let asked: usize = asked.map_or(1, |number| number.parse().expect("DIRCOPY_TEST_OUTPUTS"));
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let below = test.split_once("::").map_or(&*test, |(_, below)| below);
    let is_alone =
        ALONE.iter().any(|(start, _)| below.starts_with(start) || test.starts_with(start));
    let Some(name) = first.file_name().filter(|_| !is_alone) else { return Vec::new() };
    let further = |number| {
        let mut name = name.to_owned();
        name.push(format!("+{number}"));
        first.with_file_name(name)
    };
    (2..=asked).map(further).collect()
}

/// Lets the further outputs be what the first one is, unless nothing was done to that since the last run.
/// One that is mounted is left alone: who looks at it may set off what the test has in store there.
pub fn begin(first: &Path, further: &[PathBuf]) {
    if further.is_empty() || !first.is_dir() || is_mount(first) {
        return;
    }
    if LAST.lock().unwrap().get(first) == Some(&ctimes(first)) {
        return;
    }
    for output in further {
        let (from, to) = (first.join("."), output.as_os_str());
        run(Command::new("rm").args(["-rf", "--"]).arg(to));
        run(Command::new("cp").args(["-a", "-T", "--"]).arg(from).arg(to));
    }
}

/// A run is over.
pub fn end(first: &Path, further: &[PathBuf]) {
    if !further.is_empty() && first.is_dir() && !is_mount(first) {
        LAST.lock().unwrap().insert(first.to_owned(), ctimes(first));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn is_mount(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}
