//! Lists held against each other without their data: judged by a model, on what rclone prints and S3 documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use sha2::{Digest, Sha256};

use crate::harness::{Need, Random, Run, Scene, have, shell};

/// Each of these is a line on stdout.
#[track_caller]
fn prints(run: &Run, lines: &[&str]) {
    for line in lines {
        run.assert_prints(&[line]);
    }
}

fn diff(scene: &Scene, args: &[&str], code: i32) -> Run {
    let run = scene.bare([&["manifest", "diff"], args].concat()).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}

fn hex(content: &str) -> String {
    Sha256::digest(content).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn base64(content: &str) -> String {
    let python = "import base64,hashlib,sys; print(base64.b64encode(hashlib.sha256(sys.argv[1].encode()).digest()).decode())";
    let ran = std::process::Command::new("python3").args(["-c", python, content]).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

fn tree(scene: &Scene) {
    scene
        .src
        .file("a", "1")
        .file("d/b c", "2")
        .file("d/\u{e4}", "3")
        .file("empty", "")
        .file("e/x", "4");
    scene.copy(&[]).assert_code(0);
}

/// What rclone lists of a tree is equal to the manifest of its copy, and whatever was done to the tree since is named.
#[test]
fn what_rclone_lists_proves_the_copy() {
    if !have(&[Need::Program("rclone")]) {
        return;
    }
    let scene = Scene::new();
    tree(&scene);
    let list = |name: &str| {
        shell(&scene, &format!("rclone lsjson -R --hash src > {name}.json 2>/dev/null"));
        shell(&scene, &format!("rclone hashsum sha256 src > {name}.sums 2>/dev/null"));
        shell(&scene, &format!("rclone hashsum md5 src > {name}.md5 2>/dev/null"));
    };
    list("before");
    shell(&scene, "iconv -f UTF-8 -t UTF-16 before.json > utf16.json");
    for list in ["before.json", "before.sums", "utf16.json"] {
        diff(&scene, &["dst", list], 0).assert_prints(&["equal: 5 files by SHA-256"]);
    }
    // A cloud holds the whole output, with what runs keep for themselves.
    shell(&scene, "rclone lsjson -R --hash dst > dst.json 2>/dev/null");
    diff(&scene, &["dst", "dst.json", "before.json"], 0);
    diff(&scene, &["before.json", "before.md5"], 0).assert_prints(&["equal: 5 files by MD5"]);
    // Both ways round, no digest is by the same algorithm: nothing is said to be the same.
    let run = diff(&scene, &["dst", "before.md5"], 4);
    prints(
        &run,
        &["not comparable with before.md5: d/b c", "5 not comparable; 0 of 5 files the same"],
    );

    shell(&scene, "printf 5 > src/a; mv 'src/d/b c' src/e/y; rm src/empty; printf 6 > src/new");
    list("after");
    for list in ["after.json", "after.sums"] {
        let run = diff(&scene, &["dst", list], 4);
        prints(
            &run,
            &[
                &format!("changed in {list}: a"),
                &format!("renamed in {list}: d/b c -> e/y"),
                &format!("missing from {list}: empty"),
                &format!("only in {list}: new"),
                "different: 1 missing, 1 extra, 1 changed, 1 renamed; 2 of 5 files the same by SHA-256",
            ],
        );
    }
    // The same list proves the tree by reading it.
    scene.bare(["verify", "-m", "after.json", "--root", "src", "--complete"]).run().assert_code(0);
    scene.bare(["verify", "-m", "before.json", "--root", "src"]).run().assert_code(4);
}

/// The shapes that S3 documents. Only a checksum of the full object counts.
#[test]
fn what_s3_answers_is_read_and_checksums_of_parts_are_not_taken_for_digests() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    tree(&scene);
    let full = |key: &str, content: &str| {
        let sum = base64(content);
        format!(
            "{{\"Key\": \"{key}\", \"ETag\": \"\\\"0cc1\\\"\", \"Checksum\": {{\"ChecksumSHA256\": \"{sum}\", \
             \"ChecksumType\": \"FULL_OBJECT\"}}, \"ObjectSize\": 1}}"
        )
    };
    let names = [("a", "1"), ("d/b c", "2"), ("d/\u{e4}", "3"), ("empty", ""), ("e/x", "4")];
    let all: Vec<String> =
        names.iter().map(|(name, it)| full(&format!("p/q/{name}"), it)).collect();
    let folder = "{\"Key\": \"p/q/d/\", \"Size\": 0, \"ETag\": \"x\"}";
    // One behind the other, as a loop of `aws s3api get-object-attributes` and `jq` leaves them; and a page of a list.
    fs::write(scene.path("lines.json"), all.join("")).unwrap();
    let page =
        format!("{{\"Contents\": [\n{}, {folder}], \"RequestCharged\": null}}", all.join(","));
    fs::write(scene.path("page.json"), page).unwrap();
    // What `head-object` prints has them beside the rest.
    let flat =
        all[0].replace("\"Checksum\": {", "").replace("}, \"ObjectSize\"", ", \"ObjectSize\"");
    fs::write(scene.path("flat.json"), [&[flat], &all[1..]].concat().join("")).unwrap();
    for list in ["lines.json", "page.json", "flat.json"] {
        diff(&scene, &["dst", list, "--strip", "p/q/"], 0)
            .assert_prints(&["equal: 5 files by SHA-256"]);
    }
    let parts = [
        // A checksum of checksums, one that does not say what it is of, and one with the number of parts.
        all[0].replace("FULL_OBJECT", "COMPOSITE"),
        all[1].replace(", \"ChecksumType\": \"FULL_OBJECT\"", ""),
        all[2].replace("=\"", "=-3\"").replace("FULL_OBJECT", "COMPOSITE"),
    ];
    let parts = [&parts[..], &all[3..]].concat().join("");
    fs::write(scene.path("parts.json"), parts).unwrap();
    let run = diff(&scene, &["dst", "parts.json", "--strip", "p/q/"], 4);
    prints(
        &run,
        &[
            "not comparable with parts.json: a",
            "not comparable with parts.json: d/b c",
            "not comparable with parts.json: d/\u{e4}",
            "2 of 5 files the same",
        ],
    );
    fs::write(scene.path("wrong.json"), all.join("").replace("=\"", "=-3\"")).unwrap();
    let run = diff(&scene, &["dst", "wrong.json", "--strip", "p/q/"], 5);
    run.assert_says("a digest is not as long as those of its algorithm");
}

/// A completion report of a *Compute checksum* job: keys as in URLs, messages in JSON.
#[test]
fn a_report_of_a_checksum_job_is_read() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    tree(&scene);
    let row = |key: &str, content: &str, kind: &str| {
        let sum = base64(content);
        format!(
            "bucket,{key},,succeeded,200,,\"{{\"\"checksum_base64\"\":\"\"{sum}\"\",\"\"etag\"\":\"\"3c3c\"\",\
             \"\"checksumAlgorithm\"\":\"\"SHA256\"\",\"\"checksumType\"\":\"\"{kind}\"\"}}\"\n"
        )
    };
    let keys = [("a", "1"), ("d/b+c", "2"), ("d/%C3%A4", "3"), ("empty", ""), ("e/x", "4")];
    let rows: String = keys.iter().map(|(key, content)| row(key, content, "FULL_OBJECT")).collect();
    fs::write(scene.path("report.csv"), &rows).unwrap();
    let head = "Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage\n";
    fs::write(scene.path("head.csv"), format!("{head}{rows}bucket,d/,,succeeded,200,,{{}}"))
        .unwrap();
    fs::write(scene.path("marked.csv"), format!("\u{feff}{rows}")).unwrap();
    diff(&scene, &["dst", "report.csv", "head.csv", "marked.csv"], 0)
        .assert_prints(&["equal: 5 files by SHA-256"]);
    let parts = row("a", "1", "COMPOSITE");
    let failed = "bucket,d/b+c,,failed,403,AccessDenied,No\n";
    let rest: String = keys[2..].iter().map(|(key, it)| row(key, it, "FULL_OBJECT")).collect();
    fs::write(scene.path("parts.csv"), format!("{parts}{failed}{rest}")).unwrap();
    let run = diff(&scene, &["dst", "parts.csv"], 4);
    prints(&run, &["not comparable with parts.csv: a", "not comparable with parts.csv: d/b c"]);
    for broken in [
        "bucket,a\n",
        "bucket,%zz,,succeeded,200,,{}\n",
        "bucket,b,,succeeded,200,,nothing\n",
        "bucket,b,,succeeded,200,,\"{\"\"etag\"\":1,\"\"etag\"\":2}\"\n",
    ] {
        fs::write(scene.path("broken.csv"), format!("{rows}{broken}")).unwrap();
        diff(&scene, &["dst", "broken.csv"], 5).assert_says("line 6: ");
    }
}

