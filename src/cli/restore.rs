//! What `dircopy restore` brings back: a tree and the manifest that proves it, found in a copy, in generations or in a
//! bag.

use std::{io, path::Path, path::PathBuf};

use clap::{ArgMatches, Command, CommandFactory, parser::ValueSource};

use crate::{
    cli::args::copy::CopyArgs, cli::args::copy::pattern_of, cli::show::rows::typed,
    cli::show::verify_messages::rival as rival_words, copy::GenerationSet,
    copy::generations::newest::Untaken, copy::generations::set::path_of, error::Deed, error::Error,
    error::Result, manifest::Entries, manifest::ManifestName, manifest::Parsed, path::directory_of,
    state::Missing, state::PrivateDir, state::private_dir, sys, sys::Dir, sys::DirListing,
    sys::ListedEntry, sys::PlainUse, sys::stat::Kind, tree::Filter, tree::Inclusion,
    tree::leftover_patterns, verify::DirProof, verify::OwnManifests, verify::Rival,
    verify::output_near,
};

/// Why owners and permissions are in doubt.
const OPEN: &str = "lists have contents alone: what they put in the place of a file, with its content, comes back with \
                    the owner and permissions that they gave it; look at these before it is used";

/// A tree that can be proven.
#[derive(Debug)]
pub struct ProvenTree {
    /// Where it is.
    pub source: PathBuf,
    /// The manifest, or the bag.
    pub manifest: PathBuf,
    /// Patterns of what runs keep there for themselves, and of what killed ones left.
    pub own: Vec<String>,
    /// Why not all is believed: the private record there, the list, or owners and permissions.
    pub doubts: Vec<Error>,
}

impl ProvenTree {
    /// The tree at `path`, to be proven by the list `given`, if there is one.
    ///
    /// # Errors
    /// There is none, or nothing proves it.
    pub fn find(path: &Path, given: Option<&Path>, state: Option<&Path>) -> Result<Self> {
        let fail = |finding| Err(Error::finding("restore", path, finding));
        if let Some(Untaken { error, .. }) = Untaken::at(path).filter(|_| given.is_none()) {
            let note = "; a list that was kept elsewhere brings it back (--expect LIST)";
            return Err(error.of_deed("restore").with_note(note));
        }
        if path.is_file() {
            return fail(part_of_tree(path).unwrap_or_else(|| NO_MANIFEST.to_owned()));
        }
        let root = Dir::open(path).deed("open", path);
        let root = root.map_err(|error| no_such_generation(path).unwrap_or(error))?;
        let mut set = GenerationSet::read(&root, path)?;
        let mut ours = OwnManifests::look(path, state)?;
        let labels = labels_in_doubt(&root, path)?;
        let (proof, mut doubts) = (ours.proof(), Vec::from_iter(ours.unbelieved.take()));
        // Who may write here can add a manifest, a bag or a generation to what this user's runs made.
        if proof != DirProof::Recorded {
            if let Some((name, why)) = set.newest_in_doubt(&root, path) {
                let older = set.complete.iter().rfind(|older| **older < name);
                let older = older.map(|older| path_of(path, *older));
                let remedy = older.map_or_else(String::new, |older| {
                    let older = typed(&older);
                    format!(
                        "; an older one is brought back by its name: dircopy restore {older} DST"
                    )
                });
                return fail(format!(
                    "its generation {name} may be the newest, and cannot be taken for it ({why}){remedy}"
                ));
            }
            if let Some(newest) = set.newest() {
                let is_lost = set.lost_record;
                if let Some(error) = set.unrecorded.take_if(|_| is_lost) {
                    let by_name = typed(&path_of(path, newest));
                    let note = format!("; to bring it back: dircopy restore {by_name} DST");
                    return Err(error.of_deed("restore").with_note(note));
                }
                let mut found = Self::find(&path_of(path, newest), given, None)?;
                found.doubts.extend(set.unrecorded.into_iter().chain(doubts).chain(labels));
                return Ok(found);
            }
        }
        let manifest = match given {
            Some(given) => {
                doubts.clear();
                given.to_path_buf()
            }
            None => match proof {
                DirProof::Either => return fail(EITHER.into()),
                DirProof::Bag if !set.foreign.is_empty() => return fail(EITHER.into()),
                DirProof::Bag => {
                    let (source, manifest) = (path.join("data"), path.to_path_buf());
                    doubts.extend(labels);
                    return Ok(Self { source, manifest, own: Vec::new(), doubts });
                }
                DirProof::Recorded | DirProof::Manifest => list_of(ours, &root, path, &mut doubts)?,
                DirProof::Nothing => {
                    let near = output_near(path).map(|near| {
                        format!(
                            "it has no manifest, and {0} has: dircopy restore {0} DST",
                            typed(&near)
                        )
                    });
                    return fail(
                        part_of_tree(path).or(near).unwrap_or_else(|| NO_MANIFEST.to_owned()),
                    );
                }
            },
        };
        let own = own_names(&root, path, &manifest, state)?;
        doubts.extend(labels);
        Ok(Self { source: path.to_path_buf(), manifest, own, doubts })
    }
}

