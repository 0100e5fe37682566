//! An output that is a bag (BagIt 1.0): the source is its payload, beside which lie the lists of all digests.
//!
//! A run (`run`) looks first whether a bag can be made there (`place`) and can hold the source (`fit`). The payload is
//! copied as any tree. The lists come last (`seal`), from what the copy recorded (`listing`), each whole or absent
//! (`tag_file`), and `bagit.txt` after all others: without it a directory is no bag.

pub mod place;
mod seal;

use std::{path::PathBuf, sync::Arc, time::Instant};

use crate::{
    copy::CopyJob, copy::Counts, copy::Ending, copy::Prepared, copy::Report,
    copy::bag::place::BagRoot, copy::bag::place::BagState, copy::bag::place::Payload,
    copy::bag::seal::BagSeal, copy::bag::seal::tags_there, copy::before::check::Fit,
    copy::before::check::FitRules, copy::mirror::search::DepartureSearch, copy::run::OutputRun,
    error::Error, error::Result, event::Event, event::Stop, hash::Algorithm, hash::Algorithms,
    io::CopyOptions, io::States, manifest::InfoTag, manifest::archive::bag::DECLARATION,
    manifest::archive::bag::PAYLOAD, manifest::archive::bag::payload_list, path::Shown,
    state::CountedRun, state::Missing, state::PrivateDir, sys, sys::Attributes, sys::Dir,
    sys::stat::Identity, tree::Patience, tree::walk::most_levels,
};

// A run that makes a bag: what it refuses first, the copy of the payload, and what becomes of the bag after it.

/// A run that makes a bag.
pub struct BagRun<'a> {
    pub bag: &'a BagOptions,
    pub tree: &'a OutputRun<'a>,
}

