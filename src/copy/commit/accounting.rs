//! The accounting of a run: every entry's outcome is counted, told, and, if the entry is at the output, noted
//! for the manifest. Whether the run can go on is decided here too, because it depends on the errors.

use std::{ffi::OsStr, io, path::Path, sync::Arc, sync::atomic::Ordering::Relaxed, time::Instant};

use crate::{
    copy::Counts, copy::commit::health::Health, copy::commit::health::SourceHealth,
    copy::mirror::departures::DepartedItem, copy::record::Published,
    copy::record::rotation::Rotation, copy::report::GO_ON_READING, copy::report::READ_ON,
    error::Cause, error::Error, event::Done, event::Event, event::EventListener, event::Stop,
    hash::Digest, hash::Digests, io::Durability, part::Tally, part::content::Method, path::DirPath,
    path::RelPath, staged::GO_ON_WRITING, state::Mounts, state::Row, sys, sys::stat::Kind,
    transfer::Context, transfer::KeptRow, transfer::Labels, tree::OutputDir, tree::SourceDir,
    tree::SourceEntry,
};

/// Why a file with the source's content is left.
const LABELS_DIFFER: &str =
    "its permissions, owner or attributes differ, and size and time are the same";

/// The accounting of a run.
pub struct Accounting<'a> {
    context: &'a Context<'a>,
    events: Events<'a>,
    root: Arc<OutputDir>,
    pub counts: Counts,
    methods: [Tally; Method::ALL.len()],
    /// Published files that are to be made durable before they are listed.
    pub published: Published,
    /// Files that were durable before the run, and are listed without that.
    pub standing: Published,
    /// True if everything that was at the output before the run is durable, names and contents.
    pub is_earlier_durable: bool,
    /// The digests of the file that was listed last, where more are computed than the one that proves.
    pub(crate) listed: Option<Digests>,
    /// The mounts in the source.
    pub mounts: Mounts,
    health: Health,
    source: SourceHealth<'a>,
    broken: Option<Error>,
}

/// The state in which an entry stands at the output, and whether it was read in this run.
#[derive(Clone, Copy)]
struct Listing {
    digest: Option<Digest>,
    is_read: bool,
    /// True if it stands as an earlier run left it, which is durable.
    is_durable: bool,
    done: Done,
}

/// The content of a file that is listed.
#[derive(Clone, Copy)]
struct ListedContent {
    digest: Digest,
    size: u64,
    is_read: bool,
    is_durable: bool,
}

/// Tells the observer, without an allocation for each path.
struct Events<'a> {
    listen: &'a EventListener<'a>,
    path: Vec<u8>,
}

impl Events<'_> {
    /// The path of `name` in the directory `dir`, which stays until the next one.
    fn path(&mut self, dir: &DirPath, name: &OsStr) -> &[u8] {
        self.path.clear();
        dir.join_into(name, &mut self.path);
        &self.path
    }

    fn tell(&self, event: &Event<'_>) {
        (self.listen)(event);
    }
}

impl<'a> Accounting<'a> {
    /// No entry of `source` is accounted for yet at the output whose root is `root`.
    pub fn new(
        context: &'a Context<'a>,
        listen: &'a EventListener<'a>,
        source: Arc<SourceDir>,
        root: Arc<OutputDir>,
    ) -> Self {
        Self {
            context,
            events: Events { listen, path: Vec::new() },
            root,
            counts: Counts::default(),
            methods: Default::default(),
            published: Published::default(),
            standing: Published::default(),
            is_earlier_durable: false,
            listed: None,
            mounts: Mounts::default(),
            health: Health::default(),
            source: SourceHealth::new(source, context.shared.read),
            broken: None,
        }
    }

    /// The listener of events.
    pub fn listen(&self) -> &'a EventListener<'a> {
        self.events.listen
    }

    /// The root of the output.
    pub fn root(&self) -> &Arc<OutputDir> {
        &self.root
    }

    /// Gives the run up because of `error`; the first reason counts.
    pub fn give_up(&mut self, error: Error) {
        self.context.control.stop.request(Stop::GIVEN_UP);
        self.broken.get_or_insert(error);
    }

    /// True if the run was given up.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Why the run was given up, if it was.
    pub fn into_broken(self) -> Option<Error> {
        self.broken
    }

    /// An entry stands complete under its final name; its line waits for the next sync.
    pub fn stands(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        digest: Option<Digest>,
        row: Option<Row>,
        done: Done,
    ) {
        let is_read = !matches!(done, Done::Kept | Done::Relabelled);
        self.stands_as(output, entry, row, Listing { digest, is_read, is_durable: false, done });
    }