/// Bags and histories are lists too, and a bag's payload is what its source was.
#[test]
fn directories_are_compared_by_their_lists() {
    let scene = Scene::new();
    tree(&scene);
    for (to, args) in
        [("bag", &["--bag"][..]), ("film", &["--format", "mhl", "--hash", "sha256,md5"])]
    {
        scene.command_to(scene.src.root(), scene.path(to), args).run().assert_code(0);
    }
    diff(&scene, &["dst", "bag"], 0).assert_prints(&["equal: 5 files by SHA-256"]);
    diff(&scene, &["bag", "dst", "bag"], 0);
    diff(&scene, &["film/ascmhl/ascmhl_chain.xml", "film"], 4);
    shell(
        &scene,
        "rm film/dircopy-*; cd src && md5sum a d/* e*/* empty > ../before; printf '%s' another > a; \
                   md5sum a d/* e*/* empty > ../now",
    );
    diff(&scene, &["film", "before"], 0).assert_prints(&["equal: 5 files by MD5"]);
    // What a newer generation says of a file counts alone: that it failed.
    let args = ["--format", "mhl", "--hash", "sha256,md5", "--overwrite-policy", "always"];
    scene.command_to(scene.src.root(), scene.path("film"), args).run().assert_code(4);
    shell(&scene, "rm film/dircopy-*");
    for list in ["now", "before"] {
        let run = diff(&scene, &["film", list], 4);
        prints(&run, &[&format!("not comparable with {list}: a"), "4 of 5 files the same by MD5"]);
    }
}