impl BagRun<'_> {
    /// Makes the bag, or goes on with it.
    ///
    /// # Errors
    /// The job was refused, and nothing was touched.
    pub fn run(&self) -> Result<Report> {
        let OutputRun { job, observer, .. } = *self.tree;
        let started = Instant::now();
        job.check_options()?;
        let stop = &observer.stop.of_one();
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let wait = job.wait && !job.dry_run;
        let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
        patience.until_free(&job.output, job.state.as_deref())?;
        let mut of_tags = Vec::new();
        let found = BagRoot::find(job, &mut of_tags)?;
        let looked = self.looked_at(found);
        self.refuse_misfits(&looked, patience)?;
        let too_large = match job.options.check_space {
            true => {
                let looked = CopyJob { payload: self.looked_payload(&looked), ..looked.clone() };
                self.tree.with(&looked).check_space(patience)?
            }
            false => None,
        };
        if job.dry_run {
            let options = CopyOptions { check_space: false, ..looked.options };
            let report = self.tree.with(&CopyJob { options, ..looked }).copy_or_tell()?;
            return Ok(self.with_warnings(report, of_tags.iter()));
        }
        if stop.is_requested() {
            let finding = "the run was stopped before it was begun; nothing was touched";
            return Err(Error::finding("make a bag at", &job.output, finding));
        }
        let root = BagRoot::take(job, self.algorithms(), patience)?;
        let mut warnings: Vec<Error> = too_large.into_iter().collect();
        self.tree.note_others(root.private.as_deref());
        let begun = root.begin(job.options.sync);
        let mut report = match begun.and_then(|()| self.fill(&root, stop, &mut warnings)) {
            Ok(report) => report,
            Err(refused) => self.refused(&root, refused, started, stop)?,
        };
        report.counted = root.private.as_ref().and_then(|private| {
            let warn = self.tree.observer.warn_in(&mut report.counts.warnings);
            CountedRun::count(private, &root.dir, &root.path, job.state.as_deref(), warn)
        });
        Ok(self.with_warnings(report, root.warning.iter().chain(&warnings)))
    }

    fn algorithms(&self) -> Algorithms {
        self.tree.job.options.further.with(self.tree.job.options.algorithm)
    }

    /// The job of a copy into the payload as far as it is there, to look at and make nothing.
    fn looked_at(&self, found: Option<BagState>) -> CopyJob {
        let output = self.tree.job.output.join(PAYLOAD);
        let is_there = found.is_some() && output.symlink_metadata().is_ok();
        let output = if is_there { output } else { self.tree.job.output.clone() };
        let options = CopyOptions { states: States::None, ..self.tree.job.options.clone() };
        CopyJob { bag: None, options, output, wait: false, ..self.tree.job.clone() }
    }

    /// As whose payload it is looked at, if it is there: what a killed run left in it gives way.
    fn looked_payload(&self, looked: &CopyJob) -> Option<PayloadRole> {
        let job = self.tree.job;
        if looked.output == job.output {
            return None;
        }
        let root = Dir::open(&job.output).ok()?;
        let private =
            PrivateDir::open(&root, &job.output, job.state.as_deref(), Missing::Leave).ok()?;
        let id = Dir::open(&looked.output).and_then(|payload| payload.identity()).ok()?;
        let (private, lists_path) = (private.map(Arc::new), job.output.clone());
        Some(PayloadRole { id, private, lists: Arc::new(root), lists_path })
    }

    /// Refuses a source that a bag cannot hold, and a payload that is not of it.
    fn refuse_misfits(&self, looked: &CopyJob, patience: Patience<'_>) -> Result<()> {
        let prepared = looked.prepare(true, patience)?;
        let mut fit = Fit::new(OF_BAGS);
        self.tree.with(looked).walk_source(&prepared, |found| fit.take(found));
        fit.judge(self.tree.job)?;
        if looked.output == self.tree.job.output {
            return Ok(());
        }
        refuse_strangers(looked, &prepared, patience.stop)
    }

    /// Copies the payload, and finishes the bag if it is complete.
    fn fill(&self, root: &BagRoot, stop: &Stop, warnings: &mut Vec<Error>) -> Result<Report> {
        let job = self.tree.job;
        let there = &tags_there(root, self.algorithms(), warnings)?;
        let source = Dir::open(&job.source).ok();
        let Payload { dir: payload, is_closed } =
            root.payload(job.options.sync, source.as_ref())?;
        let mut report = self.tree.with(&self.payload_job(root, &payload)?).copy_or_tell()?;
        let counts = report.counts;
        let is_changed = counts.copied + counts.replaced + counts.linked > 0;
        let finished = match (&report.ending, &report.manifest) {
            (Ending::Complete, _) if counts.reused_lines > 0 => {
                let finding = format!(
                    "{} of the files of its payload are not among what this run copies; move them away, or make a new \
                     bag",
                    counts.reused_lines
                );
                Err(Error::finding("finish the bag", &root.path, finding))
            }
            (Ending::Complete, Some(manifest)) => {
                if root.state != BagState::Finished || is_closed {
                    // It was closed to others until all of it is there.
                    self.label(&payload, warnings);
                }
                BagSeal { job, bag: self.bag, root, payload: &payload, there, stop }.run(manifest)
            }
            (Ending::Stopped(_) | Ending::Miscomputed(_), _) => Ok(false),
            _ if root.state == BagState::Finished && !is_changed => {
                BagSeal::restore(root, job, stop).map(|()| false)
            }
            _ => Ok(false),
        };
        match finished {
            Ok(true) => {
                warnings.extend(root.remove_lists().err());
                report.manifest = Some(self.manifest());
            }
            Ok(false) => {
                match (&report.ending, stop.requested()) {
                    (Ending::Complete, Some(code)) => report.ending = Ending::Interrupted(code),
                    (
                        Ending::Incomplete | Ending::Nothing(_) | Ending::Unproven | Ending::Rotten,
                        _,
                    ) => {
                        warnings.push(self.not_finished(root, is_changed));
                    }
                    _ => {}
                }
                // What is in the private directory is for later runs alone.
                report.manifest = None;
            }
            Err(error) => {
                (report.ending, report.manifest) = (Ending::Stopped(error), None);
            }
        }
        Ok(report)
    }

    /// Leaves the bag that was there, if there was one, to be what it was.
    ///
    /// # Errors
    /// It is `refused`: nothing was touched.
    fn refused(
        &self,
        root: &BagRoot,
        refused: Error,
        started: Instant,
        stop: &Stop,
    ) -> Result<Report> {
        let restored = match root.state {
            BagState::Finished => BagSeal::restore(root, self.tree.job, stop),
            BagState::Empty | BagState::Begun => Ok(()),
        };
        let Err(error) = restored else { return Err(refused) };
        let note = format!(
            "; {DECLARATION}, without which it is no bag, was taken away and is not certain to be back ({error}): run \
             the same command again"
        );
        let report = Report::dry(Counts::default(), stop, started.elapsed());
        Ok(Report { ending: Ending::Stopped(refused.with_note(note)), ..report })
    }

    /// What is told where not all of the payload was copied.
    fn not_finished(&self, root: &BagRoot, is_changed: bool) -> Error {
        let is_as_before = root.state == BagState::Finished && !is_changed;
        let finding = match is_as_before {
            true => {
                "not all of the source is in its payload; it is the bag that it was, of which a check says whether it is whole"
            }
            false => {
                "not all of the source is in its payload; it has no bagit.txt before the same command copies all"
            }
        };
        Error::finding("finish the bag", &root.path, finding)
    }

    /// The manifest that has what the run proves with.
    fn manifest(&self) -> PathBuf {
        self.tree.job.output.join(payload_list(self.tree.job.options.algorithm))
    }

    /// The job that copies the payload, whose directory is this.
    fn payload_job(&self, root: &BagRoot, payload: &Dir) -> Result<CopyJob> {
        let job = self.tree.job;
        let fail = |error| Error::io("open", &root.path, error);
        let id = payload.identity().map_err(fail)?;
        let payload = Arc::new(payload.try_clone().map_err(fail)?);
        let (lists, lists_path) = root.lists().map_err(fail)?;
        let (private, lists) = (root.private.clone(), Arc::new(lists));
        let options = CopyOptions {
            states: States::None,
            // The bag's own lists are.
            check_space: false,
            ..job.options.clone()
        };
        Ok(CopyJob {
            bag: None,
            payload: Some(PayloadRole { id, private, lists, lists_path }),
            output: job.output.join(PAYLOAD),
            held: Some(payload),
            options,
            wait: false,
            state: None,
            ..job.clone()
        })
    }

    /// Gives the directory of the payload what the source's has.
    fn label(&self, payload: &Dir, warnings: &mut Vec<Error>) {
        let path = self.tree.job.output.join(PAYLOAD);
        let Ok(source) = Dir::open(&self.tree.job.source) else { return };
        let read = source.stat_self().and_then(|stat| Ok((stat, Attributes::read(&source)?)));
        match read {
            Ok((stat, attributes)) => {
                let mut warn = |deed, error| warnings.push(Error::io(deed, &path, error));
                attributes
                    .shed_lists(payload)
                    .unwrap_or_else(|error| warn("set the permissions of", error));
                attributes.apply(payload, &stat, false, warn);
            }
            Err(error) => {
                warnings.push(Error::io("read the attributes of", &self.tree.job.source, error));
            }
        }
    }

    fn with_warnings<'e>(
        &self,
        mut report: Report,
        warnings: impl Iterator<Item = &'e Error>,
    ) -> Report {
        for warning in warnings {
            report.counts.warnings += 1;
            (self.tree.observer.listen)(&Event::Warning(warning));
        }
        report
    }
}

