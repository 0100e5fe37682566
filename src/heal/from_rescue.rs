//! Making a file whole that a copy could not read all of (`--rescue`): what is missing of what was rescued comes from
//! another tree.
//!
//! In the place of the bad file stands what was rescued of it, so links of other trees and parity fill it as they do
//! any file. What is here is for copies without chains, which are bad elsewhere. The judge is the digest that is
//! listed, or the one that the copy was told by `--expect`.

use std::{ops::Range, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, hash::Digest, hash::Hasher, heal::FileCopy,
    heal::bad::BadFile, heal::bad::BadFiles, heal::bad::Case, heal::bad::Harm, heal::bad::Mended,
    heal::bad::Tree, heal::bad::Unmended, heal::mend::Mender, state::Rescues,
    state::rescues::path_of, sys, sys::Medium, sys::stat::Stat, transfer::rescue::missing,
    tree::LastDir, verify::Checked, verify::Finding, verify::FindingListener, verify::Target,
    verify::Verdict,
};

/// Read and written at once.
const BLOCK: u64 = 1 << 20;

/// What a rescued file lacks, …
pub struct Rescued {
    pub missing: Vec<Range<u64>>,
    /// … and as what it looks until it looks as the source's file did.
    pub stat: Stat,
}

/// Notes the rescued files of trees that no list has and that are not whole yet, but of which a copy was told what they
/// are to be: they are missing as if they were listed. Then it is told how many bad files were too many.
pub fn note_unlisted(
    trees: &[Tree],
    bad: &mut BadFiles,
    counts: &mut Checked,
    listen: &FindingListener<'_>,
) {
    for (number, tree) in trees.iter().enumerate() {
        let (Some(rescues), Some(target)) = (tree.rescues(), tree.targets.first()) else {
            continue;
        };
        let mut last = LastDir::default();
        for path in rescues.paths() {
            if bad.has(&path, number) || last.stat(&tree.dir, &path, false).is_ok() {
                continue;
            }
            let finding = match rescues.of(&path).and_then(|rescue| rescue.expected()) {
                Some(listed) => Finding::File {
                    line: 0,
                    path,
                    listed,
                    verdict: Verdict::Missing,
                    bytes: 0,
                    shared: 0,
                    proven: None,
                },
                None => {
                    let rescued = path_of(&path).unwrap_or(path).full_path(&tree.root);
                    let finding = "no list says what it is to be; copy it once more with --rescue and --expect, or \
                                   give a list (--manifest)";
                    Finding::Notice(Error::finding("heal", rescued, finding))
                }
            };
            counts.add(&finding);
            listen(target, &finding);
            bad.note(target, number, &finding);
        }
    }
    if bad.left_out > 0 {
        listen(&Target::none(), &Finding::TooManyBad(bad.left_out));
    }
}

impl Tree {
    /// What runs noted of files that they could not read all of.
    pub fn rescues(&self) -> Option<Rescues<'_>> {
        self.private().map(|private| Rescues::read(private, false))
    }
}

