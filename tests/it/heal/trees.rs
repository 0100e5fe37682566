//! What is healed, from where, and what is left as it is.

use crate::harness::{Mount, Scene, content, ctimes, inventory, need, shell};

use super::{MIB, are_whole, copies, fill, heal, healed, is_whole, rot, told};

/// Three copies, none of which is whole.
fn damaged() -> Scene {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "B", "C"], &[]);
    rot(&scene, "A/dir/film.mov", &[7, 5 * MIB]);
    rot(&scene, "B/dir/film.mov", &[3 * MIB]);
    rot(&scene, "C/dir/film.mov", &[9 * MIB + 76]);
    rot(&scene, "B/small", &[0]);
    shell(
        &scene,
        "rm -r A/dir/sub; rm C/even; chmod u+w {A,B}/even; truncate -s 1000000 B/even; printf more >> A/even; \
         chmod u-w {A,B}/even",
    );
    scene
}

/// What a run named as rotten, and lists no more, is mended as what is listed.
#[test]
fn what_a_run_dropped_as_rotten_is_taken_from_another_tree() {
    let scene = Scene::new();
    scene.src.file("a", content(50_000)).file("b", "b").file("c", "c");
    copies(&scene, &["A", "B"], &[]);
    for file in ["A/a", "A/b"] {
        rot(&scene, file, &[0]);
    }
    shell(&scene, "rm src/a src/b B/b");
    scene.command_to(scene.src.root(), scene.path("A"), ["-q"]).run().assert_code(4);
    let run = heal(&scene, &["A", "--from-tree", "B"]);
    run.assert_code(4).assert_says("not healed: A/b: no tree has it good");
    assert_eq!(healed(&run), ["A/a: 48.83 KiB from B"]);
    shell(&scene, "cmp A/a B/a");
    // Who names the list has what that lists.
    let newest = shell(&scene, "ls A/*.sha256sum | tail -n 1");
    let run = heal(&scene, &["-m", newest.trim(), "A", "B"]);
    assert!(!run.assert_code(0).err().contains("A/b"), "{}", run.err());
}

/// Runs keep the states of what they drop, as long as it waits to be mended.
#[test]
fn what_a_run_dropped_is_made_of_what_each_copy_has_of_it() {
    let scene = Scene::new();
    scene.src.file("a", content(5_000_000)).file("b", "b");
    copies(&scene, &["A", "B"], &[]);
    rot(&scene, "A/a", &[100]);
    rot(&scene, "B/a", &[4_000_000]);
    shell(&scene, "mv src/a whole");
    for tree in ["A", "B"] {
        scene.bare(["verify", "-q", tree]).run().assert_code(4);
        for _ in 0..2 {
            scene.command_to(scene.src.root(), scene.path(tree), ["-q"]).run().assert_code(4);
        }
    }
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(0);
    assert_eq!(healed(&run), ["A/a: 1 MiB from B", "B/a: 1 MiB from A"]);
    shell(&scene, "cmp whole A/a && cmp whole B/a");
}

#[test]
fn damage_in_every_copy_is_no_obstacle() {
    for args in [&["-q"][..], &["--from", "cache", "--simd", "off", "-j1"]] {
        let scene = damaged();
        let run = heal(&scene, &[args, &["A", "B", "C"]].concat());
        run.assert_code(0);
        let expected = [
            "A/dir/film.mov: 2 MiB from B",
            "A/dir/sub/one link: 1 MiB from B",
            "A/even: from what was good of it",
            "B/dir/film.mov: 1 MiB from A",
            "B/even: 4 MiB from A",
            "B/small: 5 B from A",
            "C/dir/film.mov: 77 B from A",
            "C/even: 4 MiB from A",
        ];
        assert_eq!(healed(&run), expected, "{}", run.err());
        are_whole(&scene, &["A", "B", "C"]);
        for tree in ["A", "B", "C"] {
            shell(&scene, &format!("diff -r src {tree} --exclude='*dircopy*'"));
        }
        scene.bare(["verify", "-q", "--complete", "A", "B", "C"]).run().assert_code(0);
        heal(&scene, &["-q", "A", "B", "C"]).assert_code(0);
    }
}

