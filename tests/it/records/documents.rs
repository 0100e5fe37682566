//! Man pages and completions: they are read by `man` and the shells themselves, and they know every
//! option that `--help` tells of.

use std::fs;
use std::path::Path;

#[path = "../../../examples/documents.rs"]
#[allow(dead_code)] // its main
mod generator;

use crate::harness::{Need, Scene, have, shell};

/// The pages and the words that show their help.
const PAGES: [(&str, &str); 11] = [
    ("dircopy.1", "dircopy"),
    ("dircopy-verify.1", "dircopy verify"),
    ("dirverify.1", "dirverify"),
    ("dircopy-restore.1", "dircopy restore"),
    ("dircopy-heal.1", "dircopy heal"),
    ("dircopy-report.1", "dircopy report"),
    ("dircopy-generations.1", "dircopy generations"),
    ("dircopy-plan.1", "dircopy plan"),
    ("dircopy-shard.1", "dircopy shard"),
    ("dircopy-finish.1", "dircopy finish"),
    ("dircopy-manifest-merge.1", "dircopy manifest merge"),
];

/// A scene with the documents in `documents/`.
fn scene() -> Scene {
    let scene = Scene::new();
    generator::write(&scene.root().join("documents")).unwrap();
    scene
}

/// What `--help` says of a program or a subcommand.
fn help(scene: &Scene, words: &str) -> String {
    let mut words: Vec<_> = words.split(' ').chain(["--help"]).collect();
    let program = words.remove(0);
    let cmd = scene.bare(words);
    let run = if program == "dirverify" { cmd.dirverify() } else { cmd }.run();
    run.assert_code(0);
    run.out()
}

/// The long options named where a line of the help begins.
fn options(help: &str) -> Vec<&str> {
    let options: Vec<_> = help
        .lines()
        .filter_map(|line| {
            line.trim_start().split_inclusive("--").nth(1).map(|_| line.trim_start())
        })
        .filter(|line| line.starts_with('-'))
        .filter_map(|line| line[line.find("--")?..].split([' ', ',', '.', '[']).next())
        .collect();
    assert!(options.len() > 1, "only {options:?} in\n{help}");
    options
}

#[test]
fn man_pages_render_without_a_warning_and_have_every_option() {
    if !have(&[Need::Program("man")]) {
        return;
    }
    let scene = scene();
    for (page, words) in PAGES {
        let render = "MANWIDTH=500 man --warnings=w -l -E UTF-8";
        let text = shell(&scene, &format!("{render} documents/man/{page} 2>warnings | col -bx"));
        let warnings = fs::read_to_string(scene.path("warnings")).unwrap();
        assert_eq!(warnings, "", "{page}");
        let help = help(&scene, words);
        for option in options(&help) {
            let header = text.lines().find(|line| {
                let line = line.trim_start();
                line.starts_with('-') && line.split([' ', ',', '[']).any(|word| word == option)
            });
            assert!(header.is_some(), "{page} lacks {option}:\n{text}");
        }
        let version = concat!("dircopy ", env!("CARGO_PKG_VERSION"));
        for part in ["NAME", "EXIT STATUS", "sha256sum(1)", version] {
            assert!(text.contains(part), "{page} lacks {part}:\n{text}");
        }
        let name = page.trim_end_matches(".1");
        assert!(text.contains(&format!("{name} - ")), "whatis would not find {name}:\n{text}");
        assert!(!text.contains("EXTRA"), "{text}");
    }
}

