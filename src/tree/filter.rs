//! Which entries of the source take part: `--include` and `--exclude`.
//!
//! The patterns are those of gitignore(5), relative to the source's root, and the last one that
//! matches decides. Once there is an include, a file that no pattern matches is left out; a
//! directory is still entered, unless it is excluded, because something in it may match.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// A pattern and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// What matches takes part.
    Include(String),
    /// What matches is left out, a directory with everything in it.
    Exclude(String),
}

/// The patterns of a run, ready for use.
#[derive(Clone, Debug)]
pub struct Filter {
    globs: Gitignore,
    /// Whether what no pattern matches is left out.
    closed: bool,
    empty: bool,
}

/// What the filter says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inclusion {
    /// It takes part; of a directory: so does everything in it that is not excluded.
    In,
    /// A directory that no pattern matches: look inside.
    Undecided,
    /// It is left out.
    Out,
}

impl Default for Filter {
    fn default() -> Self {
        Self { globs: Gitignore::empty(), closed: false, empty: true }
    }
}

impl Filter {
    /// Takes patterns in the order given. An error says which pattern is wrong and why.
    pub fn new(patterns: &[Pattern]) -> Result<Self, String> {
        let mut globs = GitignoreBuilder::new("");
        globs.allow_unclosed_class(false);
        for pattern in patterns {
            // In a gitignore file `!` marks what is *not* ignored, and a leading `!` or `#` of the
            // pattern itself is written with a backslash.
            let (mark, glob) = match pattern {
                Pattern::Include(glob) => ("!", glob),
                Pattern::Exclude(glob) => ("", glob),
            };
            if glob.trim().is_empty() {
                return Err("a pattern is empty".into());
            }
            let escape = if glob.starts_with(['!', '#']) { "\\" } else { "" };
            globs
                .add_line(None, &format!("{mark}{escape}{glob}"))
                .map_err(|error| format!("the pattern {glob:?} is not valid: {error}"))?;
        }
        Ok(Self {
            globs: globs.build().map_err(|error| error.to_string())?,
            closed: patterns.iter().any(|p| matches!(p, Pattern::Include(_))),
            empty: patterns.is_empty(),
        })
    }

    /// Whether everything takes part.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Judges an entry by its path below the root. `parent` is what was said of its directory.
    pub fn judge(&self, path: &Path, is_dir: bool, parent: Inclusion) -> Inclusion {
        if self.empty {
            return Inclusion::In;
        }
        match self.globs.matched(path, is_dir) {
            Match::Ignore(_) => Inclusion::Out,
            Match::Whitelist(_) => Inclusion::In,
            Match::None if !self.closed || parent == Inclusion::In => Inclusion::In,
            Match::None if is_dir => Inclusion::Undecided,
            Match::None => Inclusion::Out,
        }
    }

    /// What is said of the root itself.
    pub fn root(&self) -> Inclusion {
        if self.closed { Inclusion::Undecided } else { Inclusion::In }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn include(glob: &str) -> Pattern {
        Pattern::Include(glob.into())
    }

    fn exclude(glob: &str) -> Pattern {
        Pattern::Exclude(glob.into())
    }

    /// Walks the path from the top as the walker does; true if the file takes part.
    fn takes_part(filter: &Filter, path: &str) -> bool {
        let mut inclusion = filter.root();
        let depth = path.split('/').count();
        for end in 1..=depth {
            let part: Vec<&str> = path.split('/').take(end).collect();
            inclusion = filter.judge(Path::new(&part.join("/")), end < depth, inclusion);
            if inclusion == Inclusion::Out {
                return false;
            }
        }
        inclusion == Inclusion::In
    }

    #[test]
    fn gitignore_like() {
        let cases: &[(&[Pattern], &[&str], &[&str])] = &[
            (&[], &["a", "a/b"], &[]),
            (&[exclude("*.tmp")], &["a", "d/a"], &["a.tmp", "d/e/a.tmp"]),
            (&[exclude("/top")], &["d/top"], &["top", "top/a"]),
            (&[exclude("cache/")], &["cache", "a"], &["cache/x", "d/cache/x"]),
            (&[include("*.mov")], &["a.mov", "d/e/a.mov"], &["a", "d/b.txt"]),
            (&[include("docs/")], &["docs/a", "d/docs/e/a"], &["a", "docs"]),
            (&[include("docs/**")], &["docs/a", "docs/e/a"], &["a"]),
            (&[exclude("*.log"), include("keep.log")], &["keep.log"], &["a.log", "a"]),
            (&[include("*.log"), exclude("bad.log")], &["a.log"], &["bad.log", "a"]),
            (&[exclude("!odd")], &["odd"], &["!odd"]),
            (&[exclude("#odd")], &["odd"], &["#odd"]),
        ];
        for (patterns, inside, outside) in cases {
            let filter = Filter::new(patterns).unwrap();
            for path in *inside {
                assert!(takes_part(&filter, path), "{path} with {patterns:?}");
            }
            for path in *outside {
                assert!(!takes_part(&filter, path), "{path} with {patterns:?}");
            }
        }
    }

    #[test]
    fn bad_patterns_are_named() {
        assert!(Filter::new(&[exclude("a[")]).unwrap_err().contains("\"a[\""));
        assert!(Filter::new(&[include("")]).is_err());
    }
}
