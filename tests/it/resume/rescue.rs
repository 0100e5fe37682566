//! Files that cannot be read as a whole: what can be read is kept, and gone on with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;

use crate::harness::{
    Act, Call, Deed, Judge, Mirror, Need, Random, Run, Scene, Strace, content, have, long, need,
    shell,
};

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// The kernel reads from FUSE page by page.
const PAGE: u64 = 4096;

/// No page is asked for more often in a run: the ordinary copy, a long read, and for each of its sectors five more.
const MOST_READS: u32 = 2 + 8 * 5;

#[derive(Default)]
struct Medium {
    /// The pages that cannot be read.
    bad: BTreeSet<(PathBuf, u64)>,
    /// How often each page was read.
    read: BTreeMap<(PathBuf, u64), u32>,
}

/// A source with bad pages.
pub(super) struct BadSource {
    _mirror: Mirror,
    pub(super) scene: Scene,
    medium: Arc<Mutex<Medium>>,
    shown: PathBuf,
}

impl BadSource {
    /// With these files, and bad pages of them.
    pub(super) fn new(files: &[(&str, usize, &[u64])]) -> Self {
        let scene = Scene::new();
        let medium = Arc::new(Mutex::new(Medium::default()));
        for (name, len, bad) in files {
            scene.src.file(name, content(*len));
            let bad = bad.iter().map(|page| (PathBuf::from(name), *page));
            medium.lock().unwrap().bad.extend(bad);
        }
        let (shown, of_hook) = (scene.path("shown"), Arc::clone(&medium));
        let hook = move |call: &Call<'_>| {
            if call.deed != Deed::Read {
                return Act::Pass;
            }
            let mut medium = of_hook.lock().unwrap();
            let pages = call.bytes.0 / PAGE..call.bytes.1.div_ceil(PAGE);
            let keys: Vec<_> = pages.map(|page| (call.path.to_path_buf(), page)).collect();
            keys.iter().for_each(|key| *medium.read.entry(key.clone()).or_default() += 1);
            match keys.iter().any(|key| medium.bad.contains(key)) {
                true => Act::Fail(EIO),
                false => Act::Pass,
            }
        };
        let _mirror = Mirror::mount(scene.src.root(), &shown, hook);
        Self { _mirror, scene, medium, shown }
    }

    pub(super) fn copy(&self, args: &[&str]) -> Run {
        self.scene.command_to(&self.shown, &self.scene.dst, args).run()
    }

    /// From now on everything can be read.
    pub(super) fn heal(&self) {
        self.medium.lock().unwrap().bad.clear();
    }

    /// How often pages were read since this was asked last.
    fn reads(&self) -> BTreeMap<(PathBuf, u64), u32> {
        std::mem::take(&mut self.medium.lock().unwrap().read)
    }

    fn is_bad(&self, name: &str, page: u64) -> bool {
        self.medium.lock().unwrap().bad.contains(&(name.into(), page))
    }

    /// Nothing of this file has its name or is listed, what can be read of it is kept, and the map says so.
    fn assert_kept(&self, judge: &Judge<'_>, name: &str) {
        judge.lacks(name).does_not_list(name);
        let source = self.scene.src.read(name);
        let path = self.scene.dst.join(format!("{name}.dircopy-rescue"));
        let (kept, map) = (fs::read(&path).unwrap(), read_map(&map_of(&path)));
        assert_eq!(kept.len(), source.len());
        for page in 0..source.len() as u64 / PAGE + 1 {
            let from = (page * PAGE) as usize;
            let to = source.len().min(from + PAGE as usize);
            let is_bad = self.is_bad(name, page);
            for at in (from..to).step_by(512) {
                assert_eq!(map.contains(&(at as u64 / 512)), !is_bad, "{name} {at}");
            }
            if !is_bad {
                assert!(kept[from..to] == source[from..to], "{name} {page}");
            }
        }
        for path in [&path, &map_of(&path)] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

pub(super) fn map_of(rescued: &Path) -> PathBuf {
    rescued.with_extension("dircopy-rescue.map")
}

/// The sectors that a map says were read.
fn read_map(path: &Path) -> BTreeSet<u64> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut read = BTreeSet::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, len, status] = words[..] else { panic!("{line}") };
        let number =
            |word: &str| u64::from_str_radix(word.strip_prefix("0x").unwrap(), 16).unwrap();
        let (at, len) = (number(at), number(len));
        if status == "+" {
            read.extend(at / 512..(at + len).div_ceil(512));
        }
    }
    read
}

