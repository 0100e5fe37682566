//! Merging the results of the shards of a check: the proof that every line of the manifest was checked by one shard, in
//! this directory, and the verdict over all of them.
//!
//! The manifest is read once. What the lines of each shard come to is summed up, and must be what the shard answered.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Instant};

use crate::verify::{
    Expanded, Finding, FindingObserver, ReadFrom, ReadOrder, ShardCoverage, Target, TargetSpec,
    VerifyJob, VerifyReport, expand, lines::LinesRead, lines::shards::LineSum,
    lines::shards::LinesWanted, shards::FoundResult, shards::ResultsDir, shards::ShardResult,
    shards::only_spec, shards::root_inode, work::Checker, work::threads::Collector,
    work::threads::Threads, work::worker::Division,
};
use crate::{error::Error, error::Result, event::Observer, path::Shown};

const DEED: &str = "merge the results in";

const COUNT: &str = "count the result";

/// The end of a check in shards.
#[derive(Clone, Debug)]
pub struct MergeJob {
    /// The check that the results are of.
    pub check: VerifyJob,
    /// The directory of the results.
    pub results: PathBuf,
}

/// The manifest that results are held against.
struct CheckedManifest {
    manifest: String,
    sums: Vec<LineSum>,
    root_inode: u64,
}

impl MergeJob {
    /// Merges the results.
    ///
    /// # Errors
    /// It was refused, or there are no results.
    pub fn run(&self, observer: &FindingObserver<'_>) -> Result<VerifyReport> {
        let Observer { stop, listen, .. } = observer;
        let started = Instant::now();
        let Expanded { specs, bags, .. } = expand(self.check.specs()?);
        let spec = only_spec(DEED, &specs, &bags)?;
        let root_inode = root_inode(spec)?;
        let dir = ResultsDir::open(&self.results, false)?;
        let results = dir.all()?;
        let nowhere = Arc::new(Target::none());
        let mut collector = Collector::new(listen, None, 1);
        let mut sound = Vec::new();
        for mut found in results {
            let none = Err(Error::finding(COUNT, &found.path, "it is told"));
            match std::mem::replace(&mut found.result, none) {
                Ok(result) => {
                    dir.refuse_exchanged(&result)?;
                    sound.push((found, result));
                }
                Err(error) => collector.tell(&nowhere, Finding::Broken(error)),
            }
        }
        let Some(of) = usual_number(&sound) else {
            let finding =
                "there is no result in it: run the shards with --results, or run them again";
            return Err(Error::finding(DEED, &self.results, finding));
        };
        let (read, target) = read_manifest(spec, of, &mut collector, observer);
        let mut coverage =
            ShardCoverage { index: None, of, lines: 0, began: i64::MAX, ended: i64::MIN };
        let sum = read.as_ref().and_then(|read| read.manifest_sum);
        match (read, sum) {
            _ if stop.is_requested() => {}
            (Some(read), Some(sum)) => {
                let manifest = sum.to_string();
                let whole = CheckedManifest { manifest, sums: read.sums, root_inode };
                self.judge(&whole, &sound, &target, &mut coverage, &mut collector);
            }
            _ => {
                let finding = "the manifest cannot be read to its end, so none of them counts";
                let error = Error::finding(DEED, &self.results, finding);
                collector.tell(&nowhere, Finding::Broken(error));
            }
        }
        Ok(VerifyReport {
            counts: collector.counts,
            shard: Some(coverage),
            interrupted: stop.requested(),
            elapsed: started.elapsed(),
            ..VerifyReport::default()
        })
    }