/// Rows of hashdeep and entries of mtree have several digests: that which the other list has counts.
#[test]
fn each_digest_of_a_row_may_be_the_common_one() {
    let scene = Scene::new();
    tree(&scene);
    let digests = "$(wc -c <$f),$(md5sum $f | head -c 32),$(sha256sum $f | head -c 64)";
    let make = format!(
        "cd src; (echo '%%%% HASHDEEP-1.0'; echo '%%%% size,md5,sha256,filename'; \
         for f in a empty; do echo {digests},./$f; done) >../rows; \
         (echo '#mtree'; for f in a empty; do IFS=, read size md5 sha256 <<<{digests}; \
         echo ./$f type=file md5digest=$md5 sha256digest=$sha256; done) >../entries; \
         for program in md5sum sha256sum; do $program a empty >../$program; done; \
         sed 's/^..../0000/' ../md5sum >../wrong"
    );
    shell(&scene, &make);
    for list in ["rows", "entries"] {
        diff(&scene, &[list, "md5sum"], 0).assert_prints(&["equal: 2 files by MD5"]);
        diff(&scene, &[list, "sha256sum"], 0).assert_prints(&["equal: 2 files by SHA-256"]);
        prints(&diff(&scene, &[list, "wrong"], 4), &["changed in wrong: a"]);
    }
    if have(&[Need::Program("hashdeep")]) {
        shell(&scene, "cd src; hashdeep -l a empty >../theirs");
        diff(&scene, &["theirs", "rows", "md5sum", "sha256sum"], 0);
    }
}

