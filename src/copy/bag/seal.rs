//! The end of a bag: its manifests, its tags, the lists of all these, and last the file that makes it a bag.

use std::{io, io::Read, path::Path};

use jiff::Timestamp;

use crate::manifest::archive::bag::{DECLARATION, DECLARED, INFO, PAYLOAD};
use crate::manifest::archive::bag::{escaped, payload_list, tag_list, unescaped};
use crate::{
    copy::CopyJob, copy::bag::BagOptions, copy::bag::place::BagRoot, copy::bag::place::WrittenTag,
    copy::list_file::ListWriting, error::Deed, error::Error, error::Result, event::Stop,
    hash::Algorithm, hash::Algorithms, manifest::Entries, manifest::InfoTag,
    manifest::ManifestName, manifest::Parsed, manifest::archive::bag_list::AGENT,
    manifest::archive::bag_list::DATE, manifest::archive::bag_list::OXUM, path::RelPath,
    path::Shown, state::Note, state::NoteDoubt, state::TAGS_UNREAD, state::TagLists, sys, sys::Dir,
    sys::PartOwner, sys::Uninterrupted, sys::stat::Kind, tree::JoinReader, tree::PathRecord,
    tree::RecordReader, tree::SortedRecords, tree::Sorter, tree::by_bytes, tree::pass::each_below,
};

/// More is not read of a text file that is there.
const MOST_TEXT: u64 = 4 << 20;

/// A bag whose payload is complete.
pub struct BagSeal<'a> {
    pub job: &'a CopyJob,
    pub bag: &'a BagOptions,
    pub root: &'a BagRoot,
    pub payload: &'a Dir,
    /// The tags that the bag had before the run.
    pub there: &'a [InfoTag],
    pub stop: &'a Stop,
}

