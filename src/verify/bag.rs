//! A bag before its manifests are read: `bagit.txt`, which manifests there are, `bag-info.txt` and `fetch.txt`.

use std::{path::Path, sync::Arc};

use crate::verify::expand::{UnknownList, open, read_begin, read_short, root_of};
use crate::{
    error::Deed, error::Error, event::Stop, manifest::Declaration, manifest::Encoding,
    manifest::LineEnds, manifest::Scanner, manifest::Text, manifest::Utf16Reader,
    manifest::archive::bag, manifest::archive::bag::DECLARATION, manifest::archive::bag::INFO,
    manifest::read::is_utf16, path::RelPath, path::Shown, state::BagSince, sys::Dir,
    sys::DirListing, sys::stat::Kind, tree::pass::each_below, verify::Bag, verify::Expanded,
    verify::Finding, verify::ManifestAt, verify::NameHasher, verify::PartOf, verify::SeenNames,
    verify::Target, verify::TargetSpec, verify::Witness, verify::history::BagPart,
    verify::lines::seen::ListedRoot, verify::lines::seen::NamesOf,
};

/// Greatest length of `bagit.txt`; bytes.
const MOST_DECLARATION: u64 = 4 << 10;

/// Greatest length of a `bag-info.txt`; bytes.
const MOST_INFO: u64 = 4 << 20;

/// Largest number of manifests of a bag.
const MOST_MANIFESTS: usize = 64;

/// Where the directory of a bag is, and its text.
struct BagDir<'a> {
    root: &'a Path,
    dir: &'a Dir,
    declaration: Declaration,
}

/// Puts the manifests of a bag in the place of what was asked for.
pub fn expand(spec: &TargetSpec, expanded: &mut Expanded) {
    let root = root_of(spec, 0);
    let declared = root.join(DECLARATION);
    let opened = Dir::open(&root).and_then(|dir| Ok((dir.try_clone()?, dir)));
    let (dir, kept) = match opened {
        Ok(both) => both,
        Err(error) => {
            let error = Error::io("open the directory", &root, error);
            return expanded.unusable(&Arc::new(Target::none()), error);
        }
    };
    let part =
        BagPart { is_tag: true, algorithm: Default::default(), declaration: Default::default() };
    let target = match Target::of_dir(declared.clone(), root.clone(), kept, PartOf::Bag(part)) {
        Ok(target) => Arc::new(target),
        Err(error) => return expanded.unusable(&Arc::new(Target::none()), error),
    };
    let mut bag = Bag {
        target,
        manifests: Vec::new(),
        unknown: Vec::new(),
        declaration: Declaration::default(),
        oxum: None,
    };
    let read = open(&dir, DECLARATION).and_then(|file| read_short(file, MOST_DECLARATION));
    let text = read.deed("read", &declared);
    let parse = |text: Vec<u8>| {
        Declaration::parse(&text).map_err(|why| Error::finding("take for a bag's", &declared, why))
    };
    match text.and_then(parse) {
        Ok(declaration) => {
            bag.declaration = declaration;
            BagDir { root: &root, dir: &dir, declaration }.look(spec, &mut bag, expanded);
            let BagSince { tag_lists, unlike } = BagSince::look(&dir, &root, spec.state.as_deref());
            let changed = |name: String| Finding::Contradicts {
                line: 0,
                path: RelPath::root().join(name.as_ref()),
                by: Witness::TagList,
            };
            let found =
                tag_lists.into_iter().map(changed).chain(unlike.into_iter().map(Finding::Notice));
            found.for_each(|finding| expanded.found(&bag.target, finding));
        }
        Err(error) => expanded.unusable(&bag.target, error),
    }
    expanded.bags.push(bag);
}

