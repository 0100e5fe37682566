//! Media Hash Lists of what a run copied: histories of ASC MHL 2, of which each run writes a generation, and legacy
//! lists.
//!
//! A run (`run`) looks first whether such a list can hold the source, which histories there are
//! (`histories`), whether one was touched (`one_history`, `own_mark`), and what they say (`known`); what it is to write
//! stands in its `role`. The tree is copied as any; what is listed of its files is kept aside. When all of
//! it is durable, that is held against the output (`tree`) and the histories (`join`), the digests of directories are
//! computed (`dir_hashes`), and the lists are written (`seal`, `write`), in bounded memory because everything is sorted
//! by path (`records`).

mod dir_hashes;
mod histories;
mod join;
pub mod one_history;
pub mod seal;
mod write;
mod write_generations;

use std::{collections::BTreeSet, ffi::OsStr, path::Path, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, copy::Prepared, copy::Report, copy::before::fit::Fit,
    copy::before::fit::FitRules, copy::before::fit::TreeCopy, copy::before::fit::go_on_unless,
    copy::media::histories::Histories, copy::media::histories::HistorySides,
    copy::media::histories::OwnMark, copy::media::one_history::HistoryRoot,
    copy::media::one_history::MediaRole, copy::media::one_history::left_out,
    copy::media::one_history::listed, copy::media::one_history::patterns,
    copy::media::seal::sorter, error::Error, error::Result, event::Event, event::EventObserver,
    event::Stop, manifest::ListFormat, manifest::archive::mhl::CHAIN,
    manifest::archive::mhl::HISTORY, manifest::archive::mhl::is_history,
    manifest::archive::mhl::number_of, manifest::archive::mhl_writer::is_text, path::RelPath,
    sys::Dir, sys::stat::Kind, sys::stat::Time, tree::Batch, tree::EntryBelow, tree::Filter,
    tree::Inclusion, tree::Patience, tree::SortedRecords, tree::WalkEvent, tree::by_path,
    tree::pass::Unlisted, tree::pass::each_below,
};

// A run that writes a Media Hash List: what it refuses first, and what it has to know before the tree is copied.

/// The chains of histories, which are gone on with and not copied.
const CHAINS: &str = "**/ascmhl/ascmhl_chain.xml";

/// The files that a Media Hash List can hold.
const OF_MEDIA: FitRules = FitRules {
    deed: "write a Media Hash List of",
    holds: is_text,
    names: "have names that XML cannot hold, so that no Media Hash List can have them (rename them, leave them out by \
            --exclude, or take --format gnu, which has every name)",
    links: "are symbolic links, which a Media Hash List cannot hold (give --follow-links or --no-links)",
};

/// A run that writes a Media Hash List.
pub struct MediaRun<'a> {
    pub job: &'a CopyJob,
    pub form: ListFormat,
    pub observer: &'a EventObserver<'a>,
    pub tree: &'a dyn TreeCopy,
}

impl MediaRun<'_> {
    /// Copies, and writes the list.
    ///
    /// # Errors
    /// The job was refused, and nothing was touched.
    pub fn run(&self) -> Result<Report> {
        let Self { job, form, observer, tree } = *self;
        let started = Timestamp::now();
        job.check_options()?;
        let stop = &observer.stop.of_one();
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let wait = job.wait && !job.dry_run;
        let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
        patience.until_free(&job.output, job.state.as_deref())?;
        let prepared = job.prepare(true, patience)?;
        let mut found = self.look_at_source(&prepared, stop)?;
        let asked = listed(form, job.options.further.with(job.options.algorithm));
        let mut role = MediaRole { algorithms: asked, histories: None, started };
        let mut filter = job.options.selection.filter.clone();
        if form == ListFormat::History {
            let Prepared { source, output, .. } = &prepared;
            let output = output.handle.as_ref();
            let output = output.map(|dir| HistoryRoot { dir, path: &job.output });
            if let Some(root) = output {
                let wrong = |why| Error::finding("look for histories in", root.path, why);
                let ours = left_out(&patterns(&[], &[])).map_err(wrong)?;
                let all = list(root.dir, root.path, &ours, stop)?;
                found.extend(all.map(|all| all.histories).unwrap_or_default());
            }
            let source = HistoryRoot { dir: &source.handle, path: &job.source };
            let mark = prepared.secret.as_ref().map(OwnMark::by);
            let sides = HistorySides { source, output, mark };
            let histories = Histories::read(sides, &found, stop)?;
            let fail = |error| Error::io("go on with the histories at", &job.output, error);
            role.algorithms = histories.algorithms(asked).map_err(fail)?;
            let of_root = histories.all.get(&RelPath::root());
            let of_root = of_root.map(|it| it.patterns.as_slice()).unwrap_or_default();
            let wrong = |why| Error::finding("go on with the history of", &job.source, why);
            left_out(&patterns(of_root, &[])).map_err(wrong)?;
            role.histories = Some(histories);
            let wrong = |why| Error::finding("leave out the chains of", &job.source, why);
            filter = filter.without(CHAINS).map_err(wrong)?;
        }
        let mut job = CopyJob { media: Some(Arc::new(role)), ..job.clone() };
        job.options.selection.filter = filter;
        tree.copy_tree(&job)
    }

    /// Refuses a source that no such list can hold; returns which of its directories have histories.
    fn look_at_source(&self, prepared: &Prepared, stop: &Stop) -> Result<BTreeSet<RelPath>> {
        let (mut fit, mut found) = (Fit::new(OF_MEDIA), BTreeSet::new());
        let Prepared { source, output, file, .. } = prepared;
        match file {
            Some(entry) => {
                let (source, output) = (Arc::clone(source), Arc::clone(output));
                fit.files(&Batch { source, output, files: vec![entry.clone()] });
            }
            None => self.tree.walk_source(self.job, prepared, &mut |event| {
                fit.take(&event);
                if let WalkEvent::Files(batch) = &event {
                    found.extend(history_of(batch));
                }
                go_on_unless(stop)
            }),
        }
        fit.judge(self.job)?;
        Ok(found)
    }
}