/// The list that holds at `path`, whose root is `root`, and what is doubtful of it.
///
/// # Errors
/// There is none, or a run may have made a later one of which the record there does not tell.
fn list_of(
    mut ours: OwnManifests,
    root: &Dir,
    path: &Path,
    doubts: &mut Vec<Error>,
) -> Result<PathBuf> {
    ours.misnamed.take().map_or(Ok(()), Err)?;
    let valid = ours.open_valid(path)?;
    let list = path.join(valid.name.to_string());
    // Earlier lists that cannot be read say nothing.
    let dropped = ours.dropped(root, valid.name).ok().flatten();
    for rival in valid.rivals.into_iter().chain(dropped) {
        let error = Error::finding("restore all by", &list, rival_words(rival, &valid.name));
        match rival {
            Rival::Doubtful(_) => {
                return Err(error.with_note(", or restore by the one that holds (--expect LIST)"));
            }
            _ => doubts.push(error),
        }
    }
    Ok(list)
}

/// The doubt about owners and permissions in a tree, if this run would give them and others may write to its root, or
/// above it.
///
/// # Errors
/// It cannot be looked at.
fn labels_in_doubt(root: &Dir, path: &Path) -> Result<Option<Error>> {
    if !sys::may_give_away() {
        return Ok(None);
    }
    let look = |looked: io::Result<bool>| looked.deed("look at", path);
    let where_else = match () {
        () if !look(root.is_kept())? => "to",
        // They can put another one there at any time.
        () if !look(root.is_place_kept())? => "above",
        () => return Ok(None),
    };
    let finding = format!("other users may write {where_else} it, and {OPEN}");
    Ok(Some(Error::finding("vouch for owners and permissions in", path, finding)))
}

impl ProvenTree {
    /// Refuses a tree that is the newest generation at `path`, and has nothing, or nothing of what is included by its
    /// path.
    ///
    /// # Errors
    /// There is nothing; where older ones have it, the newest of these.
    pub fn refuse_lost(&self, path: &Path, include: &[String]) -> Result<()> {
        // That of a bag is the payload.
        let is_generation = self.source.parent() == Some(path) && self.manifest != path;
        let is_empty = || self.manifest.metadata().is_ok_and(|list| list.len() == 0);
        let is_named = named_paths(include).is_some();
        if !is_generation || !is_named && !is_empty() {
            return Ok(());
        }
        let has_any = |tree: &Path| {
            let is_there =
                |pattern: &String| tree.join(pattern.trim_matches('/')).symlink_metadata().is_ok();
            if is_named { include.iter().any(is_there) } else { tree != self.source }
        };
        if has_any(&self.source) {
            return Ok(());
        }
        let root = Dir::open(path).deed("open", path)?;
        let older = GenerationSet::read(&root, path)?.complete;
        let older = older.iter().rev().map(|name| path_of(path, *name)).find(|tree| has_any(tree));
        let finding = match older {
            older if !is_named => format!(
                "its newest generation lists no file, as its run found none{}",
                older.map_or_else(String::new, |older| format!(
                    "; an older one is brought back by its name: dircopy restore {} DST",
                    typed(&older)
                ))
            ),
            Some(older) => format!(
                "its newest generation has nothing that --include names; the newest that has it: dircopy restore {} DST{}",
                typed(&older),
                include
                    .iter()
                    .map(|it| format!(" --include {}", typed(Path::new(it))))
                    .collect::<String>()
            ),
            None => "none of its generations has what --include names".to_owned(),
        };
        Err(Error::finding("restore", path, finding))
    }
}