    /// Counts the result of each shard once, and names what is amiss.
    fn judge(
        &self,
        whole: &CheckedManifest,
        sound: &[(FoundResult, ShardResult)],
        target: &Target,
        coverage: &mut ShardCoverage,
        collector: &mut Collector<'_>,
    ) {
        let mut counted = BTreeMap::<u32, &FoundResult>::new();
        let (mut device, mut cache) = (0, 0);
        for (found, result) in sound {
            let first = counted.get(&result.index);
            if let Some(finding) = whole.fault(result, coverage.of, first.copied()) {
                let error = Error::finding(COUNT, &found.path, finding);
                collector.tell(target, Finding::Broken(error));
                continue;
            }
            counted.insert(result.index, found);
            coverage.lines += result.lines;
            coverage.began = coverage.began.min(result.began);
            coverage.ended = coverage.ended.max(result.ended);
            if let Err(error) = found.tell(target, |bad| collector.tell(target, bad)) {
                collector.tell(target, Finding::Broken(error));
            }
            let counts = &mut collector.counts;
            counts.good += result.good;
            counts.bytes += result.bytes;
            (device, cache) = (device + result.from_device, cache + result.from_cache);
        }
        (collector.counts.from_device, collector.counts.from_cache) = (device, cache);
        let missing: Vec<u32> =
            (0..coverage.of).filter(|index| !counted.contains_key(index)).collect();
        if !missing.is_empty() {
            let finding = format!(
                "of shards 0 to {} there is no result that counts of {}: run {}",
                coverage.of - 1,
                ranges(&missing),
                if missing.len() == 1 { "it" } else { "them" },
            );
            let error = Error::finding(DEED, &self.results, finding);
            collector.tell(target, Finding::Broken(error));
        }
    }
}

impl CheckedManifest {
    /// Why a result does not count, if it does not.
    fn fault(&self, result: &ShardResult, of: u32, first: Option<&FoundResult>) -> Option<String> {
        let ShardResult { index, .. } = result;
        let sum = self.sums.get(*index as usize).copied().unwrap_or_default();
        let answered = (result.lines, &*result.sum);
        match first {
            _ if result.of != of => Some(format!(
                "it is of a check in {} shards, and most are of one in {of}: remove it",
                result.of
            )),
            _ if result.manifest != self.manifest => {
                Some(format!("it is of another manifest: run shard {index} again, or remove it"))
            }
            _ if result.root_inode != self.root_inode => Some(format!(
                "it is of another directory, {}: run shard {index} again, or remove it",
                result.root
            )),
            _ if answered != (sum.lines, &*format!("{:032x}", sum.sum)) => Some(format!(
                "the lines that it answered are not those of shard {index}: run that again"
            )),
            Some(first) => Some(format!(
                "it is of shard {index}, as {} is: remove one of them",
                Shown::path(&first.path)
            )),
            None => None,
        }
    }
}

/// Into how many shards most results divide the check.
fn usual_number(sound: &[(FoundResult, ShardResult)]) -> Option<u32> {
    let mut numbers = BTreeMap::<u32, usize>::new();
    sound.iter().for_each(|(_, result)| *numbers.entry(result.of).or_default() += 1);
    numbers.into_iter().max_by_key(|&(_, results)| results).map(|(of, _)| of)
}

/// Reads the manifest, tells what is amiss with it, and sums up the lines of each shard.
fn read_manifest(
    spec: &TargetSpec,
    of: u32,
    collector: &mut Collector<'_>,
    observer: &FindingObserver<'_>,
) -> (Option<LinesRead>, Arc<Target>) {
    let Observer { progress, stop, .. } = observer;
    // No line is given out.
    let division = Division { order: ReadOrder::LargeFirst, large_together: false, workers: 0 };
    let threads = Threads {
        specs: std::slice::from_ref(spec),
        division,
        checker: &|| Checker::new(ReadFrom::default(), false, progress, stop),
        complete: true,
        scrub: None,
        shared: None,
        proves: false,
        wanted: Some(LinesWanted::Sums(of)),
        progress,
        stop,
    };
    let read = threads.run(collector);
    let listed = read.as_ref().and_then(|read| read.listed.first());
    let nowhere = || Arc::new(Target::none());
    let target = listed.map_or_else(nowhere, |listed| Arc::clone(&listed.target));
    (read, target)
}

/// Numbers in order, as in `3, 7-9`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    ranges.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_ranges() {
        assert_eq!(ranges(&[3, 7, 8, 9, 11, 12]), "3, 7-9, 11, 12");
        assert_eq!(ranges(&[0]), "0");
    }
}
