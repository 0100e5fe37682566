//! The values of options that are one of a few words: each word, the library's value for it, and its help. So the
//! library's enums need no copy here and know nothing of `clap`.

use std::path::PathBuf;

use clap::{
    Parser, builder::PossibleValue, builder::PossibleValuesParser, builder::TypedValueParser,
};

use crate::{
    cli::progress::View, cli::progress::When, cli::show::Detail, hash::Algorithm, hash::Algorithms,
    hash::Backend, io::Cache, io::Holes, io::ReadBackWhich, io::Reflink, io::Renamed, io::Resume,
    io::Sparse, io::States, manifest::ListFormat, span::SpanOrder, tree::Policy, verify::ReadFrom,
    verify::ReadOrder,
};

/// A word on the command line, the value it stands for, and its help.
pub type Choice<T> = (&'static str, T, &'static str);

/// The help of a value that is for tests alone.
const HIDDEN: &str = "";

/// A value that is chosen by a word.
pub trait Choose: Copy + Send + Sync + 'static {
    /// All of them, in the order of the help.
    const CHOICES: &'static [Choice<Self>];

    /// The same, and those that the machine decides about.
    fn choices() -> Vec<Choice<Self>> {
        Self::CHOICES.to_vec()
    }
}

/// Reads one of the words of `T`.
pub fn one_of<T: Choose>() -> impl TypedValueParser<Value = T> {
    let value =
        |(word, _, help): Choice<T>| PossibleValue::new(word).help(help).hide(help == HIDDEN);
    PossibleValuesParser::new(T::choices().into_iter().map(value)).try_map(|word| {
        let chosen = T::choices().into_iter().find(|(name, ..)| *name == word);
        chosen.map(|(_, value, _)| value).ok_or("no such value")
    })
}

impl Choose for SpanOrder {
    const CHOICES: &'static [Choice<Self>] = &[
        ("walk", SpanOrder::Walk, "In the order of a walk"),
        ("largest", SpanOrder::Largest, "The largest first"),
    ];
}

impl Choose for Policy {
    const CHOICES: &'static [Choice<Self>] = &[
        (
            "default",
            Policy::Default,
            "Replace cut-off copies only; leave other files that differ, and exit with 1",
        ),
        ("update", Policy::Update, "Also replace files that are older than the source"),
        ("never", Policy::Never, "Replace nothing"),
        ("always", Policy::Always, "Replace everything"),
    ];
}

impl Choose for ReadBackWhich {
    const CHOICES: &'static [Choice<Self>] = &[
        ("all", ReadBackWhich::All, "Every file that is listed, also those that are there already"),
        ("new", ReadBackWhich::New, "Every file that this run writes"),
    ];
}

impl Choose for Resume {
    const CHOICES: &'static [Choice<Self>] = &[
        ("auto", Resume::Auto, "Continue where the file was durable"),
        ("verify", Resume::Verify, "Read and check first what is there"),
        ("off", Resume::Off, "Start over, and keep nothing for a later run"),
    ];
}

/// Reads one algorithm or several, with commas between them; none alone is no algorithm.
pub fn algorithms(text: &str) -> Result<Algorithms, String> {
    if text == Algorithm::None.name() {
        return Ok(Algorithms::default());
    }
    let plain = |word: &str| word.to_lowercase().replace(['-', '_'], "");
    let named = |word: &str| {
        let found = |is_it: &dyn Fn(&str) -> bool| Algorithm::listed().find(|it| is_it(it.name()));
        let meant = || found(&|name| name == plain(word));
        let meant = || meant().map_or(String::new(), |it| format!("; did you mean {}?", it.name()));
        let none = || format!("{word:?} is none of {}{}", all_algorithms(), meant());
        found(&|name| name == word).ok_or_else(none)
    };
    text.split(',').map(named).collect()
}

fn all_algorithms() -> String {
    let names = Algorithm::listed().chain([Algorithm::None]).map(Algorithm::name);
    names.collect::<Vec<_>>().join(", ")
}