/// What is included, each ended with NUL, if all of it is named by its path.
pub fn named_paths(include: &[String]) -> Option<Vec<u8>> {
    let is_path = |pattern: &String| {
        let is_named = pattern.starts_with('/') && !pattern.trim_matches('/').is_empty();
        is_named && !pattern.contains(['*', '?', '[', '\\'])
    };
    let names = include.iter().flat_map(|pattern| [pattern.trim_matches('/'), "\0"]);
    let is_any = !include.is_empty() && include.iter().all(is_path);
    is_any.then(|| names.collect::<String>().into_bytes())
}

/// What is said of a path where nothing is, beside generations.
fn no_such_generation(path: &Path) -> Option<Error> {
    let above = directory_of(path);
    let is_absent = path.symlink_metadata().is_err();
    let set = GenerationSet::read(&Dir::open(above).ok().filter(|_| is_absent)?, above).ok()?;
    let (first, last) = (set.complete.first()?, set.newest()?);
    let is_of_date = |c: char| c.is_ascii_digit() || c == '-';
    let day = path.file_name()?.to_str()?.get(..10).filter(|day| day.chars().all(is_of_date))?;
    let names = set.complete.iter().map(ToString::to_string);
    let that_day: Vec<_> = names.filter(|name| name.starts_with(day)).collect();
    let finding = match &*that_day {
        [] => {
            format!("there is none of that day, of {} from {first} to {last}", set.complete.len())
        }
        names => format!("there is no generation of that name; of that day: {}", names.join(", ")),
    };
    Some(Error::finding("restore", path, finding))
}

const EITHER: &str = "it is a bag, and has a manifest of dircopy or generations that no record of yours knows: name the \
                      generation, or give the manifest that counts with --expect (of a bag: TREE/data with --expect \
                      TREE/manifest-sha256.txt), or move away what does not belong there";

const NO_MANIFEST: &str = "it has no manifest of dircopy that would prove it: --expect LIST names one of another \
                           program, and dircopy TREE DST copies it as it is";

/// The command that restores a file or a directory of a tree, which is the nearest directory above with a manifest; if
/// there is one.
fn part_of_tree(part: &Path) -> Option<String> {
    let payload = |tree: &Path| match DirProof::of(tree, None) {
        DirProof::Bag => tree.join("data"),
        _ => tree.to_path_buf(),
    };
    let is_tree = |dir: &Path| DirProof::of(dir, None) != DirProof::Nothing;
    let full = part.canonicalize().ok()?;
    let (part, tree) = [part, &full].into_iter().find_map(|part| {
        let is_of = |dir: &&Path| is_tree(dir) && part.starts_with(payload(dir));
        Some((part, part.ancestors().skip(1).find(is_of)?))
    })?;
    let below = part.strip_prefix(payload(tree)).ok()?.to_str()?;
    if below.is_empty() {
        return Some(format!("it is the payload of a bag: dircopy restore {} DST", typed(tree)));
    }
    Some(format!(
        "it is part of a tree that has the manifest: name that, and the part with --include: dircopy restore {} DST \
         --include {}",
        typed(tree),
        typed(Path::new(&pattern_of(below)))
    ))
}

/// Patterns of what runs keep in a root for themselves, and of what killed ones left anywhere; but for what the
/// manifest lists, which came from a source.
fn own_names(
    root: &Dir,
    path: &Path,
    manifest: &Path,
    state: Option<&Path>,
) -> Result<Vec<String>> {
    let private = PrivateDir::open(root, path, state, Missing::Leave).ok().flatten();
    let secret = private.and_then(|private| private.known_secret().ok().flatten());
    let left: Vec<_> = secret.iter().flat_map(leftover_patterns).collect();
    // A file of the source may have such a name: it is told by the same rule that would leave it out.
    let filter = Filter::default().without(&left);
    let filter = filter.map_err(|finding| Error::finding("restore", path, finding))?;
    let mut lists_left = false;
    let mut own = Vec::new();
    for listed in DirListing::of(root).deed("list", path)? {
        let ListedEntry { name, kind, .. } = listed.deed("list", path)?;
        let is_private = *name == *private_dir::NAME || *name == *private_dir::TRASH;
        // What runs write for themselves beside the copy is a file.
        let is_file = || match kind {
            Some(kind) => kind == Kind::File,
            None => root.stat(&name, false).map_or(true, |it| it.kind == Kind::File),
        };
        let is_own = is_private || ManifestName::of_any(&name).is_some() && is_file();
        own.extend(name.to_str().filter(|_| is_own).map(str::to_owned));
    }
    let file = sys::open_plain(manifest, PlainUse::Read).deed("read the manifest", manifest)?;
    let mut entries = Entries::of_all(file);
    while let Some(entry) = entries.next_entry().deed("read the manifest", manifest)? {
        let Parsed::Record(record) = entry.parsed else { continue };
        own.retain(|name| name.as_bytes() != record.name);
        lists_left |= filter.judge(record.name, false, Inclusion::In) == Inclusion::Out;
    }
    let left = if lists_left { Vec::new() } else { left };
    Ok(own.into_iter().map(|name| format!("/{name}")).chain(left).collect())
}

