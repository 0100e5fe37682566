//! Outputs that are bags (BagIt 1.0): judged by `bagit.py`, by RFC 8493 as a few lines of Python read it, by
//! `sha256sum`, and by a check of ours. A directory is a bag only when all of it is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{
    Need, Random, Run, Scene, Strace, Tree, content, ctimes, have, inventory, is_temp_name, long,
    names_below, shell,
};

const ALL: &str = "sha256,sha512,sha1,md5";

/// A source with names that manifests escape, an empty file and an empty directory.
fn scene() -> Scene {
    let scene = Scene::new();
    scene
        .src
        .file("a", "one")
        .file("dir/é b", content(100_000))
        .file("dir/deep/er/c", "")
        .file("bagit.txt", "of the source")
        .file("manifest-sha256.txt", "of the source")
        .file("li\nne", "three")
        .file("c\rr", "four")
        .dir("empty");
    scene
}

fn bag(scene: &Scene, args: &[&str]) -> Run {
    scene.copy(&[&["--bag"], args].concat())
}

/// Reads the bag at `$1` by the words of RFC 8493: every manifest lists every file of the payload, each digest is that
/// of its file, the size is that of the tags, and tag manifests are right.
const BY_THE_RFC: &str = r#"
import hashlib, os, re, sys
os.chdir(sys.argv[1].encode())
assert open('bagit.txt', 'rb').read() == b'BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n'
back = {b'%0A': b'\n', b'%0D': b'\r', b'%25': b'%'}
def read(name):
    found = {}
    for line in open(name, 'rb').read().split(b'\n')[:-1]:
        digest, path = re.fullmatch(rb'([0-9a-f]+)  ([^\r\n]+)', line).groups()
        path = re.sub(rb'%(0A|0D|25)', lambda it: back[it.group()], path)
        path.decode()
        assert path not in found
        found[path] = digest.decode()
    assert list(found) and list(open(name, 'rb')) == sorted(open(name, 'rb'), key=lambda it: it.split(b'  ', 1)[1]) or not found
    return found
there = {os.path.join(at, name) for at, _, names in os.walk(b'data') for name in names}
size = sum(os.path.getsize(name) for name in there)
lists = [name for name in os.listdir('.') if re.fullmatch(r'(tag)?manifest-\w+\.txt', name)]
assert lists
for name in lists:
    algorithm = re.sub(r'.*-|\.txt', '', name)
    found = read(name)
    tags = {b'bagit.txt', b'bag-info.txt'} | {it.encode() for it in lists if not it.startswith('tag')}
    assert found.keys() == (tags if name.startswith('tag') else there), name
    for path, digest in found.items():
        assert hashlib.new(algorithm, open(path, 'rb').read()).hexdigest() == digest, path
assert f'Payload-Oxum: {size}.{len(there)}\n' in open('bag-info.txt').read()
assert re.search(r'^Bagging-Date: \d{4}-\d\d-\d\d$', open('bag-info.txt').read(), re.M)
"#;

/// The names of the manifests of the bag `name`, which is valid by the RFC, by ours, and where it has no name with "%"
/// by `bagit.py`, which does not know that escape.
#[track_caller]
fn is_valid(scene: &Scene, name: &str) -> String {
    if have(&[Need::Program("python3")]) {
        let by_the_rfc = ["-c", BY_THE_RFC];
        let judged = Command::new("python3").args(by_the_rfc).arg(scene.path(name)).output();
        let judged = judged.unwrap();
        assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
    }
    let run = scene.bare(["verify", name]).run();
    run.assert_code(0).assert_prints(&[&format!("{name} is a valid bag")]);
    assert!(run.stderr.is_empty(), "{}", run.err());
    let names = names_below(&scene.path(name), "f");
    assert!(names.iter().all(|name| !is_temp_name(name)), "{names:?}");
    let has_percent = names.iter().any(|name| name.contains(&b'%'));
    if !has_percent && have(&[Need::Program("bagit.py")]) {
        shell(scene, &format!("bagit.py --validate {name} 2>&1"));
    }
    // Names that are not escaped are as `sha256sum` takes them.
    let plain = "if grep -v % manifest-sha256.txt >../plain; then sha256sum -c --strict --quiet ../plain; fi";
    shell(scene, &format!("cd {name} && {plain}; rm -f ../plain"));
    let lists = tags(&scene.path(name)).into_keys().filter(|tag| tag.contains("manifest-"));
    lists.collect::<Vec<_>>().join(" ")
}

