//! The filter for entries of the source: `--include` and `--exclude`, with the patterns of gitignore(5).

use std::{
    fmt, fmt::Write, iter, sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed,
};

use regex::{bytes::RegexSet, bytes::RegexSetBuilder};
use serde::{Deserialize, Serialize};

use crate::path::RelPath;

// A pattern of gitignore(5) as a regular expression.
//
// The rules are those of git's own `wildmatch.c` and `dir.c`, byte for byte: a user who knows one of the two
// knows both. The crates that read `.gitignore` files for searching differ from git in ways that a copy must
// not: `globset` has no POSIX classes, lets a class match a `/`, and gives `{` a meaning.
// A regular expression, because the engine takes time in proportion to the name whatever the pattern and the name
// are, where matching by trial takes exponential time for `*a*a*a*b`, and names are not ours to choose.

/// A pattern that was understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Glob {
    /// It began with `!`: what it matches is excepted from what patterns before it say.
    pub negated: bool,
    /// It ended in `/`: it matches directories only.
    pub only_dirs: bool,
    /// Matches whole paths below the root, of bytes, where `.` is any byte.
    pub regex: String,
}

/// A class of bytes: true for those that belong to it.
type ByteSet = [bool; 256];

const UNCLOSED: &str = "the class that \"[\" opens is not closed";
const DANGLING: &str = "\"\\\" stands before nothing";

impl Glob {
    /// Understands a pattern. An error completes the sentence "the pattern is not valid: …".
    pub fn parse(pattern: &str) -> Result<Self, &'static str> {
        let (negated, glob) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (only_dirs, glob) = match glob.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, glob),
        };
        // Without a slash in it, a pattern is of names in any directory.
        let (above, glob) = match glob.contains('/') {
            true => ("", glob.strip_prefix('/').unwrap_or(glob)),
            false => ("(?:.*/)?", glob),
        };
        if glob.trim().is_empty() {
            return Err("it names nothing");
        }
        let regex = format!("\\A{above}{}\\z", translate(glob.as_bytes())?);
        Ok(Self { negated, only_dirs, regex })
    }
}

fn translate(glob: &[u8]) -> Result<String, &'static str> {
    let mut regex = String::new();
    let mut at = 0;
    while let Some(&byte) = glob.get(at) {
        at += 1;
        match byte {
            b'*' => {
                let begin = at - 1;
                while glob.get(at) == Some(&b'*') {
                    at += 1;
                }
                let rest = &glob[at..];
                let begins = begin == 0 || glob[begin - 1] == b'/';
                let ends = rest.is_empty() || rest.starts_with(b"/") || rest.starts_with(b"\\/");
                match (at - begin > 1 && begins && ends, rest.first()) {
                    (false, _) => regex.push_str("[^/]*"),
                    // Any number of directories, and none too.
                    (true, Some(b'/')) => {
                        at += 1;
                        regex.push_str("(?:.*/)?");
                    }
                    (true, _) => regex.push_str(".*"),
                }
            }
            b'?' => regex.push_str("[^/]"),
            b'[' => {
                let (set, len) = class(&glob[at..])?;
                at += len;
                push_set(&mut regex, &set);
            }
            b'\\' => {
                push_byte(&mut regex, *glob.get(at).ok_or(DANGLING)?);
                at += 1;
            }
            byte => push_byte(&mut regex, byte),
        }
    }
    Ok(regex)
}

/// Writing to a string does not fail.
fn push_byte(regex: &mut String, byte: u8) {
    let _ = write!(regex, "\\x{byte:02x}");
}

fn push_set(regex: &mut String, set: &ByteSet) {
    regex.push('[');
    let members = (0..=u8::MAX).filter(|byte| set[usize::from(*byte)]);
    members.for_each(|byte| push_byte(regex, byte));
    // The class that nothing is in.
    if regex.ends_with('[') {
        regex.push_str("^\\x00-\\xff");
    }
    regex.push(']');
}