    /// The same, as `listing` says.
    fn stands_as(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        row: Option<Row>,
        listing: Listing,
    ) {
        let Listing { digest, is_read, is_durable, done } = listing;
        // A file that was not read, because nothing is hashed, may be another one of this name: it is shown to nobody.
        let is_unread = digest.is_none() && matches!(done, Done::Kept | Done::Relabelled);
        if !(is_unread && entry.stat.kind == Kind::File) {
            output.meet(&entry.name);
        }
        *self.count_of(done) += 1;
        match entry.stat.kind {
            Kind::Symlink if done == Done::Kept => self.counts.unchanged_links += 1,
            Kind::Fifo | Kind::Socket | Kind::Device if done == Done::Kept => {
                self.counts.unchanged_specials += 1;
            }
            _ => {}
        }
        if matches!(done, Done::Copied | Done::Replaced) {
            self.health.good();
        }
        // Once: on a way of many levels it costs more than everything else here.
        self.events.path(&output.rel, &entry.name);
        if let Some(digest) = digest {
            let listed = ListedContent { digest, size: entry.stat.size, is_read, is_durable };
            self.list_all(listed, row, done != Done::Kept);
        }
        match self.context.options.durability {
            Durability::Grouped { .. } if !is_durable => {
                self.published.note(&self.events.path, done);
            }
            _ => {}
        }
        self.events.tell(&Event::Stands(&self.events.path, done));
        let baseline = self.context.shared.baseline.filter(|_| entry.stat.kind == Kind::File);
        if baseline.is_some_and(|it| it.lacks(&self.events.path)) {
            self.events.tell(&Event::Unlisted(&self.events.path));
        }
    }

    /// A file is kept, as what `row` says, and with these permissions, owner and attributes; `is_proven` if it was read
    /// back.
    pub fn kept(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        row: Option<KeptRow>,
        labels: &Labels,
        is_proven: bool,
    ) {
        let digest = row.map(|row| row.row().digest);
        let is_read = is_proven || matches!(row, Some(KeptRow::New(_)));
        let is_untouched = matches!(row, Some(KeptRow::Recorded(..)));
        let row = row.and_then(|row| match (row, self.context.shared.known) {
            (KeptRow::Recorded(_, place), Some(known)) => {
                known.hold(place);
                None
            }
            (KeptRow::Recorded(row, _) | KeptRow::New(row), _) => Some(row),
        });
        let done = match labels {
            Labels::Differ => {
                // The content is right, and listed.
                if let Some(digest) = digest {
                    let size = entry.stat.size;
                    let listed = ListedContent { digest, size, is_read, is_durable: false };
                    self.list_at(output, entry, row, listed);
                }
                return self.left(output, &entry.name, LABELS_DIFFER);
            }
            Labels::Set => Done::Relabelled,
            Labels::Same => Done::Kept,
        };
        self.counts.unchanged_bytes = self.counts.unchanged_bytes.saturating_add(entry.stat.size);
        self.counts.attributes += u64::from(done == Done::Relabelled);
        let is_durable = self.is_earlier_durable
            && is_untouched
            && done == Done::Kept
            && output.volume.with_root;
        self.stands_as(output, entry, row, Listing { digest, is_read, is_durable, done });
    }

    /// The content of a file of so many bytes came by `method`.
    pub fn count_bytes(&mut self, method: Method, bytes: u64) {
        let sums = [&mut self.counts.bytes, &mut self.methods[method as usize].bytes];
        sums.into_iter().for_each(|sum| *sum = sum.saturating_add(bytes));
        self.methods[method as usize].files += 1;
    }

    /// The files and bytes by copy method, without methods that moved nothing.
    pub fn methods(&self) -> Vec<(Method, Tally)> {
        let tallies = Method::ALL.into_iter().zip(self.methods);
        tallies.filter(|(_, tally)| tally.files > 0).collect()
    }

    /// Lists the file that stands under a name with this digest; the line waits for the next sync.
    pub fn list(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        digest: &Digest,
        row: Option<Row>,
    ) {
        let (digest, size) = (*digest, entry.stat.size);
        let listed = ListedContent { digest, size, is_read: true, is_durable: false };
        self.list_at(output, entry, row, listed);
    }

    fn list_at(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        row: Option<Row>,
        listed: ListedContent,
    ) {
        self.events.path(&output.rel, &entry.name);
        self.list_all(listed, row, true);
    }