/// The text files of the bag at the output.
fn tags(root: &Path) -> BTreeMap<String, String> {
    let files = root.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.filter(|path| path.is_file()).map(text).collect()
}

fn is_bag(scene: &Scene) -> bool {
    scene.dst.join("bagit.txt").exists()
}

#[test]
fn a_source_becomes_a_valid_bag() {
    let scene = scene();
    let info =
        ["Source-Organization=Library", "Contact-Name=Ann Other", "External-Identifier=x: 1"];
    let args: Vec<&str> =
        info.iter().flat_map(|tag| ["--bag-info", *tag]).chain(["--hash", ALL]).collect();
    bag(&scene, &args).assert_code(0).assert_prints(&["manifest-sha256.txt"]);
    let lists = "manifest-md5.txt manifest-sha1.txt manifest-sha256.txt manifest-sha512.txt \
                 tagmanifest-md5.txt tagmanifest-sha1.txt tagmanifest-sha256.txt tagmanifest-sha512.txt";
    assert_eq!(is_valid(&scene, "dst"), lists);
    shell(&scene, "diff -r src dst/data && test -z \"$(find dst -maxdepth 1 -name '*dircopy-*')\"");
    let info = scene.output().read("bag-info.txt");
    let info = String::from_utf8(info).unwrap();
    let begins = "Source-Organization: Library\nContact-Name: Ann Other\nExternal-Identifier: x: 1\n\
                  Bag-Software-Agent: dircopy ";
    assert!(info.starts_with(begins), "{info}");
    // A flipped bit is found, and told from what is missing.
    let mut bytes = scene.output().read("data/a");
    bytes[0] ^= 1;
    scene.output().file("data/a", bytes);
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_prints(&["a complete bag, but not a valid one"]);
}

/// The numbers are of files, however many manifests list them, and each is named once.
#[test]
fn a_file_in_two_manifests_is_counted_once() {
    let scene = Scene::new();
    scene.src.file("a", "one").file("b", "two").file("c", "three");
    bag(&scene, &["--hash", "sha256,md5"]).assert_code(0);
    let run = scene.bare(["verify", "dst"]).run();
    // Beside the payload bagit.txt, bag-info.txt and two manifests.
    run.assert_code(0)
        .assert_prints(&["checked     7 files"])
        .assert_prints(&["good        7 files"]);
    scene.output().file("data/a", "eno").remove("data/b").file("data/stray", "?");
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4);
    for row in ["differ      1 file", "missing     1 listed file", "not listed  1 file"] {
        run.assert_prints(&[row]);
    }
    run.assert_prints(&[
        "FAILED (exit 4): 2 of 7 listed files are not as listed, 1 file not listed",
    ]);
    for name in ["dst/data/a ", "dst/data/b ", "dst/data/stray "] {
        assert_eq!(run.err().matches(name).count(), 1, "{name}: {}", run.err());
    }
}

#[test]
fn percent_signs_are_escaped_as_the_rfc_has_it() {
    let scene = Scene::new();
    scene.src.file("100%", "a").file("%0A", "b").file("%25", "c").file("%\n\r%%0d", "d");
    bag(&scene, &["--hash", "sha256,md5"]).assert_code(0);
    is_valid(&scene, "dst");
    let manifest = String::from_utf8(scene.output().read("manifest-sha256.txt")).unwrap();
    let names: Vec<&str> = manifest.lines().map(|line| &line[66..]).collect();
    assert_eq!(names, ["data/%25%0A%0D%25%250d", "data/%250A", "data/%2525", "data/100%25"]);
}

/// A name that other programs would take for an option is listed below data/ like any other.
#[test]
fn names_that_start_with_a_dash_are_of_the_payload() {
    let scene = Scene::new();
    scene.src.file("-", "one").file("-x", "two").file("dir/-", "three");
    bag(&scene, &[]).assert_code(0);
    shell(&scene, "cd dst && sha256sum -c --strict --quiet manifest-sha256.txt");
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_prints(&["dst is a valid bag"]);
}