/// Times, permissions, owners and attributes are those of the bad file, or of the good one where it was missing.
#[test]
fn what_is_beside_the_content_is_kept() {
    need!(Attr);
    let scene = Scene::new();
    fill(&scene.src);
    scene.src.xattr("even", "user.note", b"kept").xattr("dir/sub", "user.note", b"too");
    copies(&scene, &["A", "B"], &[]);
    let all = |name: &str| {
        let tree = scene.tree(name);
        let mut all = inventory(tree.root());
        all.retain(|name| !name.windows(7).any(|part| part == b"dircopy") && !name.ends_with(b" "));
        all
    };
    let was = all("A");
    rot(&scene, "A/dir/film.mov", &[0]);
    rot(&scene, "A/even", &[2 * MIB]);
    shell(&scene, "touch -d 2001-01-01 dir.time; rm -r A/dir/sub; touch -r B/dir A/dir");
    heal(&scene, &["-q", "A", "B"]).assert_code(0);
    is_whole(&scene.path("A"));
    assert_eq!(was, all("A"));
    for (name, value) in [("A/even", "kept"), ("A/dir/sub", "too")] {
        let read = shell(&scene, &format!("getfattr --only-values -n user.note {name}"));
        assert_eq!(read, value);
    }
    // The next copy finds everything in place.
    let run = scene.command_to(scene.src.root(), scene.path("A"), ["-v"]).run();
    run.assert_code(0).assert_prints(&["copied", "0 files"]);
}

#[test]
fn a_dry_run_touches_nothing() {
    let scene = damaged();
    let was = ["A", "B", "C"].map(|tree| ctimes(&scene.path(tree)));
    let run = heal(&scene, &["--dry-run", "A", "B", "C"]);
    run.assert_code(4).assert_prints(&["healable", "8 bad files"]);
    assert_eq!(told(&run, "could be healed: ").len(), 8, "{}", run.err());
    assert_eq!(was, ["A", "B", "C"].map(|tree| ctimes(&scene.path(tree))));
}

#[test]
fn what_no_tree_has_good_is_named_and_left() {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "B"], &[]);
    for tree in ["A", "B"] {
        rot(&scene, &format!("{tree}/dir/film.mov"), &[2 * MIB, 6 * MIB + 1]);
        rot(&scene, &format!("{tree}/small"), &[1]);
    }
    rot(&scene, "A/dir/film.mov", &[4 * MIB]);
    rot(&scene, "B/even", &[0]);
    let was = ["A/dir", "B/dir"].map(|tree| ctimes(&scene.path(tree)));
    let run = heal(&scene, &["--report", "report.json", "A", "B"]);
    run.assert_code(4).assert_prints(&["not healed", "4 bad files"]);
    run.assert_prints(&["FAILED (exit 4)"]);
    assert_eq!(healed(&run), ["B/even: 1 MiB from A"]);
    let places = "no tree has it good: 2 MiB of 10: 2-3 MiB, 6-7 MiB";
    let expected = [
        &format!("A/dir/film.mov: {places}"),
        "A/small: no tree has it good",
        &format!("B/dir/film.mov: {places}"),
        "B/small: no tree has it good",
    ];
    assert_eq!(told(&run, "not healed: "), expected);
    assert_eq!(was, ["A/dir", "B/dir"].map(|tree| ctimes(&scene.path(tree))));
    let report = std::fs::read(scene.path("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!((&report["kind"], &report["exit_code"]), (&"verify".into(), &4.into()));
    let counts = ["healed", "not_healed", "differ"].map(|name| report["checked"][name].clone());
    assert_eq!(counts, [1, 4, 4].map(serde_json::Value::from));
    let entries = report["entries"].as_array().unwrap();
    let lost = entries
        .iter()
        .find(|entry| entry["path"] == "A/dir/film.mov" && entry["event"] == "not-healed");
    assert_eq!(lost.unwrap()["ranges"], serde_json::json!([[2 * MIB, MIB], [6 * MIB, MIB]]));
}

/// Trees that list different digests are no copies of one another there.
#[test]
fn names_that_are_listed_differently_are_not_touched() {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "C"], &[]);
    scene.src.file("small", "other");
    copies(&scene, &["B"], &[]);
    rot(&scene, "A/small", &[0]);
    rot(&scene, "A/even", &[0]);
    let was = scene.tree("A").read("small");
    let run = heal(&scene, &["A", "B", "C"]);
    run.assert_code(4).assert_prints(&["conflict", "1 name"]);
    assert_eq!(healed(&run), ["A/even: 1 MiB from B"]);
    run.assert_says("conflict: B/small")
        .assert_says("not healed: A/small: the trees list different");
    assert_eq!(scene.tree("A").read("small"), was);
    // Also where nothing is bad.
    shell(&scene, "cp -p C/small A/small");
    heal(&scene, &["A", "B", "C"]).assert_code(4).assert_says("conflict: B/small");
}