impl Mender<'_> {
    /// What was rescued of a missing file, if something was.
    pub fn rescued(
        &self,
        bad: &BadFile,
        tree: &Tree,
        path: &Path,
    ) -> Result<Option<(FileCopy, Rescued)>> {
        let rescues = self.rescues.get(bad.tree).and_then(Option::as_ref);
        let noted = rescues.filter(|_| bad.harm == Harm::Missing);
        let Some((rescues, rescue)) = noted.and_then(|it| Some((it, it.of(&bad.path)?))) else {
            return Ok(None);
        };
        let Some((above, name)) = bad.path.split() else { return Ok(None) };
        let name = sys::name_from_bytes(name).deed("open", path)?;
        let mut last = LastDir::default();
        let Ok(dir) = last.enter(&tree.dir, &above) else { return Ok(None) };
        let opened = rescues.open(dir, &bad.path, dir.keeps_numbers());
        let Some(file) = opened.deed("open", path)? else { return Ok(None) };
        let stat = sys::Dir::stat_file(&file).deed("look at", path)?;
        match missing(dir, name, stat.size) {
            Ok(missing) => {
                let rescued = Rescued { missing, stat };
                let stat = rescue.labelled(stat);
                Ok(Some((FileCopy { tree: bad.tree, file, stat, is_noted: false }, rescued)))
            }
            Err(why) => {
                let finding = format!("the map of what was rescued of it: {why}");
                (self.warn)(Error::finding("heal", path, finding));
                Ok(None)
            }
        }
    }

    /// Removes what was rescued of a file that is whole now. By the note a later copy knows it.
    pub fn remove_rescue(&self, bad: &BadFile, tree: &Tree, path: &Path) {
        let rescues = self.rescues.get(bad.tree).and_then(Option::as_ref);
        let Some((rescues, (above, _))) = rescues.zip(bad.path.split()) else { return };
        if rescues.are_none() {
            return;
        }
        let mut last = LastDir::default();
        let dir = last.enter(&tree.dir, &above);
        let removed = dir.and_then(|dir| rescues.remove(dir, &bad.path, dir.keeps_numbers()));
        if let Err(error) = removed {
            (self.warn)(Error::io("forget the rescue of", path, error));
        }
    }

    /// Takes what is missing of a rescued file from a copy of the same size; where that cannot be read, from others.
    pub fn by_spans(&self, case: &Case<'_>) -> Result<Mended, Unmended> {
        let Some(rescued) = &case.rescued else { return Err(Unmended::Nowhere) };
        let own = case.base()?;
        let is_like = |copy: &&FileCopy| copy.tree != own.tree && copy.stat.size == own.stat.size;
        let others: Vec<&FileCopy> = case.copies.iter().filter(is_like).collect();
        for (at, first) in others.iter().enumerate() {
            let order = [&others[at..], &others[..at]].concat();
            let filled = Filled { own, missing: &rescued.missing, order };
            let is_this = |copy: &FileCopy| copy.tree == first.tree;
            let mut mend = self.mend_of(case, case.copies.iter().position(is_this).into_iter());
            mend.bytes = rescued.missing.iter().map(|part| part.end - part.start).sum();
            if self.dry_run {
                if self.is_so(&filled, &case.bad.digest)? {
                    self.look(case, own, &[first])?;
                    return Ok(Mended { mend, ready: None });
                }
                continue;
            }
            let made = self.fill(case, own, vec![*first], |new| {
                new.look_for_room(own.stat.size)?;
                new.set_length(own.stat.size, Some(&own.stat))?;
                filled.read(&|| self.go_on(), |bytes, at| Ok(new.write_at(bytes, at)?))?;
                Ok(false)
            });
            match made {
                Ok((_, ready)) => return Ok(Mended { mend, ready: Some(ready) }),
                Err(Unmended::Nowhere) => {}
                Err(other) => return Err(other),
            }
        }
        Err(Unmended::Nowhere)
    }

    /// True if it has the digest that is listed.
    fn is_so(&self, filled: &Filled<'_>, listed: &Digest) -> Result<bool, Unmended> {
        let meant: Vec<Digest> = [Some(*listed), listed.alike()].into_iter().flatten().collect();
        let mut hashers: Vec<Hasher> = meant.iter().map(|it| it.algorithm().start()).collect();
        let read = filled.read(&|| self.go_on(), |bytes, _| {
            hashers.iter_mut().for_each(|hasher| hasher.update(bytes));
            Ok(())
        });
        match read {
            Ok(()) => {
                Ok(hashers.into_iter().zip(meant).any(|(it, meant)| it.finish() == Some(meant)))
            }
            Err(Unmended::Nowhere) => Ok(false),
            Err(other) => Err(other),
        }
    }
}

/// A rescued file with what is missing of it from others, the first first.
struct Filled<'c> {
    own: &'c FileCopy,
    missing: &'c [Range<u64>],
    order: Vec<&'c FileCopy>,
}

impl Filled<'_> {
    /// Reads all of it, block by block. `Nowhere` if none has a part of it.
    fn read(
        &self,
        go_on: &dyn Fn() -> Result<(), Unmended>,
        mut take: impl FnMut(&[u8], u64) -> Result<(), Unmended>,
    ) -> Result<(), Unmended> {
        let size = self.own.stat.size;
        let (mut room, mut at) = (vec![0; BLOCK as usize], 0);
        while at < size {
            go_on()?;
            let end = size.min(at + BLOCK);
            let bytes = &mut room[..(end - at) as usize];
            let has = |copy: &FileCopy, bytes: &mut [u8], at| {
                let wanted = bytes.len();
                Medium::any(&copy.file).fill_at(bytes, at).is_ok_and(|read| read == wanted)
            };
            if !has(self.own, bytes, at) {
                return Err(Unmended::Nowhere);
            }
            for part in self.missing.iter().filter(|part| part.start < end && at < part.end) {
                let (from, to) = (part.start.max(at), part.end.min(end));
                let bytes = &mut bytes[(from - at) as usize..(to - at) as usize];
                if !self.order.iter().any(|copy| has(copy, bytes, from)) {
                    return Err(Unmended::Nowhere);
                }
            }
            take(bytes, at)?;
            at = end;
        }
        Ok(())
    }
}
