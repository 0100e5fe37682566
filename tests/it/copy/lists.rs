//! Lists beside a manifest: wherever names are told apart they are known as a run's own, and a second run lists further
//! digests without reading files. Judged by the programs of coreutils.

use std::collections::BTreeSet;

use crate::harness::{Run, Scene, Strace, content, need, shell};

/// Lists of three kinds.
const LISTS: [&str; 4] = ["--hash", "sha256,sha512,md5", "--format=gnu", "--format=bsd"];
const ENDINGS: [&str; 4] = [".sha256sum", ".sha512sum", ".md5sum", ".bsd"];

fn copy(scene: &Scene, args: &[&str]) -> Run {
    scene.copy(&[&LISTS, args].concat())
}

/// What is directly in `dst` with names of manifests and lists.
fn kept(scene: &Scene) -> BTreeSet<String> {
    let names = std::fs::read_dir(&scene.dst).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("dircopy-")).collect()
}

/// The stamp of the newest manifest, with all that stands before its ending.
fn newest(scene: &Scene) -> String {
    let names = kept(scene);
    let manifest = names.iter().rfind(|name| name.ends_with(".sha256sum")).unwrap();
    manifest.strip_suffix(".sha256sum").unwrap().to_owned()
}

/// Has the newest lists checked; each has so many lines for each digest.
#[track_caller]
fn judge(scene: &Scene, files: usize) {
    let newest = newest(scene);
    for (ending, lines) in ENDINGS.iter().zip([1, 1, 1, 3]) {
        let list = std::fs::read_to_string(scene.dst.join(format!("{newest}{ending}"))).unwrap();
        assert_eq!(list.lines().count(), files * lines, "{ending}: {list}");
    }
    for program in ["sha256sum", "sha512sum", "md5sum"] {
        shell(scene, &format!("cd dst && {program} -c --strict --quiet {newest}.{program}"));
    }
    shell(scene, &format!("cd dst && md5sum -c --quiet {newest}.bsd"));
}

#[test]
fn a_mirror_leaves_lists_where_they_are() {
    for mirror in ["--mirror", "--mirror=all"] {
        let scene = Scene::new();
        scene.src.file("a", "a").file("b", "b").file("c", "c");
        copy(&scene, &[]).assert_code(0);
        let before = kept(&scene);
        scene.src.remove("b");
        let run = copy(&scene, &[mirror]);
        run.assert_code(0);
        let said = run.out() + &run.err();
        assert!(!said.contains(".md5sum: ") && !said.contains("no earlier run listed"), "{said}");
        assert!(before.is_subset(&kept(&scene)), "{mirror}: {:?}", kept(&scene));
        assert_eq!(shell(&scene, "find dst/.dircopy-trash -name 'dircopy-*'"), "");
        judge(&scene, 2);
    }
}

#[test]
fn old_lists_go_with_their_manifests_and_files_of_users_stay() {
    let scene = Scene::new();
    scene.src.file("a", content(2000)).file("b", "b");
    copy(&scene, &[]).assert_code(0);
    let first = newest(&scene);
    let of_users = [".b3sum", ".sha1sum", ".hashdeep"].map(|ending| format!("{first}{ending}"));
    let output = scene.output();
    output.file(&of_users[0], "notes").file(&of_users[2], "");
    shell(&scene, &format!("sha1sum src/a >dst/{}", of_users[1]));
    copy(&scene, &[]).assert_code(0);
    copy(&scene, &["--keep-manifests=1"]).assert_code(0);
    let newest = newest(&scene);
    let mut expected: BTreeSet<String> = of_users.into();
    expected.extend(ENDINGS.map(|ending| format!("{newest}{ending}")));
    assert_eq!(kept(&scene), expected);
}

/// A list that came from the source is a file like any, also when it has left the source.
#[test]
fn lists_that_were_copied_stay() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    copy(&scene, &[]).assert_code(0);
    let first = newest(&scene);
    let copied = format!("{first}.sha1sum");
    shell(&scene, &format!("cd src && sha1sum a >{copied}"));
    copy(&scene, &[]).assert_code(0);
    scene.src.remove(&copied);
    copy(&scene, &[]).assert_code(0);
    copy(&scene, &["--keep-manifests=1"]).assert_code(0);
    let there = kept(&scene);
    assert!(there.contains(&copied) && !there.contains(&format!("{first}.md5sum")), "{there:?}");
    judge(&scene, 2);
    // A mirror takes it for what it is.
    copy(&scene, &["--mirror", "--max-delete=90%"]).assert_code(0);
    assert!(!kept(&scene).contains(&copied));
}

