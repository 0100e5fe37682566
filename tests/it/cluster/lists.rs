//! Manifests of one tree merged into one: what `sha256sum` makes of the result, and what is refused.

use std::fs;

use crate::harness::{Need, Run, Scene, content, have, long, shell};

/// A tree with names of every kind.
fn scene() -> Scene {
    let scene = Scene::new();
    for i in 0..40 {
        scene.src.file(format!("{}/{i:02}", i % 5), content(100 + i));
    }
    scene.src.file("odd\nname\\", "x").file("-", "y").file("a-b", "1").file("a/b", "2");
    scene.src.file([b"bytes \xff".as_slice(), b""].concat(), "z").file("cr\r", "w");
    scene
}

fn merge(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(["manifest", "merge"].iter().chain(args)).run()
}

/// Two halves of the list that overlap, in no order.
fn halves(scene: &Scene) {
    shell(
        scene,
        "cd src && find . -type f -exec sha256sum {} + | shuf --random-source=<(yes) > ../all && cd .. && \
         head -n 30 all > A && tail -n 30 all > B && sort all | uniq | wc -l",
    );
}

#[test]
fn the_merged_list_is_the_whole_for_sha256sum() {
    let scene = scene();
    halves(&scene);
    let run = merge(&scene, &["A", "B", "A", "-o", "whole"]);
    run.assert_code(0).assert_prints(&["merged 46 names, 44 lines more than once"]);
    shell(&scene, "cd src && sha256sum -c --strict --quiet ../whole");
    // Every file, once.
    let sorted = |list: &str| shell(&scene, &format!("sed 's|  [.]/|  |' {list} | sort"));
    let expected = sorted("all").replace("  -\n", "  ./-\n");
    assert_eq!(sorted("whole").replace("  -\n", "  ./-\n"), expected);
    // The same of any order, and of itself.
    merge(&scene, &["B", "A", "-o", "other"]).assert_code(0);
    merge(&scene, &["whole", "-q", "-o", "again"]).assert_code(0);
    shell(&scene, "cmp whole other; cmp whole again");
    scene.bare(["verify", "-m", "whole", "--root", "src", "--complete"]).run().assert_code(0);
}

/// What other programs write: binary marks, CR LF, a byte order mark, UTF-16, tagged lines, no last line feed.
#[test]
fn lists_of_other_programs_are_merged() {
    let scene = scene();
    halves(&scene);
    shell(
        &scene,
        "cd src && sha256sum -b [0-2]/* > ../binary && sha256sum --tag [3-4]/* > ../tagged && \
         sha256sum a-b a/b ./- *name* bytes* cr* > ../rest && cd .. && \
         { printf '\\357\\273\\277'; sed 's/$/\\r/' binary; } > crlf && iconv -f UTF-8 -t UTF-16 binary > utf16 && \
         printf '# note\\n\\n' >> rest && head -c -1 tagged > cut",
    );
    merge(&scene, &["binary", "crlf", "utf16", "tagged", "cut", "rest", "-o", "whole"])
        .assert_code(0);
    merge(&scene, &["A", "B", "-o", "other"]).assert_code(0);
    shell(&scene, "cmp whole other && cd src && sha256sum -c --strict --quiet ../whole");
}

#[test]
fn two_digests_for_one_name_are_named_and_there_is_no_list() {
    let scene = scene();
    halves(&scene);
    shell(&scene, "sed 's/^..../dead/; 10q' A > C; sed -i 's|[.]/||' C");
    let run = merge(&scene, &["A", "B", "C", "-o", "whole"]);
    run.assert_code(4).assert_says("10 names have two digests").assert_says("of C");
    let named =
        run.err().lines().filter(|line| line.contains("is listed with two digests")).count();
    assert_eq!(named, 10, "{}", run.err());
    no_list(&scene);
}

#[track_caller]
fn no_list(scene: &Scene) {
    assert_eq!(shell(scene, "ls -A | grep -v -x -e src -e all -e '[A-Z]*' || true"), "");
}

