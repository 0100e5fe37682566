//! The end of a bag: its manifests, its tags, the lists of all these, and last the file that makes it a bag.

use std::io::Read;
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
use crate::sys::{Dir, Uninterrupted};

/// More is not read of the tags that are there.
const MOST_INFO: u64 = 4 << 20;

/// A bag whose payload is complete.
pub struct BagSeal<'a> {
    pub job: &'a CopyJob,
    pub bag: &'a BagOptions,
    pub root: &'a BagRoot,
    pub payload: &'a Dir,
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
        let there = self.old_info().filter(|_| !is_new).unwrap_or_default();
        let date_there = there.iter().find(|tag| tag.is(DATE)).map(|tag| tag.value().to_owned());
        let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
        let text = |date: String| {
            let mut tags = self.bag.tags.clone();
            let agent = concat!("dircopy ", env!("CARGO_PKG_VERSION")).to_owned();
            for (label, value) in [(AGENT, agent), (DATE, date), (OXUM, oxum.clone())] {
                if !tags.iter().any(|tag| tag.is(label)) {
                    tags.push(InfoTag::own(label, value));
                }
            }
            tags
        };
        let same = date_there.map(text).filter(|tags| *tags == there);
        let tags = same.unwrap_or_else(|| text(today));
        with.write(INFO, InfoTag::write_all(&tags).as_bytes())
    }

    /// The tags that are there.
    fn old_info(&self) -> Option<Vec<InfoTag>> {
        let file = self.root.dir.open_file(INFO.as_ref(), false).ok()?;
        let mut text = String::new();
        Uninterrupted(file).take(MOST_INFO).read_to_string(&mut text).ok()?;
        InfoTag::read_written(&text)
    }
}

fn persist(root: &BagRoot, durable: bool) -> Result<()> {
    let persisted = if durable { root.dir.persist() } else { Ok(()) };
    persisted.map_err(|error| Error::io("make durable", &root.path, error))
}
