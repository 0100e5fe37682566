//! Man pages and shell completions, made from the definitions that the programs read their options by,
//! so that help, pages and completions cannot differ.
//!
//! `cargo run --example documents -- DIR` writes `DIR/man/*.1` and `DIR/completions/*`. It is an
//! example and not a part of the program, so that an installation does not build what only packages
//! need.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

fn main() -> io::Result<()> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = dir.ok_or_else(|| io::Error::other("usage: documents DIR"))?;
    write(&dir)
}

/// Writes all of them below `dir`, which is made if it is missing.
pub fn write(dir: &Path) -> io::Result<()> {
    let (man, completions) = (dir.join("man"), dir.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    for mut command in [dircopy::programs::command(), dircopy::programs::verify_command()] {
        let name = command.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            clap_complete::generate_to(shell, &mut command, &name, &completions)?;
        }
        // A page for `dircopy help` would say nothing, and `clap_mangen` is silent about options that `-h` hides.
        let mut command = with_all_options(command).disable_help_subcommand(true);
        // Subcommands learn from it what they are called in full.
        command.build();
        pages(&command, &man)?;
    }
    Ok(())
}

/// The command and its subcommands with no option hidden from `-h`.
fn with_all_options(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(with_all_options)
}

/// Writes the page of a command and those of its subcommands.
fn pages(command: &Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        pages(subcommand, dir)?;
    }
    let man = Man::new(command.clone());
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    // Not `render_title`: it writes an empty date as nothing, and what follows moves up by one.
    let version = env!("CARGO_PKG_VERSION");
    writeln!(page, ".TH {} 1 \"\" \"dircopy {version}\" \"User Commands\"", name.to_uppercase())?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    closing_sections(command).to_writer(&mut page)?;
    fs::write(dir.join(man.get_filename()), page)
}

/// What the help ends with: a table of exit codes up to the first empty line, then notes. `clap_mangen`
/// knows nothing of the table and would run it together.
fn closing_sections(command: &Command) -> Roff {
    let text = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let (codes, notes) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in codes.lines() {
        // "  0    what it means", or only the codes; more of the meaning is further to the right.
        match line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
            Some(row) => {
                let (codes, meaning) = row.split_once("  ").unwrap_or((row, ""));
                roff.control("TP", []);
                roff.text([bold(codes)]);
                if !meaning.is_empty() {
                    roff.text([roman(meaning.trim())]);
                }
            }
            None => {
                roff.text([roman(line.trim())]);
            }
        }
    }
    roff.control("SH", ["NOTES"]);
    for line in notes.lines() {
        match line {
            "" => roff.control("PP", []),
            line => roff.text([roman(line)]),
        };
    }
    let others = ["dircopy", "dircopy-verify", "dirverify", "sha256sum"].map(|n| format!("{n}(1)"));
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(others.join(", "))]);
    roff
}
