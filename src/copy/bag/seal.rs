//! The end of a bag: its manifests, its tags, the lists of all these, and last the file that makes it a bag.

use std::io::{self, Read};
use std::path::Path;

use jiff::Timestamp;

use crate::copy::bag::listing::{FoundPayload, ManifestText, listed};
use crate::copy::bag::options::BagOptions;
use crate::copy::bag::place::BagRoot;
use crate::copy::bag::tag_file::{TagWriting, WrittenTag};
use crate::copy::job::CopyJob;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithm, Algorithms};
use crate::manifest::ManifestName;
use crate::manifest::archive::bag::{DECLARATION, DECLARED, INFO, PAYLOAD};
use crate::manifest::archive::bag_info::{AGENT, DATE, InfoTag, OXUM};
use crate::sys::stat::Kind;
use crate::sys::{Dir, Uninterrupted};

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
        let with = TagWriting {
            root: self.root,
            algorithms,
            durable: self.job.sync,
            verify: self.job.verify.is_some(),
            stop: self.stop,
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
        for algorithm in algorithms.iter() {
            let name = format!("tagmanifest-{}.txt", algorithm.name());
            let mut file = with.begin(&name)?;
            for tag in &tags {
                let digest = tag.digests.of(algorithm);
                digest.iter().for_each(|digest| digest.write(&mut file.text));
                file.text.extend_from_slice(format!("  {}\n", tag.name).as_bytes());
            }
            if file.finish()?.is_none() {
                return Ok(false);
            }
        }
        self.persist()?;
        if self.stop.is_requested() || with.write(DECLARATION, DECLARED.as_bytes())?.is_none() {
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
        let with = TagWriting { root, algorithms, durable: job.sync, verify: false, stop };
        with.write(DECLARATION, DECLARED.as_bytes())?;
        persist(root, job.sync)
    }

    fn algorithms(&self) -> Algorithms {
        self.job.further.with(self.job.algorithm)
    }

    fn persist(&self) -> Result<()> {
        persist(self.root, self.job.sync)
    }

    /// Writes the manifests of the payload, and says how much it is. None if the run is to stop.
    fn manifests(
        &self,
        with: TagWriting<'_>,
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
            let name = match algorithm == job.algorithm {
                true => of_run.to_string(),
                false => of_run.list(algorithm.spec().map_or("", |spec| spec.suffix)),
            };
            let Some(records) = listed(&dir, &path, &name, algorithm, stop)? else {
                return Ok(None);
            };
            found.check(&records, &root.path)?;
            let mut file = with.begin(&format!("manifest-{}.txt", algorithm.name()))?;
            // As closed as the list of the copy, which knows what it lists.
            if let Ok(list) = dir.stat(name.as_ref(), false) {
                file.mode &= list.mode;
            }
            let mut text = ManifestText::of(&records);
            let fail = |error| Error::io("write the manifests of", &root.path, error);
            while text.next_line(&mut file.text).map_err(fail)? {
                file.flush_much()?;
            }
            let Some(written) = file.finish()? else { return Ok(None) };
            tags.push(written);
        }
        Ok(Some((tags, format!("{}.{}", found.bytes, found.number))))
    }

    /// Writes the tags. Where nothing else is new, the date stays that of the bag. None if the run is to stop.
    fn info(&self, with: TagWriting<'_>, oxum: String, is_new: bool) -> Result<Option<WrittenTag>> {
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
        with.write(INFO, InfoTag::write_all(&tags).as_bytes())
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
    let Some(text) = read_file(root, INFO)? else { return Ok(Vec::new()) };
    let tags = String::from_utf8(text.clone()).map_err(|_| "it is not UTF-8".to_owned());
    let tags = tags.and_then(|text| InfoTag::read_all(&text));
    let tags = tags.map_err(|why| keep(format!("{why}; mend it, or remove it")))?;
    for algorithm in algorithms.iter() {
        let name = format!("tagmanifest-{}.txt", algorithm.name());
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

/// What a text file of the bag has; none if there is no such file.
fn read_file(root: &BagRoot, name: &str) -> Result<Option<Vec<u8>>> {
    let path = root.path.join(name);
    let fail = |error| Error::io("read", &path, error);
    match root.dir.stat(name.as_ref(), false) {
        Ok(stat) if stat.kind == Kind::File => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
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
    persisted.map_err(|error| Error::io("make durable", &root.path, error))
}