    /// Lists the file whose path is at hand: in the manifest, in the lists beside it, and in the record.
    fn list_all(&mut self, listed: ListedContent, row: Option<Row>, fresh: bool) {
        let ListedContent { digest, size, is_read, is_durable } = listed;
        let path = &self.events.path;
        let waiting = if is_durable { &mut self.standing } else { &mut self.published };
        let Some(further) = self.context.shared.further else {
            return waiting.list(&digest.into(), path, row, fresh);
        };
        let content = further.take(path, size, digest, is_read);
        let digests = content.as_ref().map_or_else(|| digest.into(), |it| it.digests.clone());
        waiting.list(&digests, path, row, fresh);
        let lacking = further.list(&mut waiting.lists, content.as_ref(), path);
        self.listed = Some(digests);
        self.tell_lacking(lacking);
    }

    /// A file of the source has rotted, and was not copied.
    pub fn rotten(&mut self, error: &Error) {
        (self.counts.failed, self.counts.rotten) = (self.counts.failed + 1, self.counts.rotten + 1);
        self.context.control.progress.failed.fetch_add(1, Relaxed);
        self.events.tell(&Event::Rotten(error));
    }

    /// An entry differs at the output and stays as it is.
    pub fn left(&mut self, output: &OutputDir, name: &OsStr, why: &'static str) {
        self.counts.left += 1;
        self.tell(&output.rel, name, |path| Event::Left(path, why));
    }

    /// An entry is not at the output.
    pub fn failed(&mut self, error: &Error) {
        self.counts.failed += 1;
        self.context.control.progress.failed.fetch_add(1, Relaxed);
        let is_of_output = error.path().starts_with(&self.root.root);
        let is_of_source = !is_of_output && error.path().starts_with(&self.source.root().root);
        let Cause::Io(cause) = error.cause() else {
            self.events.tell(&Event::Failed(error));
            return;
        };
        let is_full = is_of_output && sys::is_disk_full(cause);
        let is_told = is_full && self.counts.without_room > 0;
        self.counts.without_room += u64::from(is_full);
        // It has been told why the run ends, or that there is no room: failures that follow are part of that.
        if is_told || (is_of_output || is_of_source) && self.is_broken() {
            let same = Error::io(error.deed(), error.path(), copy_of(cause));
            self.events.tell(&Event::Failed(&same.with_note(error.note()).of_all()));
        } else {
            self.events.tell(&Event::Failed(error));
        }
        if self.is_broken() {
            return;
        }
        if is_of_output && self.health.is_lost(&self.root, cause) {
            self.give_up(Error::io(GO_ON_WRITING, self.root.path(), copy_of(cause)));
        }
        if is_of_source {
            self.is_source_gone(cause);
        }
    }

    /// True if the source gave this error because nothing of it can be read any more: then the run is given up.
    pub fn is_source_gone(&mut self, cause: &io::Error) -> bool {
        let is_gone = self.source.is_gone(cause);
        if is_gone {
            self.give_up(self.source_gone());
        }
        is_gone
    }

    /// A file that is copied could not be read a second time.
    pub fn unconfirmed(&mut self, error: &Error) {
        self.counts.unconfirmed += 1;
        self.events.tell(&Event::Failed(error));
        if let Cause::Io(cause) = error.cause() {
            self.is_source_gone(cause);
        }
    }

    /// This machine gave a file, which has failed, two digests: nothing that it computes can be relied on.
    pub fn miscomputed(&mut self, error: &Error) {
        self.counts.miscomputed += 1;
        let finding = "this machine computes wrongly; check with another one what it has listed";
        self.give_up(Error::finding("go on hashing", error.path(), finding));
    }

    /// The source that is copied.
    pub fn source(&self) -> &SourceDir {
        self.source.root()
    }

    /// A file of the source was read.
    pub fn was_read(&mut self) {
        self.source.good();
    }

    /// Gives the run up if nothing of the source could be read: a finished manifest of nothing would say that it is
    /// empty.
    pub fn settle_source(&mut self) {
        let Counts { failed, .. } = self.counts;
        if self.counts.settled() == failed && self.source.was_never_there(failed) {
            self.give_up(self.source_gone());
        }
    }

    /// Gives the run up if the source was moved: what is in it by then may be kept from users who may enter the copy.
    pub fn check_source(&mut self) {
        if self.source.is_in_place() {
            return;
        }
        if !self.source.is_mounted() {
            return self.give_up(self.source_gone());
        }
        let source = self.source.root().handle.identity();
        if source.is_ok_and(|source| self.root.gets_label_of(source)) {
            self.root.hold_back();
        }
        let moved = "it was moved, or something else has its name, since the run began; run again";
        self.give_up(Error::finding(READ_ON, self.source.root().path(), moved));
    }

