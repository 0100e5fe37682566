//! The patterns of a run, and what they say of an entry.
//!
//! The last pattern that matches decides. What none matches takes part, unless the first pattern is an include:
//! then the patterns list what is wanted, and the rest is left out. A directory that is excluded is not entered,
//! so nothing in it can be excepted, as in gitignore(5).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use regex::bytes::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::tree::filter::glob::Glob;

/// A pattern and what it does. One that begins with `!` does the opposite, as in gitignore(5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// What matches takes part.
    Include(String),
    /// What matches is left out, a directory with everything in it.
    Exclude(String),
}

impl Pattern {
    fn text(&self) -> &str {
        let (Self::Include(text) | Self::Exclude(text)) = self;
        text
    }
}

/// As the command line has it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = match self {
            Self::Include(_) => "--include",
            Self::Exclude(_) => "--exclude",
        };
        write!(f, "{option} {:?}", self.text())
    }
}

/// The patterns of a run, ready for use. Clones share the memory of which patterns were of use.
#[derive(Clone, Debug, Default)]
pub struct Filter(Option<Arc<Rules>>);

#[derive(Debug)]
struct Rules {
    /// Of all patterns, so that a path is gone through once for all.
    globs: RegexSet,
    rules: Vec<Rule>,
    /// Whether what no pattern matches is left out.
    closed: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Pattern,
    regex: String,
    includes: bool,
    only_dirs: bool,
    /// Whether an entry is in or out because of it.
    used: Arc<AtomicBool>,
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

/// What the automaton of all patterns may take in memory, for each thread that matches; bytes. It is built as names
/// come, and only what they need of it. With the crate's 2 MiB, 5,000 patterns filled it again and again, until each
/// was tried by itself: 35 to 120 ms a name, and 0.02 to 0.2 ms with this.
const MOST_STATES: usize = 64 << 20;

impl Filter {
    /// Takes patterns in the order given. An error says which pattern is wrong and why.
    pub fn new(patterns: &[Pattern]) -> Result<Self, String> {
        let mut rules = Vec::new();
        for pattern in patterns {
            let text = pattern.text();
            let glob = Glob::parse(text)
                .map_err(|why| format!("the pattern {text:?} is not valid: {why}"))?;
            rules.push(Rule {
                regex: glob.regex,
                includes: matches!(pattern, Pattern::Include(_)) != glob.negated,
                pattern: pattern.clone(),
                only_dirs: glob.only_dirs,
                used: Arc::default(),
            });
        }
        Self::of(rules)
    }

    fn of(rules: Vec<Rule>) -> Result<Self, String> {
        let Some(first) = rules.first() else { return Ok(Self::default()) };
        let closed = first.includes && matches!(first.pattern, Pattern::Include(_));
        let globs = RegexSetBuilder::new(rules.iter().map(|rule| &rule.regex))
            .unicode(false)
            .dot_matches_new_line(true)
            .dfa_size_limit(MOST_STATES)
            .build()
            .map_err(|error| format!("the patterns are too many or too long: {error}"))?;
        Ok(Self(Some(Arc::new(Rules { globs, rules, closed }))))
    }

    /// The same, and what this pattern matches is left out as well. Whether it is of use is not asked; which of the
    /// others are is remembered by both.
    ///
    /// # Errors
    /// The pattern is wrong.
    pub fn without(&self, pattern: &str) -> Result<Self, String> {
        let own = Self::new(&[Pattern::Exclude(pattern.to_owned())])?;
        let both = [self, &own].into_iter().filter_map(|it| it.0.as_ref());
        let rules: Vec<Rule> = both.flat_map(|it| &it.rules).cloned().collect();
        Self::of(rules)
    }

    /// Whether everything takes part.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The patterns, in their order.
    pub fn patterns(&self) -> Vec<Pattern> {
        let rules = self.0.iter().flat_map(|rules| &rules.rules);
        rules.map(|rule| rule.pattern.clone()).collect()
    }

    /// Judges an entry by its path below the root, components joined by `/`. `parent` is what was said of its
    /// directory.
    pub fn judge(&self, path: &[u8], is_dir: bool, parent: Inclusion) -> Inclusion {
        self.0.as_ref().map_or(Inclusion::In, |rules| rules.judge(path, is_dir, parent))
    }

    /// Whether a file is left out, or a directory that it is in.
    pub fn leaves_out(&self, path: &RelPath) -> bool {
        let is_out = |path: &RelPath, is_dir| {
            self.judge(path.as_bytes(), is_dir, Inclusion::In) == Inclusion::Out
        };
        let mut above = path.split().map(|(dir, _)| dir);
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            if is_out(&dir, true) {
                return true;
            }
            above = dir.split().map(|(dir, _)| dir);
        }
        is_out(path, false)
    }

    /// What is said of the root itself.
    pub fn root(&self) -> Inclusion {
        match &self.0 {
            Some(rules) if rules.closed => Inclusion::Undecided,
            _ => Inclusion::In,
        }
    }