/// The clock of a run was behind, and no record tells its list for the one that holds: what it brought is not set back.
#[test]
fn what_another_list_has_is_not_set_back() {
    let scene = Scene::new();
    scene.src.file("f", "old").file("g", "g");
    copies(&scene, &["A", "B"], &[]);
    scene.src.file("f", "newer");
    let update = ["-q", "--overwrite-policy", "update"];
    scene.command_to(scene.src.root(), scene.path("A"), update).run().assert_code(0);
    // Of two lists in one second the second has the name of the next.
    shell(
        &scene,
        "cd A; m=$(ls dircopy-*.sha256sum | tail -n 1); mv $m dircopy-20200101T000000Z.sha256sum; rm -r .dircopy",
    );
    rot(&scene, "A/g", &[0]);
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(4).assert_says("not healed: A/f: it is exactly what dircopy-20200101T000000Z");
    assert_eq!(healed(&run), ["A/g: 1 B from B"]);
    assert_eq!(scene.tree("A").read("f"), b"newer");
    // What no list has is damage, and who names the list says that it holds.
    rot(&scene, "A/f", &[0]);
    heal(&scene, &["A", "B"]).assert_code(0);
    assert_eq!(scene.tree("A").read("f"), b"old");
    shell(&scene, "cp -p src/f A/f");
    let newest = shell(&scene, "ls A/*.sha256sum | tail -n 1");
    heal(&scene, &["-m", newest.trim(), "A", "B"]).assert_code(0);
    assert_eq!(scene.tree("A").read("f"), b"old");
}

/// Without states files are taken as a whole, and so they are where the states are bad.
#[test]
fn without_good_states_whole_files_are_taken() {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "B", "C"], &["--states", "none"]);
    rot(&scene, "A/dir/film.mov", &[7]);
    rot(&scene, "B/dir/film.mov", &[3 * MIB]);
    rot(&scene, "B/even", &[0]);
    let run = heal(&scene, &["A", "B", "C"]);
    run.assert_code(0);
    let expected =
        ["A/dir/film.mov: 9 MiB from C", "B/dir/film.mov: 9 MiB from C", "B/even: 4 MiB from A"];
    assert_eq!(healed(&run), expected);
    are_whole(&scene, &["A", "B", "C"]);
}