#[test]
fn a_second_run_changes_nothing_and_a_new_file_is_added() {
    let scene = scene();
    bag(&scene, &[]).assert_code(0);
    let (before, times) = (tags(&scene.dst), ctimes(&scene.dst.join("data")));
    bag(&scene, &["-v"]).assert_code(0).assert_prints(&["unchanged"]);
    assert_eq!((tags(&scene.dst), ctimes(&scene.dst.join("data"))), (before.clone(), times));
    is_valid(&scene, "dst");
    scene.src.file("new", "new");
    bag(&scene, &["--bag-info", "Note=more"]).assert_code(0);
    is_valid(&scene, "dst");
    let after = tags(&scene.dst);
    assert!(after["manifest-sha256.txt"].contains("  data/new\n"));
    assert!(after["bag-info.txt"].starts_with("Note: more\n"));
    // What has left the source is no part of the bag any more, and the bag is not touched.
    scene.src.remove("new");
    let run = bag(&scene, &[]);
    run.assert_code(2)
        .assert_says("its payload has what the source has not")
        .assert_says("dst/data/new");
    assert_eq!(tags(&scene.dst), after);
    // Other manifests than before would go on without the new digests.
    scene.src.file("new", "new");
    shell(&scene, "touch -r dst/data/new src/new");
    bag(&scene, &["--hash", "sha256,md5"]).assert_code(0);
    is_valid(&scene, "dst");
    bag(&scene, &[])
        .assert_code(2)
        .assert_says("manifest-md5.txt; give --hash with that algorithm too");
    // Files of the payload that are not asked for now make it no bag of what is.
    let run = bag(&scene, &["--hash", "sha256,md5", "--exclude", "new"]);
    run.assert_code(3).assert_says("are not among what this run copies");
    assert!(!is_bag(&scene));
    bag(&scene, &["--hash", "sha256,md5"]).assert_code(0);
    is_valid(&scene, "dst");
}

