//! A scene: a private directory with a source, room for outputs, and the program to run there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::judge::Judge;
use super::run::{Cmd, Run};
use super::tree::Tree;

pub struct Scene {
    dir: Option<TempDir>,
    /// What is copied.
    pub src: Tree,
    /// Where to. It does not exist until a run or [`Scene::output`] makes it.
    pub dst: PathBuf,
}

impl Scene {
    /// In memory where there is memory to have, else where temporary files go.
    pub fn new() -> Self {
        let shm = Path::new("/dev/shm");
        Self::below(if shm.is_dir() { shm } else { &*Box::leak(std::env::temp_dir().into()) })
    }

    /// On the disk that holds the build: for what a tmpfs cannot do.
    pub fn on_disk() -> Self {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub fn below(place: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("dircopy-it-").tempdir_in(place).unwrap();
        // The path as the kernel names it: strace compares strings.
        let root = dir.path().canonicalize().unwrap();
        let src = Tree::at(root.join("src"));
        Self { dir: Some(dir), src, dst: root.join("dst") }
    }

    pub fn root(&self) -> &Path {
        self.dst.parent().unwrap()
    }

    /// A path beside source and output.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A tree beside source and output.
    pub fn tree(&self, name: &str) -> Tree {
        Tree::at(self.path(name))
    }

    /// The output as a tree, made if it is not there.
    pub fn output(&self) -> Tree {
        Tree::at(&self.dst)
    }

    /// `dircopy` with exactly these arguments.
    pub fn bare(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Cmd<'_> {
        Cmd::new(self, args)
    }

    /// The same, run to its end, which is no crash and has this exit code.
    #[track_caller]
    pub fn ended(&self, args: &[&str], code: i32) -> Run {
        let run = self.bare(args).run();
        run.assert_no_crash();
        run.assert_code(code);
        run
    }

    /// `dircopy -i src -o dst` and these arguments, not yet run.
    pub fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Cmd<'_> {
        self.command_to(self.src.root(), &self.dst, args)
    }

    pub fn command_to(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Cmd<'_> {
        let mut all = vec![
            OsStr::new("-i").to_owned(),
            from.as_ref().into(),
            OsStr::new("-o").to_owned(),
            to.as_ref().into(),
        ];
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        Cmd::new(self, all).with_extra_args().with_further_outputs(to.as_ref())
    }

    /// Runs `dircopy -i src -o dst` and these arguments.
    pub fn copy(&self, args: &[&str]) -> Run {
        self.command(args).run()
    }

    /// What came out of `run`, for the judges.
    pub fn judge<'a>(&'a self, run: &'a Run) -> Judge<'a> {
        Judge::new(&self.src, Tree::of(&self.dst), run)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let keep = std::env::var_os("DIRCOPY_TEST_KEEP").is_some_and(|v| v == "1");
        let Some(dir) = self.dir.take() else { return };
        if keep && std::thread::panicking() {
            eprintln!("kept: {}", dir.keep().display());
        } else {
            // Trees deeper than there are descriptors: `rm` can, the standard library cannot.
            let _ = std::process::Command::new("rm").arg("-rf").arg(dir.path()).status();
        }
    }
}
