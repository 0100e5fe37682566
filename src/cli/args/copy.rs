//! The options of a copy, and how they become a job for each output.

use std::{ffi::OsString, path::Path, path::PathBuf};

use clap::{ArgMatches, Parser, parser::ValueSource, value_parser};

use crate::{
    cli::args::mirror::BagArgs, cli::args::mirror::MirrorArgs,
    cli::args::unattended::UnattendedArgs, cli::args::values::VerbosityArgs,
    cli::args::values::algorithms, cli::args::values::one_of, cli::args::verify::parse_share,
    cli::catalog::parse_catalog, cli::show::rows::typed, cli::words, copy::CopyJob,
    fanout::MOST_OUTPUTS, hash::Algorithm, hash::Algorithms, hash::Backend, io::BLOCK_SIZE,
    io::CHECKPOINT, io::Cache, io::CopyOptions, io::Holes, io::QUEUE_SIZE, io::ReadBackWhich,
    io::Reflink, io::Renamed, io::Resume, io::Sparse, io::States, manifest::ListFormat,
    path::RelPath, span::SpanOrder, stream::Endpoint, stream::StreamJob, sys::Attributes,
    tree::Filter, tree::Pattern, tree::Policy, tree::Selection,
};

/// More blocks than any device needs.
const MOST_BLOCKS: u64 = 65_536;

/// Memory for blocks beyond this is refused; bytes.
const MOST_MEMORY: u64 = 8 << 30;

/// Copy a directory tree in one pass and leave a proven copy with a SHA-256 manifest
#[derive(Debug, Parser)]
#[command(name = "dircopy", version, max_term_width = 100)]
pub struct CopyArgs {
    /// Directory whose contents are copied, or a file
    ///
    /// A directory itself is not made again below DST; a file goes into DST under its own name.
    #[arg(value_name = "SRC")]
    pub source: Option<PathBuf>,

    /// Directories they go to; the source is read once for all of them
    #[arg(value_name = "DST")]
    pub destinations: Vec<PathBuf>,

    /// The same as SRC
    ///
    /// Of a stream: a file, a FIFO, a device or "-", repeatable.
    #[arg(short, long, value_name = "PATH")]
    pub input: Vec<PathBuf>,

    /// The same as DST, repeatable
    ///
    /// The directory is made if only its last component is missing. Each of several outputs is complete by itself.
    /// LABEL=NAME/DIR and UUID=ID/DIR are on the disk that is called so, wherever it is mounted. {date}, {label} and
    /// {host} stand for today, the label of the source's disk and this machine. Of a stream: a file or "-".
    #[arg(short, long, value_name = "DIR")]
    pub output: Vec<PathBuf>,

    /// Take the options of a job: NAME.toml where jobs are kept, or a file
    ///
    /// Options beside it win over the file's (docs/guide/scheduled.md).
    #[arg(long, value_name = "NAME|FILE")]
    pub job: Option<OsString>,

    /// Only say what would happen
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Copy only what matches GLOB (as in .gitignore); repeatable
    ///
    /// As the first of all patterns: copy nothing else. After others: an exception from them. The last pattern that
    /// matches wins; one that begins with "!" leaves out.
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub include: Vec<String>,

    /// Leave out what matches GLOB (as in .gitignore); repeatable
    ///
    /// The last pattern that matches wins; one that begins with "!" is an exception from those before it.
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub exclude: Vec<String>,