/// Tags that were given once stay: a run that is not given them, as a job's next night, loses none.
#[test]
fn tags_stay_unless_they_are_replaced() {
    let scene = scene();
    let info = || tags(&scene.dst)["bag-info.txt"].clone();
    bag(&scene, &["--bag-info", "Contact-Name=Ann", "--bag-info", "Note=one"]).assert_code(0);
    let first = info();
    bag(&scene, &[]).assert_code(0);
    assert_eq!(info(), first);
    scene.src.file("new", "new");
    bag(&scene, &["--bag-info", "note=two", "--bag-info", "Source=here"]).assert_code(0);
    is_valid(&scene, "dst");
    assert!(info().starts_with("Contact-Name: Ann\nnote: two\nSource: here\n"), "{}", info());
    // By hand: what is there stays, however it is folded, and that it is not what was listed is said.
    let by_hand = info().replace("Ann\n", "Ann\n  of the library\n");
    scene.output().file("bag-info.txt", by_hand);
    for args in [&["--dry-run"][..], &[]] {
        let run = bag(&scene, args);
        run.assert_code(0).assert_says("it is not what tagmanifest-sha256.txt lists; it stays");
    }
    is_valid(&scene, "dst");
    assert!(info().starts_with("Contact-Name: Ann of the library\nnote: two\n"), "{}", info());
    assert!(!bag(&scene, &[]).assert_code(0).err().contains("tagmanifest"));
    // What cannot be read would be lost.
    let before = tags(&scene.dst);
    scene.output().file("bag-info.txt", "nothing of the kind\n");
    for args in [&["--dry-run"][..], &[]] {
        let run = bag(&scene, args);
        run.assert_code(2).assert_says("cannot keep the tags in").assert_says("it has no label");
    }
    scene.output().file("bag-info.txt", before["bag-info.txt"].clone());
    assert_eq!(tags(&scene.dst), before);
    is_valid(&scene, "dst");
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_is_touched() {
    let cases: [(&[&str], &str); 8] = [
        (&["--mirror"], "leave out --mirror"),
        (&["--generations"], "leave out --generations"),
        (&["--format", "bsd"], "leave out --format"),
        (&["--hash", "none"], "leave out --hash none"),
        (&["--hash", "sha256,c4"], "leave c4 out"),
        (&["--keep-manifests", "1"], "leave out --keep-manifests"),
        (&["--bag-info", "Payload-Oxum=1.1"], "is computed"),
        (&["--bag-info", "x"], "expected LABEL=VALUE"),
    ];
    let scene = scene();
    for (args, words) in cases {
        bag(&scene, args).assert_code(2).assert_says(words);
        assert!(!scene.dst.exists(), "{args:?}");
    }
    scene.copy(&["--bag-info", "a=b"]).assert_code(2);
    scene.bare(["--bag", "-i", "src/a", "-o", "-"]).run().assert_code(2).assert_says("--bag");
    // What a bag cannot hold.
    scene.src.symlink("link", "a");
    let run = bag(&scene, &[]);
    run.assert_code(2).assert_says("symbolic links").assert_says("src/link");
    scene.src.remove("link").file(b"\xff", "");
    bag(&scene, &[]).assert_code(2).assert_says("not UTF-8").assert_says("\\xff");
    scene.src.remove(b"\xff");
    assert!(!scene.dst.exists());
    // What is there and no bag of ours.
    let cases: [fn(&Tree) -> &Tree; 4] = [
        |it| it.file("x", "mine"),
        |it| it.file("data/a", "one"),
        |it| it.file("bagit.txt", ""),
        |it| it.dir("data"),
    ];
    for plant in cases {
        let dst = scene.output();
        plant(&dst);
        let before = inventory(&scene.dst);
        bag(&scene, &[]).assert_code(2).assert_says("it is not empty");
        assert_eq!(inventory(&scene.dst), before);
        shell(&scene, "rm -r dst");
    }
    // A job says so when it is looked at.
    let [src, dst] = ["src", "dst"].map(|name| scene.path(name).display().to_string());
    let job = format!("input = {src:?}\noutput = {dst:?}\nbag = true\nbag-info = [\"A=b\"]\n");
    scene.tree(".").file("bag.toml", job);
    scene.bare(["jobs", "check", "./bag.toml"]).run().assert_code(0);
    scene.output().file("x", "mine");
    let run = scene.bare(["jobs", "check", "./bag.toml"]).run();
    run.assert_code(1).assert_says("it is not empty");
    scene.output().remove("x");
    bag(&scene, &["--dry-run"]).assert_code(0);
    assert_eq!(inventory(&scene.dst).len(), 0);
    bag(&scene, &[]).assert_code(0);
    is_valid(&scene, "dst");
    // A copy of a bag is none that this user's runs made.
    shell(&scene, "cp -a dst other");
    let run = scene.command_to(scene.src.root(), scene.path("other"), ["--bag"]).run();
    run.assert_code(2).assert_says("it is not empty");
    shell(&scene, "rm -r other/.dircopy");
    is_valid(&scene, "other");
}

/// A run would finish what a check takes for no complete bag.
#[test]
fn a_bag_of_which_something_is_to_be_fetched_is_refused() {
    let scene = scene();
    bag(&scene, &[]).assert_code(0);
    scene.output().file("fetch.txt", "http://localhost/x 5 data/x\n");
    let before = inventory(&scene.dst);
    for args in [&[][..], &["--dry-run"]] {
        bag(&scene, args).assert_code(2).assert_says("dst: it has fetch.txt");
        assert_eq!(inventory(&scene.dst), before);
    }
    scene.output().remove("fetch.txt");
    bag(&scene, &[]).assert_code(0);
    is_valid(&scene, "dst");
}

#[test]
fn a_payload_that_is_not_complete_makes_no_bag() {
    let scene = scene();
    let run = bag(&scene, &["--max-size", "1000"]);
    run.assert_code(1).assert_says("no bagit.txt");
    assert!(!is_bag(&scene) && scene.output().has("data/a"));
    scene.bare(["verify", "dst"]).run().assert_code(5);
    bag(&scene, &[]).assert_code(0);
    is_valid(&scene, "dst");
    // Nothing was changed: it is the bag that it was.
    let before = tags(&scene.dst);
    scene.src.file("dir/é b", "other");
    bag(&scene, &[]).assert_code(1);
    assert_eq!(tags(&scene.dst), before);
    bag(&scene, &["--overwrite-policy", "always"]).assert_code(0);
    is_valid(&scene, "dst");
}

#[test]
fn one_file_links_that_are_followed_and_hard_links_fit() {
    let scene = scene();
    let run = scene.command_to("src/a", &scene.dst, ["--bag"]).run();
    run.assert_code(0);
    is_valid(&scene, "dst");
    shell(&scene, "cmp src/a dst/data/a && rm -r dst");
    scene.src.symlink("link", "a").hard_link("second", "a");
    bag(&scene, &["--follow-links"]).assert_code(0);
    is_valid(&scene, "dst");
    assert_eq!(scene.output().read("data/link"), b"one");
    shell(&scene, "rm -r dst");
    bag(&scene, &["--no-links", "--hard-links", "--no-sync"]).assert_code(0);
    is_valid(&scene, "dst");
    assert!(!scene.output().has("data/link"));
    assert_eq!(scene.output().inode("data/second"), scene.output().inode("data/a"));
}

#[test]
fn bags_at_several_outputs_have_the_same_manifests() {
    let scene = scene();
    let to = ["-i", "src", "-o", "dst", "-o", "two", "-o", "three"];
    scene.tree("three").file("x", "");
    let run =
        scene.bare(to.iter().copied().chain(["--bag", "--verify", "--hash", "sha256,sha512"]));
    run.run().assert_code(1).assert_says("three");
    for name in ["dst", "two"] {
        is_valid(&scene, name);
    }
    assert_eq!(tags(&scene.dst), tags(&scene.path("two")));
    assert_eq!(inventory(&scene.path("three")).len(), 1);
}

#[test]
fn a_bag_is_unpacked_and_proven() {
    let scene = scene();
    scene.src.file("100%", "five");
    bag(&scene, &[]).assert_code(0);
    let unpack = |to: &str, expected: &str| {
        scene.bare(["-i", "dst/data", "-o", to, "--expect", expected]).run()
    };
    unpack("out", "dst")
        .assert_code(0)
        .assert_prints(&["8 files as listed, 0 edited since, 0 gone"]);
    unpack("again", "dst/manifest-sha256.txt").assert_code(0).assert_prints(&["8 files as listed"]);
    shell(
        &scene,
        "diff -r -x '*dircopy*' src out && dircopy=$(ls out/dircopy-*) && test \"$dircopy\"",
    );
    // The bag as a whole: its names are as they are listed.
    let run = scene.bare(["-i", "dst", "-o", "whole", "--expect", "dst"]).run();
    run.assert_code(0).assert_prints(&["8 files as listed, 0 edited since, 0 gone"]);
    shell(&scene, "touch -r dst/data/a time && printf onf >dst/data/a && touch -r time dst/data/a");
    scene.output().remove("data/c\rr");
    let run = unpack("bad", "dst");
    run.assert_code(4).assert_says("dst/data/a").assert_prints(&["1 gone"]);
    assert!(!scene.tree("bad").has("a"));
    // What a copy does not compute is refused in words that help.
    shell(
        &scene,
        "rm dst/*manifest-*; cd dst; find data -type f -exec sha384sum {} + >manifest-sha384.txt",
    );
    for expected in ["dst", "dst/manifest-sha384.txt"] {
        unpack("none", expected).assert_code(2).assert_says("SHA-384").assert_says("dirverify");
    }
    assert!(!scene.path("none").exists());
}

#[test]
fn nothing_that_is_planted_leads_out_of_a_bag() {
    let scene = scene();
    scene.tree("away").file("a", "mine");
    bag(&scene, &[]).assert_code(0);
    shell(&scene, "rm -r dst/data && ln -s ../away dst/data");
    let run = bag(&scene, &[]);
    assert_ne!(run.code, Some(0), "{}", run.out());
    assert_eq!(scene.tree("away").read("a"), b"mine");
    assert_eq!(inventory(&scene.path("away")).len(), 1);
    shell(
        &scene,
        "rm dst/data && ln -sf ../away/a dst/manifest-sha256.txt && ln -sf ../away/a dst/bag-info.txt",
    );
    bag(&scene, &[]).assert_code(0);
    is_valid(&scene, "dst");
    assert_eq!(scene.tree("away").read("a"), b"mine");
}

/// What is left of a run that did not come to its end: whole files, and no bag but a valid one.
#[track_caller]
fn whole_or_no_bag(scene: &Scene, run: &Run) {
    let data = scene.dst.join("data");
    for name in names_below(&data, "f").into_iter().filter(|name| !is_temp_name(name)) {
        if Tree::of(&data).read(&name) != scene.src.read(&name) {
            run.fail(&format!("not whole: {}", name.escape_ascii()));
        }
    }
    if is_bag(scene) {
        scene.bare(["verify", "dst"]).run().assert_code(0);
    }
}

#[test]
fn after_a_kill_there_is_no_bag_and_one_run_makes_it() {
    let scene = Scene::new();
    for i in 0..400 {
        scene.src.file(format!("dir-{}/small-{i}", i % 20), content(i * 5));
    }
    scene.src.file("large", content(8 << 20));
    let took = bag(&scene, &["--hash", "sha256,md5"]).assert_code(0).took;
    let (mut random, mut killed, mut number) = (Random::new(31), 0, 0);
    while killed < if long() { 100 } else { 4 } {
        if random.below(2) == 0 {
            shell(&scene, "rm -rf dst");
        } else {
            // One that was finished is no bag while it is gone on with.
            number += 1;
            scene.src.file(format!("new {number}"), content(number * 100));
        }
        let running = scene.command(["--bag", "--hash", "sha256,md5"]).spawn();
        let moment = random.below(usize::try_from(took.as_micros()).unwrap());
        std::thread::sleep(Duration::from_micros(u64::try_from(moment).unwrap()));
        running.signal(Signal::KILL);
        let run = running.wait();
        if run.signal.is_none() {
            continue; // it was over before
        }
        killed += 1;
        whole_or_no_bag(&scene, &run);
        let next = bag(&scene, &["--hash", "sha256,md5"]);
        next.assert_code(0);
        is_valid(&scene, "dst");
    }
}

/// A copy of a bag has a manifest of its own; the bag in it is checked by its declaration, as a check advises.
#[test]
fn a_bag_is_checked_by_its_declaration_where_its_directory_is_named() {
    let scene = Scene::new();
    scene.src.file("a", "one");
    bag(&scene, &[]).assert_code(0);
    shell(&scene, "printf x >>dst/data/a");
    let run = scene.bare(["dst", "copy"]).run();
    run.assert_code(0).assert_prints(&["the source is a bag", "--expect dst"]);
    scene.bare(["dst", "proven", "--expect", "dst"]).run().assert_code(4);
    let run = scene.bare(["verify", "copy"]).run();
    run.assert_code(0);
    assert!(run.out().contains("not checked (--manifest copy/bagit.txt)"), "{}", run.out());
    let run = scene.bare(["verify", "copy", "--manifest", "copy/bagit.txt"]).run();
    run.assert_code(4).assert_says("data/a");
}

/// Whichever of its syncs a signal arrives at, also those before a list is read back.
#[test]
fn a_signal_is_no_lie_of_the_disk() {
    if !have(&[Need::Strace]) {
        return;
    }
    let (calls, mut stopped) = ("fsync,fdatasync", 0);
    for number in (1..40).step_by(if long() { 1 } else { 3 }) {
        let scene = Scene::new();
        scene.src.file("a", "one");
        let strace = Strace::inject(&scene, calls, &format!("signal=TERM:when={number}"));
        let run = strace.run(scene.command(["--bag", "--verify"]));
        assert!(!run.err().contains("what was written"), "{number}: {}", run.err());
        if !strace.log().contains("SIGTERM") {
            run.assert_code(0);
            assert!(stopped > 1, "{stopped}");
            return;
        }
        assert!(run.code == Some(143) || run.code == Some(0), "{number}: {}", run.err());
        assert_eq!(is_bag(&scene), run.code == Some(0), "{number}");
        stopped += u64::from(run.code == Some(143));
        bag(&scene, &[]).assert_code(0);
        is_valid(&scene, "dst");
    }
    panic!("there are more syncs than that");
}

/// `bagit.txt` is taken away before anything else: what fails next must not leave it away in a run that says that
/// nothing was touched.
#[test]
fn a_bag_that_cannot_be_begun_again_stays_one() {
    if !have(&[Need::Strace]) {
        return;
    }
    for (fault, code) in [("error=EIO:when=1", 2), ("error=EIO:when=1+", 3)] {
        let scene = scene();
        bag(&scene, &[]).assert_code(0);
        let before = tags(&scene.dst);
        let strace = Strace::inject(&scene, "fsync,fdatasync", fault).exactly_on(&scene.dst);
        let run = strace.run(scene.command(["--bag"]));
        assert!(!strace.injected().is_empty());
        run.assert_code(code);
        match code {
            2 => assert_eq!(tags(&scene.dst), before),
            _ => drop(run.assert_says("bagit.txt, without which it is no bag")),
        }
        bag(&scene, &[]).assert_code(0);
        is_valid(&scene, "dst");
    }
}

#[test]
fn a_text_file_that_cannot_be_written_makes_no_bag() {
    if !have(&[Need::Strace]) {
        return;
    }
    for (calls, fault) in [
        ("renameat2,renameat,linkat", "error=EIO:when=1"),
        ("renameat2,renameat,linkat", "signal=KILL:when=1"),
        ("fsync,fdatasync", "error=EIO:when=2+"),
    ] {
        for name in ["manifest-sha256.txt", "bag-info.txt", "tagmanifest-sha256.txt", "bagit.txt"] {
            let scene = Scene::new();
            scene.src.file("a", "one");
            let strace = Strace::inject(&scene, calls, fault).on(scene.dst.join(name));
            let run = strace.run(scene.command(["--bag"]));
            if strace.injected().is_empty() {
                // A sync is not of a name.
                continue;
            }
            if run.signal.is_none() {
                run.assert_code(3).assert_says(name);
            }
            assert!(!is_bag(&scene) || name == "bagit.txt" && run.signal.is_some(), "{name}");
            bag(&scene, &[]).assert_code(0);
            is_valid(&scene, "dst");
        }
    }
}

/// Its record counts more than its lists: one of before would contradict what is in it, and have it healed to what it was.
#[test]
fn a_bag_whose_record_cannot_be_written_is_none() {
    if !have(&[Need::Strace]) {
        return;
    }
    let mut injected = 0;
    for write in 1..8 {
        let scene = Scene::new();
        scene.src.file("f", "one").file("g", "two");
        bag(&scene, &[]).assert_code(0);
        scene.src.file("f", "three").file("n", "new");
        let args = ["--bag", "--overwrite-policy=update"];
        let strace = Strace::inject(&scene, "write", &format!("error=EIO:when={write}"))
            .on(scene.dst.join(".dircopy/payload/record.2"));
        let run = strace.run(scene.command(args));
        if strace.injected().is_empty() {
            continue;
        }
        injected += 1;
        assert_eq!(run.code == Some(0), is_bag(&scene), "write {write}: {}", run.err());
        if is_bag(&scene) {
            scene.bare(["verify", "dst"]).run().assert_code(0);
        }
        bag(&scene, &["--overwrite-policy=update"]).assert_code(0);
        is_valid(&scene, "dst");
        scene.bare(["verify", "dst"]).run().assert_code(0);
    }
    assert!(injected > 0);
}

/// A plain copy onto a bag would lie beside its payload.
#[test]
fn a_plain_copy_does_not_go_beside_the_payload_of_a_bag() {
    let scene = Scene::new();
    scene.src.file("a", "one");
    scene.copy(&["--bag"]).assert_code(0);
    let before = names_below(&scene.dst, "f");
    scene.src.file("b", "two");
    for more in
        [&[][..], &["--mirror"], &["--overwrite-policy", "always"], &["--generations"], &["-n"]]
    {
        let run = scene.copy(more);
        run.assert_code(2).assert_says("it is a bag").assert_says("--bag").assert_says("data");
        assert_eq!(names_below(&scene.dst, "f"), before, "{more:?}");
    }
    scene.bare(["src/b", "dst"]).run().assert_code(2).assert_says("it is a bag");
    let run = scene.bare(["plan", "src", "dst", "--plan", "plan"]).run();
    run.assert_code(2).assert_says("it is a bag");
    // Another output is not kept up by it.
    let run = scene.bare(["src", "dst", "other"]).run();
    run.assert_code(1).assert_says("it is a bag");
    assert!(scene.path("other/b").exists() && !scene.dst.join("b").exists());
    // The remedies.
    scene.copy(&["--bag"]).assert_code(0);
    scene.bare(["src", "dst/data"]).run().assert_code(0);
    // A bag is copied as any tree, again and again.
    scene.bare(["dst", "copy"]).run().assert_code(0);
    scene.bare(["dst", "copy"]).run().assert_code(0);
    // The name alone makes no bag.
    scene.tree("notes").file("bagit.txt", "to be read");
    scene.bare(["src", "notes"]).run().assert_code(0);
}