impl Choose for ListFormat {
    const CHOICES: &'static [Choice<Self>] = &[
        ("gnu", ListFormat::Gnu, "As sha256sum, md5sum, b3sum and xxhsum write; one list for each"),
        ("bsd", ListFormat::Bsd, "Lines that name their algorithm; one list for all"),
        (
            "hashdeep",
            ListFormat::Hashdeep,
            "That of hashdeep: MD5, SHA-1 and SHA-256 of those asked for",
        ),
        (
            "mhl",
            ListFormat::History,
            "A history of ASC MHL 2 in OUTPUT/ascmhl, to which each run adds a generation",
        ),
        ("mhl1", ListFormat::LegacyMhl, "A legacy Media Hash List (1.1)"),
        ("dirs", ListFormat::Dirs, "A list in each directory: SHA256SUMS, MD5SUMS and so on"),
        ("sides", ListFormat::Sides, "A list beside each file: NAME.sha256, NAME.md5 and so on"),
    ];
}

impl Choose for Reflink {
    const CHOICES: &'static [Choice<Self>] = &[
        ("auto", Reflink::Auto, "Where it is possible and gains something"),
        ("always", Reflink::Always, "A file that cannot be cloned is an error"),
        ("never", Reflink::Never, "The copy gets blocks of its own"),
    ];
}

impl Choose for Renamed {
    const CHOICES: &'static [Choice<Self>] = &[
        (
            "auto",
            Renamed::Auto,
            "A clone of the file of the old name; with --mirror and --generations else a hard link",
        ),
        ("link", Renamed::Link, "A clone, or else a hard link to a name that may stay"),
        ("clone", Renamed::Clone, "A clone, where the file system can (xfs, btrfs)"),
        ("copy", Renamed::Copy, "Copied like any new file"),
    ];
}

impl Choose for Sparse {
    const CHOICES: &'static [Choice<Self>] = &[
        ("auto", Sparse::Auto, "Holes of the source are holes of the copy"),
        ("never", Sparse::Never, "Holes are written as zeros"),
        ("always", Sparse::Always, "Aligned zeros of 4 KiB and more become holes too"),
    ];
}

impl Choose for Holes {
    const CHOICES: &'static [Choice<Self>] = &[
        ("auto", Holes::Auto, "Read what is called a hole, in files with at most 1 TiB of it"),
        ("read", Holes::Read, "Read it in all files"),
        ("trust", Holes::Trust, "Believe the source's file system"),
    ];
}

impl Choose for Cache {
    const CHOICES: &'static [Choice<Self>] = &[
        ("drop", Cache::Drop, "Drop what the copy brought in; keep what was cached before"),
        ("keep", Cache::Keep, "Leave it to the system"),
    ];
}

impl Choose for States {
    const CHOICES: &'static [Choice<Self>] = &[
        ("auto", States::Auto, "Those of files of more than 1 MiB: 32 bytes for each MiB"),
        ("none", States::None, "None: checks are slower and do not say where a file is damaged"),
    ];
}

impl Choose for Backend {
    const CHOICES: &'static [Choice<Self>] = &[];

    fn choices() -> Vec<Choice<Self>> {
        let mut choices = vec![
            ("auto", Backend::best(), "As is fastest"),
            ("off", Backend::One, "File by file"),
            ("on", Backend::widest(), "In the widest registers of the processor (AVX2, AVX-512)"),
        ];
        choices.extend(Backend::all().into_iter().map(|backend| (backend.name(), backend, HIDDEN)));
        // Right for the known answers, and wrong for files.
        #[cfg(feature = "internals")]
        choices.push(("wrong", Backend::Wrong(64), HIDDEN));
        choices
    }
}

impl Choose for ReadFrom {
    const CHOICES: &'static [Choice<Self>] = &[
        (
            "medium",
            ReadFrom::Medium,
            "From the disk, around the system's cache, wherever that is possible",
        ),
        (
            "cache",
            ReadFrom::Cache,
            "From the cache where it has them: faster, and no proof of what is on the disk",
        ),
    ];
}