    /// Copy what is too large for one disk over several: DST are disks, and each file goes to one of them
    ///
    /// Each disk is complete by itself, with its manifest, and has an index of what is on which. What is on a disk
    /// stays on it; the same command goes on, and copies anew what was on a disk that has another in its place. LABEL=
    /// and UUID= may come one after the other into one drive: the next one is asked for at a terminal, and else the
    /// exit code is 7 (docs/guide/span.md).
    #[arg(long, conflicts_with_all = ["memory", "bag", "expect", "hard_links", "rescue"],
          hide_short_help = true, help_heading = "Files at the output")]
    pub span: bool,

    /// Which directories get their disk first: walk, or largest
    #[arg(long, value_name = "ORDER", default_value = "walk", value_parser = one_of::<SpanOrder>(), requires = "span",
          hide_short_help = true, help_heading = "Files at the output")]
    pub span_order: SpanOrder,

    /// Copy only the names that FILE lists, "-" for standard input
    ///
    /// A name on each line, below SRC. A directory is copied with all that is in it, and the directories above a name
    /// are made with their attributes. A name that is not there is an error. --include and --exclude hold as well.
    #[arg(long, value_name = "FILE", help_heading = "What is copied")]
    pub files_from: Option<PathBuf>,

    /// The names of --files-from end with NUL, as those of `find -print0`
    #[arg(long, requires = "files_from", hide_short_help = true, help_heading = "What is copied")]
    pub null: bool,

    /// Copy the targets of symbolic links instead of the links
    ///
    /// Whoever may write to SRC chooses by links which files this user reads: as root any file of the machine, and the
    /// copy is as open as the target and the directory of the link are.
    #[arg(long, hide_short_help = true, help_heading = "What is copied")]
    pub follow_links: bool,

    /// Leave symbolic links out, for outputs that have none
    #[arg(
        long,
        conflicts_with = "follow_links",
        hide_short_help = true,
        help_heading = "What is copied"
    )]
    pub no_links: bool,

    /// Keep hard links: names of the same file become links to one copy
    ///
    /// Without this each name becomes a file of its own.
    #[arg(long, hide_short_help = true, help_heading = "What is copied")]
    pub hard_links: bool,

    /// Copy FIFOs, sockets and devices as what they are; devices as root
    #[arg(long, conflicts_with_all = ["bag", "generations"], hide_short_help = true,
          help_heading = "What is copied")]
    pub specials: bool,

    /// Copy alternate data streams, and access list entries of a file's own, too; Windows only
    ///
    /// Streams up to 1 MiB. Without this they are named. It was never tried on Windows itself: look at a copy before
    /// you rely on it.
    #[arg(long, hide_short_help = true, help_heading = "What is copied")]
    pub windows_metadata: bool,

    /// Leave files larger than SIZE, name them, and exit with 1
    ///
    /// Holes count: a file of 8 TiB without data costs hours of hashing.
    #[arg(long, value_name = "SIZE", value_parser = words::parse, hide_short_help = true,
          help_heading = "What is copied")]
    pub max_size: Option<u64>,

    /// Take a source in which there is nothing to copy for a good one
    ///
    /// Without this the run says that nothing was copied, and exits with 1: an empty directory may be where a disk is
    /// not mounted. With --mirror and --generations it counts if it is typed and not in a job, and --max-delete holds.
    #[arg(long, hide_short_help = true, help_heading = "What is copied")]
    pub allow_empty: bool,

    /// What happens to a file at the output that differs from the source
    #[arg(long, value_name = "POLICY", default_value = "default", value_parser = one_of::<Policy>())]
    pub overwrite_policy: Policy,

    /// What happens to a file over 256 MiB that a killed run left half-copied
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of::<Resume>(),
          hide_short_help = true, help_heading = "Files at the output")]
    pub resume: Resume,

    /// For tests: the most of a large file that is read again after a kill
    #[arg(long, hide = true, value_name = "SIZE", value_parser = words::parse_block)]
    pub checkpoint: Option<usize>,

    /// Copy back to what SRC was copied from
    ///
    /// Without this an output that SRC is a copy of is refused, unless it is empty: the two may have been exchanged.
    #[arg(long, hide_short_help = true, help_heading = "Files at the output")]
    pub restore: bool,

    /// Do not check first that the output has room: copy as much as fits
    #[arg(long, hide_short_help = true, help_heading = "Files at the output")]
    pub no_space_check: bool,

    /// Keep what can be read of files that cannot be read as a whole
    ///
    /// After all other files they are read in ever smaller pieces. What comes is kept beside where the file is to be,
    /// as NAME.dircopy-rescue, with a map of what is missing that GNU ddrescue reads too, and the exit code is 1. The
    /// same command, on another day or with another card reader, reads what is missing, and when nothing is, proves
    /// the file and gives it its name.
    #[arg(long, conflicts_with_all = ["bag", "generations", "no_sync"], hide_short_help = true,
          help_heading = "Files at the output")]
    pub rescue: bool,

    /// Read every file back from the disk before it gets its name
    ///
    /// Files that are there already are read too. A file that the disk does not hold as it was written is
    /// copied once more; if that fails as well, the exit code is 4.
    ///
    /// With =new only what this run writes is read: of an archive of many TiB and a day's news, the news.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = one_of::<ReadBackWhich>())]
    pub verify: Option<ReadBackWhich>,

    /// Give each output parity for so much of it, as `dircopy protect` does
    ///
    /// By these PAR2 files, in DST/.dircopy/parity, DST can be made whole without another copy. Of generations each has
    /// its own.
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, hide_short_help = true, help_heading = "Proof")]
    pub parity: Option<u32>,

    /// Then add each complete output to the catalogue, as `dircopy catalog add` does
    ///
    /// FILE is another one than yours (docs/guide/catalog.md). If it cannot be added, an exit code of 0 becomes 1.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          value_parser = parse_catalog, hide_short_help = true, help_heading = "Files at the output")]
    pub catalog: Option<PathBuf>,

    /// --verify, and read each file of the source twice: once its copy was read back, once more from its device
    ///
    /// Cables, card readers and memory fail now and then, and what was read wrong is copied and listed so. A file that
    /// is something else the second time is copied once more; if that is not confirmed either, it fails, and the exit
    /// code is 4. Each of several outputs has the source read a second time for it.
    #[arg(long, hide_short_help = true, help_heading = "Proof")]
    pub verify_source: bool,

    /// Check the source against an earlier manifest while it is read
    ///
    /// Every listed file is read. A file whose digest differs, although nothing says that it was edited, has
    /// rotted: it is not copied, what is at the output stays, and the exit code is 4. The manifest may be
    /// of any program.
    #[arg(
        long,
        value_name = "MANIFEST",
        conflicts_with = "dry_run",
        hide_short_help = true,
        help_heading = "Proof"
    )]
    pub expect: Option<PathBuf>,

    /// With --expect: expect all as it is listed, as of a delivery
    ///
    /// No listed file counts as edited since, however new it is, and none as removed: one that differs is not copied,
    /// and one that differs or is missing makes the exit code 4. So it is of a bag without this option.
    #[arg(
        long,
        requires = "expect",
        conflicts_with = "dry_run",
        hide_short_help = true,
        help_heading = "Proof"
    )]
    pub expect_all: bool,

    /// Digests of every file, with commas between them; "none" copies without digests and manifest
    ///
    /// Any of sha256, sha512, c4, blake3, sha1, md5, xxh128, xxh3 and xxh64, all computed from one reading. A run
    /// proves with the first of them in this order, and its list is the manifest. Each other has a list of its own
    /// beside that, which the program of that name checks. sha1, md5 and xxh guard against accidents, not attackers.
    #[arg(long, value_name = "LIST", default_value = "sha256",
          value_parser = algorithms, hide_short_help = true, help_heading = "Proof")]
    pub hash: Algorithms,

    /// Form of the lists beside the manifest; may be given more than once
    #[arg(long, value_name = "FORMAT", default_value = "gnu", value_parser = one_of::<ListFormat>(),
          hide_short_help = true, help_heading = "Proof")]
    pub format: Vec<ListFormat>,

    /// Intermediate states of the digests of large files, kept beside the manifest
    ///
    /// With them a check uses all cores for one file and says where it is damaged.
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = one_of::<States>(),
          hide_short_help = true, hide_long_help = true, help_heading = "Proof")]
    pub states: States,

    /// Do not wait for the disk: faster for small files
    ///
    /// After a power cut soon after the run, files that are listed may be incomplete, empty or missing.
    #[arg(long, hide_short_help = true, help_heading = "Proof")]
    pub no_sync: bool,

    /// Share data with the source where the file system can (xfs, btrfs)
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of::<Reflink>(),
          hide_short_help = true, help_heading = "Storage")]
    pub reflink: Reflink,

    /// What happens to files that have another name than at the last run
    ///
    /// Such a file is read, and known by its digest.
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of::<Renamed>(),
          hide_short_help = true, help_heading = "Storage")]
    pub renamed: Renamed,

    /// What happens to holes and zeros
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of::<Sparse>(),
          hide_short_help = true, help_heading = "Storage")]
    pub sparse: Sparse,

    /// Whether what the source's file system calls a hole is read
    ///
    /// Data in it is copied, and the file named. Zeros stay holes either way.
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of::<Holes>(),
          hide_short_help = true, help_heading = "Proof")]
    pub holes: Holes,

    /// What happens to the copy's pages in the system's cache
    #[arg(long, value_name = "HOW", default_value = "drop", value_parser = one_of::<Cache>(),
          hide_short_help = true, help_heading = "Storage")]
    pub cache: Cache,

    /// Files that are copied side by side
    ///
    /// By default one for each core, up to 8 for small files, and 1 on a disk that turns.
    #[arg(short = 'j', long, alias = "jobs", value_name = "N",
          value_parser = value_parser!(u64).range(1..=words::MOST_WORKERS))]
    pub workers: Option<u64>,

    /// Blocks of a worker on their way between reader, hasher and writer
    #[arg(long, value_name = "N", default_value_t = QUEUE_SIZE as u64, hide_short_help = true,
          value_parser = value_parser!(u64).range(1..=MOST_BLOCKS), help_heading = "Speed and memory")]
    pub queue_size: u64,

    /// Size of a block: 4096, 128K, 1MiB …
    ///
    /// Memory is workers × queue size × this. The default is 256K.
    #[arg(long, value_name = "SIZE", value_parser = words::parse_block, hide_short_help = true,
          help_heading = "Speed and memory")]
    pub block_size: Option<usize>,

    /// With several outputs: memory for what slower outputs have not written yet
    ///
    /// An output further behind gets the rest from an output that has it.
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = words::parse_block,
          hide_short_help = true, hide_long_help = true, help_heading = "Speed and memory")]
    pub lag: usize,

    /// Hash several files at a time, in vector registers or by SHA instructions
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of::<Backend>(),
          hide_short_help = true, hide_long_help = true, help_heading = "Speed and memory")]
    pub simd: Backend,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub unattended: UnattendedArgs,

    #[command(flatten)]
    pub mirror: MirrorArgs,

    #[command(flatten)]
    pub bag: BagArgs,

    #[command(flatten)]
    pub stream: StreamArgs,
}