#[test]
fn what_cannot_be_read_is_named_and_there_is_no_list() {
    let scene = scene();
    halves(&scene);
    let digest = "ab".repeat(32);
    for (bad, says) in [
        ("?\n".to_owned(), "line 31: '?' at column 1"),
        (format!("{digest}  ../out\n"), "leads out of the tree"),
        (format!("{digest}  /etc/x\n"), "absolute path"),
        (format!("{digest}  a\0b\n"), "NUL"),
    ] {
        let text = [fs::read(scene.path("A")).unwrap(), bad.into_bytes()].concat();
        fs::write(scene.path("BAD"), text).unwrap();
        let run = merge(&scene, &["BAD", "B", "-o", "whole"]);
        run.assert_code(5).assert_says(says).assert_says("there is no new manifest");
        no_list(&scene);
    }
    // A torn line of one of ours says nothing; of any other program it is as good as any.
    let name = "DIRCOPY/dircopy-20260101T000000Z.sha256sum";
    shell(&scene, &format!("mkdir DIRCOPY; head -c -1 A > {name}; head -c -1 A > CUT"));
    merge(&scene, &[name, "-o", "whole"]).assert_code(5).assert_says("it is cut off");
    merge(&scene, &["CUT", "-o", "WHOLE"]).assert_code(0);
    shell(&scene, ": > EMPTY");
    merge(&scene, &["EMPTY", "-o", "whole"]).assert_code(5).assert_says("list nothing");
    no_list(&scene);
}

#[test]
fn nothing_is_replaced_and_algorithms_are_not_mixed() {
    let scene = scene();
    halves(&scene);
    shell(&scene, "cp A OLD; ln -s nowhere LINK");
    for there in ["OLD", "A", "LINK", "src"] {
        merge(&scene, &["A", "B", "-o", there]).assert_code(2).assert_says("never replaced");
    }
    shell(
        &scene,
        "cmp A OLD; test ! -e nowhere; cd src && sha512sum a-b > ../S && md5sum a-b > ../M",
    );
    let mixed = merge(&scene, &["A", "S", "-o", "whole"]);
    mixed.assert_code(2).assert_says("SHA-512").assert_says("one algorithm at a time");
    merge(&scene, &["A", "GONE", "-o", "whole"]).assert_code(2).assert_says("GONE");
    merge(&scene, &["A", "src", "-o", "whole"]).assert_code(2);
    no_list(&scene);
    for (list, program) in [("S", "sha512sum"), ("M", "md5sum")] {
        merge(&scene, &[list, "-o", "X"]).assert_code(0);
        shell(&scene, &format!("cd src && {program} -c --strict --quiet ../X && rm ../X"));
    }
}

/// It is as closed as the most closed of what it lists.
#[test]
fn the_merged_list_is_as_closed_as_its_inputs() {
    let scene = scene();
    halves(&scene);
    shell(&scene, "umask 022; chmod 644 A; chmod 600 B");
    merge(&scene, &["A", "-o", "OPEN"]).assert_code(0);
    merge(&scene, &["A", "B", "-o", "CLOSED"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a CLOSED"), "600\n");
    if have(&[Need::Attr]) {
        // The bits of the group are the list's mask.
        let close = "chmod 640 A; setfacl -m u:1003:r,g::---,m::r A; stat -c %a A | grep -q 640";
        shell(&scene, close);
        merge(&scene, &["A", "-o", "LISTED"]).assert_code(0);
        assert_eq!(shell(&scene, "stat -c %a LISTED"), "600\n");
    }
}

/// More lines than fit into memory at once, in no order.
#[test]
fn long_lists_are_merged_in_bounded_memory() {
    let scene = Scene::new();
    let lines = if long() { 200_000 } else { 50_000 };
    let script = format!(
        "seq {lines} | awk '{{ printf \"%064d  d%d/f%d\\n\", $1, $1 % 97, $1 }}' > A; tac A > B"
    );
    shell(&scene, &script);
    let run = scene.bare(["manifest", "merge", "A", "B", "-o", "whole"]).run();
    run.assert_code(0)
        .assert_prints(&[&format!("merged {lines} names, {lines} lines more than once")]);
    shell(&scene, "sort A > a; sort whole > w; cmp a w");
}
