//! A new file whose content is at the output under a name that has left the source: it becomes a clone of that, or a
//! further hard link to it, under a part name.

use std::{ffi::OsStr, ffi::OsString, fs::File, io};

use crate::{
    error::Error, io::Durability, io::ReadBack, part::PartName, part::Transfer,
    part::content::Method, state::Trace, sys, sys::Attributes, sys::Cloned, sys::Dir, sys::Medium,
    sys::stat::Inode, sys::stat::Kind, sys::stat::Stat, transfer, transfer::Context,
    transfer::Outcome, transfer::WrittenPart, transfer::renamed::FormerFile,
    transfer::renamed::RenamedFiles, transfer::rot_check,
};

/// Shares the content of a file that nothing is at the output for, if that is there under a former name; `None` if it
/// is to be copied. The file is read to find that out, if there is one that looks like it.
pub fn share(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
    warnings: &mut Vec<Error>,
) -> Option<Outcome> {
    let renamed = context.shared.renamed?;
    let stat = &transfer.entry().stat;
    let can_share = renamed.clones.is_usable() || renamed.links.is_usable();
    if !can_share || !renamed.may_have(stat) {
        return None;
    }
    // What is wrong with it the copy will find out too.
    let Some(digest) = transfer::hash(context, transfer, read_back).ok()? else {
        return Some(Outcome::Abandoned);
    };
    // Nothing is made before there is known to be room for what the run makes.
    if !context.control.gate.lets_pass() {
        return Some(Outcome::Abandoned);
    }
    let new_name = NewName { context, transfer, renamed };
    let (part, made) = renamed
        .find(stat, &digest, |former| new_name.of(former, read_back, warnings).ok().flatten())?;
    let written = WrittenPart {
        part: PartName { name: part, journal: None },
        made,
        digest: Some(digest),
        method: Method::Renamed,
    };
    if rot_check::is_listed(context, &transfer.target).unwrap_or(true)
        && let Some(outcome) = rot_check::check(context, transfer, Some(digest))
    {
        new_name.discard(&written.part.name, warnings);
        return Some(outcome);
    }
    if let Some(states) = context.shared.states {
        states.carry(transfer.target.rel_path().as_bytes(), stat.size, &digest);
    }
    context.control.progress.skip(stat.size);
    context.pass(&transfer.target);
    Some(Outcome::Written(written))
}

/// A part file with a content that it shares: its name, and the file.
type SharedPart = (OsString, Inode);

/// A file that is to share the content of a former one.
struct NewName<'a> {
    context: &'a Context<'a>,
    transfer: &'a Transfer,
    renamed: &'a RenamedFiles<'a>,
}