/// A job for each output.
pub fn jobs(args: &CopyArgs, matches: &ArgMatches) -> Result<Vec<CopyJob>, String> {
    let job = job(args, matches)?;
    if args.output.len() > MOST_OUTPUTS {
        return Err(format!("there can be at most {MOST_OUTPUTS} outputs"));
    }
    let to = |output: &PathBuf| CopyJob { output: output.clone(), ..job.clone() };
    Ok(args.output.iter().map(to).collect())
}

fn job(args: &CopyArgs, matches: &ArgMatches) -> Result<CopyJob, String> {
    refuse_contradictions(args)?;
    let input = args.input.first().ok_or("an input is needed")?;
    if args.overwrite_policy == Policy::Always {
        refuse_unescaped(input, "--include", &args.include)?;
        refuse_unescaped(input, "--exclude", &args.exclude)?;
    }
    let algorithm = args.hash.proof();
    let selection = Selection {
        filter: filter(&patterns(matches, &args.include, &args.exclude), args.overwrite_policy)?,
        max_size: args.max_size,
        follow_links: args.follow_links,
        links: !args.no_links,
        hard_links: args.hard_links,
        specials: args.specials,
        windows_metadata: args.windows_metadata,
        one_file_system: args.mirror.one_file_system,
    };
    let options = CopyOptions {
        selection,
        algorithm,
        further: args.hash.without(algorithm),
        formats: args.format.clone(),
        backend: args.simd,
        states: args.states,
        policy: args.overwrite_policy,
        sync: !args.no_sync,
        check_space: !args.no_space_check,
        allow_empty: args.allow_empty,
        require_mount: args.unattended.require_mount,
        require_durable: args.unattended.require_durable,
        restore: args.restore,
        resume: args.resume,
        checkpoint: args.checkpoint.map_or(CHECKPOINT, |checkpoint| checkpoint as u64),
        verify: args.verify.is_some() || args.verify_source,
        verify_which: args.verify.unwrap_or_default(),
        verify_source: args.verify_source,
        reflink: args.reflink,
        renamed: args.renamed,
        sparse: args.sparse,
        holes: args.holes,
        cache: args.cache,
        queue_size: args.queue_size as usize,
        block_size: args.block_size.unwrap_or(BLOCK_SIZE),
    };
    let mut job = CopyJob {
        options,
        expect: args.expect.clone(),
        expect_all: args.expect_all,
        dry_run: args.dry_run,
        rescue: args.rescue,
        parity: args.parity,
        bag: args.bag.options(),
        was_emptied: args.allow_empty,
        workers: args.workers.map(|workers| workers as usize),
        ..CopyJob::new(input, PathBuf::new())
    };
    args.mirror.apply(&mut job);
    args.unattended.apply(&mut job);
    let memory = job.most_memory().saturating_add(args.lag as u64);
    if memory > MOST_MEMORY {
        return Err(format!(
            "{} workers with {} blocks of {} bytes, and what --lag adds, would take {} of memory; \
             make one of them smaller",
            job.most_workers(),
            job.options.queue_size,
            job.options.block_size,
            humansize::format_size(memory, humansize::BINARY)
        ));
    }
    Ok(job)
}

