//! The judges: independent clients that look at what a run left behind.
//!
//! Nothing here shares code with the program. `sha256sum` reads the manifest, `diff` compares the
//! trees, `find` lists them; the little parser of manifest lines is written from coreutils' manual.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::Run;
use super::tree::{Tree, path};

type Names = BTreeSet<Vec<u8>>;

/// Runs `find . -mindepth 1` in `root` with these arguments; entries end with NUL. What runs keep for
/// themselves (`.dircopy`) is left out of account, and what goes away while a run is being watched is not
/// there: `-ignore_readdir_race` knows this of entries, but not of the directory that is being read.
fn find(root: &Path, args: &[&str]) -> Names {
    if !root.is_dir() {
        return Names::new();
    }
    let output = Command::new("find")
        .args([
            ".",
            "-ignore_readdir_race",
            "-mindepth",
            "1",
            "-name",
            ".dircopy",
            "-prune",
            "-o",
            "(",
        ])
        .args(args)
        .arg(")")
        .current_dir(root)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let went = |line: &str| line.is_empty() || line.ends_with("No such file or directory");
    assert!(output.status.success() || said.lines().all(went), "find: {said}");
    output.stdout.split(|&b| b == 0).filter(|e| !e.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The names of all entries of a `find` type (`f`, `d`, `l`) below `root`.
pub fn names_below(root: &Path, kind: &str) -> Names {
    find(root, &["-type", kind, "-printf", "%P\\0"])
}

/// Every entry below `root`: type, mode, times, size, target, name. Not the times of symlinks and
/// not the sizes of directories, which are the file system's own affair.
pub fn inventory(root: &Path) -> Names {
    let script = "-type d -printf d\\040%m\\040%T@\\040%P\\0 -o -type l -printf l\\040%l\\040%P\\0 \
                  -o -printf %y\\040%s\\040%m\\040%T@\\040%P\\0";
    find(root, &script.split_whitespace().collect::<Vec<_>>())
}

/// Inode, change time, modification time and size of every entry, to see that nothing was touched.
pub fn ctimes(root: &Path) -> Names {
    find(root, &["-printf", "%i %C@ %T@ %s %P\\0"])
}

fn shown(names: &Names) -> String {
    names.iter().map(|n| format!("  {}\n", n.escape_ascii())).collect()
}

/// Where in time a manifest stands: its stamp, then the number that tells two of one second apart.
fn age(name: &[u8]) -> Option<(Vec<u8>, u32)> {
    let middle = name.strip_prefix(b"dircopy-")?.strip_suffix(b".sha256sum")?;
    let (stamp, number) = match middle.get(16) {
        None => (middle, 0),
        Some(b'-') => (&middle[..16], std::str::from_utf8(&middle[17..]).ok()?.parse().ok()?),
        Some(_) => return None,
    };
    let shaped = stamp.len() == 16
        && stamp.iter().enumerate().all(|(i, b)| match i {
            8 => *b == b'T',
            15 => *b == b'Z',
            _ => b.is_ascii_digit(),
        });
    shaped.then(|| (stamp.to_vec(), number))
}

/// Judges one output of one run; where that has further ones beside it, the same of each of them.
pub struct Judge<'a> {
    src: &'a Tree,
    /// What stood at the output before the run, if something did.
    old: Option<&'a Tree>,
    pub dst: Tree,
    run: &'a Run,
    /// The further outputs, which are to be as this one.
    further: &'a [PathBuf],
}

impl<'a> Judge<'a> {
    pub fn new(src: &'a Tree, dst: Tree, run: &'a Run) -> Self {
        let further = run.beside(dst.root());
        Self { src, old: None, dst, run, further }
    }

    /// This output alone, and each further one.
    fn each(&self) -> impl Iterator<Item = Judge<'a>> {
        let all = [self.dst.clone()].into_iter().chain(self.further.iter().map(Tree::of));
        all.map(|dst| Judge { dst, further: &[], ..*self })
    }

    /// The output was `old` before the run; a file that was not replaced is whole as well.
    pub fn over(mut self, old: &'a Tree) -> Self {
        self.old = Some(old);
        self
    }

    /// Everything that exit 0 promises: the trees are the same, every file is listed and verifies,
    /// nothing of ours is left over.
    #[track_caller]
    pub fn complete(&self) -> &Self {
        self.run.assert_code(0);
        self.same_tree().lists_all().verifies().no_leftovers()
    }

    /// The finished manifests at the top of the output that are ours, oldest first. What the source
    /// has under such a name is not.
    pub fn manifests(&self) -> Vec<PathBuf> {
        let mut ours: Vec<_> = names_below(self.dst.root(), "f")
            .into_iter()
            .filter(|name| !self.src.has(name))
            .filter_map(|name| Some((age(&name)?, name)))
            .collect();
        ours.sort();
        ours.into_iter().map(|(_, name)| self.dst.path(name)).collect()
    }

    /// The manifests of unfinished runs, oldest first.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        let mut ours: Vec<_> = names_below(self.dst.root(), "f")
            .into_iter()
            .filter(|name| !self.src.has(name))
            .filter_map(|name| Some((age(name.strip_suffix(b".part")?)?, name)))
            .collect();
        ours.sort();
        ours.into_iter().map(|(_, name)| self.dst.path(name)).collect()
    }

    /// The manifest of the last finished run.
    #[track_caller]
    pub fn manifest(&self) -> PathBuf {
        self.manifests().pop().unwrap_or_else(|| self.run.fail("there is no manifest"))
    }

    /// The list that this run left: unfinished when the run was stopped early.
    pub fn newest(&self) -> Option<PathBuf> {
        let finished = self.manifests().pop();
        match self.run.code {
            Some(0 | 1 | 4) => finished,
            _ => self.unfinished().pop().or(finished),
        }
    }

    /// Name and digest of every line of `manifest`. Panics at a line that is not one.
    #[track_caller]
    pub fn lines(&self, manifest: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut lines = BTreeMap::new();
        let text = std::fs::read(manifest).unwrap();
        for line in text.split_inclusive(|&b| b == b'\n') {
            let Some((name, digest)) = parse(line) else {
                self.run.fail(&format!("not a manifest line: {}", line.escape_ascii()));
            };
            // `-` alone would be standard input to `sha256sum -c`.
            let name = if name == b"./-" { b"-".to_vec() } else { name };
            if lines.insert(name.clone(), digest).is_some() {
                self.run.fail(&format!("listed twice: {}", name.escape_ascii()));
            }
        }
        lines
    }

    #[track_caller]
    pub fn listed(&self) -> Names {
        // A run that lists nothing may do without a manifest.
        let manifest = self.manifests().pop();
        manifest.map(|m| self.lines(&m).into_keys().collect()).unwrap_or_default()
    }

    /// The last manifest lists exactly these names.
    #[track_caller]
    pub fn lists<N: AsRef<[u8]>>(&self, names: &[N]) -> &Self {
        for one in self.each() {
            one.equal("the listed names", &one.listed(), &to_names(names));
        }
        self
    }

    /// The last manifest lists exactly the regular files of the source.
    #[track_caller]
    pub fn lists_all(&self) -> &Self {
        for one in self.each() {
            one.equal("the listed names", &one.listed(), &names_below(self.src.root(), "f"));
        }
        self
    }

    #[track_caller]
    pub fn does_not_list(&self, name: impl AsRef<[u8]>) -> &Self {
        for one in self.each() {
            if one.newest().is_some_and(|list| one.lines(&list).contains_key(name.as_ref())) {
                self.run.fail(&format!("listed: {}", name.as_ref().escape_ascii()));
            }
        }
        self
    }

    /// `sha256sum -c --strict` accepts every line of the newest list.
    #[track_caller]
    pub fn verifies(&self) -> &Self {
        for one in self.each() {
            match one.newest() {
                Some(list) => one.list_verifies(&list),
                None => self.run.fail("there is no manifest"),
            };
        }
        self
    }

    #[track_caller]
    pub fn list_verifies(&self, list: &Path) -> &Self {
        if std::fs::metadata(list).unwrap().len() == 0 {
            return self; // sha256sum takes an empty list for a mistake
        }
        let output = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet"])
            .arg(list.file_name().unwrap())
            .current_dir(list.parent().unwrap())
            .output()
            .unwrap();
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            self.run.fail(&format!("sha256sum: {}", String::from_utf8_lossy(&said)));
        }
        self
    }

    /// No temp file and no unfinished manifest anywhere.
    #[track_caller]
    pub fn no_leftovers(&self) -> &Self {
        for one in self.each() {
            if let Some(unfinished) = one.unfinished().first() {
                self.run.fail(&format!("left over: {}", unfinished.display()));
            }
        }
        self.no_temp_files()
    }

    #[track_caller]
    pub fn no_temp_files(&self) -> &Self {
        for one in self.each() {
            let mut left = one.temp_files();
            // What a killed run left may stay when this one fails.
            left.retain(|name| self.old.is_none_or(|old| !old.has(name)));
            one.equal("temp files", &left, &Names::new());
        }
        self
    }

    /// No temp file, but for the beginnings that an interrupted run says it keeps: a part file and its
    /// journal each.
    #[track_caller]
    pub fn only_kept_beginnings(&self) -> &Self {
        let said = self.run.err().matches("kept and gone on with by the next run").count();
        for one in self.each() {
            let left = one.temp_files();
            let parts = left.iter().filter(|name| name.ends_with(b".dircopy-part")).count();
            if parts > said || left.len() != 2 * parts {
                self.run.fail(&format!("{said} beginnings are said to be kept: {left:?}"));
            }
        }
        self
    }

    /// The same names, types, bytes, modes, times and targets, our manifests and temp files left out of
    /// account.
    #[track_caller]
    pub fn same_tree(&self) -> &Self {
        for one in self.each() {
            let ours: Names = one.ours();
            let mut found = inventory(one.dst.root());
            let is_ours =
                |line: &[u8]| ours.iter().any(|name| line.ends_with(&[b" ", &name[..]].concat()));
            found.retain(|line| !is_ours(line));
            one.equal("the inventory", &found, &inventory(self.src.root()));
        }
        self.same_bytes()
    }

    /// The same bytes under the same names, whatever else differs.
    #[track_caller]
    pub fn same_bytes(&self) -> &Self {
        for one in self.each() {
            let mut diff = Command::new("diff");
            diff.args(["-r", "--no-dereference", "-x", ".dircopy"]);
            for name in one.ours() {
                diff.arg("-x").arg(OsStr::from_bytes(&name));
            }
            let output = diff.arg(self.src.root()).arg(one.dst.root()).output().unwrap();
            if !output.status.success() {
                let said = [output.stdout, output.stderr].concat();
                self.run.fail(&format!("diff: {}", String::from_utf8_lossy(&said)));
            }
        }
        self
    }

    /// The names of our manifests and temp files.
    fn ours(&self) -> Names {
        let name = |path: PathBuf| path.file_name().unwrap().to_owned().into_vec();
        let temp = self.temp_files().into_iter().map(|file| name(self.dst.path(file)));
        let mut side = names_below(self.dst.root(), "f");
        side.retain(|name| is_side_file(name) && !self.src.has(name));
        let manifests = self.manifests().into_iter().chain(self.unfinished());
        manifests.map(name).chain(temp).chain(side).collect()
    }

    fn temp_files(&self) -> Names {
        let mut left = names_below(self.dst.root(), "f");
        left.extend(names_below(self.dst.root(), "d"));
        left.retain(|name| is_temp_name(name) && !self.src.has(name));
        left
    }

    /// What must hold after any fault: a final name holds the whole bytes of the source or nothing;
    /// every line verifies; exit 0 means all.
    #[track_caller]
    pub fn sound(&self) -> &Self {
        self.run.assert_no_crash();
        for one in self.each() {
            one.is_sound();
        }
        if self.run.code == Some(0) {
            self.same_bytes().lists_all();
        }
        self
    }

    #[track_caller]
    fn is_sound(&self) {
        let ours = self.ours();
        let mut there = names_below(self.dst.root(), "f");
        there.retain(|name| !ours.contains(name) && !is_temp_name(name));
        for name in &there {
            let is = |tree: &Tree| std::fs::read(path(tree.root(), name)).unwrap_or_default();
            let there = self.dst.read(name);
            if there != is(self.src) && self.old.is_none_or(|old| there != is(old)) {
                self.run.fail(&format!("not whole: {}", name.escape_ascii()));
            }
        }
        if let Some(list) = self.newest() {
            self.lines(&list);
            self.list_verifies(&list);
        }
    }

    /// Every entry of the source that is not at the output, or is not the source's, is named on stderr: itself, or a
    /// directory that it is in. Lines that stderr only counts are in the log, if the run was told to write one.
    #[track_caller]
    pub fn names_what_is_missing(&self) -> &Self {
        let said = self.run.err() + &self.run.log();
        let roots = self.run.roots();
        let mut errors = said.lines().filter(|line| !line.contains(" warning: "));
        // That the source cannot be read at all is said of all that is in it.
        if errors.any(|line| names(line, &[], self.src.root())) {
            return self;
        }
        for kind in ["f", "d", "l"] {
            for name in names_below(self.src.root(), kind) {
                let (from, to) = (self.src.path(&name), self.dst.path(&name));
                let there = match kind {
                    "f" => std::fs::read(to).is_ok_and(|bytes| bytes == self.src.read(&name)),
                    "d" => to.is_dir(),
                    _ => std::fs::read_link(to).ok() == std::fs::read_link(from).ok(),
                };
                let name = String::from_utf8(name).unwrap();
                let mut above = Path::new(&name).ancestors().filter(|part| *part != Path::new(""));
                if !there && !above.any(|part| names(&said, roots, part)) {
                    self.run.fail(&format!("not there and not named: {name}"));
                }
            }
        }
        self
    }

    /// Nothing is under this name at the output.
    #[track_caller]
    pub fn lacks(&self, name: impl AsRef<[u8]>) -> &Self {
        for one in self.each() {
            if one.dst.has(&name) {
                self.run.fail(&format!("is there: {}", name.as_ref().escape_ascii()));
            }
        }
        self
    }

    /// The file is at the output, whole and listed.
    #[track_caller]
    pub fn has(&self, name: impl AsRef<[u8]>) -> &Self {
        let name = name.as_ref();
        for one in self.each() {
            if !one.dst.has(name) || one.dst.read(name) != self.src.read(name) {
                self.run.fail(&format!("not there or not whole: {}", name.escape_ascii()));
            }
            if !one.newest().is_some_and(|list| one.lines(&list).contains_key(name)) {
                self.run.fail(&format!("not listed: {}", name.escape_ascii()));
            }
        }
        self
    }

    #[track_caller]
    pub fn equal(&self, what: &str, found: &Names, expected: &Names) -> &Self {
        if found != expected {
            let surplus = shown(&found.difference(expected).cloned().collect());
            let lacking = shown(&expected.difference(found).cloned().collect());
            self.run.fail(&format!("{what} differ\nsurplus:\n{surplus}lacking:\n{lacking}"));
        }
        self
    }
}