impl BagSeal<'_> {
    /// Finishes the bag by the lists of its copy, beside its `manifest`. False if the run is to stop before that.
    ///
    /// # Errors
    /// The payload is not what is listed, or a file cannot be written: the directory is no bag.
    pub fn run(&self, manifest: &Path) -> Result<bool> {
        let algorithms = self.algorithms();
        let with = ListWriting {
            parts: PartOwner::default(),
            algorithms,
            durable: self.job.options.sync,
            verify: self.job.options.verify,
            stop: Some(self.stop),
        };
        let Some((mut tags, oxum)) = self.manifests(with, manifest)? else { return Ok(false) };
        let info = self.info(with, oxum, tags.iter().any(|tag| tag.is_new))?;
        let Some(info) = info else { return Ok(false) };
        tags.push(info);
        // Its name comes last, and what it will have is known.
        let mut declared = algorithms.start();
        declared.update(DECLARED.as_bytes());
        if let Some(digests) = declared.finish_all(algorithms) {
            tags.push(WrittenTag { name: DECLARATION.to_owned(), digests, is_new: true });
        }
        tags.sort_by(|one, other| one.name.cmp(&other.name));
        let mut written = TagLists::default();
        for algorithm in algorithms.iter() {
            let name = tag_list(algorithm);
            let mut file = self.root.begin_tag(with, &name)?;
            for tag in &tags {
                let digest = tag.digests.of(algorithm);
                digest.iter().for_each(|digest| digest.write(&mut file.text));
                file.text.extend_from_slice(format!("  {}\n", tag.name).as_bytes());
            }
            written.add(name, &file.text);
            if WrittenTag::finish(file, sys::new_file_mode())?.is_none() {
                return Ok(false);
            }
        }
        self.persist()?;
        if self.stop.is_requested() {
            return Ok(false);
        }
        if let Some(private) = &self.root.private {
            let noted = written.update(private, self.job.options.sync);
            noted.deed_at("note the tag manifests in", || private.path())?;
        }
        if self.root.write_tag(with, DECLARATION, DECLARED.as_bytes())?.is_none() {
            return Ok(false);
        }
        self.persist()?;
        Ok(true)
    }

    /// Puts the file that makes it a bag back: nothing was changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn restore(root: &BagRoot, job: &CopyJob, stop: &Stop) -> Result<()> {
        let algorithms = Algorithms::default().with(Algorithm::Sha256);
        let (parts, durable) = (PartOwner::default(), job.options.sync);
        let with = ListWriting { parts, algorithms, durable, verify: false, stop: Some(stop) };
        root.write_tag(with, DECLARATION, DECLARED.as_bytes())?;
        persist(root, job.options.sync)
    }

    fn algorithms(&self) -> Algorithms {
        self.job.options.further.with(self.job.options.algorithm)
    }

    fn persist(&self) -> Result<()> {
        persist(self.root, self.job.options.sync)
    }

    /// Writes the manifests of the payload, and says how much it is. None if the run is to stop.
    fn manifests(
        &self,
        with: ListWriting<'_>,
        manifest: &Path,
    ) -> Result<Option<(Vec<WrittenTag>, String)>> {
        let Self { root, job, stop, .. } = *self;
        let fail = |error| Error::io("open", &root.path, error);
        let (dir, path) = root.lists().map_err(fail)?;
        let name = manifest.file_name().unwrap_or_default();
        let of_run = ManifestName::parse(name);
        let of_run = of_run.ok_or_else(|| {
            Error::finding("finish the bag by", manifest, "it is no manifest of a copy")
        })?;
        let data = root.path.join(PAYLOAD);
        let Some(found) = FoundPayload::list(self.payload, &data, stop)? else { return Ok(None) };
        let mut tags = Vec::new();
        for algorithm in self.algorithms().iter() {
            let name = match algorithm == job.options.algorithm {
                true => of_run.to_string(),
                false => of_run.list(algorithm.spec().map_or("", |spec| spec.suffix)),
            };
            let Some(records) = listed(&dir, &path, &name, algorithm, stop)? else {
                return Ok(None);
            };
            found.check(&records, &root.path)?;
            let tag = payload_list(algorithm);
            let mut file = root.begin_tag(with, &tag)?;
            // As closed as the list of the copy, which knows what it lists.
            let of_list = dir.stat(name.as_ref(), false).map_or(u32::MAX, |list| list.mode);
            let mode = sys::new_file_mode() & of_list;
            let mut text = ManifestText::of(&records);
            while text.next_line(&mut file.text).deed("write the manifests of", &root.path)? {
                file.flush_much().deed("write", file.path())?;
            }
            let Some(written) = WrittenTag::finish(file, mode)? else { return Ok(None) };
            tags.push(written);
        }
        Ok(Some((tags, format!("{}.{}", found.bytes, found.number))))
    }

    /// Writes the tags. Where nothing else is new, the date stays that of the bag. None if the run is to stop.
    fn info(
        &self,
        with: ListWriting<'_>,
        oxum: String,
        is_new: bool,
    ) -> Result<Option<WrittenTag>> {
        let date_there = self.there.iter().find(|tag| tag.is(DATE) && !is_new);
        let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
        let text = |date: String| {
            let mut tags = InfoTag::merged(self.there, &self.bag.tags);
            let agent = concat!("dircopy ", env!("CARGO_PKG_VERSION")).to_owned();
            for (label, value) in [(AGENT, agent), (DATE, date), (OXUM, oxum.clone())] {
                if !tags.iter().any(|tag| tag.is(label)) {
                    tags.push(InfoTag::own(label, value));
                }
            }
            tags
        };
        let same = date_there.map(|tag| text(tag.value().to_owned()));
        let tags = same.filter(|tags| *tags == self.there).unwrap_or_else(|| text(today));
        self.root.write_tag(with, INFO, InfoTag::write_all(&tags).as_bytes())
    }
}

