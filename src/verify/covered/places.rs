//! Which places are one: what is on one disk, and the lists that may be of a place that is given, or of the source.

use std::{collections::BTreeSet, fs::File, path::Path, path::PathBuf};

use crate::{
    error::{Deed, Error, Result},
    event::EventObserver,
    path::directory_of,
    state::{PrivateDir, private_dir::NAME},
    sys::{self, Dir, Durable, stat::Stat},
    tree::EntryBelow,
    verify::covered::content::DEED,
    verify::covered::lists::{self, Known, Prefix, refuse_index},
    verify::covered::{CoveredJob, PlaceAsked, PlaceReport, Tree},
    verify::list_diff::is_passing,
};

impl CoveredJob {
    /// Finds out which places are on one disk, or on one of the source. A list that may be of several disks makes these
    /// not one.
    pub(super) fn places_of(
        &self,
        source: &mut BTreeSet<String>,
        observer: &EventObserver<'_>,
    ) -> Result<(Vec<PlaceReport>, Vec<Prefix>)> {
        let open = |path: &Path| Dir::open(path).deed("open the directory", path);
        let of_lists = self.places.iter().map(|place| self.marks_of(place));
        let of_lists = of_lists.collect::<Result<Vec<_>>>()?;
        let known = self.known_lists(&of_lists);
        let lists_in = |tree: &Path| Tree::lists_in(tree, &known, observer);
        let prefixes = self.prefixes(&known, &of_lists);
        // The source comes first.
        let mut disks = vec![std::mem::take(source)];
        let of_source = lists_in(&self.source)?;
        let mut marks = vec![disks[0].union(&of_source).cloned().collect()];
        let mut durable = Vec::new();
        for (place, mut sums) in self.places.iter().zip(of_lists) {
            let mut of_place = BTreeSet::new();
            let mut worst = Durable::Device;
            for tree in &place.trees {
                let root = open(tree)?;
                // What another file system below it has does not count.
                let of_tree = sys::durable_here(&root);
                if of_tree == Durable::IN_MEMORY || worst.why().is_none() {
                    worst = of_tree;
                }
                of_place.extend(sys::disks_of(&root));
                // Of a disk that was copied as a whole its record proves nothing.
                let name = || lists::name_of_runs(&root, tree, self.state.as_deref());
                of_place.extend(if self.read { None } else { name() });
                sums.append(&mut lists_in(tree)?);
            }
            sums.extend(of_place.iter().cloned());
            disks.push(of_place);
            durable.push(worst);
            marks.push(sums);
        }
        let is_list = |at: usize| at > 0 && self.places[at - 1].trees.is_empty();
        let may_be_any = |at: usize| disks[at].contains(sys::ANY_DISK);
        let is_any: Vec<bool> = (0..disks.len()).map(may_be_any).collect();
        let of_trees = groups(disks.len(), |one, other| !disks[one].is_disjoint(&disks[other]));
        let may_be = |at: usize| -> BTreeSet<usize> {
            let trees = (0..marks.len()).filter(|tree| !is_list(*tree));
            trees
                .filter(|tree| !marks[at].is_disjoint(&marks[*tree]))
                .map(|tree| of_trees[tree])
                .collect()
        };
        let may_be: Vec<BTreeSet<usize>> = (0..marks.len()).map(may_be).collect();
        let group = groups(disks.len(), |one, other| match (is_list(one), is_list(other)) {
            (false, false) => of_trees[one] == of_trees[other],
            (true, true) => {
                !marks[one].is_disjoint(&marks[other]) || !may_be[one].is_disjoint(&may_be[other])
            }
            _ => false,
        });
        let place = |(at, asked): (usize, &PlaceAsked)| {
            let at = at + 1;
            let of_group = (1..group.len()).filter(|other| group[*other] == group[at]);
            let may_be: BTreeSet<usize> = match is_list(at) {
                true => of_group.clone().flat_map(|list| may_be[list].clone()).collect(),
                false => BTreeSet::new(),
            };
            let is_of = |tree: &usize| may_be.contains(&group[*tree]) && !is_list(*tree);
            let same = (1..group.len()).find(is_of).or(of_group.min()).filter(|same| *same != at);
            let durable = durable[at - 1];
            let is_in_memory = durable == Durable::IN_MEMORY && !self.counts_memory;
            PlaceReport {
                path: asked.path.clone(),
                is_list: is_list(at),
                is_at_source: group[at] == group[0]
                    || may_be.contains(&group[0])
                    || is_any[at]
                    || is_any[0] && !is_list(at),
                same_as: same.map(|same| self.places[same - 1].path.clone()),
                is_in_memory,
                unknown_why: durable.why().filter(|_| !is_in_memory),
                group: group[at],
                may_be,
                ..PlaceReport::default()
            }
        };
        Ok((self.places.iter().enumerate().map(place).collect(), prefixes))
    }