fn refuse_contradictions(args: &CopyArgs) -> Result<(), String> {
    if args.reflink == Reflink::Always && args.sparse != Sparse::Auto {
        let text = "--reflink always goes with --sparse auto only: a clone has the source's holes";
        return Err(text.into());
    }
    if args.mirror.generations && args.overwrite_policy != Policy::Default {
        return Err(
            "--generations decides by itself what is copied; leave out --overwrite-policy".into()
        );
    }
    if args.windows_metadata && !Attributes::HAVE_MORE {
        return Err(
            "--windows-metadata is of streams and access lists that only Windows has".into()
        );
    }
    if args.span && args.hash.proof() == Algorithm::None {
        return Err("--span has an index of what manifests list, and --hash none makes none".into());
    }
    if args.parity.is_some() && args.hash.proof() == Algorithm::None {
        return Err("--parity is of what a manifest lists, and --hash none makes none".into());
    }
    if args.dry_run && args.unattended.records.metrics.is_some() {
        return Err("--metrics would tell of a copy that --dry-run does not make".into());
    }
    Ok(())
}

/// Refuses a malformed glob where it stands.
pub fn parse_glob(text: &str) -> Result<String, String> {
    Filter::new(&[Pattern::Exclude(text.to_owned())]).map(|_| text.to_owned())
}

