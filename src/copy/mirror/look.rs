//! The look before a mirror run: what would go, and whether the run is refused for it.

use std::{
    cell::Cell, cell::OnceCell, cell::RefCell, collections::HashMap, collections::HashSet,
    ffi::OsStr, hash::BuildHasher, hash::RandomState, path::Path, sync::Mutex, sync::PoisonError,
    thread::Builder, thread::Scope, thread::ScopedJoinHandle,
};

use crate::{
    copy::CopyJob, copy::Counts, copy::Prepared, copy::mirror::Mirror,
    copy::mirror::departures::Departures, copy::mirror::departures::MovedFiles,
    copy::mirror::departures::trace_of, copy::mirror::search::DepartureSearch, error::Deed,
    error::Error, error::Result, event::Event, event::EventListener, event::Stop, path::RelPath,
    path::Shown, path::count, state::Departing, state::FinishedManifest, state::Knowledge,
    state::Missing, state::Mounts, state::Note, state::PrivateDir, state::Rescues,
    state::SourceMark, state::closing::FINISHED, state::kept::has_only_what_runs_keep,
    state::private_dir::NAME, state::private_dir::TRASH, sys, sys::ListedEntry, sys::stat::Kind,
    sys::stat::Stat, sys::stat::Time, tree::Classifier, tree::Inclusion, tree::Step,
    tree::TreePass, tree::walk::most_levels, volume::alike::form_of,
};

/// The inputs of the look.
pub struct DepartureLook<'a> {
    pub job: &'a CopyJob,
    pub mirror: &'a Mirror,
    /// Both sides, as they are prepared for a dry run.
    pub prepared: &'a Prepared,
    /// The classifier of entries that take part.
    pub classifier: Classifier<'a>,
    /// The tree of the run that noted by what the source is known again.
    pub noted_at: &'a Path,
    pub listen: &'a EventListener<'a>,
    pub stop: &'a Stop,
}

/// The result of the look.
pub enum LookResult {
    /// This has left the source.
    Found(Departures),
    /// The trees could not be compared, for this reason: nothing is to be removed.
    Unknown(Error),
}

impl LookResult {
    /// True if each name of the output is still in the source, as the same kind of entry.
    pub fn has_all(&self) -> bool {
        match self {
            Self::Found(found) => {
                found.is_empty() && found.unfit.is_empty() && !found.may_lack_unfit
            }
            Self::Unknown(_) => false,
        }
    }

    /// Tells in a dry run what would go, and adds it to what is counted.
    pub fn tell(self, listen: &EventListener<'_>, counts: Counts) -> Counts {
        match self {
            Self::Found(found) => {
                found.paths().for_each(|path| listen(&Event::Departed(path.as_bytes())));
                let bytes = found.dirs().flat_map(|(_, items)| items).map(|item| item.bytes).sum();
                Counts {
                    departed: found.entries,
                    departed_bytes: bytes,
                    foreign: found.others,
                    ..counts
                }
            }
            Self::Unknown(error) => {
                listen(&Event::Failed(&error));
                Counts { not_departed: 1, ..counts }
            }
        }
    }
}

/// The records of the output; loaded when they are first asked for.
#[derive(Default)]
struct EarlierLists {
    known: OnceCell<Knowledge>,
    /// True if all of the record could be read.
    is_whole: Cell<bool>,
    /// When the record of the last run was finished.
    finished: OnceCell<Option<Time>>,
    departing: OnceCell<Departing>,
    /// Whether the pieces that were to be moved are what they were.
    unchanged: RefCell<HashMap<Vec<u8>, bool>>,
    /// The manifest of the last run.
    last: OnceCell<Option<FinishedManifest>>,
    /// The common forms of names, as hashes.
    forms: OnceCell<HashSet<u64>>,
    hashing: RandomState,
}

impl EarlierLists {
    /// The records of earlier runs; `None` where there is no output.
    fn known(&self, look: &DepartureLook<'_>, private: Option<&PrivateDir>) -> Option<&Knowledge> {
        let Prepared { source, output, .. } = look.prepared;
        let root = output.handle.as_ref()?;
        Some(self.known.get_or_init(|| {
            let is_in_source = |name: &OsStr| source.handle.stat(name, false).is_ok();
            let is_to_stop = || look.stop.is_requested();
            let path = &look.job.output;
            // What cannot be read says nothing, and nothing goes because of it.
            let (known, warnings) =
                Knowledge::load(private, root, path, &is_in_source, &is_to_stop);
            self.is_whole.set(warnings.is_empty());
            known.proving_with(look.job.options.algorithm)
        }))
    }