#[test]
fn what_cannot_be_read_is_no_difference_and_no_sameness() {
    let scene = Scene::new();
    tree(&scene);
    let missing = diff(&scene, &["dst", "nothing"], 5);
    missing.assert_says("cannot open the manifest nothing");
    missing.assert_prints(&["nothing was compared"]);
    fs::write(scene.path("empty"), "").unwrap();
    diff(&scene, &["dst", "empty"], 5).assert_says("it lists no file");
    let sum = hex("1");
    fs::write(scene.path("twice"), format!("{sum}  a\n{}  a\n", hex("2"))).unwrap();
    diff(&scene, &["twice", "twice"], 5).assert_says("a is listed with two digests");
    let object = format!("{{\"Path\":\"a\",\"Hashes\":{{\"sha256\":\"{sum}\"}}}}");
    let deep = "{\"x\":".repeat(100);
    let cases = [
        (format!("[{object},{{\"Path\":\"b\""), "ends in the middle"),
        (format!("[{object}}}"), "it is no JSON"),
        (format!("[{object}] x"), "it is no JSON"),
        (format!("[{object}],"), "it is no JSON"),
        (format!("[{object},]"), "it is no JSON"),
        (format!("[{object} {object}]"), "it is no JSON"),
        (format!("[{object}, b: cannot be listed]"), "it is no JSON"),
        (format!("[{object},5,null]"), "it is no JSON"),
        (format!("[{object},[\"b\"]]"), "it is no JSON"),
        (format!("{{\"Contents\":[{object}], b}}"), "it is no JSON"),
        (format!("{{\"Contents\":[{object}]"), "ends in the middle"),
        (
            format!("[{object},{{\"Error\":\"b: permission denied\"}}]"),
            "neither \"Path\" nor \"Key\"",
        ),
        (format!("[{object},{deep}"), "nested too deeply"),
        (format!("[{object},{{\"Path\":\"{}\"}}]", "x".repeat(300_000)), "too long"),
        (object.replace("\"a\"", "\"../a\""), "leads out of the tree"),
        (object.replace("\"a\"", "\"/a\""), "absolute path"),
        (object.replace("\"a\"", "a"), "it is no JSON"),
        (object.replace("sum", "x").replace(&sum, "12"), "a digest is not as long"),
        (object.replace("\"sha256\"", "\"sha256\":\"12\",\"sha256\""), "has a key twice"),
        (object.replace("\"Path\"", "\"Path\":\"b:\\\":\",\"Path\""), "has a key twice"),
        ("[]".into(), "it lists no file"),
        ("{\"a\": 1}".into(), "neither \"Path\" nor \"Key\""),
        ("[{\"ETag\": \"1\"}]".into(), "neither \"Path\" nor \"Key\""),
    ];
    for (json, why) in cases {
        fs::write(scene.path("list.json"), &json).unwrap();
        diff(&scene, &["list.json", "dst"], 5).assert_says(why);
        let run = scene.bare(["verify", "-m", "list.json", "--root", "src"]).run();
        run.assert_code_in(&[1, 4, 5]);
    }
    // A colon in a name is none before a value.
    let colons = object.replace("\"a\"", "\"a:\\\":\"");
    fs::write(scene.path("list.json"), format!("[{object},{colons}]")).unwrap();
    diff(&scene, &["list.json", "list.json"], 0).assert_prints(&["equal: 2 files "]);
    // A page has names that others begin with apart, and empty lists.
    let page = "\"CommonPrefixes\": [{\"Prefix\": \"d/\"}], \"None\": [ ], \"Tags\": [\"[{\"]";
    fs::write(scene.path("page.json"), format!("{{{page}, \"Contents\": [{object}], {page}}}"))
        .unwrap();
    fs::write(scene.path("list.json"), format!("[{object}]")).unwrap();
    diff(&scene, &["list.json", "page.json"], 0).assert_prints(&["equal: 1 file "]);
    // A name twice is once, if it is the same.
    fs::write(scene.path("list.json"), format!("[{object},{object}]")).unwrap();
    diff(&scene, &["list.json", "list.json"], 0).assert_prints(&["equal: 1 file "]);
}

/// Windows PowerShell puts one before all that it writes (`Out-File -Encoding utf8`).
#[test]
fn a_byte_order_mark_before_json_is_none_of_it() {
    let scene = Scene::new();
    let object = format!("{{\"Path\":\"a\",\"Hashes\":{{\"sha256\":\"{}\"}}}}", hex("1"));
    for (at, list) in [object.clone(), format!("[{object}]")].iter().enumerate() {
        fs::write(scene.path("plain.json"), list).unwrap();
        fs::write(scene.path("marked.json"), format!("\u{feff}{list}")).unwrap();
        diff(&scene, &["plain.json", "marked.json"], 0).assert_prints(&["equal: 1 file "]);
        // It is at the start, and once.
        let not_json = [format!("\u{feff}\u{feff}{list}"), format!("[{list},\u{feff}{list}]")];
        fs::write(scene.path("not.json"), &not_json[at]).unwrap();
        diff(&scene, &["plain.json", "not.json"], 5);
    }
}