/// A list of states is as good as what it leads to.
#[test]
fn forged_states_heal_nothing_wrongly() {
    for at in [17 + 52 + 12 + 40, 17 + 52 + 12 + 8 * 32 + 3] {
        let scene = Scene::new();
        scene.src.file("dir/film.mov", content(9 * MIB + 77));
        copies(&scene, &["A", "B"], &[]);
        for tree in ["A", "B"] {
            let side = shell(&scene, &format!("cd {tree} && ls *.states"));
            let mut bytes = scene.tree(tree).read(side.trim());
            bytes[at] ^= 1;
            let (before, sum) = bytes.split_last_chunk_mut::<8>().unwrap();
            use sha2::Digest as _;
            sum.copy_from_slice(&sha2::Sha256::digest(&before[17..])[..8]);
            scene.tree(tree).file(side.trim(), bytes);
        }
        rot(&scene, "A/dir/film.mov", &[7, 5 * MIB]);
        let run = heal(&scene, &["A", "B"]);
        run.assert_code(0);
        assert_eq!(healed(&run), ["A/dir/film.mov: 9 MiB from B"]);
        are_whole(&scene, &["A", "B"]);
        rot(&scene, "A/dir/film.mov", &[7, 5 * MIB]);
        rot(&scene, "B/dir/film.mov", &[3 * MIB]);
        heal(&scene, &["A", "B"]).assert_code(4).assert_says("no tree has it good");
    }
}

/// `--from-tree` takes from a tree that is only read, and that need not have a manifest.
#[test]
fn one_tree_is_healed_from_another_that_is_only_read() {
    let scene = damaged();
    shell(&scene, "chmod -R a-w src");
    let was = ctimes(&scene.path("src"));
    heal(&scene, &["A", "--from-tree", "src"]).assert_code(0).assert_prints(&["healed", "3 files"]);
    is_whole(&scene.path("A"));
    shell(&scene, "chmod -R u+w src; rm -r src/dir/film.mov");
    rot(&scene, "B/dir/film.mov", &[8 * MIB]);
    let run = heal(&scene, &["--from-tree", "src", "B"]);
    run.assert_code(4).assert_prints(&["healed", "2 files"]);
    run.assert_says(
        "not healed: B/dir/film.mov: no tree has it good: 2 MiB of 10: 3-4 MiB, 8-9 MiB",
    );
    assert_eq!(was.len(), ctimes(&scene.path("src")).len() + 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = damaged();
    let was = ctimes(&scene.path("A"));
    for args in [
        &["A"][..],
        &["A", "A/."],
        &["A", "nowhere"],
        &["A", "B", "--manifest", "A/small", "--dry-run=x"],
        &[],
    ] {
        heal(&scene, args).assert_code(2);
    }
    heal(&scene, &["-q", "A", "src"]).assert_code(5);
    assert_ne!(was, ctimes(&scene.path("A")), "from B it took what it could");
}

/// What has the name of a file and is none stays, and nothing is written through a link.
#[test]
fn nothing_is_written_through_links() {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "B"], &[]);
    shell(
        &scene,
        "mkdir -p elsewhere/sub; rm -r A/dir; ln -s ../elsewhere A/dir; mv A/even even; \
         ln -s ../even A/even; rm A/small; mkfifo A/small",
    );
    let was = ["A", "elsewhere"].map(|tree| ctimes(&scene.path(tree)));
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(4);
    let expected = [
        "A/dir/film.mov: a symbolic link is on the way to it",
        "A/dir/sub/one link: a symbolic link is on the way to it",
        "A/even: a symbolic link has its name",
        "A/small: a FIFO has its name",
    ];
    assert_eq!(told(&run, "not healed: "), expected);
    assert_eq!(was, ["A", "elsewhere"].map(|tree| ctimes(&scene.path(tree))));
    // Nor is anything read through one.
    rot(&scene, "B/dir/film.mov", &[0]);
    shell(&scene, "cp -r src/dir elsewhere/");
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(4).assert_says("not healed: B/dir/film.mov: no tree has it good");
}