/// Bash answers with every option of both programs and of the subcommand, and with their values.
#[test]
fn bash_completes_every_option() {
    let scene = scene();
    for (_, words) in PAGES {
        let program = words.split(' ').next().unwrap();
        let ask = |typed: &str| {
            let all = format!("{words} {typed}");
            shell(
                &scene,
                &format!(
                    ". documents/completions/{program}.bash
                     COMP_WORDS=({all}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
                     _{program} {program} \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"
                     printf '%s\\n' \"${{COMPREPLY[@]}}\""
                ),
            )
        };
        let answer = ask("--");
        let help = help(&scene, words);
        for option in options(&help) {
            assert!(answer.lines().any(|line| line == option), "{words}: no {option}: {answer}");
        }
        if help.contains("--progress") {
            assert_eq!(ask("--progress a"), "auto\nalways\n", "{words}");
        }
    }
}

/// Each shell itself is asked what it would offer, behind a space too. The program that it asks for the jobs is this
/// one.
#[test]
fn shells_offer_values_and_jobs() {
    let scene = scene();
    scene.tree("home").file(".config/dircopy/jobs/nightly.toml", "").file("a file", "");
    let program = env!("CARGO_BIN_EXE_dircopy");
    let offered = |shell_name: &str, typed: &str| -> Vec<String> {
        let line = match shell_name {
            "fish" => format!(
                "cd home; HOME=$PWD XDG_CONFIG_HOME= fish --no-config -c 'function dircopy; {program} $argv; end
                 source ../documents/completions/dircopy.fish; complete -C \"{typed}\"'"
            ),
            _ => format!(
                "cd home; HOME=$PWD; unset XDG_CONFIG_HOME; dircopy() {{ {program} \"$@\"; }}
                 . ../documents/completions/dircopy.bash
                 COMP_WORDS=({typed} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
                 _dircopy dircopy '' \"${{COMP_WORDS[-2]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            ),
        };
        let said = shell(&scene, &line);
        said.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    let shells = ["bash", "fish"].into_iter().filter(|name| have(&[Need::Program(name)]));
    for name in shells {
        for (typed, values) in [
            ("dircopy --overwrite-policy ", &["default", "update", "never", "always"][..]),
            ("dircopy -i a --overwrite-policy never --cache ", &["drop", "keep"]),
            ("dircopy --ionice ", &["idle", "best-effort"]),
            ("dircopy --job ", &["nightly"]),
            ("dircopy jobs check ", &["nightly"]),
            ("dircopy jobs ", &["check", "list"]),
            ("dircopy verify --progress ", &["auto", "always", "never"]),
            ("dircopy heal --from ", &["medium", "cache"]),
            ("dircopy plan --overwrite-policy ", &["default", "update", "never", "always"]),
            ("dircopy shard --progress ", &["auto", "always", "never"]),
        ] {
            let offered = offered(name, typed);
            for value in values {
                assert!(offered.iter().any(|it| it == value), "{name}: {typed}: {offered:?}");
            }
        }
        // A source is no command, so options are offered after it.
        let after_source = offered(
            name,
            if name == "fish" { "dircopy src --cache " } else { "dircopy src --cache" },
        );
        assert!(after_source.iter().any(|it| it == "drop"), "{name}: {after_source:?}");
    }
}

/// zsh in a terminal of its own: what it offers at a Tab.
#[test]
fn zsh_knows_commands_and_their_options() {
    if !have(&[Need::Program("zsh")]) {
        return;
    }
    let scene = scene();
    scene.tree("home").file(".config/dircopy/jobs/nightly-tape.toml", "");
    let program = Path::new(env!("CARGO_BIN_EXE_dircopy")).parent().unwrap();
    let script = "zmodload zsh/zpty; export HOME=$PWD/home; unset XDG_CONFIG_HOME; path=(PROGRAMS $path)
        zpty z 'PS1=\">\" TERM=dumb zsh -f -i'
        zpty -w z 'fpath=(documents/completions $fpath); autoload -U compinit; compinit -u -d dump; stty cols 200
            unsetopt always_last_prompt automenu; echo rea\"\"dy'
        seen() { local all part; until [[ $all == *$1* ]]; do zpty -r -t z part && all+=$part || sleep 0.05; done; print -r -- $all; }
        seen ready >/dev/null
        for typed in 'dircopy h' 'dircopy heal --from' 'dircopy shard --c' 'dircopy src --cac' 'dircopy jobs check night' 'dircopy --job nigh'; do
            zpty -w -n z \"$typed\"$'\\t\\t\\x15'; zpty -w z \"echo e''nd\"; seen end; done; zpty -d z";
    let script = script.replace("PROGRAMS", &program.display().to_string());
    let said = shell(&scene, &format!("timeout 60 zsh -f -c '{}'", script.replace('\'', "'\\''")));
    for offered in ["heal  ", "--from-tree", "--claim", "--cache="] {
        assert!(said.contains(offered), "no {offered}: {said}");
    }
    assert!(!said.contains("--checkpoint"), "{said}");
    for completed in ["check nightly-tape ", "--job nightly-tape "] {
        assert!(said.contains(completed), "{said}");
    }
}

#[test]
fn every_shell_can_read_its_completions() {
    let scene = scene();
    for (_, words) in PAGES.iter().filter(|(_, words)| !words.contains(' ')) {
        let powershell = format!("documents/completions/_{words}.ps1");
        let text = fs::read_to_string(scene.root().join(powershell)).unwrap();
        for option in options(&help(&scene, words)) {
            assert!(text.contains(&format!("'{option}'")), "PowerShell: no {option}");
        }
        shell(&scene, &format!("bash -n documents/completions/{words}.bash"));
        for (name, file) in [("zsh", format!("_{words}")), ("fish", format!("{words}.fish"))] {
            if have(&[Need::Program(name)]) {
                let said = shell(&scene, &format!("{name} -n documents/completions/{file} 2>&1"));
                assert_eq!(said, "", "{name}");
            }
        }
    }
}