/// The filter of these patterns. Where every file is replaced, an include that was to choose one, and does not, is
/// refused.
pub fn filter(patterns: &[Pattern], policy: Policy) -> Result<Filter, String> {
    let filter = Filter::new(patterns)?;
    let all = policy == Policy::Always;
    match all.then(|| filter.idle_name()).flatten() {
        Some(pattern) => Err(format!(
            "{pattern} makes no difference behind patterns that do not leave it out, and --overwrite-policy always would \
             replace all other files too; to replace that one alone, list its name: --files-from FILE"
        )),
        None => Ok(filter),
    }
}

/// Refuses a pattern of this option that is, letter by letter, the name of a file of `source`, and as a pattern not of
/// that one.
pub fn refuse_unescaped(source: &Path, option: &str, patterns: &[String]) -> Result<(), String> {
    let is_of_other = |text: &&String| {
        let Ok(path) = RelPath::parse(text.trim_matches('/').as_bytes()) else { return false };
        let matches = |filter: Filter| filter.leaves_out(&path);
        text.contains('[')
            && path.full_path(source).symlink_metadata().is_ok()
            && !Filter::new(&[Pattern::Exclude((*text).clone())]).is_ok_and(matches)
    };
    patterns.iter().find(is_of_other).map_or(Ok(()), |text| {
        let pattern = typed(Path::new(&pattern_of(text.trim_matches('/'))));
        Err(format!(
            "{option} {text:?} is a pattern, and not of the file that has this name: \"[\" begins a class; that file \
             alone is {option} {pattern}"
        ))
    })
}