/// A tree that cannot be written to is named, and gives what it has.
#[test]
fn a_tree_that_cannot_be_written_to_is_named() {
    need!(Mount);
    let scene = damaged();
    std::fs::create_dir(scene.path("fixed")).unwrap();
    let mount = Mount::read_only(&scene.path("A"), &scene.path("fixed"));
    let run = heal(&scene, &["fixed", "B", "C"]);
    run.assert_code(4).assert_says("not healed: fixed/dir/film.mov: cannot create");
    run.assert_says("Read-only file system");
    drop(mount);
    are_whole(&scene, &["B", "C"]);
    heal(&scene, &["-q", "A", "B", "C"]).assert_code(0);
    is_whole(&scene.path("A"));
}

/// Nothing that another tree holds becomes a private record, whatever a manifest lists.
#[test]
fn private_records_are_not_healed() {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "B"], &[]);
    shell(
        &scene,
        "cp -rp B C; echo forged > C/.dircopy/record; echo forged > C/.dircopy/new; cd C; \
         sha256sum .dircopy/record .dircopy/new small > ../list",
    );
    let private = |scene: &Scene| shell(scene, "cd A/.dircopy && ls && sha256sum *");
    let was = private(&scene);
    for args in [&["A", "C"][..], &["A", "--from-tree", "C"]] {
        let run = heal(&scene, &[&["-m", "list"], args].concat());
        run.assert_code(4)
            .assert_says("not healed: A/.dircopy/record: private records are kept there");
        run.assert_says("not healed: A/.dircopy/new: private records are kept there");
        assert_eq!(was, private(&scene));
    }
}

/// One manifest may be given for all trees.
#[test]
fn a_manifest_of_any_program_will_do() {
    let scene = Scene::new();
    fill(&scene.src);
    shell(
        &scene,
        "cp -rp src A; cp -rp src B; cd src && find . -type f -exec sha256sum {} + > ../list",
    );
    rot(&scene, "A/dir/film.mov", &[0]);
    rot(&scene, "B/even", &[9]);
    let run = heal(&scene, &["--manifest", "list", "-m", "list", "A", "B"]);
    run.assert_code(0).assert_prints(&["healed", "2 files"]);
    shell(&scene, "diff -r src A --exclude=.dircopy; diff -r src B --exclude=.dircopy");
}

/// As generations have it, by hard links.
#[test]
fn a_file_that_trees_share_is_healed_in_each_and_shared_no_more() {
    let scene = Scene::new();
    scene.src.file("a", content(3_000_000)).file("b", content(50_000));
    for tree in ["A", "C"] {
        scene.command_to(scene.src.root(), scene.path(tree), ["-q"]).run().assert_code(0);
    }
    shell(&scene, "mkdir B && cp -al A/a A/b B/ && cp A/dircopy-* B/");
    shell(&scene, "printf rot | dd of=A/a bs=1 seek=1500000 conv=notrunc");
    scene.bare(["heal", "A", "B"]).run().assert_code(4).assert_says("no tree has it good");
    let run = scene.bare(["heal", "A", "B", "--from-tree", "C"]).run();
    run.assert_code(0).assert_prints(&["healed", "2 files"]);
    let inode = |name: &str| scene.tree(".").inode(name);
    assert_ne!(inode("A/a"), inode("B/a"));
    assert_eq!(inode("A/b"), inode("B/b"));
    for tree in ["A", "B", "C"] {
        shell(&scene, &format!("cd {tree} && sha256sum -c --strict --quiet dircopy-*.sha256sum"));
    }
}