    /// True if a file with an equivalent name was listed: by the spelling that the source had then. The output keeps
    /// the one that it has.
    fn has_alike(&self, known: &Knowledge, path: &[u8]) -> bool {
        let hash = |path: &[u8]| self.hashing.hash_one(form_of(path));
        let forms = self.forms.get_or_init(|| {
            let mut all = HashSet::new();
            // Rows that cannot be read count as absent.
            let add = |path: &RelPath, _| Ok(_ = all.insert(hash(path.as_bytes())));
            let _ = known.unsettled(&|| false, add);
            all
        });
        forms.contains(&hash(path))
    }
}

impl DepartureLook<'_> {
    /// Compares the trees.
    ///
    /// # Errors
    /// The run is refused: the source may not be what it was, or too much would go.
    pub fn run(&self) -> Result<LookResult> {
        let Prepared { source, output, .. } = self.prepared;
        let private = self.private()?;
        let last = private.as_ref().and_then(SourceMark::read);
        let lists = EarlierLists::default();
        let rescues = private.as_ref().map(|private| Rescues::read(private, false));
        let search = DepartureSearch {
            is_rescued: &|path| rescues.as_ref().is_some_and(|rescues| rescues.have(path)),
            source,
            output,
            classifier: self.classifier,
            is_listed: &|path| self.is_listed(&lists, private.as_ref(), path),
            is_left_out: &|path, stat| {
                let known = lists.known(self, private.as_ref());
                known.is_some_and(|known| known.may_have_left_out(path, stat))
            },
            is_planted: &|path, stat| self.is_planted(&lists, private.as_ref(), path, stat),
            all: self.mirror.all,
            unfit: self.job.pruned,
            last: last.as_ref(),
            deed: self.deed(),
            if_meant: &self.if_meant(),
            tell_other: self.listen,
            most_levels: most_levels(sys::open_file_limit()),
            stop: self.stop,
        };
        match search.run() {
            Ok(mut found) => {
                let missed = found.missed.take().map(|missed| *missed);
                let moved = || self.moved(&found, lists.known(self, private.as_ref())?);
                self.tell_planted(&found);
                self.refuse(&found, last.as_ref(), missed, &moved)
                    .map(|()| LookResult::Found(found))
            }
            // That the source is not what it was.
            Err(error) if error.kind().is_none() => Err(error),
            Err(error) => Ok(LookResult::Unknown(error)),
        }
    }

    /// The private directory, if there is one; something of another's in its place or that of the trash refuses the
    /// run.
    fn private(&self) -> Result<Option<PrivateDir>> {
        let Some(root) = &self.prepared.output.handle else { return Ok(None) };
        if let Ok(stat) = root.stat(TRASH.as_ref(), false)
            && stat.kind != Kind::Dir
        {
            let path = self.job.output.join(TRASH);
            let finding = "it is there and is not a directory";
            return Err(Error::finding("keep trash in", path, finding));
        }
        let elsewhere = self.job.state.as_deref();
        PrivateDir::open(root, &self.job.output, elsewhere, Missing::Leave)
            .map_err(|error| error.with_note(self.job.needs_private().unwrap_or_default()))
    }

    /// True if an earlier run listed a file at `path`.
    fn is_listed(&self, lists: &EarlierLists, private: Option<&PrivateDir>, path: &[u8]) -> bool {
        // The manifest of the last run is on no list. Mostly nothing else is asked for, and for that the rows of all
        // files need not be read.
        let named = || lists.last.get_or_init(|| FinishedManifest::last_named(private?));
        if named().as_ref().is_some_and(|last| last.name.as_bytes() == path) {
            return false;
        }
        let known = lists.known(self, private);
        let folds = || self.prepared.output.volume.folds_names();
        known.is_some_and(|known| {
            known.has_heard_of(path) || folds() && lists.has_alike(known, path)
        }) || known.is_some() && self.was_departing(lists, private, path)
    }

    /// True if an earlier run was about to move what is at `path`, and nothing was put there or changed since.
    fn was_departing(
        &self,
        lists: &EarlierLists,
        private: Option<&PrivateDir>,
        path: &[u8],
    ) -> bool {
        let departing = || private.map(Departing::read).unwrap_or_default();
        let departing = lists.departing.get_or_init(departing);
        let Some((piece, noted)) = departing.piece_over(path) else { return false };
        *lists.unchanged.borrow_mut().entry(piece.to_vec()).or_insert_with(|| {
            let root = self.prepared.output.handle.as_ref();
            let piece = RelPath::parse(piece).ok();
            let trace = root.zip(piece).map(|(root, piece)| trace_of(root, &piece, self.stop));
            trace.and_then(Result::ok).is_some_and(|trace| trace == noted)
        })
    }

    /// True if no run made the entry at `path`, which is `stat`, in a generation: it came when the record of that was
    /// finished, and is no file that is in it. Whoever may write to a directory there can make any number, and would
    /// keep every later run from its work if they counted as what has left the source.
    fn is_planted(
        &self,
        lists: &EarlierLists,
        private: Option<&PrivateDir>,
        path: &[u8],
        stat: &Stat,
    ) -> bool {
        let finished = || private?.dir().stat(FINISHED.as_ref(), false).ok().map(|it| it.ctime);
        let is_later = |finished: &Time| stat.ctime > *finished;
        if !self.job.pruned || !lists.finished.get_or_init(finished).as_ref().is_some_and(is_later)
        {
            return false;
        }
        match stat.kind {
            Kind::File => !self.is_listed(lists, private, path) && lists.is_whole.get(),
            // A further name, as other generations may have, changes that time too.
            Kind::Symlink => stat.links == 1,
            _ => true,
        }
    }

    /// Tells what no run made.
    fn tell_planted(&self, found: &Departures) {
        if found.planted == 0 {
            return;
        }
        let names = found.planted_first.iter().map(|path| Shown::bytes(path.as_bytes()));
        let finding = format!(
            "it has {} that no run made: {}; they are not in the new one, and do not count as what has left the \
             source; let nobody else write there (chmod)",
            count(found.planted, "entry"),
            Shown::first_of(found.planted, names)
        );
        let error = Error::finding("keep as it was the last generation", self.noted_at, finding);
        (self.listen)(&Event::Warning(&error));
    }

    /// Number of files, among those that have left the source, that were renamed, as far as is known.
    fn moved(&self, departures: &Departures, known: &Knowledge) -> Option<u64> {
        let Prepared { source, output, .. } = self.prepared;
        let (source, output, classifier) =
            (&source.handle, output.handle.as_ref()?, self.classifier);
        let (proof, stop) = (self.job.options.algorithm, self.stop);
        MovedFiles { source, output, known, departures, classifier, proof, stop }.count().ok()
    }

    /// The deed that a changed source prevents.
    fn deed(&self) -> &'static str {
        if self.job.pruned { "make a generation of" } else { "mirror" }
    }

    /// Advice in case the source was changed on purpose.
    fn if_meant(&self) -> String {
        if !self.job.pruned {
            return "run once without --mirror, with --allow-empty".to_owned();
        }
        let note = self.noted_at.join(NAME).join(SourceMark::FILE);
        format!("remove {}, by which that is known", Shown::path(&note))
    }

    /// True if the filters leave anything of the source beside directories.
    fn selects_any(&self) -> Result<bool> {
        let Self { job, prepared, classifier, .. } = self;
        let (root, selection) = (&prepared.source.handle, classifier.selection);
        let look = || {
            let mut pass =
                TreePass::over([(root, selection.follow_links)], selection.filter.root())?;
            while let Some(step) = pass.step(self.stop)? {
                match step {
                    Step::Entry(top, ListedEntry { name, .. }) => {
                        let [Some(dir)] = &top.dirs else { continue };
                        // A link that leads nowhere, or what was removed a moment ago.
                        let Ok(stat) = dir.stat(&name, selection.follow_links) else { continue };
                        let (path, is_dir) = (top.rel.join(&name), stat.kind == Kind::Dir);
                        match selection.filter.judge(path.as_bytes(), is_dir, top.state) {
                            Inclusion::Out => {}
                            inclusion if is_dir => top.subdirs.push((name, inclusion)),
                            _ if classifier.copies(stat.kind) => return Ok(true),
                            _ => {}
                        }
                    }
                    // What cannot be entered is the walk's to name.
                    Step::Into(_, name, inclusion) => drop(pass.enter_all(name, inclusion)),
                    _ => {}
                }
            }
            Ok(false)
        };
        look().deed("list", &job.source)
    }

    /// Refuses a run by which too much would go, or where the source may not be what it was.
    fn refuse(
        &self,
        found: &Departures,
        last: Option<&SourceMark>,
        missed: Option<Error>,
        moved: &dyn Fn() -> Option<u64>,
    ) -> Result<()> {
        if found.is_empty() || self.stop.is_requested() {
            return Ok(());
        }
        let Self { job, mirror, prepared, .. } = self;
        let refuse = |finding: String| Err(Error::finding(self.deed(), &job.source, finding));
        let gone = found.entries.saturating_sub(found.planted);
        let all = gone + found.present;
        if !job.was_emptied
            && has_only_what_runs_keep(&prepared.source.handle).deed("list", &job.source)?
        {
            let limit = match mirror.most.allows(gone, all) {
                true => String::new(),
                false => format!(" and --max-delete {gone}"),
            };
            let entries = files_and_links(found.entries);
            return refuse(format!(
                "it is empty, and the output has {entries} that would go: is its disk not mounted? nothing was touched; \
                 if it was emptied on purpose, give --allow-empty{limit} by hand, for this run"
            ));
        }
        let mark = SourceMark::of(&prepared.source.handle, Mounts::default());
        let now = &mark.root;
        let last = last.filter(|last| last.is_known() && now.is_other_than(&last.root));
        if last.is_some() && !mark.is_known() {
            let finding = "the system does not tell which file system it is on; nothing was touched: the \
                           table of mounts does not show it, as in a chroot, or no more files may be open";
            return refuse(finding.to_owned());
        }
        if let Some(SourceMark { root: then, .. }) = last {
            let if_meant = self.if_meant();
            return refuse(format!(
                "it is on another file system ({now}) than last time ({then}): is its disk not mounted? nothing was \
                 touched; if it was moved on purpose, {if_meant}"
            ));
        }
        missed.map_or(Ok(()), Err)?;
        let filtered = !job.options.allow_empty && !job.options.selection.filter.is_empty();
        if found.present == 0 && filtered && !self.selects_any()? {
            let entries = files_and_links(found.entries);
            return refuse(format!(
                "nothing in it matches --include and --exclude, and the output has {entries} that would go; nothing was touched; if that is meant, give --allow-empty"
            ));
        }
        if mirror.most.allows(gone, all) {
            return Ok(());
        }
        // What was renamed is there all the same.
        let moved = moved().unwrap_or(0).min(gone);
        let left = gone - moved;
        if mirror.most.allows(left, all) {
            return Ok(());
        }
        let examples = found.examples();
        let examples = examples.iter().map(|path| Shown::bytes(path.as_bytes()));
        let names = Shown::first_of(found.items, examples);
        let most = mirror.most;
        let besides = match moved {
            0 => String::new(),
            moved => format!("; {moved} others were renamed"),
        };
        refuse(format!(
            "{left} of the {all} files and links at the output have left it, more than {most}: {names}{besides}; \
             nothing was touched; if they are to go, give --max-delete {left}"
        ))
    }
}