/// The pattern of this path below a root alone: what has a meaning in a pattern stands for itself.
pub fn pattern_of(path: &str) -> String {
    let mut pattern = String::from("/");
    for c in path.chars() {
        pattern.extend("*?[\\".contains(c).then_some('\\'));
        pattern.push(c);
    }
    pattern
}

/// Includes and excludes in the order they were given in.
pub fn patterns(matches: &ArgMatches, include: &[String], exclude: &[String]) -> Vec<Pattern> {
    let indices = |id| matches.indices_of(id).into_iter().flatten();
    let includes = indices("include").zip(include.iter().cloned().map(Pattern::Include));
    let excludes = indices("exclude").zip(exclude.iter().cloned().map(Pattern::Exclude));
    let mut patterns: Vec<(usize, Pattern)> = includes.chain(excludes).collect();
    patterns.sort_by_key(|(index, _)| *index);
    patterns.into_iter().map(|(_, pattern)| pattern).collect()
}

// The options of streams, and how they become a job.

/// The options that only streams have.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub struct StreamArgs {
    /// Write the digests of all outputs to FILE, under the names given here
    ///
    /// Standard output is named "-" there. Without this each output has a NAME.sha256sum beside it, or with several
    /// digests a NAME.bsd.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub manifest: Option<PathBuf>,

    /// Refuse before the first byte is written if an input is missing or unreadable
    ///
    /// Without this it is named and the others are copied.
    #[arg(long, hide_short_help = true)]
    pub strict: bool,
}

/// Options that say nothing about a stream, each a word.
const OF_TREES: &str = "include exclude follow_links no_links hard_links specials \
                        windows_metadata dry_run reflink renamed sparse holes resume checkpoint no_space_check workers simd grace \
                        max_duration max_size files_from stop_at wait require_mount \
                        require_durable keep_manifests mirror generations keep max_delete \
                        keep_trash one_file_system bag bag_info expect expect_all \
                        verify_source format lag rescue parity catalog span span_order";

/// Options that say nothing about the copy of a tree.
const OF_STREAMS: &str = "manifest strict";

/// Other names of standard output.
const STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Refuses options that are for the other kind of copy.
pub fn refuse_others(matches: &ArgMatches, stream: bool) -> Result<(), String> {
    let (others, why) = match stream {
        true => (OF_TREES, "is for copies of directories, and this is a stream"),
        false => (OF_STREAMS, "is for streams, and this copies into a directory"),
    };
    let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match others.split(' ').find(given) {
        Some(id) => Err(format!("--{} {why}", id.replace('_', "-"))),
        None => Ok(()),
    }
}

/// The endpoints of inputs.
pub fn inputs(paths: &[PathBuf]) -> Vec<Endpoint> {
    paths.iter().map(|path| Endpoint::from(&**path)).collect()
}

/// The endpoints of outputs. Standard output is recognised by its other names too, so that no messages go there.
pub fn outputs(paths: &[PathBuf]) -> Vec<Endpoint> {
    let named = |path: &PathBuf| match STANDARD_OUTPUT.iter().any(|name| path == Path::new(name)) {
        true => Endpoint::Standard,
        false => Endpoint::from(&**path),
    };
    paths.iter().map(named).collect()
}

impl StreamArgs {
    /// The job of a stream; `copy` has what it shares with the copy of a tree.
    pub fn job(&self, inputs: Vec<Endpoint>, outputs: Vec<Endpoint>, copy: &CopyJob) -> StreamJob {
        StreamJob {
            manifest: self.manifest.clone(),
            options: copy.options.clone(),
            strict: self.strict,
            limit_rate: copy.limit_rate,
            ..StreamJob::new(inputs, outputs)
        }
    }
}