/// The tags of the bag at `root`, which has tag manifests of these algorithms; they stay when it is made again. What
/// is to be told of them goes to `warnings`.
///
/// # Errors
/// They cannot be read, so they would be lost.
pub fn tags_there(
    root: &BagRoot,
    algorithms: Algorithms,
    warnings: &mut Vec<Error>,
) -> Result<Vec<InfoTag>> {
    let path = root.path.join(INFO);
    let keep = |why: String| Error::finding("keep the tags in", &path, why);
    let noted = root.private.as_deref().and_then(TagLists::read);
    let is_noted = noted.is_some();
    let changed = noted.map_or_else(Vec::new, |noted| noted.changed_in(&root.dir));
    warnings.extend(changed.iter().map(|name| {
        let finding = "it is not as your last run wrote it, unless that was cut short: the tags that are there stay, and \
                       are listed anew";
        Error::finding("rely on", root.path.join(name), finding)
    }));
    let doubt = root.private.as_deref().and_then(TagLists::doubt);
    warnings.extend(doubt.filter(|doubt| *doubt == NoteDoubt::Unreadable).map(|_| {
        let finding = format!("{TAGS_UNREAD}: the tags that are there stay, and are listed anew");
        Error::finding("rely on", &path, finding)
    }));
    let Some(text) = read_file(root, INFO)? else {
        let there = root.dir.stat(INFO.as_ref(), false).if_there().deed("look at", &path)?;
        match is_noted || lists_tags(root, algorithms)? {
            true if there.is_none() => {
                let why = format!("it is gone, and its tags with it; bring it back, or {ANEW}");
                return Err(keep(why));
            }
            true => warnings.push(keep(REPLACED.to_owned())),
            false => {}
        }
        return Ok(Vec::new());
    };
    let tags = String::from_utf8(text.clone()).map_err(|_| "it is not UTF-8".to_owned());
    let tags = tags.and_then(|text| InfoTag::read_all(&text));
    let tags = tags.map_err(|why| keep(format!("{why}; mend it, or {ANEW}")))?;
    for algorithm in algorithms.iter() {
        let name = tag_list(algorithm);
        let listed = read_file(root, &name)?.unwrap_or_default();
        let of_info = format!("  {INFO}").into_bytes();
        let mut listed =
            listed.split(|byte| *byte == b'\n').filter(|line| line.ends_with(&of_info));
        let (mut hasher, mut line) = (Algorithms::default().with(algorithm).start(), Vec::new());
        hasher.update(&text);
        let digests = hasher.finish_all(Algorithms::default().with(algorithm));
        digests.and_then(|digests| digests.of(algorithm)).iter().for_each(|it| it.write(&mut line));
        line.extend_from_slice(&of_info);
        if listed.any(|listed| listed != line) {
            warnings
                .push(keep(format!("it is not what {name} lists; it stays, and is listed anew")));
        }
    }
    Ok(tags)
}

const REPLACED: &str = "it is no regular file, so its tags are lost: if they are not those of --bag-info, bring them back and run \
                        again";

const ANEW: &str = "make it empty and give the tags anew (--bag-info)";