impl NewName<'_> {
    /// The part file that has the content of `former`, and its name; `None` if that is not what the record knows, or
    /// cannot be shared.
    fn of(
        &self,
        former: FormerFile<'_>,
        read_back: &mut ReadBack,
        warnings: &mut Vec<Error>,
    ) -> io::Result<Option<SharedPart>> {
        let Some((above, name)) = former.path.split() else { return Ok(None) };
        let (from, name) = (self.renamed.root().open_below(&above)?, sys::name_from_bytes(name)?);
        // Opening a device can do things.
        if from.stat(name, false)?.kind != Kind::File {
            return Ok(None);
        }
        let file = from.open_file(name, false)?;
        let inode = Dir::inode_of(&file)?;
        let there = inode.stat;
        if !self.renamed.proves(&former, &there) {
            return Ok(None);
        }
        let is_labelled = self.has_labels(&file, &there)?;
        // The content is not read again: who could write to it must be who the label lets write.
        if self.renamed.clones.is_usable()
            && (is_labelled || sys::is_ours_alone(&file, &there)?)
            && let Some(part) = self.clone_of(&file, &there, warnings)?
        {
            return Ok(Some(part));
        }
        if !self.renamed.links.is_usable() || !is_labelled || !(former.take)() {
            return Ok(None);
        }
        if !self.has_content(&file, &there, &former, read_back)? {
            return Ok(None);
        }
        let Some(to) = &self.transfer.target.output.handle else { return Ok(None) };
        let part =
            match to.create_part_hard_link(self.transfer.target.output.volume.parts, &from, name) {
                Ok(part) => part,
                Err(error) => {
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
                    ) {
                        self.renamed.links.set_unusable();
                    }
                    return Err(error);
                }
            };
        let volume = &self.transfer.target.output.volume;
        let is_it = |now: &Inode| {
            now.stat.id == there.id
                && now.stat.mtime == there.mtime
                && volume.is_same(&inode.known(), now)
        };
        let Some(now) = to.inode(&part).ok().filter(is_it) else {
            self.discard(&part, warnings);
            return Ok(None);
        };
        self.renamed.note_link();
        Ok(Some((part, now)))
    }

    /// True if `file`, which is `there`, is read to have the recorded content. A further name changes its change time,
    /// so that its row proves nothing any more and the old name is read when it is carried over: what that finds must
    /// not be listed under the new name by then. Under `--verify` the part file is read back.
    fn has_content(
        &self,
        file: &File,
        there: &Stat,
        former: &FormerFile<'_>,
        read_back: &mut ReadBack,
    ) -> io::Result<bool> {
        let asked = &self.context.options.asked;
        if asked.verify.is_some() {
            return Ok(true);
        }
        let is_to_stop = || self.context.control.stop.is_urgent();
        let hashed = read_back.hash(Medium::any(file), asked.algorithm, is_to_stop, |_| ())?;
        let Some(hashed) = hashed else { return Ok(false) };
        let is_as_it_was = Trace::of(&Dir::stat_file(file)?) == Trace::of(there);
        if is_as_it_was && hashed.digest != Some(former.row.digest) {
            self.renamed.refute(former, there);
            return Ok(false);
        }
        Ok(is_as_it_was)
    }

    /// A clone of `file`, which is `there`, with the attributes of the source's.
    fn clone_of(
        &self,
        file: &File,
        there: &Stat,
        warnings: &mut Vec<Error>,
    ) -> io::Result<Option<SharedPart>> {
        let Transfer { target, .. } = self.transfer;
        let Some(dir) = &target.output.handle else { return Ok(None) };
        let attributes = self.attributes()?;
        let (part, name) = dir.create_part(target.output.volume.parts)?;
        let filled = self.fill(&part, file, there, &attributes, warnings);
        match filled.and_then(|is_filled| Ok((is_filled, Dir::inode_of(&part)?))) {
            Ok((true, made)) => Ok(Some((name, made))),
            other => {
                self.discard(&name, warnings);
                other.map(|_| None)
            }
        }
    }

    fn fill(
        &self,
        part: &File,
        file: &File,
        there: &Stat,
        attributes: &Attributes,
        warnings: &mut Vec<Error>,
    ) -> io::Result<bool> {
        let target = &self.transfer.target;
        match sys::clone_file(file, part)? {
            Cloned::Yes => {}
            Cloned::No { ever, .. } => {
                if ever {
                    self.renamed.clones.set_unusable();
                }
                return Ok(false);
            }
        }
        // What was cloned is what the record knows.
        if Trace::of(&Dir::stat_file(file)?) != Trace::of(there) {
            return Ok(false);
        }
        if target.output.gives_lists()
            && let Err(error) = attributes.shed_inherited(part)
        {
            warnings.push(Error::io("set the permissions of", target.path(), error));
        }
        attributes.apply_to_new(
            part,
            &target.entry.stat,
            target.output.gid,
            None,
            |deed, error| {
                warnings.push(Error::io(deed, target.path(), error));
            },
        );
        if let Durability::Grouped { at_once } = self.context.options.durability
            && !(at_once && target.output.volume.with_root)
        {
            sys::persist_file(part)?;
        }
        Ok(true)
    }

    /// True if `file`, which is `there`, has the permissions, the owner and the attributes of the source's, as far as
    /// the output can hold them: a hard link has no others.
    fn has_labels(&self, file: &File, there: &Stat) -> io::Result<bool> {
        let Transfer { target, .. } = self.transfer;
        let (stat, output) = (&target.entry.stat, &target.output);
        if !Attributes::may_differ(there, stat) {
            return Ok(true);
        }
        let attributes = self.attributes()?;
        let can_hold = |dir: &Dir| output.volume.can_hold(dir, &attributes, stat);
        Ok(attributes.are_all_at(there, file, stat) || !output.handle.as_ref().is_none_or(can_hold))
    }

    /// Those of the source's file.
    fn attributes(&self) -> io::Result<Attributes> {
        let Transfer { source, target } = self.transfer;
        let file = source.handle.open_file(&target.entry.name, self.context.options.follow)?;
        Attributes::read(&file)
    }

    /// Removes a part file that is of no use.
    fn discard(&self, part: &OsStr, warnings: &mut Vec<Error>) {
        let output = &self.transfer.target.output;
        let removed = output.handle.as_ref().map_or(Ok(()), |dir| dir.remove(part));
        if let Err(error) = removed {
            warnings.push(Error::io("remove the part file", output.path_of(part), error));
        }
    }
}