/// The class whose text behind its `[` begins `text`, and the length of that text, its `]` included. No class
/// matches a `/`.
fn class(text: &[u8]) -> Result<(ByteSet, usize), &'static str> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut set = [false; 256];
    // What a range may begin with.
    let mut before = None;
    loop {
        let byte = *text.get(at).ok_or(UNCLOSED)?;
        at += 1;
        match (byte, before, text.get(at)) {
            (b']', ..) if at - 1 > first => break,
            (b'-', Some(low), Some(&next)) if next != b']' => {
                let high = literal(text, &mut at)?;
                set.iter_mut()
                    .take(usize::from(high) + 1)
                    .skip(usize::from(low))
                    .for_each(|it| *it = true);
                before = None;
            }
            _ => match class_name(&text[at - 1..]) {
                Some(name) => {
                    at += name.len() + 3;
                    add_named(&mut set, name)?;
                    before = None;
                }
                None => {
                    at -= 1;
                    let byte = literal(text, &mut at)?;
                    set[usize::from(byte)] = true;
                    before = Some(byte);
                }
            },
        }
    }
    if negated {
        set.iter_mut().for_each(|it| *it = !*it);
    }
    set[usize::from(b'/')] = false;
    Ok((set, at))
}

/// The byte at `at`, or the one behind it if that is a backslash.
fn literal(text: &[u8], at: &mut usize) -> Result<u8, &'static str> {
    *at += usize::from(text.get(*at) == Some(&b'\\'));
    let byte = *text.get(*at).ok_or(UNCLOSED)?;
    *at += 1;
    Ok(byte)
}

/// The name of the POSIX class, `[:name:]`, that begins `text`; `None` if it is none.
fn class_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"[:")?;
    let end = memchr::memchr(b']', text)?;
    text[..end].strip_suffix(b":")
}

/// Adds a POSIX class, of ASCII characters whatever the locale.
fn add_named(set: &mut ByteSet, name: &[u8]) -> Result<(), &'static str> {
    let is_in: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        // Without the vertical tab and the form feed, as git has it.
        b"space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return Err("\"[:…:]\" has a name that is none of the classes of POSIX"),
    };
    (0..=u8::MAX).filter(is_in).for_each(|byte| set[usize::from(byte)] = true);
    Ok(())
}

// The patterns of a run, and what they say of an entry.
//
// The last pattern that matches decides. What none matches takes part, unless the first pattern is an include:
// then the patterns list what is wanted, and the rest is left out. A directory that is excluded is not entered,
// so nothing in it can be excepted, as in gitignore(5).

/// A pattern and what it does. One that begins with `!` does the opposite, as in gitignore(5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// Entries that match take part.
    Include(String),
    /// Entries that match are left out, a directory with everything in it.
    Exclude(String),
}

impl Pattern {
    fn text(&self) -> &str {
        let (Self::Include(text) | Self::Exclude(text)) = self;
        text
    }
}

/// The pattern as the command line has it.
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Pattern>", into = "Vec<Pattern>")]
pub struct Filter(Option<Arc<Rules>>);

#[derive(Debug)]
struct Rules {
    /// All patterns in one, so that a path is gone through once for all.
    globs: RegexSet,
    rules: Vec<Rule>,
    /// True if entries that no pattern matches are left out.
    closed: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Pattern,
    regex: String,
    includes: bool,
    only_dirs: bool,
    /// True once an entry was in or out because of it.
    used: Arc<AtomicBool>,
}

/// The filter's answer for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inclusion {
    /// It takes part; of a directory: so does everything in it that is not excluded.
    In,
    /// A directory that no pattern matches: look inside.
    Undecided,
    /// It is left out.
    Out,
}

/// Largest memory of the automaton of all patterns, for each thread that matches; bytes. It is built as names come, and
/// only what they need of it. With the crate's 2 MiB, 5,000 patterns filled it again and again, until each was tried by
/// itself: 35 to 120 ms a name, and 0.02 to 0.2 ms with this.
const MOST_STATES: usize = 64 << 20;

impl TryFrom<Vec<Pattern>> for Filter {
    type Error = String;

    fn try_from(patterns: Vec<Pattern>) -> Result<Self, String> {
        Self::new(&patterns)
    }
}

