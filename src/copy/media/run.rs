//! A run that writes a Media Hash List: what it refuses first, and what it has to know before the tree is copied.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::copy::before::fit::{Fit, FitRules};
use crate::copy::before::prepare::Prepared;
use crate::copy::before::tree_copy::{TreeCopy, go_on_unless};
use crate::copy::job::CopyJob;
use crate::copy::media::histories::{Histories, HistorySides};
use crate::copy::media::one_history::HistoryRoot;
use crate::copy::media::own_mark::OwnMark;
use crate::copy::media::role::{MediaRole, left_out, listed, patterns};
use crate::copy::media::tree;
use crate::copy::report::Report;
use crate::error::{Error, Result};
use crate::event::{Event, EventObserver, Stop};
use crate::manifest::archive::mhl::{CHAIN, HISTORY};
use crate::manifest::archive::mhl_chain::number_of;
use crate::manifest::archive::mhl_writer::is_text;
use crate::manifest::lists::ListFormat;
use crate::path::RelPath;
use crate::tree::found::{Batch, WalkEvent};
use crate::tree::lock::Patience;

/// The chains of histories, which are gone on with and not copied.
const CHAINS: &str = "**/ascmhl/ascmhl_chain.xml";

/// What a Media Hash List can hold.
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
        let asked = listed(form, job.further.with(job.algorithm));
        let mut role = MediaRole { algorithms: asked, histories: None, started };
        let mut filter = job.filter.clone();
        if form == ListFormat::History {
            let Prepared { source, output, .. } = &prepared;
            let output = output.handle.as_ref();
            let output = output.map(|dir| HistoryRoot { dir, path: &job.output });
            if let Some(root) = output {
                let wrong = |why| Error::finding("look for histories in", root.path, why);
                let ours = left_out(&patterns(&[], &[])).map_err(wrong)?;
                let all = tree::list(root.dir, root.path, &ours, stop)?;
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
        tree.copy_tree(&CopyJob { media: Some(Arc::new(role)), filter, ..job.clone() })
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