// What is asked of a bag, and what a run that copies its payload is given.

/// How an output is made a bag.
#[derive(Clone, Debug, Default)]
pub struct BagOptions {
    /// What `bag-info.txt` says besides the date, the program and the size.
    pub tags: Vec<InfoTag>,
}

/// The algorithms whose manifests every reader of bags knows.
const ALGORITHMS_OF_BAGS: [Algorithm; 4] =
    [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha1, Algorithm::Md5];

/// The first of these algorithms that manifests of bags are not of.
pub fn no_algorithm_of_bags(algorithms: Algorithms) -> Option<Algorithm> {
    algorithms.iter().find(|algorithm| !ALGORITHMS_OF_BAGS.contains(algorithm))
}

/// What makes a run one that copies the payload of a bag: what it records lies outside of its output.
#[derive(Clone, Debug)]
pub struct PayloadRole {
    /// Which directory the payload's is.
    pub id: Identity,
    /// The private directory of the bag, in which that of the payload is; there may be none.
    pub private: Option<Arc<PrivateDir>>,
    /// The directory that the manifest and the lists go to.
    pub lists: Arc<Dir>,
    /// Where that is.
    pub lists_path: PathBuf,
}

// The look before a bag is made: whether it can hold the source, and whether what its payload has already is of
// this source.
//
// The text files of a bag are UTF-8 and list files alone, so a name that is not UTF-8 cannot be in them, and a
// symbolic link is none. A payload has what the lists have and nothing else, so what is there and not in the source
// would make it no bag.

/// What a bag can hold.
pub const OF_BAGS: FitRules = FitRules {
    deed: "make a bag of",
    holds: |path| std::str::from_utf8(path).is_ok(),
    names: "have names that are not UTF-8, which the lists of a bag cannot have (rename them, or copy without --bag)",
    links: "are symbolic links, which a bag cannot hold (give --follow-links or --no-links)",
};

/// Refuses a payload that has what the source has not. `prepared` is of the payload, as in a dry run.
///
/// # Errors
/// It has, or the two cannot be compared.
pub fn refuse_strangers(job: &CopyJob, prepared: &Prepared, stop: &Stop) -> Result<()> {
    let Prepared { source, output, file, .. } = prepared;
    if file.is_some() {
        return Ok(());
    }
    let search = DepartureSearch {
        is_rescued: &|_| false,
        source,
        output,
        classifier: job.classifier(),
        is_listed: &|_| false,
        is_left_out: &|_, _| false,
        is_planted: &|_, _| false,
        all: true,
        unfit: false,
        last: None,
        deed: "go on with",
        if_meant: "",
        tell_other: &|_| (),
        most_levels: most_levels(sys::open_file_limit()),
        stop,
    };
    let found = search.run()?;
    if found.is_empty() {
        return Ok(());
    }
    let examples = found.examples();
    let examples: Vec<PathBuf> = examples.iter().map(|path| output.path_below(path)).collect();
    let names = Shown::first_of(found.items, examples.iter().map(|path| Shown::path(path)));
    let finding = format!(
        "its payload has what the source has not: {names}; move it away, or make a new bag; nothing was touched"
    );
    Err(Error::finding("go on with the bag", output.path(), finding))
}