/// A kill while the lists get their names leaves some with and some without their final ones.
#[test]
fn lists_of_a_manifest_that_got_no_name_go_with_it() {
    let scene = Scene::new();
    scene.src.file("a", content(2000));
    copy(&scene, &[]).assert_code(0);
    let first = newest(&scene);
    for ending in [".sha256sum", ".bsd"] {
        let name = scene.dst.join(format!("{first}{ending}"));
        std::fs::rename(&name, format!("{}.part", name.display())).unwrap();
    }
    copy(&scene, &[]).assert_code(0);
    assert_eq!(kept(&scene), ENDINGS.map(|ending| newest(&scene) + ending).into());
}

#[test]
fn a_second_run_reads_no_file_that_did_not_change() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("large", content(3 << 20)).file("dir/small", "s").file("left", "gone");
    copy(&scene, &[]).assert_code(0);
    scene.src.remove("left");
    let unread = |args: &[&str]| {
        let strace = Strace::watch(&scene, "openat,openat2");
        strace.run(scene.command(args)).assert_code(0);
        let opened = strace.calls();
        let is_file = |call: &&String| {
            ["\"large\"", "\"small\"", "\"left\""].iter().any(|name| call.contains(name))
        };
        opened.iter().filter(is_file).cloned().collect::<Vec<_>>()
    };
    assert_eq!(unread(&LISTS), [""; 0]);
    judge(&scene, 3);
    // One that asks for fewer, or none, forgets none.
    assert_eq!(unread(&["--hash=sha256,md5"]), [""; 0]);
    assert_eq!(unread(&[]), [""; 0]);
    assert_eq!(unread(&LISTS), [""; 0]);
    judge(&scene, 3);
    // What is not known yet is read, once.
    let more = ["--hash=sha256,sha512,md5,sha1", "--format=gnu"];
    assert_eq!(unread(&more).len(), 3);
    assert_eq!(unread(&more), [""; 0]);
    shell(&scene, &format!("cd dst && sha1sum -c --strict --quiet {}.sha1sum", newest(&scene)));
    // So does a check of the copies, and what it has read is known then.
    let scene = Scene::new();
    scene.src.file("a", content(5000));
    scene.copy(&[]).assert_code(0);
    copy(&scene, &["--verify"]).assert_code(0);
    judge(&scene, 1);
    let strace = Strace::watch(&scene, "openat,openat2");
    strace.run(scene.command(LISTS)).assert_code(0);
    assert!(!strace.log().contains("\"a\""), "{}", strace.log());
    judge(&scene, 1);
}

/// Digests are taken unread for what the record says only: an edited file has new ones, a damaged one is copied anew.
#[test]
fn what_changed_is_read_for_all_its_digests() {
    let scene = Scene::new();
    for name in ["edited", "damaged", "same"] {
        scene.src.file(name, content(300_000)).mtime(name, 1_577_836_800, 0);
    }
    copy(&scene, &[]).assert_code(0);
    scene.src.file("edited", content(200_000));
    let flip = "t=$(mktemp -p .); touch -r dst/damaged $t; \
                printf X | dd of=dst/damaged bs=1 seek=5000 conv=notrunc status=none; \
                touch -r $t dst/damaged; rm $t";
    shell(&scene, flip);
    let run = copy(&scene, &["--overwrite-policy=update"]);
    run.assert_says("it is copied anew");
    judge(&scene, 3);
}

/// Further digests go over with the files that generations share.
#[test]
fn generations_share_further_digests() {
    let scene = Scene::new();
    scene.src.file("a", content(5000)).file("dir/b", "b");
    for _ in 0..2 {
        copy(&scene, &["--generations"]).assert_code(0);
        let check = "cd dst/latest && sha512sum -c --strict --quiet dircopy-*.sha512sum && \
                     cat dircopy-*.md5sum | wc -l";
        assert_eq!(shell(&scene, check).trim(), "2");
        shell(&scene, "sleep 1.1");
    }
}