// The options of `dircopy restore`: those of a copy that mean something when a tree is brought back.

const EXIT_CODES: &str = "\
Exit codes:
  0    everything that the manifest lists is at DST, byte-equal
  1    finished, but some entries failed or were left different
  2    usage error, or refused: there is no manifest that would prove TREE
  3    stopped early: an output became unusable, or TREE is gone
  4    files of TREE are damaged or missing: they are named and not copied
  129, 130, 143
       ended by a signal: the same command continues

TREE is a copy that has a manifest of dircopy, a generation, a directory of
generations (the newest is taken) or a BagIt bag. Every file is held against
its manifest while it is copied. Records of TREE are not copied, and DST keeps
none when the run came to its end, unless it was an output before.";

/// The text of `dircopy restore -h`.
pub const SHORT: &str = "\
Bring a copy back, proven against its manifest while it is copied

Usage: dircopy restore [OPTIONS] <TREE> <DST>

  dircopy restore /mnt/archive /srv/photos
  dircopy restore /mnt/nights/2026-11-21T020000Z /srv/photos
  dircopy restore /mnt/archive /srv/photos --include /2025/snow.jpg

Options:
  -n, --dry-run                  Only say what would happen
      --include, --exclude GLOB  Bring back only, or leave out, what matches
      --overwrite-policy POLICY  What differs: default, update, never, always
      --verify                   Read every file back from the disk
      --expect FILE              Prove it by this list, of any program
      --report FILE              A record of the run: JSON, or a page if .html
  -q, --quiet; -v, --verbose     Only say what is wrong; name every entry
  -h; --help                     This; all options and exit codes

Exit code 0: everything listed is at DST, byte-equal; 4: TREE has damaged files.
";

/// What of a copy's options it has, each a word.
const KEPT: &str = "source destinations input output dry_run include exclude overwrite_policy \
                    verify expect hard_links no_links specials windows_metadata no_space_check no_sync workers \
                    limit_rate max_duration stop_at state wait require_mount require_durable report log \
                    progress quiet verbose on_end";

/// The command line of `dircopy restore`.
pub fn restore() -> Command {
    let copy = CopyArgs::command().name("restore").display_name("dircopy-restore");
    copy.about("Bring a copy back, proven against its manifest while it is copied")
        .long_about(None)
        .override_usage("dircopy restore [OPTIONS] <TREE> <DST>")
        .after_help(EXIT_CODES)
        .disable_version_flag(true)
        .mut_arg("source", |arg| {
            arg.value_name("TREE").help("The copy, generation or bag to bring back").long_help(None)
        })
        .mut_arg("destinations", |arg| {
            arg.value_name("DST").help("Where it goes, often what it was copied from")
        })
        .mut_arg("input", |arg| arg.help("The same as TREE").long_help(None))
        .mut_args(|arg| if is_kept(arg.get_id().as_str()) { arg } else { arg.hide(true) })
}

fn is_kept(id: &str) -> bool {
    KEPT.split(' ').any(|kept| kept == id)
}

/// Refuses an option of copies that says nothing here.
pub fn refuse_others(matches: &ArgMatches) -> Result<(), String> {
    let mut given = matches.ids().map(clap::Id::as_str).filter(|id| {
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        is_given
            && !is_kept(id)
            && CopyArgs::command().get_arguments().any(|arg| arg.get_id() == id)
    });
    match given.next() {
        Some(id) => Err(format!("--{} is of copies, and says nothing here", id.replace('_', "-"))),
        None => Ok(()),
    }
}