/// Bags are healed by all their lists, the text files too, and a bad file is one however many lists have it.
#[test]
fn bags_are_healed_whole() {
    let scene = Scene::new();
    fill(&scene.src);
    copies(&scene, &["A", "B"], &["--bag", "--hash", "sha256,sha512"]);
    rot(&scene, "A/data/dir/film.mov", &[7]);
    rot(&scene, "A/bag-info.txt", &[3]);
    rot(&scene, "B/data/even", &[9]);
    rot(&scene, "B/manifest-sha256.txt", &[70]);
    shell(&scene, "rm A/data/small");
    let run = heal(&scene, &["A", "B"]);
    let expected = [
        "A/bag-info.txt: 151 B from B",
        "A/data/dir/film.mov: 9 MiB from B",
        "A/data/small: 5 B from B",
        "B/data/even: 4 MiB from A",
        "B/manifest-sha256.txt: 345 B from A",
    ];
    let without_sizes = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.split(": ").next().unwrap_or_default().to_owned()).collect()
    };
    let expected = without_sizes(&expected.map(str::to_owned));
    assert_eq!(without_sizes(&healed(&run)), expected, "{}", run.err());
    heal(&scene, &["A", "B"]).assert_code(0);
    for bag in ["A", "B"] {
        let run = scene.bare(["verify", bag]).run();
        run.assert_code(0).assert_prints(&[&format!("{bag} is a valid bag")]);
    }
    // What no bag has good is one file, not one for each list.
    for bag in ["A", "B"] {
        rot(&scene, &format!("{bag}/data/even"), &[5]);
    }
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(4).assert_prints(&["not healed", "2 bad files"]);
    // Another date in a text file is no contradiction of the trees.
    shell(&scene, "rm -r B");
    let other = ["-q", "--bag", "--hash", "sha256,sha512", "--bag-info", "Note=other"];
    scene.command_to(scene.src.root(), scene.path("B"), other).run().assert_code(0);
    heal(&scene, &["A", "B"]).assert_code(0);
    scene.bare(["verify", "A", "B"]).run().assert_code(0);
}

/// A bag of another program need have no list of its text files, and may have files that are on none.
#[test]
fn bags_without_a_list_of_their_text_files_are_healed_whole() {
    let scene = Scene::new();
    scene
        .tree("A")
        .file("data/a", "one")
        .file("data/dir/b", "two")
        .file("readme", "no list has it");
    let declaration =
        "printf 'BagIt-Version: 1.0\\nTag-File-Character-Encoding: UTF-8\\n' > bagit.txt";
    let list = "find data -type f | xargs sha256sum > manifest-sha256.txt";
    shell(&scene, &format!("cd A && {declaration} && {list} && cp -a . ../B"));
    scene.bare(["verify", "A"]).run().assert_code(0).assert_prints(&["A is a valid bag"]);
    heal(&scene, &["A", "B"]).assert_code(0);
    shell(&scene, "rm A/data/a && printf x > B/data/dir/b");
    heal(&scene, &["A", "B"]).assert_code(0);
    shell(&scene, "diff -r --exclude=.dircopy A B && cd A && sha256sum -c manifest-sha256.txt");
    heal(&scene, &["A", "B"]).assert_code(0);
    // All of the payload must be listed.
    shell(&scene, "printf x > A/data/dir/new");
    heal(&scene, &["A", "B"]).assert_code(4).assert_says("not listed: A/data/dir/new");
}

/// Two trees of which none has a file of the other were good together, and that they are no copies was not said.
#[test]
fn trees_that_share_nothing_are_named() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    copies(&scene, &["A", "B"], &[]);
    shell(&scene, "mkdir other; echo o > other/o");
    scene.bare(["other", "C"]).run().assert_code(0);
    let said = "none of its files is listed by another of these trees";
    assert!(!heal(&scene, &["A", "B"]).err().contains(said));
    assert!(!heal(&scene, &["A", "B", "C"]).err().contains(said));
    heal(&scene, &["A", "C"]).assert_code(0).assert_says(said);
    // A card has no manifest, and gives what is listed elsewhere.
    let run = heal(&scene, &["A", "src"]);
    run.assert_code(5);
    assert!(!run.err().contains("another dircopy"), "{}", run.err());
    heal(&scene, &["A", "--from-tree", "src"]).assert_code(0);
}