fn files_and_links(number: u64) -> String {
    if number == 1 { "1 file or link".into() } else { format!("{number} files and links") }
}

// The look before a mirror run, made beside the copy where earlier runs were.
//
// Mostly nothing has changed. So the copy begins to compare files, and waits for the answer of the look before the
// first thing that it makes or changes. A run that is refused has touched nothing. The look lists both trees once
// more, so it begins when it is known to be needed: when something is to be made, or when the copy's own listing shows
// more names at the output than in the source. A run that ends without either does without it.

/// A look; it returns why the run is refused, if it is.
type LookToCome<'scope> = &'scope (dyn Fn() -> Option<Error> + Sync);

/// A look that is to come, is under way, or has ended.
pub struct BackgroundLook<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    state: Mutex<BackgroundState<'scope>>,
    refusal: Mutex<Option<Error>>,
    stop: &'scope Stop,
}

enum BackgroundState<'scope> {
    ToCome(LookToCome<'scope>),
    UnderWay(ScopedJoinHandle<'scope, Option<Error>>),
    Over,
}

impl<'scope, 'env> BackgroundLook<'scope, 'env> {
    /// One that is to come, if it was not made before. That the run is refused asks `stop` to end it.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        stop: &'scope Stop,
        look: Option<LookToCome<'scope>>,
    ) -> Self {
        let state = Mutex::new(look.map_or(BackgroundState::Over, BackgroundState::ToCome));
        Self { scope, state, refusal: Mutex::default(), stop }
    }

    /// Begins it, if that was not done. Where the system gives no thread, it is made when its answer is asked for.
    pub fn begin(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let BackgroundState::ToCome(look) = *state
            && let Ok(thread) = Builder::new().name("look".into()).spawn_scoped(self.scope, look)
        {
            *state = BackgroundState::UnderWay(thread);
        }
    }

    /// Waits for its end; whether the run may go on.
    pub fn lets_pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let died = "the thread that compares the trees died; this is a defect of dircopy";
        let answer = match std::mem::replace(&mut *state, BackgroundState::Over) {
            BackgroundState::Over => return refusal.is_none(),
            BackgroundState::ToCome(look) => look(),
            BackgroundState::UnderWay(thread) => {
                thread.join().unwrap_or_else(|_| Some(Error::finding("mirror", "", died)))
            }
        };
        if answer.is_some() {
            self.stop.request(Stop::GIVEN_UP);
        }
        *refusal = answer;
        refusal.is_none()
    }

    /// It is not needed after all: whether it had not begun.
    pub fn spare(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_to_come = matches!(*state, BackgroundState::ToCome(_));
        if is_to_come {
            *state = BackgroundState::Over;
        }
        is_to_come
    }

    /// Why the run is refused, if it is.
    pub fn refusal(self) -> Option<Error> {
        self.refusal.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
