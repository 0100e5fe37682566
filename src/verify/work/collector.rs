//! Findings come together here: they are counted, remembered as far as later checks need them, and told.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::error::Error;
use crate::hash::{Algorithm, Digest};
use crate::manifest::other_name::LIKE_SHA512;
use crate::sys::stat::Identity;
use crate::verify::archive::expanded::Bag;
use crate::verify::archive::part::PartOf;
use crate::verify::finding::{BagVerdict, Finding, FindingListener, Findings, Verdict};
use crate::verify::lines::seen::{NameHasher, SeenNames};
use crate::verify::report::Checked;
use crate::verify::scrub::pass::Scrub;
use crate::verify::several::replicas::Replicas;
use crate::verify::several::trees::CheckedTrees;
use crate::verify::shards::notes::ShardNotes;
use crate::verify::target::Target;

/// Counts the findings of a check and tells the listener; on the thread that runs the job.
pub struct Collector<'a> {
    listen: &'a FindingListener<'a>,
    /// Makes hashes of names.
    pub key: NameHasher,
    /// What became of the lines so far.
    pub counts: Checked,
    /// The scrub, with the target of the last finding.
    scrub: Option<(&'a Scrub, Option<Arc<Target>>)>,
    /// Lines that workers answered.
    answered: u64,
    /// Names that were found by another spelling.
    pub converted: SeenNames,
    /// What was found of each bag.
    bags: HashMap<Identity, Checked>,
    /// The directories as replicas of each other, if there are several.
    pub replicas: Option<Replicas>,
    /// The first list with a file that differs by SHA-512.
    sha512: Option<Arc<Target>>,
    /// What was found of each of several directories.
    pub trees: CheckedTrees,
    /// What is to be recorded of a shard, if it is one.
    pub shard: Option<ShardNotes>,
}

impl<'a> Collector<'a> {
    /// For a check of so many targets.
    pub fn new(listen: &'a FindingListener<'a>, scrub: Option<&'a Scrub>, targets: usize) -> Self {
        Self {
            listen,
            key: NameHasher::default(),
            counts: Checked::default(),
            scrub: scrub.map(|scrub| (scrub, None)),
            answered: 0,
            converted: SeenNames::default(),
            bags: HashMap::new(),
            replicas: (targets > 1).then(|| Replicas::new(targets)),
            sha512: None,
            trees: CheckedTrees::default(),
            shard: None,
        }
    }

    /// Takes findings until no thread can send more.
    pub fn take_all(&mut self, inbox: &Receiver<Findings>) {
        for Findings { target, found } in inbox {
            if let Some((scrub, last)) = &mut self.scrub {
                found.iter().for_each(|finding| scrub.note(finding));
                *last = Some(Arc::clone(&target));
                if let Err(error) = scrub.save_now_and_then() {
                    self.tell(&target, Finding::Broken(error));
                }
            }
            for finding in found {
                self.answered += u64::from(matches!(finding, Finding::File { .. }));
                self.shard.iter_mut().for_each(|notes| notes.note(&finding));
                if let Finding::Converted { to, line, .. } = &finding {
                    self.converted.note(self.key.of(to), *line, &Digest::sha256([0; 32]));
                }
                self.note_look_alike(&target, &finding);
                self.tell(&target, finding);
            }
        }
    }

    /// Writes what a scrub verified.
    pub fn save_scrub(&mut self) {
        if let Some((scrub, Some(target))) = self.scrub.clone()
            && let Err(error) = scrub.save()
        {
            self.tell(&target, Finding::Broken(error));
        }
    }

    /// Lines that workers answered, and those that a scrub skipped.
    pub fn answered(&self) -> u64 {
        self.answered + self.scrub.as_ref().map_or(0, |(scrub, _)| scrub.skipped())
    }

    /// Tells what each bag is by all that was found of it.
    pub fn tell_bags(&mut self, bags: &[Bag]) {
        for bag in bags {
            let found = self.bags.get(&bag.id).copied().unwrap_or_default();
            let Checked { missing, incomplete, contradicted, unlisted, broken, .. } = found;
            let is_incomplete =
                missing + incomplete + contradicted + unlisted + broken > 0 || found.is_unusable();
            let verdict = match is_incomplete {
                true => BagVerdict::Incomplete,
                false if found.differ + found.unreadable > 0 => BagVerdict::Complete,
                false => BagVerdict::Valid,
            };
            self.tell(&bag.target, Finding::Bag(verdict));
        }
    }

    /// Tells what lists of BLAKE2b look like, if that may be why every file differs.
    pub fn tell_look_alike(&mut self) {
        let Some(target) = self.sha512.take().filter(|_| self.counts.good == 0) else { return };
        let error = Error::finding("tell the algorithm of", &target.manifest, LIKE_SHA512);
        self.tell(&target, Finding::Notice(error));
    }

    /// Notes a list with digests that may be taken for others.
    fn note_look_alike(&mut self, target: &Arc<Target>, finding: &Finding) {
        if let Finding::File { listed, verdict: Verdict::Differs(..), .. } = finding
            && listed.algorithm() == Algorithm::Sha512
            && target.ours.is_none()
            && target.part == PartOf::Alone
        {
            self.sha512.get_or_insert_with(|| Arc::clone(target));
        }
    }

    /// Tells what became of each of several directories.
    pub fn tell_trees(&mut self) {
        let (findings, nowhere) = (self.trees.findings(), Target::none());
        findings.into_iter().for_each(|finding| self.tell(&nowhere, finding));
    }

    /// Counts and tells a finding.
    pub fn tell(&mut self, target: &Target, finding: Finding) {
        self.counts.add(&finding);
        self.trees.note(target, &finding);
        if target.part.bag().is_some() {
            self.bags.entry(target.root_id).or_default().add(&finding);
        }
        if let Some(replicas) = &mut self.replicas {
            replicas.note(target, &finding);
        }
        (self.listen)(target, &finding);
    }
}
