//! The label (permissions, owner, attributes) of a directory of the output as it was, and what the one that it is to
//! get changes of it.

use crate::{sys, sys::Attributes, sys::Dir, sys::stat::Stat, tree::OutputDir};

/// The label that a directory of the output has before a run changes anything of it.
#[derive(Debug)]
pub struct LabelBefore {
    pub(super) stat: Stat,
    /// `None` if they could not be read: a list among them may keep somebody out.
    attributes: Option<Attributes>,
}

impl LabelBefore {
    /// That of a directory that is so.
    pub fn of(handle: &Dir, stat: Stat) -> Self {
        Self { stat, attributes: Attributes::read(handle).ok() }
    }

    /// True if `attributes` have access lists that it lacks.
    pub(super) fn lacks_lists_of(&self, attributes: &Attributes) -> bool {
        self.attributes.as_ref().is_none_or(|held| attributes.open_more_than_those(held))
    }

    /// True if it may have an access list: permissions alone may let in more.
    pub(super) fn has_list(&self) -> bool {
        self.attributes.as_ref().is_none_or(Attributes::has_access_list)
    }

    /// True if it keeps somebody out, and `attributes` have not the same access lists.
    fn denies_more_than(&self, attributes: &Attributes) -> bool {
        self.attributes.as_ref().is_none_or(|held| held.deny_more_than(attributes))
    }
}

/// What the directory `output`, which is `there`, is to be as, where owners are given; `source` is its counterpart.
pub(super) fn label_like(output: &OutputDir, there: &Stat, source: &Stat) -> Stat {
    if !sys::may_give_away() {
        return Attributes::label_at(there, source);
    }
    let is_given = output.volume.tried.traits.owners;
    let (uid, gid) = if is_given { (source.uid, source.gid) } else { (there.uid, there.gid) };
    Stat { uid, gid, ..*source }
}

/// A change of a directory's label.
#[derive(Clone, Copy, Debug)]
pub struct LabelChange {
    /// True if there is a change.
    pub(super) is_any: bool,
    pub(super) changes_owner: bool,
    /// True if it lets in others than before.
    pub opens: bool,
}

impl LabelChange {
    /// The hand-over of the directory `output`, which was as `before` and is to be as `source`, with these attributes.
    /// `None` where directories have no permissions.
    pub fn of(
        output: &OutputDir,
        before: &LabelBefore,
        source: &Stat,
        attributes: &Attributes,
    ) -> Option<Self> {
        if !output.volume.tried.traits.permissions {
            return None;
        }
        let there = &before.stat;
        let like = label_like(output, there, source);
        let opens_lists = before.denies_more_than(attributes) || before.lacks_lists_of(attributes);
        let changes_owner = (like.uid, like.gid) != (there.uid, there.gid);
        Some(Self {
            is_any: opens_lists || !Attributes::are_labelled(there, &like),
            changes_owner,
            opens: changes_owner || opens_lists || like.mode & !there.mode & 0o077 != 0,
        })
    }
}
