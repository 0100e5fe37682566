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
        if name == "dircopy" {
            adapt(&completions.join("dircopy.bash"), &BASH)?;
            let commands: Vec<&str> = commands(&command).map(Command::get_name).collect();
            let is_command = format!(
                "    # What is no command is a source or an output.\n    \
                 if set -q argv[1]; and contains -- $argv[1] {} help\n",
                commands.join(" ")
            );
            let fish = completions.join("dircopy.fish");
            adapt(&fish, &[("    if set -q argv[1]\n", &is_command)])?;
            adapt(&fish, &FISH)?;
            let positional = ZSH_POSITIONAL.replace("COMMANDS", &commands.join(" "));
            let zsh = completions.join("_dircopy");
            adapt(&zsh, &[("    _arguments \"${_arguments_options[@]}\" : \\\n", &positional)])?;
            adapt(&zsh, &ZSH)?;
        }
        // `clap_mangen` is silent about options that `-h` hides.
        let mut command = with_all_options(command);
        // Subcommands learn from it what they are called in full.
        command.build();
        let others: Vec<&str> = commands(&command).filter_map(Command::get_display_name).collect();
        pages(&command, &others, &man)?;
    }
    Ok(())
}

/// What bash is to know beside what the definitions say: jobs by their names, and the classes of `--ionice`. Each text
/// is put in place of what the generator writes.
const BASH: [(&str, &str); 3] = [
    (
        "--job)\n                    COMPREPLY=($(compgen -f \"${cur}\"))",
        "--job)\n                    COMPREPLY=($(compgen -W \"$(dircopy jobs list 2>/dev/null | cut -d' ' -f1)\" -- \
         \"${cur}\") $(compgen -f \"${cur}\"))",
    ),
    (
        "--ionice)\n                    COMPREPLY=($(compgen -f \"${cur}\"))",
        "--ionice)\n                    COMPREPLY=($(compgen -W \"idle best-effort\" -- \"${cur}\"))",
    ),
    (
        "dircopy__subcmd__jobs__subcmd__check)\n            opts=\"-h --help\"",
        "dircopy__subcmd__jobs__subcmd__check)\n            opts=\"-h --help $(dircopy jobs list 2>/dev/null | cut \
         -d' ' -f1)\"",
    ),
];

/// The same for fish. The generated condition for options fails where the word before the cursor is an option that
/// waits for its value, and takes the source for a subcommand.
const FISH: [(&str, &str); 4] = [
    (
        "    argparse -s (__fish_dircopy_global_optspecs) -- $cmd 2>/dev/null\n    or return\n",
        "    if not argparse -s (__fish_dircopy_global_optspecs) -- $cmd 2>/dev/null\n        \
         # The last option waits for its value.\n        set -e cmd[-1]\n        \
         argparse -s (__fish_dircopy_global_optspecs) -- $cmd 2>/dev/null\n        or return\n    end\n",
    ),
    (
        "'Take the options of a job: NAME.toml where jobs are kept, or a file' -r",
        "'Take the options of a job: NAME.toml where jobs are kept, or a file' -r -a \
         \"(dircopy jobs list 2>/dev/null | string replace -r ' .*' '')\"",
    ),
    (
        "N from 0 to 7; a warning if it cannot be set' -r",
        "N from 0 to 7; a warning if it cannot be set' -r -f -a \"idle best-effort best-effort:0 best-effort:7\"",
    ),
    (
        "__fish_seen_subcommand_from check\" -s h",
        "__fish_seen_subcommand_from check\" -a \"(dircopy jobs list 2>/dev/null | string replace -r ' .*' '')\"\n\
         complete -c dircopy -n \"__fish_dircopy_using_subcommand jobs; and __fish_seen_subcommand_from check\" -s h",
    ),
];

/// The generated function for zsh counts a command behind source and outputs, and so finds none. A command is always the
/// first word.
const ZSH_POSITIONAL: &str = "    _dircopy_first() {
        _alternative 'commands:command:_dircopy_commands' 'files:source:_files'
    }
    _dircopy_jobs() {
        local -a jobs
        jobs=(${${(f)\"$(dircopy jobs list 2>/dev/null)\"}%% *})
        _alternative 'jobs:job:compadd -a jobs' 'files:file:_files'
    }
    local -a positional
    if (( CURRENT == 2 )); then
        positional=('1: :_dircopy_first')
    elif (( ${${(z)${:-COMMANDS help}}[(Ie)$words[2]]} )); then
        positional=(':: :_dircopy_commands' '*::: :->dircopy')
    else
        positional=('*: :_files')
    fi
    _arguments \"${_arguments_options[@]}\" : \\
";

const ZSH: [(&str, &str); 6] = [
    (
        "'::source -- Directory whose contents are copied, or a file:_files' \\\n\
         '::destinations -- Directories they go to; the source is read once for all of them:_files' \\\n\
         \":: :_dircopy_commands\" \\\n\
         \"*::: :->dircopy\" \\\n",
        "\"${positional[@]}\" \\\n",
    ),
    ("words=($line[3] ", "words=($line[1] "),
    ("dircopy-command-$line[3]:", "dircopy-command-$line[1]:"),
    ("case $line[3] in", "case $line[1] in"),
    (":NAME|FILE:_default", ":NAME|FILE:_dircopy_jobs"),
    ("':name -- As with --job:_default'", "':name:_dircopy_jobs'"),
];

/// Puts other texts in place of some of a file.
///
/// # Errors
/// One is not there: the generator writes something else than it did.
fn adapt(path: &Path, changes: &[(&str, &str)]) -> io::Result<()> {
    let mut text = fs::read_to_string(path)?;
    for (from, to) in changes {
        if !text.contains(from) {
            return Err(io::Error::other(format!("{} has no {from:?}", path.display())));
        }
        text = text.replacen(from, to, 1);
    }
    fs::write(path, text)
}

/// The command and its subcommands with no option hidden from `-h`.
fn with_all_options(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(with_all_options)
}

/// The subcommands but `help`, which what writes completions has added, and whose page would say nothing.
fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| command.get_name() != "help")
}

/// Writes the page of a command, which names `others`, and those of its subcommands.
fn pages(command: &Command, others: &[&str], dir: &Path) -> io::Result<()> {
    for subcommand in commands(command) {
        pages(subcommand, others, dir)?;
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
    closing_sections(command, others).to_writer(&mut page)?;
    fs::write(dir.join(man.get_filename()), page)
}

/// What the help ends with: a table of exit codes up to the first empty line, then notes. `clap_mangen`
/// knows nothing of the table and would run it together.
fn closing_sections(command: &Command, others: &[&str]) -> Roff {
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
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for line in notes.lines() {
        match line {
            "" => roff.control("PP", []),
            line => roff.text([roman(line)]),
        };
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let own =
        ["dircopy", "dirverify"].into_iter().chain(others.iter().copied()).filter(|it| *it != name);
    let all: Vec<_> = own.chain(["sha256sum"]).map(|name| format!("{name}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(all.join(", "))]);
    roff
}
