//! A manifest of a bag's payload by an algorithm that is not known here: its digests cannot be checked, but it must
//! list every file of the payload, as each manifest of it must, and every file that it lists must be there.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::manifest::archive::bag;
use crate::manifest::archive::line_ends::LineEnds;
use crate::manifest::read::scan::Text;
use crate::manifest::{Fault, Scanner, Utf16Reader};
use crate::path::{RelPath, Shown};
use crate::sys::stat::Kind;
use crate::tree::last_dir::LastDir;
use crate::verify::archive::expanded::{Bag, open};
use crate::verify::archive::part::{BagPart, PartOf};
use crate::verify::finding::Finding;
use crate::verify::lines::seen::NameHasher;
use crate::verify::target::Target;

/// Such a manifest, read.
pub struct UnknownList {
    /// The manifest, and the directory of the bag.
    pub target: Arc<Target>,
    names: HashSet<u64>,
}

impl UnknownList {
    /// Reads the manifest `name` of a bag, and tells what is wrong with it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(
        bag: &Bag,
        name: &str,
        key: &NameHasher,
        tell: &mut impl FnMut(&Target, Finding),
    ) -> Result<Self> {
        let (root, path) = (&bag.target.root, bag.target.root.join(name));
        let fail = |error| Error::io("read the manifest", &path, error);
        let dir = bag.target.handle()?;
        let part =
            BagPart { is_tag: false, algorithm: Default::default(), declaration: bag.declaration };
        let kept = dir.try_clone().map_err(fail)?;
        let target = Target::of_dir(path.clone(), root.clone(), kept, PartOf::Bag(part))?;
        let mut list = Self { target: Arc::new(target), names: HashSet::new() };
        let file = open(dir, name).map_err(fail)?;
        let mut lines = Scanner::new(LineEnds::new(Utf16Reader::new(file)));
        let mut last = LastDir::default();
        while let Some(line) = lines.next_line().map_err(fail)? {
            let named = match line.text {
                Text::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
                Text::Whole(bytes) => bag::name_on(bytes, bag.declaration),
                Text::TooLong { len, .. } => Err(Fault::TooLong { len }),
            };
            let finding = match named {
                Ok(name) => list.take(line.number, &name, part, key, &mut last),
                Err(fault) => Some(Finding::Malformed { line: line.number, fault }),
            };
            finding.into_iter().for_each(|finding| tell(&list.target, finding));
        }
        Ok(list)
    }

    /// Takes a name in, and looks for its file.
    fn take(
        &mut self,
        line: u64,
        name: &[u8],
        part: BagPart,
        key: &NameHasher,
        last: &mut LastDir,
    ) -> Option<Finding> {
        let refused = |why: String| Finding::Refused { line, name: name.to_vec(), why };
        let path = match (RelPath::parse(name), part.refuses(name)) {
            (Err(fault), _) => return Some(refused(fault.to_string())),
            (Ok(_), Some(why)) => return Some(refused(why.to_owned())),
            (Ok(path), None) => path,
        };
        let spellings = [Some(path.clone()), part.other_spelling(&path)];
        let mut is_there = false;
        for path in spellings.into_iter().flatten() {
            self.names.insert(key.of(&path));
            let root = self.target.handle().ok()?;
            is_there |= last.stat(root, &path, false).is_ok_and(|stat| stat.kind == Kind::File);
        }
        let manifest = Shown::path(&self.target.manifest);
        let why = || format!("line {line} of {manifest} lists it, and there is no such file");
        let missing = || Error::finding("find the listed file", self.target.path_of(&path), why());
        (!is_there).then(|| Finding::Incomplete(missing()))
    }

    /// Whether it lists the path with this hash.
    pub fn has(&self, hash: u64) -> bool {
        self.names.contains(&hash)
    }
}