impl Choose for ReadOrder {
    const CHOICES: &'static [Choice<Self>] = &[
        ("large-first", ReadOrder::LargeFirst, "Large files first"),
        ("as-on-disk", ReadOrder::AsOnDisk, "As they lie on the disk"),
    ];
}

impl Choose for When {
    const CHOICES: &'static [Choice<Self>] = &[
        ("auto", When::Auto, "If standard error is a terminal"),
        ("always", When::Always, "Always"),
        ("never", When::Never, "Never"),
    ];
}

/// How much a program says.
#[derive(Clone, Debug, clap::Args)]
pub struct VerbosityArgs {
    /// When to show progress
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of::<When>(),
          hide_short_help = true)]
    pub progress: When,

    /// Only say what is wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// Name every entry, and say where the time went
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

impl VerbosityArgs {
    /// The detail of messages and summary.
    pub fn detail(&self) -> Detail {
        match self {
            Self { quiet: true, .. } => Detail::Quiet,
            Self { verbose: true, .. } => Detail::Verbose,
            _ => Detail::Normal,
        }
    }

    /// The form in which progress is shown.
    pub fn view(&self) -> View {
        View::new(self.progress, self.quiet)
    }
}

// The options of `dircopy report`.

const EXIT_CODES: &str = "\
Exit codes:
  0    the page has every receipt; --check: none is missing or changed
  1    receipts could not be read: the page has the others, and says so
  2    usage error, none of them could be read, or the page could not be written
  4    --check: a receipt is missing, changed or of another output, or has no
       good signature
  5    --check: a receipt cannot be read, or none is in a sequence

The newest run is shown in full, and of several a history. The page is one file
that needs neither script nor network, and prints on A4. Sizes of files are
looked up where the manifest is.";

/// The text of `dircopy report -h`.
pub const SHORT_REPORT: &str = "\
Make a page of the receipts of runs, or check them

Usage: dircopy report <RECEIPT>... -o FILE.html
       dircopy report --check [OPTIONS] <RECEIPT>...

Options:
  -o, --output FILE.html  The page; only a page of dircopy is replaced
      --check             Is a receipt missing, changed or of another output?
      --at OUTPUT         … and the last one, which the output knows?
      --state DIR         Private records are below DIR, not in OUTPUT
      --signers FILE      Each must be signed by someone in FILE
      --identity NAME     … by this one alone
  -h; --help              This; all options and exit codes

The newest run is shown in full, and of several a history. The page is one file
that needs neither script nor network, and prints on A4.

Exit code 0: the page has every receipt, or none is missing or changed.
";

/// Make a page of the receipts that --report left, or check them
#[derive(Debug, Parser)]
#[command(name = "report", after_help = EXIT_CODES)]
pub struct ReportArgs {
    /// Receipts: the JSON files that --report wrote
    #[arg(value_name = "RECEIPT", required = true)]
    pub receipts: Vec<PathBuf>,

    /// The page; its name ends in .html, and only a page of dircopy is replaced
    #[arg(
        short,
        long,
        value_name = "FILE.html",
        required_unless_present = "check",
        conflicts_with = "check"
    )]
    pub output: Option<PathBuf>,

    /// Make no page: say whether a receipt is missing, was changed or is of another output
    ///
    /// Each receipt of a copy names the one before it at its output. --at says whether the last one is there too.
    #[arg(long)]
    pub check: bool,

    /// With --check: the output of the receipts, which knows its last one
    #[arg(long, value_name = "OUTPUT", requires = "check")]
    pub at: Option<PathBuf>,

    /// With --at: your private records are below DIR instead of in OUTPUT/.dircopy
    #[arg(long, value_name = "DIR", requires = "at")]
    pub state: Option<PathBuf>,

    /// With --check: each receipt must have a signature of someone in this file of allowed signers (ssh-keygen(1))
    #[arg(long, value_name = "FILE", requires = "check")]
    pub signers: Option<PathBuf>,

    /// With --signers: of this one alone
    #[arg(long, value_name = "NAME", requires = "signers")]
    pub identity: Option<String>,
}