impl From<Filter> for Vec<Pattern> {
    fn from(filter: Filter) -> Self {
        filter.patterns()
    }
}

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

    /// The same filter, which also leaves out what these patterns match. Both remember which of the others are of use;
    /// of these that is not asked.
    ///
    /// # Errors
    /// A pattern is wrong.
    pub fn without(&self, patterns: &[String]) -> Result<Self, String> {
        let patterns: Vec<Pattern> = patterns.iter().cloned().map(Pattern::Exclude).collect();
        let own = Self::new(&patterns)?;
        own.0.iter().flat_map(|it| &it.rules).for_each(|rule| rule.used.store(true, Relaxed));
        let both = [self, &own].into_iter().filter_map(|it| it.0.as_ref());
        let rules: Vec<Rule> = both.flat_map(|it| &it.rules).cloned().collect();
        Self::of(rules)
    }

    /// True if everything takes part.
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

    /// True if a file is left out, or a directory that it is in.
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

    /// The answer for the root itself.
    pub fn root(&self) -> Inclusion {
        match &self.0 {
            Some(rules) if rules.closed => Inclusion::Undecided,
            _ => Inclusion::In,
        }
    }

    /// An `--include` that names one path, which the patterns before it leave in: it excepts nothing, and behind them
    /// it does not choose that path alone either.
    pub fn idle_name(&self) -> Option<&Pattern> {
        let rules = self.0.as_ref().filter(|rules| !rules.closed)?;
        let is_idle = |(at, rule): &(usize, &Rule)| {
            let named = matches!(rule.pattern, Pattern::Include(_)) && rule.includes;
            let path = named.then(|| named_path(rule.pattern.text())).flatten();
            let is_out = |path: &RelPath, is_dir| rules.is_out_before(*at, path.as_bytes(), is_dir);
            path.is_some_and(|path| {
                let above =
                    |path: &RelPath| path.split().map(|(dir, _)| dir).filter(|it| !it.is_root());
                let mut dirs = iter::successors(Some(path.clone()), above);
                !is_out(&path, false) && !dirs.any(|dir| is_out(&dir, true))
            })
        };
        rules.rules.iter().enumerate().find(is_idle).map(|(_, rule)| &rule.pattern)
    }

    /// The patterns because of which nothing that was judged so far is in or out: nothing matches them, later
    /// ones decide of all that does, or it is in a directory that is left out.
    pub fn idle(&self) -> impl Iterator<Item = &Pattern> {
        let rules = self.0.iter().flat_map(|rules| &rules.rules);
        rules.filter(|rule| !rule.used.load(Relaxed)).map(|rule| &rule.pattern)
    }
}

/// The path that a pattern is of, if that is one alone.
fn named_path(pattern: &str) -> Option<RelPath> {
    let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
    let (mut path, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '[' => return None,
            '\\' => path.extend(chars.next()),
            c => path.push(c),
        }
    }
    let path = path.strip_prefix('/').or_else(|| path.contains('/').then_some(&*path))?;
    RelPath::parse(path.as_bytes()).ok()
}

impl Rules {
    /// True if the rules before that of the number `end` leave a path out.
    fn is_out_before(&self, end: usize, path: &[u8], is_dir: bool) -> bool {
        let matched = self.globs.matches(path);
        let mut matching = matched.iter().rev().filter(|at| *at < end);
        let decides = |at| self.rules.get(at).filter(|it: &&Rule| is_dir || !it.only_dirs);
        matching.find_map(decides).is_some_and(|last| !last.includes)
    }

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
mod glob_tests {
    use super::*;

    #[test]
    fn what_cannot_match_is_refused() {
        for (pattern, why) in [
            ("", "it names nothing"),
            ("!", "it names nothing"),
            ("/", "it names nothing"),
            ("a[", UNCLOSED),
            ("a[]", UNCLOSED),
            ("a[!]", UNCLOSED),
            ("[[:alpha:]", UNCLOSED),
            ("[\\", UNCLOSED),
            ("a\\", DANGLING),
            ("a\\/", DANGLING),
            ("[[:letters:]]", "\"[:…:]\" has a name that is none of the classes of POSIX"),
        ] {
            assert_eq!(Glob::parse(pattern), Err(why), "{pattern}");
        }
    }
}

#[cfg(test)]
mod patterns_tests {
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