/// Whether `text` names what is at `path`, alone or below one of `roots`, and not only something that is in it.
fn names(text: &str, roots: &[String], path: &Path) -> bool {
    let path = path.display().to_string();
    let is_end = |end: char| end.is_whitespace() || "\":;,)".contains(end);
    text.match_indices(&path).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + path.len()..]);
        let is_below =
            |root: &String| before.strip_suffix('/').is_some_and(|it| it.ends_with(root));
        after.chars().next().is_none_or(is_end)
            && (before.chars().next_back().is_none_or(is_end) || roots.iter().any(is_below))
    })
}

fn to_names<N: AsRef<[u8]>>(names: &[N]) -> Names {
    names.iter().map(|name| name.as_ref().to_vec()).collect()
}

/// One line as `sha256sum` writes it: name and digest.
fn parse(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let line = line.strip_suffix(b"\n")?;
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (digest, rest) = line.split_at_checked(64)?;
    if !digest.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let raw = rest.strip_prefix(b"  ")?;
    let mut name = Vec::new();
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        name.push(match (escaped, byte) {
            (true, b'\\') => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            _ => byte,
        });
    }
    let needs_escape = name.iter().any(|b| matches!(b, b'\n' | b'\r' | b'\\'));
    (!name.is_empty() && needs_escape == escaped).then(|| (name, digest.to_vec()))
}

/// Whether a name is that of the side file of a manifest, finished or not.
fn is_side_file(name: &[u8]) -> bool {
    let name = name.strip_suffix(b".part").unwrap_or(name);
    name.strip_suffix(b".states").is_some_and(|name| age(&[name, b".sha256sum"].concat()).is_some())
}

/// Whether a name is that of a file that is not finished or of its journal, or leads through a
/// directory that an output is tried in.
pub fn is_temp_name(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'/')
        .any(|part| part.ends_with(b".dircopy-part") || part.ends_with(b".dircopy-journal"))
}