/// A list that is not of what is there proves nothing of it.
#[test]
fn a_list_that_is_out_of_date_is_told() {
    let scene = Scene::new();
    tree(&scene);
    shell(&scene, "cp dst/dircopy-*.sha256sum sums");
    diff(&scene, &["dst", "sums"], 0);
    scene.src.file("a", "newer");
    scene.copy(&["--overwrite-policy", "always", "--hash", "none"]).assert_code(0);
    diff(&scene, &["dst", "sums"], 1).assert_says("it may not be of what is there now");
    diff(&scene, &["sums", "sums"], 0);
}

/// Differences as a model counts them: a file in one list alone has another name in the other if its content is there
/// under a name that the first has not.
#[test]
fn a_model_agrees_on_random_lists() {
    let scene = Scene::new();
    let mut random = Random::new(37);
    for round in 0..60 {
        let mut lists: Vec<BTreeMap<String, usize>> = Vec::new();
        for number in 0..3 {
            let mut text = String::new();
            let mut list = BTreeMap::new();
            for name in 0..12 {
                if random.below(4) > 0 {
                    let content = if random.below(3) > 0 { name } else { random.below(4) };
                    let name = format!("d{}/{name}", name % 3);
                    writeln!(text, "{}  {name}", hex(&content.to_string())).unwrap();
                    list.insert(name, content);
                }
            }
            list.insert("always".into(), 99);
            writeln!(text, "{}  always", hex("99")).unwrap();
            fs::write(scene.path(&format!("list{number}")), text).unwrap();
            lists.push(list);
        }
        let run = scene.bare(["manifest", "diff", "list0", "list1", "list2"]).run();
        let out = run.out();
        for other in [1, 2] {
            let (first, second) = (&lists[0], &lists[other]);
            let is_gone = |name: &String, from: &BTreeMap<String, usize>| !from.contains_key(name);
            let gone: Vec<_> = first.iter().filter(|(name, _)| is_gone(name, second)).collect();
            let new: Vec<_> = second.iter().filter(|(name, _)| is_gone(name, first)).collect();
            let mut contents: Vec<usize> = gone.iter().map(|(_, content)| **content).collect();
            contents.sort_unstable();
            contents.dedup();
            let of = |list: &[(&String, &usize)], it| {
                list.iter().filter(|(_, content)| **content == it).count()
            };
            let renamed: usize = contents.iter().map(|it| of(&gone, *it).min(of(&new, *it))).sum();
            let changed = first
                .iter()
                .filter(|(name, it)| second.get(*name).is_some_and(|other| other != *it))
                .count();
            let counted = |what: &str| {
                out.lines()
                    .filter(|line| line.starts_with(&format!("{what} list{other}: ")))
                    .count()
            };
            assert_eq!(counted("renamed in"), renamed, "round {round}: {out}");
            assert_eq!(counted("changed in"), changed, "round {round}: {out}");
            assert_eq!(counted("missing from"), gone.len() - renamed, "round {round}: {out}");
            assert_eq!(counted("only in"), new.len() - renamed, "round {round}: {out}");
        }
        run.assert_code(if lists[0] == lists[1] && lists[0] == lists[2] { 0 } else { 4 });
    }
}

/// Generations are held by the newest one, which is said.
#[test]
fn generations_are_compared_by_the_newest() {
    let scene = Scene::new();
    tree(&scene);
    scene.src.file("new", "5");
    for to in ["g", "plain"] {
        let args =
            if to == "g" { &["-q", "src", to, "--generations"][..] } else { &["-q", "src", to] };
        scene.bare(args).run().assert_code(0);
    }
    let newest = shell(&scene, "readlink g/latest").trim().to_owned();
    let run = diff(&scene, &["g", "plain"], 0);
    prints(&run, &[&format!("g: by its newest generation, g/{newest}")]);
}