    /// By what the lists are known where they lie at a place too; by nothing if they are of different disks.
    fn known_lists(&self, of_lists: &[BTreeSet<String>]) -> Known {
        let lists = self.places.iter().filter(|place| place.trees.is_empty() && !self.lists_apart);
        let sizes: BTreeSet<u64> =
            lists.filter_map(|list| Some(list.path.metadata().ok()?.len())).collect();
        match sizes.is_empty() {
            true => Known::default(),
            false => Known { names: of_lists.iter().flatten().cloned().collect(), sizes },
        }
    }

    /// What the names in lists begin with that are of a tree although they do not lie in it: such a list lies in or
    /// below a directory above the tree, or one that is the same in that.
    fn prefixes(&self, known: &Known, of_lists: &[BTreeSet<String>]) -> Vec<Prefix> {
        let mut prefixes = Vec::new();
        let of_places = self.places.iter().enumerate();
        let trees =
            of_places.flat_map(|(of, it)| it.trees.iter().map(move |tree| (Some(of), tree)));
        for (of, tree) in trees.chain([(None, &self.source)]) {
            let Ok(tree) = tree.canonicalize() else { continue };
            let above = known.above(&tree);
            for (list, place) in self.places.iter().enumerate() {
                let Ok(path) = place.path.canonicalize() else { continue };
                if !place.trees.is_empty() {
                    continue;
                }
                let same = above.iter().filter(|it| of_lists[list].contains(&it.name));
                let own = match self.lists_apart {
                    true => vec![directory_of(&path).to_path_buf()],
                    false => lists::starts(&path, &tree),
                };
                let dirs = same.map(|it| it.dir.clone()).chain(own);
                let below = dirs.filter_map(|dir| Some(tree.strip_prefix(dir).ok()?.to_path_buf()));
                prefixes.extend(below.filter(|it| !it.as_os_str().is_empty()).map(|below| {
                    let names = [below.as_os_str().as_encoded_bytes(), b"/"].concat();
                    Prefix { list, names, of }
                }));
            }
        }
        prefixes
    }

    /// By what a list is known to be of the same disk as another place: its bytes, its run, and where it lies; nothing
    /// of what is no list.
    fn marks_of(&self, place: &PlaceAsked) -> Result<BTreeSet<String>> {
        let (list, mut disks) = (&*place.path, BTreeSet::new());
        if !place.trees.is_empty() {
            return Ok(disks);
        }
        let fail = |error| Error::io("open the list", list, error);
        // Opening a pipe may wait for ever.
        if !list.metadata().map_err(fail)?.is_file() {
            let finding =
                "it is no regular file, and could not be told from another list: save it in one";
            return Err(Error::finding("take the list", list, finding));
        }
        let file = File::open(list).map_err(fail)?;
        refuse_index(list, &file)?;
        let id = Dir::stat_file(&file).map_err(fail)?.id;
        disks.insert(format!("list {}:{}", id.dev, id.ino));
        if !self.lists_apart {
            disks.insert(lists::sum_of(&file).map_err(fail)?);
            disks.extend(list.file_name().and_then(lists::name_of_run));
        }
        let path = list.canonicalize().map_err(fail)?;
        let trees = self.places.iter().flat_map(|place| &place.trees).chain([&self.source]);
        let is_in = |tree: &&PathBuf| tree.canonicalize().is_ok_and(|tree| path.starts_with(tree));
        let beside = Some(directory_of(&path).to_path_buf()).filter(|dir| dir.join(NAME).exists());
        for dir in trees.filter(is_in).cloned().chain(beside) {
            disks.extend(sys::disks_of(&Dir::open(&dir).deed("open the directory", &dir)?));
        }
        Ok(disks)
    }
}

/// True for a directory in which runs keep what is theirs: anything of that name in the root, and a private one below.
pub(super) fn is_private(entry: &EntryBelow<'_>, stat: &Stat) -> bool {
    let is_one = || {
        let dir = entry.dir.open_dir(entry.name, false);
        dir.is_ok_and(|dir| PrivateDir::is_one(&dir, stat))
    };
    *entry.name == *NAME && (entry.above.is_root() || is_one())
}

/// Refuses trash and generations that are not finished, and what lies in them.
pub(super) fn refuse_passing(tree: &Path) -> Result<()> {
    let path = tree.canonicalize().deed("look at", tree)?;
    if !path.iter().any(is_passing) {
        return Ok(());
    }
    let finding = "it is trash, or a generation that is not finished, out of which the next run takes what it likes: give \
                   a finished copy";
    Err(Error::finding(DEED, tree, finding))
}

/// The groups of so many, of which each two that belong together are in one: for each the first of its group.
fn groups(number: usize, belong: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut group: Vec<usize> = (0..number).collect();
    for (one, other) in (0..number).flat_map(|one| (0..one).map(move |other| (one, other))) {
        if belong(one, other) {
            let (kept, gone) = (group[one].min(group[other]), group[one].max(group[other]));
            group.iter_mut().filter(|it| **it == gone).for_each(|it| *it = kept);
        }
    }
    group
}