/// True if a tag manifest by one of these algorithms lists the tags.
fn lists_tags(root: &BagRoot, algorithms: Algorithms) -> Result<bool> {
    let ending = format!("  {INFO}");
    for algorithm in algorithms.iter() {
        let listed = read_file(root, &tag_list(algorithm))?.unwrap_or_default();
        if listed.split(|byte| *byte == b'\n').any(|line| line.ends_with(ending.as_bytes())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a text file of the bag has; none if there is no such file.
fn read_file(root: &BagRoot, name: &str) -> Result<Option<Vec<u8>>> {
    let path = root.path.join(name);
    let fail = |error| Error::io("read", &path, error);
    let there = root.dir.stat(name.as_ref(), false).if_there().map_err(fail)?;
    if there.is_none_or(|there| there.kind != Kind::File) {
        return Ok(None);
    }
    let file = root.dir.open_file(name.as_ref(), false).map_err(fail)?;
    let mut bytes = Vec::new();
    Uninterrupted(file).take(MOST_TEXT + 1).read_to_end(&mut bytes).map_err(fail)?;
    match bytes.len() as u64 > MOST_TEXT {
        true => Err(Error::finding("read", &path, "it is too long to be one of a bag")),
        false => Ok(Some(bytes)),
    }
}

fn persist(root: &BagRoot, durable: bool) -> Result<()> {
    let persisted = if durable { root.dir.persist() } else { Ok(()) };
    persisted.deed("make durable", &root.path)
}

// What a bag lists: the lists of the copy, sorted by path, and the payload as it lies there, which must be the same.
//
// Sorted, the manifests of two bags of the same source are the same files, and lists and payload are compared side by
// side in bounded memory.

/// Reads the list `name` of the copy in `dir`, which is at `path`, and sorts its lines as a manifest of the bag has
/// them. None if the run is to stop.
///
/// # Errors
/// It cannot be read, or is not what the copy wrote.
pub fn listed(
    dir: &Dir,
    path: &Path,
    name: &str,
    algorithm: Algorithm,
    stop: &Stop,
) -> Result<Option<SortedRecords>> {
    let fail = |error| Error::io("read the list", path.join(name), error);
    let mut entries = Entries::of_all(dir.open_file(name.as_ref(), false).map_err(fail)?);
    let mut sorter = Sorter::new(by_bytes);
    while let Some(entry) = entries.next_entry().map_err(fail)? {
        if stop.is_requested() {
            return Ok(None);
        }
        let found = match entry.parsed {
            Parsed::Record(record) if record.digest.algorithm() == algorithm => record,
            _ => {
                let finding = format!("line {} is not as it was written", entry.number);
                return Err(Error::finding("use the list", path.join(name), finding));
            }
        };
        // A name that starts with "-" has this before it.
        let path = found.name.strip_prefix(b"./").unwrap_or(found.name);
        sorter.add(found.digest.to_string(), &in_payload(path)).map_err(fail)?;
    }
    sorter.finish().map(Some).map_err(fail)
}

/// The name of the file at this path below the payload, as a manifest has it.
fn in_payload(path: &[u8]) -> Vec<u8> {
    [PAYLOAD.as_bytes(), b"/", &escaped(path)].concat()
}

/// The lines of a manifest.
pub struct ManifestText {
    records: RecordReader,
    last: Vec<u8>,
}

impl ManifestText {
    pub fn of(records: &SortedRecords) -> Self {
        Self { records: records.reader(), last: Vec::new() }
    }

    /// Appends the next line to `out`; false at the end. A file that the copy listed twice is in it once.
    ///
    /// # Errors
    /// What was sorted cannot be read.
    pub fn next_line(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let Some(record) = self.records.next_record()? else { return Ok(false) };
            if record == self.last {
                continue;
            }
            self.last.clear();
            self.last.extend_from_slice(record);
            let PathRecord { words: digest, path } = PathRecord::of(&self.last);
            out.extend_from_slice(digest);
            out.extend_from_slice(b"  ");
            out.extend_from_slice(path);
            out.push(b'\n');
            return Ok(true);
        }
    }
}

/// The payload as it lies there.
pub struct FoundPayload {
    files: SortedRecords,
    pub bytes: u64,
    pub number: u64,
}

impl FoundPayload {
    /// Lists what is in the directory `payload`, which is at `path`. None if the run is to stop.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn list(payload: &Dir, path: &Path, stop: &Stop) -> Result<Option<Self>> {
        let mut sorter = Sorter::new(by_bytes);
        let (mut bytes, mut number) = (0_u64, 0);
        let fail = |(at, error): (RelPath, _)| Error::io("list", at.full_path(path), error);
        let is_whole = each_below(payload, stop, &mut |entry| {
            let entry = entry.map_err(fail)?;
            let stat = entry.stat().map_err(fail)?;
            if stat.kind != Kind::Dir {
                (bytes, number) = (bytes.saturating_add(stat.size), number + 1);
                let name = in_payload(entry.path.as_bytes());
                sorter.add("", &name).deed("list", path)?;
            }
            Ok(stat.kind == Kind::Dir)
        })?;
        if !is_whole {
            return Ok(None);
        }
        let files = sorter.finish().deed("list", path)?;
        Ok(Some(Self { files, bytes, number }))
    }

    /// That the files are those that are listed. `path` is that of the bag.
    ///
    /// # Errors
    /// They are not, or what was sorted cannot be read.
    pub fn check(&self, listed: &SortedRecords, path: &Path) -> Result<()> {
        let fail = |error| Error::io("compare with its lists the payload of", path, error);
        let mut there = JoinReader::of(&self.files).map_err(fail)?;
        let mut listed = JoinReader::of(listed).map_err(fail)?;
        loop {
            let [here, in_list] = [&there, &listed].map(|it| it.peek().map(|next| next.path));
            let (name, what) = match (here, in_list) {
                (None, None) => return Ok(()),
                (Some(here), Some(in_list)) if here == in_list => {
                    let name = here.to_vec();
                    there.take_all_of(&name).map_err(fail)?;
                    listed.take_all_of(&name).map_err(fail)?;
                    continue;
                }
                (Some(here), in_list) if in_list.is_none_or(|in_list| here < in_list) => {
                    (here, "is there and was not copied by this run")
                }
                (_, in_list) => (in_list.unwrap_or_default(), "was copied and is not there"),
            };
            let name = unescaped(name.into());
            let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let remedy = match sys::name_from_bytes(last).is_ok_and(sys::is_part_name) {
                true => "; remove it, if no other run is at work there, and run again",
                false => "",
            };
            let name = Shown::bytes(&name);
            let finding =
                format!("{name} {what}, so its lists would not be those of its payload{remedy}");
            return Err(Error::finding("finish the bag", path, finding));
        }
    }
}
