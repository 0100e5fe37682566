//! Looking into histories of ASC MHL, and having them judged by the reference implementation (`ascmhl`), by its schemas
//! and by a check of ours.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Need, Scene, have, is_temp_name, names_below, shell};

/// The generations of the history of `dir`.
pub fn generations(scene: &Scene, dir: &str) -> Vec<String> {
    let found = std::fs::read_dir(scene.path(dir).join("ascmhl")).unwrap();
    let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".mhl")).collect();
    names.sort();
    names
}

/// The text of a generation, from 1.
pub fn generation(scene: &Scene, dir: &str, number: usize) -> String {
    let name = &generations(scene, dir)[number - 1];
    std::fs::read_to_string(scene.path(dir).join("ascmhl").join(name)).unwrap()
}

/// What a generation says of a file: its actions.
pub fn actions<'a>(text: &'a str, path: &str) -> Vec<&'a str> {
    let entry = text.split("<hash>").find(|entry| entry.contains(&format!(">{path}</path>")));
    let actions = entry.into_iter().flat_map(|entry| entry.split("action=\"").skip(1));
    actions.map(|action| action.split('"').next().unwrap()).collect()
}

/// Runs the reference implementation, which ends with this code.
#[track_caller]
pub fn ascmhl(scene: &Scene, args: &[&str], code: i32) -> String {
    let program = match args[0] {
        "verify" | "xsd-schema-check" => "ascmhl-debug",
        _ => "ascmhl",
    };
    let made = Command::new(program).args(args).current_dir(scene.root()).output().unwrap();
    let said = String::from_utf8_lossy(&made.stdout) + String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(code), "{args:?}: {said}");
    said.into_owned()
}

/// The history of `dir` is right, by ours and by the reference implementation, which has both `codes`.
#[track_caller]
pub fn judge(scene: &Scene, dir: &str, codes: [i32; 2]) {
    let chain = format!("{dir}/ascmhl/ascmhl_chain.xml");
    let run = scene.bare(["verify", "--manifest", &chain]).run();
    run.assert_no_crash();
    run.assert_code(if codes == [0, 0] { 0 } else { 4 });
    let names = names_below(&scene.path(dir), "f");
    assert!(names.iter().all(|name| !is_temp_name(name)), "{names:?}");
    if have(&["xmllint", "simple-mhl"].map(Need::Program)) {
        let schemas = reference("xsd").display().to_string();
        let by = |schema: &str, names: &str| {
            format!(
                "find {dir} -path '*/ascmhl/{names}' -exec xmllint --nonet --noout --schema {schemas}/{schema} {{}} + 2>&1"
            )
        };
        let (lists, chains) =
            (by("ASCMHL.xsd", "*.mhl"), by("ASCMHLDirectory__combined.xsd", "*.xml"));
        let check = format!("{lists} && {chains}");
        shell(scene, &check);
    }
    if have(&[Need::Program("ascmhl")]) {
        ascmhl(scene, &["diff", dir], codes[0]);
        ascmhl(scene, &["verify", dir], codes[1]);
    }
}

/// Where the environment of Python is that the reference implementations are in (`clients` in `.ci/steps`).
fn clients() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs = std::env::split_paths(&path).filter_map(|dir| dir.canonicalize().ok());
    let bin = dirs.find(|dir| dir.join("simple-mhl").exists()).unwrap();
    bin.parent().unwrap().to_owned()
}

/// Something of the source of the reference implementation.
pub fn reference(name: &str) -> PathBuf {
    clients().join("share/ascmhl-1.2").join(name)
}

/// The schema of legacy lists, as their inventors published it.
pub fn legacy_schema(scene: &Scene) -> String {
    let found = format!(
        "ls {}/lib/python3*/site-packages/mhl_suite/xsd/MediaHashList_v1_1.xsd",
        clients().display()
    );
    shell(scene, &found).trim().to_owned()
}
