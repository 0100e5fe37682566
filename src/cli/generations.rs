//! `dircopy generations`: lists what is at an output, and moves generations to its trash.

use std::path::Path;

use serde::Serialize;

use crate::cli::args::generations::GenerationsArgs;
use crate::cli::exit::Exit;
use crate::cli::record::json;
use crate::cli::show::console::Console;
use crate::cli::show::rows::{files, size};
use crate::copy::dated_name::DatedName;
use crate::copy::generations::directory::{discard, hold};
use crate::copy::generations::set::{GenerationNote, GenerationSet};
use crate::copy::mirror::lost_names::LostNames;
use crate::error::{Error, Result};
use crate::event::{Event, Stop};
use crate::path::Shown;
use crate::sys::Dir;

/// A generation, as a program reads it.
#[derive(Serialize)]
struct ListedGeneration {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_bytes: Option<u64>,
}

/// Lists the generations, or removes those that are named.
pub fn generations(args: &GenerationsArgs, console: &Console) -> Exit {
    let done = match args.remove.is_empty() {
        true => list(args, console),
        false => remove(args, console),
    };
    match done {
        Ok(()) if console.all_written() => Exit::Complete,
        Ok(()) => Exit::Incomplete,
        Err((exit, error)) => {
            console.refused(&error);
            exit
        }
    }
}

fn open(path: &Path) -> Result<(Dir, GenerationSet)> {
    let root = Dir::open(path).map_err(|error| Error::io("open the output", path, error))?;
    let set = GenerationSet::read(&root, path)?;
    Ok((root, set))
}

fn list(args: &GenerationsArgs, console: &Console) -> std::result::Result<(), (Exit, Error)> {
    let (root, set) = open(&args.output).map_err(|error| (Exit::Refused, error))?;
    let each = |names: &[DatedName], state| {
        for name in names {
            let note = match state {
                "complete" => GenerationNote::read(&root, &args.output, *name),
                _ => None,
            };
            console.out(&match args.json {
                true => json::line(&ListedGeneration {
                    name: name.to_string(),
                    state,
                    files: note.map(|note| note.files),
                    bytes: note.map(|note| note.bytes),
                    new_bytes: note.map(|note| note.new_bytes),
                }),
                false => {
                    let said = note.map_or_else(String::new, |note| {
                        format!(
                            "  {}, {} of them new",
                            files(note.files, note.bytes),
                            size(note.new_bytes)
                        )
                    });
                    format!("{name}  {state:<10}{said}").trim_end().to_owned()
                }
            });
        }
    };
    each(&set.complete, "complete");
    each(&set.unfinished, "unfinished");
    Ok(())
}

fn remove(args: &GenerationsArgs, console: &Console) -> std::result::Result<(), (Exit, Error)> {
    let refused = |error| (Exit::Refused, error);
    let (root, _) = open(&args.output).map_err(refused)?;
    let _lock = hold(&root, &args.output).map_err(refused)?;
    let set = GenerationSet::read(&root, &args.output).map_err(refused)?;
    for name in &args.remove {
        let path = args.output.join(name.to_string());
        if !set.complete.contains(name) {
            return Err(refused(Error::finding("remove", path, "there is no such generation")));
        }
        if set.newest() == Some(*name) {
            let finding = "it is the newest complete generation, which stays";
            return Err(refused(Error::finding("remove", path, finding)));
        }
    }
    let mut tell = |event: Event<'_>| {
        if let Event::GenerationRemoved(name) = event {
            console.out(&format!("moved {} to the trash", Shown::bytes(name)));
        }
    };
    // Without an age no trash is removed, and no file loses a name.
    let lost = &mut LostNames::default();
    discard(&root, &args.output, &args.remove, None, lost, &Stop::default(), &mut tell)
        .map(drop)
        .map_err(|error| (Exit::Incomplete, error))
}