/// What is readable is kept byte by byte, as GNU ddrescue does; later runs read only what is missing.
#[test]
fn what_can_be_read_is_kept_and_the_rest_is_read_when_it_can_be() {
    need!(Fuse);
    let many: Vec<u64> = (200..260).chain((300..700).step_by(7)).collect();
    let source = BadSource::new(&[
        ("tiny", 3000, &[0]),
        ("dir/small", 100_001, &[3]),
        ("ends", 2_000_000, &[0, 488]),
        ("large", 5_000_123, &many),
        ("good", 700_000, &[]),
        ("dir/also", 10, &[]),
    ]);
    let scene = &source.scene;
    let bad = ["tiny", "dir/small", "ends", "large"];
    let run = source.copy(&["--rescue"]);
    run.assert_code(1).assert_prints(&["put off", "4 files"]).assert_prints(&["failed", "4"]);
    run.assert_says("large: ")
        .assert_says("of its 100001 bytes cannot be read: from byte 12288 to 16384;");
    let judge = scene.judge(&run);
    judge.lists(&["good", "dir/also"]).verifies().no_temp_files();
    for name in bad {
        source.assert_kept(&judge, name);
    }
    let asked = source.reads();
    let often: Vec<_> = asked.iter().filter(|(_, times)| **times > MOST_READS).collect();
    assert!(often.is_empty(), "{often:?}");
    for name in bad {
        let map = map_of(&scene.dst.join(format!("{name}.dircopy-rescue")));
        if have(&[Need::Program("ddrescue")]) {
            let own = scene.path("own.map");
            let _ = fs::remove_file(&own);
            let line = format!(
                "ddrescue -q -f {:?} {:?} {own:?}; ddrescuelog -t {map:?}",
                source.shown.join(name),
                scene.path("own"),
            );
            shell(scene, &line);
            assert_eq!(read_map(&map), read_map(&own), "{name}");
        }
    }
    source.reads();
    source.copy(&["--rescue"]).assert_code(1);
    for (path, page) in source.reads().into_keys() {
        let name = path.to_str().unwrap();
        assert!(!bad.contains(&name) || source.is_bad(name, page), "{name} {page}");
    }
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    scene.judge(&run).complete();
    assert!(!scene.dst.join(".dircopy/rescues").exists());
}

const LARGE: usize = 3_000_000;

/// A source with one file that has two bad pages, and one that is good.
fn one_bad() -> BadSource {
    BadSource::new(&[("d/film", LARGE, &[0, 300]), ("d/good", 5000, &[])])
}

fn kept(source: &BadSource) -> PathBuf {
    source.scene.dst.join("d/film.dircopy-rescue")
}

/// Without the option all is as it was, but for a word about it.
#[test]
fn without_it_a_read_error_is_one_and_says_what_would_help() {
    need!(Fuse);
    let source = BadSource::new(&[("a", 100_000, &[3]), ("b", LARGE, &[7]), ("good", 10, &[])]);
    let run = source.copy(&[]);
    run.assert_code(1).assert_says("; --rescue keeps what can be read");
    assert_eq!(run.err().matches("--rescue").count(), 1);
    let judge = source.scene.judge(&run);
    judge.lists(&["good"]).lacks("a").lacks("b").no_leftovers();
}