    fn source_gone(&self) -> Error {
        let gone = "the source is gone, or nothing of it can be read: its disk was pulled out or fails, or it was \
                    unmounted, moved or replaced meanwhile";
        Error::finding(GO_ON_READING, self.source.root().path(), gone)
    }

    /// When what waits should be listed; `None` while nothing does.
    pub fn due(&self) -> Option<Instant> {
        [self.published.due(), self.standing.due()].into_iter().flatten().min()
    }

    /// Counts the files published since the last sync as failed, because of `error`: they may not be durable, and are
    /// not recorded.
    pub fn published_in_vain(&mut self, error: &io::Error) {
        let published = std::mem::take(&mut self.published);
        for (path, done) in published.entries() {
            let path = RelPath::parse(path).unwrap_or_default();
            let path = self.root.path_below(&path);
            *self.count_of(done) -= 1;
            self.failed(&Error::io("make durable the name of", path, copy_of(error)));
        }
    }

    /// Counts the bytes of a file that were not read again.
    pub fn resumed(&mut self, output: &OutputDir, name: &OsStr, bytes: u64) {
        self.counts.resumed += 1;
        self.counts.resumed_bytes = self.counts.resumed_bytes.saturating_add(bytes);
        self.tell(&output.rel, name, |path| Event::Resumed(path, bytes));
    }

    /// Counts the bytes of the beginning of a file that are left to the next run.
    pub fn suspended(&mut self, output: &OutputDir, name: &OsStr, bytes: u64) {
        self.counts.suspended += 1;
        self.counts.suspended_bytes = self.counts.suspended_bytes.saturating_add(bytes);
        self.tell(&output.rel, name, |path| Event::Suspended(path, bytes));
    }

    /// Counts an item that had left the source and was moved to the trash.
    pub fn departed(&mut self, dir: &RelPath, item: &DepartedItem) {
        self.counts.departed += item.entries;
        self.counts.departed_bytes = self.counts.departed_bytes.saturating_add(item.bytes);
        self.events.tell(&Event::Departed(dir.join(&item.name).as_bytes()));
    }

    /// Counts the pieces that have left the source and are still at the output.
    pub fn not_departed(&mut self, items: u64, error: &Error) {
        self.counts.not_departed += items;
        self.events.tell(&Event::Failed(error));
    }

    /// A directory stays closed, because of what is in it.
    pub fn closed(&mut self, error: &Error) {
        self.counts.closed += 1;
        self.events.tell(&Event::Failed(error));
    }

    /// Something could not be done, and nothing is lost by it.
    pub fn warn(&mut self, warning: &Error) {
        self.counts.warnings += 1;
        self.counts.anew += u64::from(warning.is_of_copied_anew());
        self.events.tell(&Event::Warning(warning));
    }

    /// Something else happened to the entry `name` in the directory `dir`.
    pub fn tell(&mut self, dir: &DirPath, name: &OsStr, event: impl Fn(&[u8]) -> Event<'_>) {
        let listen = self.events.listen;
        listen(&event(self.events.path(dir, name)));
    }

    /// Removes old manifests after a run in which nothing was amiss, by the rule and the newest one, that of the run.
    pub fn rotate(&mut self, rotation: Option<(&Rotation, &Path)>) {
        let Some((rotation, newest)) = rotation else { return };
        // What came upon nothing may be a mistake.
        if !self.counts.has_nothing_amiss() || self.counts.settled() == 0 || self.is_broken() {
            return;
        }
        let (removed, error) = rotation.run(&self.root, newest, self.context.shared.known);
        for name in removed.into_iter().filter(|_| !rotation.in_generation) {
            self.events.tell(&Event::ManifestRemoved(name.to_string().as_bytes()));
        }
        error.iter().for_each(|error| self.warn(error));
    }

    fn count_of(&mut self, done: Done) -> &mut u64 {
        match done {
            Done::Copied => &mut self.counts.copied,
            Done::Replaced => &mut self.counts.replaced,
            Done::Linked => &mut self.counts.linked,
            Done::Symlinked => &mut self.counts.symlinks,
            Done::Special => &mut self.counts.specials,
            Done::Kept | Done::Relabelled => &mut self.counts.unchanged,
        }
    }
}

/// An error that several entries share.
pub fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}