impl BagDir<'_> {
    /// Looks at what the bag has.
    fn look(&self, spec: &TargetSpec, bag: &mut Bag, expanded: &mut Expanded) {
        let incomplete = |name: &str, why: &'static str| {
            Finding::Incomplete(Error::finding("take for complete", self.root.join(name), why))
        };
        if !self.dir.stat("data".as_ref(), false).is_ok_and(|stat| stat.kind == Kind::Dir) {
            expanded.found(&bag.target, incomplete("data", "there is no such directory"));
        }
        let names = match self.manifests() {
            Ok(names) => names,
            Err(error) => return expanded.unusable(&bag.target, error),
        };
        for name in names.iter().map(String::as_str).chain([INFO, "fetch.txt"]) {
            if self.is_other_encoding(name) {
                let path = self.root.join(name);
                let error = Error::finding("take for a bag's", path, bag::OTHER_ENCODING);
                expanded.unusable(&bag.target, error);
            }
        }
        let mut has_payload = false;
        for name in &names {
            let Some((is_tag, algorithm)) = bag::manifest_name(name) else { continue };
            let usual = name.to_ascii_lowercase();
            let meant = bag::manifest_name(&usual).and_then(|(_, meant)| meant.ok());
            if algorithm.is_err() && meant.is_some() {
                let why = format!("bags call it {usual}: rename it, also where it is listed");
                let error = Error::finding("take for a bag's", self.root.join(name), why);
                expanded.unusable(&bag.target, error);
            }
            has_payload |= !is_tag;
            let Some(algorithm) = meant else {
                let why = "its digests are by an algorithm that is not known here";
                let error = Error::finding("check", self.root.join(name), why);
                expanded.found(&bag.target, Finding::Notice(error));
                if !is_tag {
                    bag.unknown.push(name.clone());
                }
                continue;
            };
            if !is_tag {
                bag.manifests.push(name.clone());
            }
            let part = BagPart { is_tag, algorithm, declaration: self.declaration };
            expanded.specs.push(TargetSpec {
                manifest: Some(ManifestAt::File(self.root.join(name))),
                root: Some(self.root.to_owned()),
                part: PartOf::Bag(part),
                ..spec.clone()
            });
        }
        match (has_payload, bag.manifests.is_empty()) {
            (false, _) => {
                expanded.found(&bag.target, incomplete("", "it has no manifest of its payload"));
            }
            (true, true) => {
                let why = "no manifest of its payload is by an algorithm that is known here";
                expanded.unusable(&bag.target, Error::finding("check", self.root, why));
            }
            _ => {}
        }
        match self.info() {
            Ok(oxum) => bag.oxum = oxum,
            Err(error) => expanded.unusable(&bag.target, error),
        }
        if let Err(error) = self.fetch(bag, expanded) {
            expanded.unusable(&bag.target, error);
        }
    }

    /// True if a file is UTF-16 and the bag declares something else. A file that cannot be read is told when its turn
    /// comes.
    fn is_other_encoding(&self, name: &str) -> bool {
        let start = open(self.dir, name).and_then(|file| read_begin(file, 2));
        self.declaration.encoding != Encoding::Utf16 && start.is_ok_and(|start| is_utf16(&start))
    }

    /// The names of the manifests, in their order.
    fn manifests(&self) -> Result<Vec<String>, Error> {
        let fail = |error| Error::io("look for manifests in", self.root, error);
        let mut names = Vec::new();
        for entry in DirListing::of(self.dir).map_err(fail)? {
            let name = entry.map_err(fail)?.name;
            let name = name.to_str().filter(|name| bag::manifest_name(name).is_some());
            names.extend(name.map(str::to_owned));
            if names.len() > MOST_MANIFESTS {
                let why = "there are more manifests than there are algorithms";
                return Err(Error::finding("check", self.root, why));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The size of the payload by `bag-info.txt`, if it is there.
    fn info(&self) -> Result<Option<(u64, u64)>, Error> {
        let path = self.root.join("bag-info.txt");
        let file = open(self.dir, "bag-info.txt").if_there().deed("read", &path)?;
        let Some(file) = file else { return Ok(None) };
        let text = read_short(Utf16Reader::new(file), MOST_INFO).deed("read", &path)?;
        let text = self.text(text);
        bag::payload_oxum(&text).map_err(|why| Error::finding("take for a bag's", &path, why))
    }

    fn text(&self, bytes: Vec<u8>) -> String {
        match self.declaration.encoding {
            Encoding::Latin1 => bytes.into_iter().map(char::from).collect(),
            Encoding::Utf8 | Encoding::Utf16 => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Reads `fetch.txt`, if it is there: files that are not there yet. Nothing is fetched.
    fn fetch(&self, bag: &Bag, expanded: &mut Expanded) -> Result<(), Error> {
        let path = self.root.join("fetch.txt");
        let fail = |error| Error::io("read", &path, error);
        let file = open(self.dir, "fetch.txt").if_there().map_err(fail)?;
        let Some(file) = file else { return Ok(()) };
        let mut lines = Scanner::new(LineEnds::new(Utf16Reader::new(file)));
        let mut missing = 0_u64;
        while let Some(line) = lines.next_line().map_err(fail)? {
            let Text::Whole(bytes) = line.text else {
                return Err(Error::finding("read", &path, "a line is longer than any can be"));
            };
            let text = self.text(bytes.to_vec());
            if text.trim().is_empty() {
                continue;
            }
            let malformed = || {
                let why = format!("line {} is not of the form URL LENGTH PATH", line.number);
                Error::finding("take for a bag's", &path, why)
            };
            let name = bag::fetched(&text).ok_or_else(malformed)?.as_bytes().to_vec();
            let name = match self.declaration.escapes() {
                true => bag::unescaped(name.into()).into_owned(),
                false => name,
            };
            let found = RelPath::parse(&name).ok().filter(|_| name.starts_with(b"data/"));
            let Some(found) = found else {
                let why = format!(
                    "line {} leads out of the payload: {}",
                    line.number,
                    Shown::bytes(&name)
                );
                return Err(Error::finding("take for a bag's", &path, why));
            };
            missing += u64::from(!self.is_there(&found));
        }
        if missing > 0 {
            let why = format!("{missing} of the files that it lists were not fetched");
            let error = Error::finding("take for complete", &path, why);
            expanded.found(&bag.target, Finding::Incomplete(error));
        }
        Ok(())
    }

    fn is_there(&self, path: &RelPath) -> bool {
        let Some((above, name)) = path.split() else { return false };
        let Ok(name) = crate::sys::name_from_bytes(name) else { return false };
        self.dir.open_below(&above).is_ok_and(|dir| dir.stat(name, false).is_ok())
    }
}

// A bag after its manifests were read: whether every file of the payload is in each of them.

/// The names that the manifests of a bag list.
pub struct BagNames<'a> {
    /// Makes their hashes.
    pub key: &'a NameHasher,
    /// The manifests of the bag.
    pub listed: &'a ListedRoot,
    /// Names that were found by another spelling.
    pub converted: &'a SeenNames,
}

/// The present payload.
#[derive(Default)]
struct PayloadSize {
    bytes: u64,
    files: u64,
}

/// Tells what is in the payload and not in each manifest, and whether it is as much as `bag-info.txt` says.
pub fn search(
    bag: &Bag,
    names: &BagNames<'_>,
    stop: &Stop,
    mut tell: impl FnMut(&Target, Finding),
) {
    let root = match bag.target.handle() {
        Ok(root) => root,
        Err(error) => return tell(&bag.target, Finding::Unsearched(error)),
    };
    names.tag_lists(bag, &mut tell);
    let unknown = unknown_lists(bag, names, &mut tell);
    let mut sum = PayloadSize::default();
    let fail = |(at, error): (RelPath, _)| {
        Error::io("look for files that are not listed in", bag.target.path_of(&at), error)
    };
    let searched = each_below(root, stop, &mut |entry| {
        let entry = entry.map_err(fail)?;
        if entry.above.is_root() && entry.name != "data" {
            return Ok(false);
        }
        let stat = entry.stat().map_err(fail)?;
        if stat.kind == Kind::File {
            sum.bytes += stat.size;
            sum.files += 1;
        }
        let is_dir = stat.kind == Kind::Dir;
        if !is_dir && !entry.above.is_root() {
            names.tell_unlisted(&entry.path, &unknown, &mut tell);
        }
        Ok(is_dir)
    });
    match searched {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => return tell(&bag.target, Finding::Unsearched(error)),
    }
    if let Some((bytes, files)) = bag.oxum.filter(|said| *said != (sum.bytes, sum.files)) {
        let why = format!(
            "it says that the payload has {bytes} bytes in {files} files, and there are {} in {}",
            sum.bytes, sum.files
        );
        let path = bag.target.root.join("bag-info.txt");
        tell(&bag.target, Finding::Incomplete(Error::finding("take for complete", path, why)));
    }
}

/// The manifests of the payload whose digests cannot be checked.
fn unknown_lists(
    bag: &Bag,
    names: &BagNames<'_>,
    tell: &mut impl FnMut(&Target, Finding),
) -> Vec<UnknownList> {
    let mut lists = Vec::new();
    for name in &bag.unknown {
        match UnknownList::read(bag, name, names.key, tell) {
            Ok(list) => lists.push(list),
            Err(error) => tell(&bag.target, Finding::Unusable(error)),
        }
    }
    lists
}

impl BagNames<'_> {
    /// Tells that a manifest of the payload does not list the path, the first of them.
    fn tell_unlisted(
        &self,
        path: &RelPath,
        unknown: &[UnknownList],
        tell: &mut impl FnMut(&Target, Finding),
    ) {
        let hash = self.key.of(path);
        if self.converted.has(hash) {
            return;
        }
        let is_payload = |list: &&NamesOf| list.target.part.bag().is_some_and(|bag| !bag.is_tag);
        let mut known = self.listed.names.iter().filter(is_payload);
        let known = known.find(|list| !list.names.has(hash)).map(|list| &list.target);
        let mut unknown = unknown.iter().filter(|list| !list.has(hash)).map(|list| &list.target);
        if let Some(target) = known.or_else(|| unknown.next()) {
            tell(target, Finding::Unlisted(path.clone()));
        }
    }

    /// Tells which lists of tag files do not have each manifest of the payload.
    fn tag_lists(&self, bag: &Bag, tell: &mut impl FnMut(&Target, Finding)) {
        for list in &self.listed.names {
            if list.target.part.bag().is_none_or(|bag| !bag.is_tag) {
                continue;
            }
            for name in bag.manifests.iter().chain(&bag.unknown) {
                let path = RelPath::root().join(name.as_ref());
                if !list.names.has(self.key.of(&path)) {
                    tell(&list.target, Finding::Unlisted(path));
                }
            }
        }
    }
}