/// A copy that has the whole file by other means removes what was rescued of it.
#[test]
fn a_later_copy_of_the_whole_file_leaves_nothing_of_the_rescue() {
    need!(Fuse);
    let source = one_bad();
    source.copy(&["--rescue"]).assert_code(1);
    // Checks and mirrors pass it by.
    let run = source.scene.bare(["verify", "--complete", source.scene.dst.to_str().unwrap()]).run();
    run.assert_code(0);
    source.copy(&["--mirror=all"]).assert_code(1);
    assert!(kept(&source).exists() && map_of(&kept(&source)).exists());
    source.heal();
    let run = source.copy(&["--mirror=all"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
    assert!(!source.scene.dst.join(".dircopy-trash").exists());
}

/// What another user put in its place, and what came with a source, is not gone on with, written to or removed. A file
/// that can be read is copied all the same.
#[test]
fn what_no_run_made_is_refused() {
    need!(Root, Fuse, Setpriv);
    for planted in ["film.dircopy-rescue", "film.dircopy-rescue.map"] {
        for owner in [65534, 0] {
            let source = one_bad();
            let path = source.scene.output().path("d").join(planted);
            let own = || std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
            source.scene.output().file(format!("d/{planted}"), "planted");
            own();
            let run = source.copy(&["--rescue"]);
            run.assert_code(1).assert_says("it is not known to be of this user's runs");
            assert_eq!(fs::read(&path).unwrap(), b"planted");
            source.scene.judge(&run).lacks("d/film").lists(&["d/good"]);
            fs::remove_file(&path).unwrap();
            // In the place of what a run made.
            source.copy(&["--rescue"]).assert_code(1);
            fs::rename(&path, source.scene.path("aside")).unwrap();
            fs::write(&path, vec![0; LARGE]).unwrap();
            own();
            let run = source.copy(&["--rescue"]);
            run.assert_code(1).assert_says("cannot rescue into");
            assert_eq!(fs::read(&path).unwrap(), vec![0; LARGE]);
            source.scene.judge(&run).lacks("d/film");
            source.heal();
            let run = source.copy(&["--rescue"]);
            assert_eq!(fs::read(&path).unwrap(), vec![0; LARGE]);
            // A map of one's own that cannot be read is to be looked at.
            if owner == 0 && planted.ends_with("map") {
                run.assert_code(1).assert_says("cannot rescue into");
                source.scene.judge(&run).lacks("d/film");
                fs::rename(source.scene.path("aside"), &path).unwrap();
                let run = source.copy(&["--rescue"]);
                run.assert_code(0);
                source.scene.judge(&run).complete();
            } else {
                run.assert_code(0);
                source.scene.judge(&run).lists(&["d/film", "d/good"]).verifies();
            }
        }
    }
}

/// Whoever may write to the source could make it come with a file of that name.
#[test]
fn what_is_kept_of_a_file_gives_way_to_no_file_of_the_source() {
    need!(Fuse);
    for policy in ["default", "update", "always"] {
        let source = one_bad();
        source.copy(&["--rescue"]).assert_code(1);
        let (path, before) = (kept(&source), fs::read(kept(&source)).unwrap());
        source.scene.src.file("d/film.dircopy-rescue", vec![0; 2 * LARGE]);
        source.scene.src.file("d/film.dircopy-rescue.map", "map");
        for args in [&["--rescue"][..], &[]] {
            let run = source.copy(&[args, &["--overwrite-policy", policy]].concat());
            run.assert_code(1).assert_says("what they could read of another file");
            assert!(fs::read(&path).unwrap() == before, "{policy} {args:?}");
            source.scene.judge(&run).lacks("d/film");
        }
        // What can be read by now is copied, and then nothing is kept of it.
        source.heal();
        source.copy(&["--rescue", "--overwrite-policy", policy]).assert_code(1);
        let run = source.copy(&["--rescue", "--overwrite-policy", policy]);
        run.assert_code(0);
        source.scene.judge(&run).complete();
    }
}

/// A file of the source that has the name of a rescue is copied as any.
#[test]
fn a_file_of_the_source_has_the_right_to_its_name() {
    need!(Fuse);
    let source = BadSource::new(&[
        ("film", LARGE, &[9]),
        ("film.dircopy-rescue", 5000, &[]),
        ("other.dircopy-rescue.map", 100, &[]),
    ]);
    let run = source.copy(&["--rescue"]);
    run.assert_code(1).assert_says("the source has a file of this name");
    let judge = source.scene.judge(&run);
    judge.lists(&["film.dircopy-rescue", "other.dircopy-rescue.map"]).verifies();
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// What was rescued of an earlier version is of no use.
#[test]
fn a_file_that_changed_is_rescued_from_its_beginning() {
    need!(Fuse);
    let source = one_bad();
    source.copy(&["--rescue"]).assert_code(1);
    let mut other = content(LARGE);
    other.reverse();
    source.scene.src.file("d/film", other);
    let run = source.copy(&["--rescue"]);
    run.assert_code(1).assert_says("the source's file has changed since");
    source.assert_kept(&source.scene.judge(&run), "d/film");
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// A map that is none is refused by its line; nothing is lost.
#[test]
fn a_damaged_map_is_refused() {
    need!(Fuse);
    let source = one_bad();
    source.copy(&["--rescue"]).assert_code(1);
    let map = map_of(&kept(&source));
    let text = fs::read_to_string(&map).unwrap();
    for (from, to, says) in [
        ("0x00000000", "0x00000001", "line 6: it does not begin where the part before it ends"),
        (" -\n", " =\n", "it has no status that is known"),
    ] {
        fs::write(&map, text.replace(from, to)).unwrap();
        source.copy(&["--rescue"]).assert_code(1).assert_says(says);
    }
    fs::write(&map, text).unwrap();
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// Rot in what an earlier run kept, in a place that can be read no more by now: nothing tells what it was.
#[test]
fn what_rotted_since_and_cannot_be_read_again_is_not_the_file() {
    need!(Fuse);
    let source = one_bad();
    source.copy(&["--rescue"]).assert_code(1);
    let kept = kept(&source);
    let time = fs::metadata(&kept).unwrap().modified().unwrap();
    let mut rotten = fs::read(&kept).unwrap();
    rotten[5 * 4096] ^= 1;
    fs::write(&kept, &rotten).unwrap();
    fs::File::open(&kept).unwrap().set_modified(time).unwrap();
    source.heal();
    source.medium.lock().unwrap().bad.insert((PathBuf::from("d/film"), 5));
    for _ in 0..2 {
        let run = source.copy(&["--rescue"]);
        run.assert_code(1).assert_says("or that are no longer what was read");
        source.scene.judge(&run).lacks("d/film");
    }
    source.heal();
    source
        .copy(&["--rescue"])
        .assert_code(1)
        .assert_says("is something else when it is read again");
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// GNU ddrescue goes on with what is missing; what it read is believed where it can be read again.
#[test]
fn ddrescue_can_go_on_with_it() {
    need!(Fuse);
    if !have(&[Need::Program("ddrescue")]) {
        return;
    }
    let source = one_bad();
    source.copy(&["--rescue"]).assert_code(1);
    let ddrescue = |from: &Path| {
        let (to, map) = (kept(&source), map_of(&kept(&source)));
        shell(&source.scene, &format!("ddrescue -q -f -r1 {from:?} {to:?} {map:?}"));
    };
    // From a file that has all of it, but not all as the source has.
    let mut wrong = content(LARGE);
    wrong[5] ^= 1;
    fs::write(source.scene.path("wrong"), &wrong).unwrap();
    ddrescue(&source.scene.path("wrong"));
    let run = source.copy(&["--rescue"]);
    run.assert_code(1)
        .assert_says("8192 bytes cannot be read a second time that another program read");
    source.scene.judge(&run).lacks("d/film");
    assert!(fs::read(kept(&source)).unwrap() == wrong);
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(1).assert_says("is something else when it is read again");
    source.scene.judge(&run).lacks("d/film");
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// A run that is killed at any moment leaves what the next one goes on with.
#[test]
fn a_killed_run_is_gone_on_with() {
    need!(Fuse);
    let mut random = Random::new(36);
    let many: Vec<u64> = (0..700).step_by(3).collect();
    let source = BadSource::new(&[("d/film", LARGE, &many), ("d/good", 5000, &[])]);
    for round in 0..12 {
        let running =
            source.scene.command_to(&source.shown, &source.scene.dst, ["--rescue"]).spawn();
        let signal = if round % 3 == 0 { Signal::TERM } else { Signal::KILL };
        std::thread::sleep(std::time::Duration::from_millis(random.below(400) as u64));
        running.signal(signal);
        let run = running.wait();
        let judge = source.scene.judge(&run);
        judge.lacks("d/film");
        // What the map says is there.
        let (path, expected) = (kept(&source), source.scene.src.read("d/film"));
        if map_of(&path).exists() {
            let there = fs::read(&path).unwrap();
            for sector in read_map(&map_of(&path)) {
                let at = sector as usize * 512;
                let end = expected.len().min(at + 512);
                assert!(there[at..end] == expected[at..end], "{sector}");
            }
        }
    }
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// Each of several outputs keeps what it can.
#[test]
fn each_output_has_a_rescue_of_its_own() {
    need!(Fuse);
    let source = one_bad();
    let other = source.scene.tree("other");
    let args = ["--rescue", "-o", other.root().to_str().unwrap()];
    source.copy(&args).assert_code(1);
    for root in [&source.scene.dst, other.root()] {
        let map = map_of(&root.join("d/film.dircopy-rescue"));
        assert_eq!(read_map(&map).len(), LARGE.div_ceil(512) - 16);
    }
    source.heal();
    let run = source.copy(&args);
    run.assert_code(0);
    source.scene.judge(&run).complete();
    Judge::new(&source.scene.src, other, &run).complete();
}

/// A file whose device answers after many seconds waits until all others are done, and is whole then.
#[test]
fn a_slow_file_lets_the_others_go_first() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a-slow", content(400_000)).file("good", content(300_000)).file("small", "1");
    let (shown, dst) = (scene.path("shown"), scene.dst.clone());
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let hook = move |call: &Call<'_>| {
        if call.deed == Deed::Read && call.path == Path::new("a-slow") {
            let mut order = seen.lock().unwrap();
            order.push(dst.join("good").exists() && dst.join("small").exists());
            if order.len() == 1 {
                std::thread::sleep(std::time::Duration::from_secs(11));
            }
        }
        Act::Pass
    };
    let _mirror = Mirror::mount(scene.src.root(), &shown, hook);
    let run = scene.command_to(&shown, &scene.dst, ["--rescue", "--workers", "1"]).run();
    run.assert_code(0).assert_prints(&["put off", "1 file"]);
    scene.judge(&run).complete();
    assert!(order.lock().unwrap().last().unwrap());
}

/// A run that is killed at one of its calls, or in which one fails, is made up for by the next.
#[test]
fn a_fault_at_any_call_is_made_up_for() {
    need!(Fuse, Strace);
    let source = BadSource::new(&[("d/film", 300_000, &[0, 30]), ("d/good", 5000, &[])]);
    let scene = &source.scene;
    let step = if long() { 1 } else { 5 };
    let (mut kills, mut faults) = (0, 0);
    for fault in ["signal=KILL", "error=EIO", "error=ENOSPC"] {
        for calls in ["renameat2", "fdatasync,fsync", "openat", "ftruncate", "unlinkat", "write"] {
            for when in (1..200).step_by(step) {
                let _ = fs::remove_dir_all(&scene.dst);
                let strace = Strace::inject(scene, calls, &format!("{fault}:when={when}"));
                // The first that a process opens are its libraries.
                let strace = match calls {
                    "openat" => strace.exactly_on(scene.dst.join("d")),
                    _ => strace,
                };
                let run = strace.run(scene.command_to(&source.shown, &scene.dst, ["--rescue"]));
                if !strace.log().contains("INJECTED") && !strace.log().contains("killed by SIGKILL")
                {
                    break;
                }
                match fault {
                    "signal=KILL" => kills += 1,
                    _ => {
                        faults += 1;
                        run.assert_no_crash();
                    }
                }
                scene.judge(&run).lacks("d/film");
                let run = source.copy(&["--rescue"]);
                run.assert_code(1);
                let judge = scene.judge(&run);
                source.assert_kept(&judge, "d/film");
                judge.lists(&["d/good"]).no_temp_files();
            }
        }
    }
    println!("{kills} kills, {faults} faults");
    assert!(kills > 3 && faults > 3, "{kills} {faults}");
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    scene.judge(&run).complete();
}

/// Any number of files with bad places at random.
#[test]
fn bad_places_at_random() {
    need!(Fuse);
    let mut random = Random::new(5);
    let number = if long() { 500 } else { 60 };
    let files: Vec<(String, usize, Vec<u64>)> = (0..number)
        .map(|file| {
            let len = 1 + random.below(400_000);
            let pages = len.div_ceil(PAGE as usize);
            let bad = (0..random.below(6)).map(|_| random.below(pages) as u64).collect();
            (format!("{}/{file}", file % 7), len, bad)
        })
        .collect();
    let borrowed: Vec<_> = files.iter().map(|(name, len, bad)| (&**name, *len, &**bad)).collect();
    let source = BadSource::new(&borrowed);
    let run = source.copy(&["--rescue"]);
    run.assert_code(1);
    let judge = source.scene.judge(&run);
    judge.verifies().no_temp_files();
    for (name, _, bad) in &borrowed {
        match bad.is_empty() {
            true => drop(judge.has(name)),
            false => source.assert_kept(&judge, name),
        }
    }
    let of_kept = |(path, _): &(&(PathBuf, u64), &u32)| {
        borrowed.iter().any(|(name, _, bad)| path.0 == Path::new(name) && !bad.is_empty())
    };
    assert!(source.reads().iter().filter(of_kept).all(|(_, times)| *times <= MOST_READS));
    source.heal();
    let run = source.copy(&["--rescue"]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
}

/// A rescue goes with what else is asked of a copy.
#[test]
fn it_goes_with_other_options() {
    need!(Fuse);
    for args in [
        &["--verify"][..],
        &["--verify-source", "--workers", "1"],
        &["--hash", "sha256,md5", "--hard-links"],
        &["--mirror=all", "--checkpoint", "1M"],
        &["--follow-links", "--sparse", "always", "--limit-rate", "20M"],
        &["--hash", "sha256,sha512", "--state", "state"],
    ] {
        let source = one_bad();
        source.scene.src.file("d/plain", content(10));
        fs::create_dir(source.scene.path("state")).unwrap();
        fs::hard_link(source.scene.src.path("d/film"), source.scene.src.path("d/name")).unwrap();
        let bad = [0, 300].map(|page| (PathBuf::from("d/name"), page));
        source.medium.lock().unwrap().bad.extend(bad);
        let args = [args, &["--rescue"]].concat();
        let run = source.copy(&args);
        run.assert_code(1).assert_says("cannot rescue all of");
        source.scene.judge(&run).lacks("d/film").has("d/plain").no_temp_files();
        source.heal();
        let run = source.copy(&args);
        run.assert_code(0);
        assert_eq!(shell(&source.scene, "diff -r src/d dst/d; ls dst/d | wc -l").trim(), "4");
    }
}

/// A file that is not what is expected of it is not published when it is whole, and stays beside its place.
#[test]
fn what_is_expected_judges_what_was_rescued() {
    need!(Fuse);
    let source = one_bad();
    let list = source.scene.path("list.sha256sum");
    fs::write(&list, format!("{}  d/film\n", "ab".repeat(32))).unwrap();
    let args = ["--rescue", "--expect", list.to_str().unwrap(), "--expect-all"];
    source.copy(&args).assert_code_in(&[1, 4]);
    source.heal();
    let run = source.copy(&args);
    run.assert_code(4);
    source.scene.judge(&run).lacks("d/film").does_not_list("d/film");
    assert!(fs::read(kept(&source)).unwrap() == source.scene.src.read("d/film"));
}

/// So it is on a file system of a disk with bad sectors, where reads are proven to come from the device.
#[test]
fn a_file_system_on_a_bad_disk_is_rescued() {
    need!(Fuse, Loop);
    let source = BadSource::new(&[("image", 64 << 20, &[])]);
    let (scene, below) = (&source.scene, source.scene.src.path("image"));
    let mount = scene.tree("mount");
    let film = content(9_000_000);
    fs::write(scene.path("film"), &film).unwrap();
    let line = "mkfs.ext4 -q -F -O ^has_journal src/image && mount -o loop src/image mount && mkdir mount/d \
                && cp film mount/d/film && cp film mount/d/other && echo good > mount/d/good && umount mount";
    shell(scene, line);
    // Where the second file lies, by its content.
    let image = fs::read(&below).unwrap();
    let places: Vec<usize> = [5 * 4096, 1000 * 4096, 1003 * 4096]
        .into_iter()
        .map(|at| {
            let block = &film[at..at + 4096];
            image.chunks(4096).position(|it| it == block).unwrap()
        })
        .collect();
    let bad = places.iter().map(|page| (PathBuf::from("image"), *page as u64));
    source.medium.lock().unwrap().bad.extend(bad);
    shell(scene, "mount -o ro,loop shown/image mount");
    let run = scene.command_to(mount.root(), &scene.dst, ["--rescue"]).run();
    let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run.assert_code(1);
        let name = if scene.dst.join("d/film").exists() { "other" } else { "film" };
        let path = scene.dst.join(format!("d/{name}.dircopy-rescue"));
        let (read, there) = (read_map(&map_of(&path)), fs::read(&path).unwrap());
        // Each bad block of the disk may cost its neighbour, as it does GNU ddrescue.
        let missing = film.len().div_ceil(512) - read.len();
        assert!((3 * 8..=6 * 8).contains(&missing), "{missing}");
        if have(&[Need::Program("ddrescue")]) {
            shell(scene, &format!("ddrescue -q -f mount/d/{name} own own.map"));
            assert_eq!(read, read_map(&scene.path("own.map")));
        }
        assert!(read.iter().all(|at| {
            let at = *at as usize * 512;
            let end = film.len().min(at + 512);
            there[at..end] == film[at..end]
        }));
        source.heal();
        let run = scene.command_to(mount.root(), &scene.dst, ["--rescue"]).run();
        run.assert_code(0);
        for name in ["film", "other"] {
            assert!(fs::read(scene.dst.join("d").join(name)).unwrap() == film);
        }
        scene.judge(&run).verifies();
    }));
    shell(scene, "umount mount");
    judged.unwrap();
}

/// A device that is pulled out while bad places are read ends the run at once. What was read is gone on with.
#[test]
fn a_device_that_vanishes_ends_the_run() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("film", content(LARGE)).file("good", content(700_000));
    scene.src.file("last", content(100_000));
    let (shown, dst) = (scene.path("shown"), scene.dst.clone());
    // The reads of bad places and after it is gone, and whether it is in.
    let state = Arc::new(Mutex::new((0, 0, true)));
    let of_hook = Arc::clone(&state);
    let hook = move |call: &Call<'_>| {
        if !matches!(call.deed, Deed::Read | Deed::List) {
            return Act::Pass;
        }
        let (bad, gone, is_in) = &mut *of_hook.lock().unwrap();
        let is_there = call.bytes.0 < 340 * PAGE && call.bytes.1 > 300 * PAGE;
        let is_bad = call.path == Path::new("film") && is_there;
        let is_rescued = is_bad && dst.join("good").exists() && dst.join("last").exists();
        *bad += u32::from(is_rescued);
        if is_rescued && *is_in && *bad < 10 {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        if *is_in && *bad > 5 {
            *gone += 1;
            return Act::Fail(EIO);
        }
        if is_bad { Act::Fail(EIO) } else { Act::Pass }
    };
    let _mirror = Mirror::mount(scene.src.root(), &shown, hook);
    let run = scene.command_to(&shown, &scene.dst, ["--rescue"]).run();
    run.assert_code(3).assert_says("the source is gone");
    let after = std::mem::take(&mut state.lock().unwrap().1);
    assert!(after < 100, "{after} reads of what is gone");
    state.lock().unwrap().2 = false;
    scene.judge(&run).lacks("film").has("good").has("last");
    assert!(scene.dst.join("film.dircopy-rescue").exists());
    let run = scene.command_to(&shown, &scene.dst, ["--rescue"]).run();
    run.assert_code(1).assert_says("cannot rescue all of");
    let map = read_map(&map_of(&scene.dst.join("film.dircopy-rescue")));
    assert_eq!(map.len(), LARGE.div_ceil(512) - 40 * 8);
}

/// What was rescued of two files is exchanged: neither is taken for the other's, and both are named until they are gone.
#[test]
fn what_was_rescued_of_another_file_is_named() {
    need!(Fuse);
    let source = BadSource::new(&[("f", 40_000, &[3]), ("g", 40_000, &[4])]);
    source.copy(&["--rescue"]).assert_code(1);
    let exchange = "cd dst; for s in rescue rescue.map; do mv f.dircopy-$s t; mv g.dircopy-$s f.dircopy-$s; \
                    mv t g.dircopy-$s; done";
    shell(&source.scene, exchange);
    source.heal();
    for _ in 0..2 {
        let run = source.copy(&[]);
        run.assert_says("f.dircopy-rescue is what was rescued of g");
        run.assert_says("g.dircopy-rescue is what was rescued of f");
    }
    shell(&source.scene, "cmp src/f dst/f && cmp src/g dst/g && rm dst/*.dircopy-rescue*");
    let run = source.copy(&[]);
    run.assert_code(0);
    assert!(!run.err().contains("rescue"), "{}", run.err());
}