/// The directory that has a history, if these are the files of one.
fn history_of(batch: &Batch) -> Option<RelPath> {
    let path = batch.source.rel.path();
    let (above, name) = path.split()?;
    let is_of_one =
        |name: &OsStr| *name == *CHAIN || name.to_str().is_some_and(|it| number_of(it).is_some());
    let is_one = || batch.files.iter().any(|entry| is_of_one(&entry.name));
    (name == HISTORY.as_bytes() && is_one()).then_some(above)
}

// What is at the output: files, directories, and the histories among them, as far as no pattern leaves them out.

/// So many histories may be in one tree.
const MOST_HISTORIES: usize = 10_000;

/// A tree that was listed.
pub struct FoundTree {
    /// Directories and files by path, as [`FoundEntry`] has them.
    pub entries: SortedRecords,
    /// The directories that have a history.
    pub histories: BTreeSet<RelPath>,
}

/// An entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEntry {
    /// The size of a file; a directory has none.
    pub size: Option<u64>,
    pub modified: Time,
}

/// Lists what is in `root`, which is at `path`. None if the run is to stop.
///
/// # Errors
/// A directory cannot be listed, or there are too many histories.
pub fn list(root: &Dir, path: &Path, ignored: &Filter, stop: &Stop) -> Result<Option<FoundTree>> {
    let fail = |error| Error::io("list", path, error);
    let (mut sorter, mut histories) = (sorter(by_path), BTreeSet::new());
    let modified = root.stat_self().map_err(fail)?.mtime;
    sorter.add_json(&FoundEntry { size: None, modified }, b"").map_err(fail)?;
    let is_whole = each_below(root, stop, &mut |entry| {
        let unlisted = |(at, error): Unlisted| Error::io("list", at.full_path(path), error);
        let entry = entry.map_err(unlisted)?;
        let stat = entry.stat().map_err(unlisted)?;
        let EntryBelow { dir, above, name, path: at, .. } = entry;
        let is_dir = stat.kind == Kind::Dir;
        // A link in the place of one is refused when it is opened.
        if *name == *HISTORY && (stat.kind == Kind::Symlink || is_dir && has_history(dir)) {
            histories.insert(above.path());
            if histories.len() > MOST_HISTORIES {
                return Err(Error::finding("list the histories in", path, "there are too many"));
            }
        }
        let is_out = ignored.judge(at.as_bytes(), is_dir, Inclusion::In) == Inclusion::Out;
        if is_out || !matches!(stat.kind, Kind::Dir | Kind::File) {
            return Ok(false);
        }
        let found = FoundEntry { size: (!is_dir).then_some(stat.size), modified: stat.mtime };
        sorter.add_json(&found, at.as_bytes()).map_err(fail)?;
        Ok(is_dir)
    })?;
    if !is_whole {
        return Ok(None);
    }
    let entries = sorter.finish().map_err(fail)?;
    Ok(Some(FoundTree { entries, histories }))
}

fn has_history(dir: &Dir) -> bool {
    dir.open_dir(HISTORY.as_ref(), false).is_ok_and(|history| is_history(&history))
}