    /// The patterns because of which nothing that was judged so far is in or out: nothing matches them, later
    /// ones decide of all that does, or it is in a directory that is left out.
    pub fn idle(&self) -> impl Iterator<Item = &Pattern> {
        let rules = self.0.iter().flat_map(|rules| &rules.rules);
        rules.filter(|rule| !rule.used.load(Relaxed)).map(|rule| &rule.pattern)
    }
}

impl Rules {
    fn judge(&self, path: &[u8], is_dir: bool, parent: Inclusion) -> Inclusion {
        let matched = self.globs.matches(path);
        let mut matching = matched
            .iter()
            .rev()
            .filter_map(|at| self.rules.get(at))
            .filter(|it| is_dir || !it.only_dirs);
        let by_default = match is_dir {
            _ if !self.closed || parent == Inclusion::In => Inclusion::In,
            true => Inclusion::Undecided,
            false => Inclusion::Out,
        };
        let Some(last) = matching.next() else { return by_default };
        let verdict = |rule: &Rule| if rule.includes { Inclusion::In } else { Inclusion::Out };
        // An exception from nothing is of no use; an exclusion of what is excluded already is no mistake.
        if !last.includes || matching.next().map_or(by_default, verdict) != Inclusion::In {
            last.used.store(true, Relaxed);
        }
        verdict(last)
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
            inclusion = filter.judge(part.join("/").as_bytes(), end < depth, inclusion);
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
            (&[exclude("*.log"), include("keep.log")], &["keep.log", "a"], &["a.log"]),
            (&[exclude("*.log"), exclude("!keep.log")], &["keep.log", "a"], &["a.log"]),
            (&[include("*.log"), exclude("bad.log")], &["a.log"], &["bad.log", "a"]),
            (&[include("*.log"), include("!bad.log")], &["a.log"], &["bad.log", "a"]),
            (&[include("!*.log")], &["a"], &["a.log"]),
            (&[exclude("d/"), exclude("!d/a")], &["a"], &["d/a"]),
            (&[exclude("d/*"), exclude("!d/a")], &["a", "d/a"], &["d/b"]),
            (&[exclude("\\!odd")], &["odd"], &["!odd"]),
            (&[exclude("#odd")], &["odd"], &["#odd"]),
            (&[exclude("*.{a,b}")], &["x.a"], &["x.{a,b}"]),
            (&[exclude("[[:digit:]]*")], &["a1", "[a"], &["1a", "d/2"]),
            (&[exclude("/foo[/]bar"), exclude("/x[^a]y")], &["foo/bar", "x/y"], &["xby"]),
            (&[exclude("a[\\-^]b")], &["a]b", "a\\b"], &["a-b", "a^b"]),
            (&[exclude("a[]-^]b")], &["a-b"], &["a]b", "a^b"]),
            (&[exclude("a[0-]b")], &["a,b"], &["a0b", "a-b"]),
            (&[exclude("?")], &["ab", "dd/ab"], &["a", "d/b", "\n"]),
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
    fn patterns_that_decide_nothing_are_known() {
        let files = ["a.bak", "keep.bak", "dir/a", "dir/b.bak", "other"];
        let cases: &[(&[Pattern], &[&str])] = &[
            (&[exclude("*.bak"), exclude("!keep.bak")], &[]),
            (&[exclude("*.bak"), include("keep.bak")], &[]),
            // In the wrong order.
            (&[exclude("!keep.bak"), exclude("*.bak")], &["--exclude \"!keep.bak\""]),
            (&[include("keep.bak"), exclude("*.bak")], &["--include \"keep.bak\""]),
            // In a directory that is left out.
            (&[exclude("dir/"), exclude("!dir/a")], &["--exclude \"!dir/a\""]),
            (&[exclude("!keep.bak")], &["--exclude \"!keep.bak\""]),
            (&[exclude("*.{bak,tmp}")], &["--exclude \"*.{bak,tmp}\""]),
            (&[exclude("*.bak"), exclude("a.*")], &[]),
        ];
        for (patterns, idle) in cases {
            let filter = Filter::new(patterns).unwrap();
            let _: Vec<bool> = files.iter().map(|file| takes_part(&filter.clone(), file)).collect();
            let said: Vec<String> = filter.idle().map(Pattern::to_string).collect();
            assert_eq!(said, *idle, "{patterns:?}");
        }
    }

    /// Names have the beginnings and the ends of patterns in all combinations, so that few states serve two names.
    #[test]
    fn thousands_of_patterns_take_little_time_for_a_name() {
        let patterns: Vec<_> =
            (0..5_000u64).map(|i| exclude(&format!("*n{:x}*", i * 7919))).collect();
        let filter = Filter::new(&patterns).unwrap();
        let begun = std::time::Instant::now();
        for i in 0..200u64 {
            let path = format!("dir{}/file-n{:x}", i % 7, i * 2_654_435_761 % 99_991);
            filter.judge(path.as_bytes(), false, Inclusion::In);
        }
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }

    #[test]
    fn bad_patterns_are_named() {
        assert!(Filter::new(&[exclude("a[")]).unwrap_err().contains("\"a[\""));
        assert!(Filter::new(&[include("")]).is_err());
    }
}
