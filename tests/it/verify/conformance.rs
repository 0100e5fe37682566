//! The cases of the BagIt conformance suite (Library of Congress), each made here by its name: a valid bag ends with 0,
//! an invalid one not, and of one that is odd something is said on standard error.
//!
//! One of them is another here: `special-system-files` lists a `.DS_Store` that is not there, and a file that is
//! missing is missing.

use crate::harness::{Scene, shell};

/// How a bag of the suite must be judged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judged {
    Valid,
    Invalid,
    Odd,
}
use Judged::{Invalid, Odd, Valid};

/// A valid bag at `dst`, of the older form; `tags` lists its tag files once more after a case changed them.
const BAG: &str = r#"
mkdir -p dst/data/dir1/dir2; cd dst
printf 'one\n' >data/test1.txt; printf 'two\n' >data/dir1/test2.txt; printf 'three\n' >data/dir1/dir2/test3.txt
printf 'BagIt-Version: %s\nTag-File-Character-Encoding: UTF-8\n' "$VERSION" >bagit.txt
printf 'Payload-Oxum: 14.3\nContact-Name: Ann\n' >bag-info.txt
find data -type f | sort | xargs md5sum >manifest-md5.txt
tags() { rm -f tagmanifest-md5.txt; find . -maxdepth 1 -type f -printf '%P\n' | sort | xargs md5sum >../tags; mv ../tags tagmanifest-md5.txt; }
tags
list() { find data -type f -print0 | sort -z | xargs -0 "$1"; }
"#;

/// The version of BagIt, the case, how it is judged, and what makes it of the valid bag.
#[rustfmt::skip]
const CASES: &[(&str, &str, Judged, &str)] = &[
    ("0.93", "basic-bag", Valid, "mv bag-info.txt package-info.txt; tags"),
    ("0.96", "bag-in-a-bag", Valid, "cp -r . ../inner; rm -r data; mkdir data; mv ../inner data/bag; rm bag-info.txt; list md5sum >manifest-md5.txt; tags"),
    ("0.96", "bag-with-encoded-names", Valid, "touch 'data/%7Etest1.txt' 'data/%test2.txt' data/dir1/~test3.txt; rm bag-info.txt; list md5sum >manifest-md5.txt; tags"),
    ("0.96", "bag-with-space", Valid, "printf x >'data/test 1.txt'; rm bag-info.txt; list md5sum >manifest-md5.txt; tags"),
    ("0.96", "bag-with-leading-dot-slash-in-manifest", Odd, "sed -i 's,data/,./data/,' manifest-md5.txt; tags"),
    ("0.96", "holey-bag", Valid, "echo 'http://localhost/%20 4 data/test1.txt' >fetch.txt; tags"),
    ("0.97", "minimal-bag", Valid, "rm bag-info.txt tagmanifest-md5.txt"),
    ("0.97", "duplicate-metadata-entries", Valid, "printf 'contact-name: B\nCASE: 1\ncase: 2' >>bag-info.txt; tags"),
    ("0.97", "uncommon-metadata-separators", Valid, "printf 'Tag:   2\nTag : 3\nTag    :   5\n' >>bag-info.txt; rm *md5*; list sha224sum >manifest-sha224.txt; sha224sum bag* man* >.t; mv .t tagmanifest-sha224.txt"),
    ("0.97", "bag-with-sha384", Valid, "list sha384sum >manifest-sha384.txt; tags"),
    ("0.97", "UTF-16-encoded-tag-files", Valid, "sed -i s/UTF-8/UTF-16/ bagit.txt; touch data/é; printf 'Contact-Name: é\n' | iconv -t UTF-16 >bag-info.txt; list md5sum | iconv -f UTF-8 -t UTF-16 >manifest-md5.txt; rm tagm*"),
    ("0.97", "ISO-8859-1-encoded-tag-files", Valid, "sed -i s/UTF-8/ISO-8859-1/ bagit.txt; touch data/é; printf 'Contact-Name: é\n' | iconv -f UTF-8 -t ISO-8859-1 >bag-info.txt; list md5sum | iconv -f UTF-8 -t ISO-8859-1 >manifest-md5.txt; tags"),
    ("0.97", "baginfo-missing-encoding", Invalid, "sed -i 2d bagit.txt; tags"),
    ("0.97", "bom-in-bagit.txt", Invalid, "sed -i '1s/^/\\xef\\xbb\\xbf/' bagit.txt; tags"),
    ("0.97", "corrupt-data-file", Invalid, "printf 'oni\n' >data/test1.txt"),
    ("0.97", "corrupt-tag-file", Invalid, "echo 'Contact-Phone: 1' >>bag-info.txt"),
    ("0.97", "extra-file-in-bag", Invalid, "touch data/extra"),
    ("0.97", "invalid-version-number", Invalid, "sed -i s/0.97/.97/ bagit.txt; tags"),
    ("0.97", "missing-baginfo", Invalid, "rm bag-info.txt"),
    ("0.97", "missing-bagit.txt", Invalid, "rm bagit.txt"),
    ("0.97", "out-of-scope-file-paths-using-dot-notation", Invalid, "sed -i '1s,data/,data/../../,' manifest-md5.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-dot-notation-for-fetch", Invalid, "echo 'http://localhost/ - ../test.txt' >fetch.txt; tags"),
    ("0.97", "same-filename-listed-twice-with-different-hashes", Invalid, "sed 's/^[0-9a-f]*/d41d8cd98f00b204e9800998ecf8427e/;q' manifest-md5.txt >>manifest-md5.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-absolute-path", Invalid, "sed -i '1s,data/,/tmp/,' manifest-md5.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-absolute-path-for-fetch", Invalid, "echo 'http://localhost/ - /tmp/x' >fetch.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-shortcut", Invalid, "sed -i '1s,data/,~/,' manifest-md5.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-shortcut-for-fetch", Invalid, "echo 'http://localhost/ - ~/x' >fetch.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-shortcut-username", Invalid, "sed -i '1s,data/,~root/,' manifest-md5.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-shortcut-on-windows", Invalid, "sed -i '1s,data/,%HomeDrive%\\\\,' manifest-md5.txt; tags"),
    ("0.97", "out-of-scope-file-paths-using-unc", Invalid, "sed -i '1s,data/,\\\\\\\\?\\\\C:\\\\,' manifest-md5.txt; tags"),
    ("0.97", "duplicate-file-with-different-case", Odd, "sed -n 's,test1,TEST1,p' manifest-md5.txt >>manifest-md5.txt; tags"),
    ("0.97", "same-filename-listed-twice-with-different-normalization", Odd, "rm bag-info.txt; printf x >data/Nu$'\\u0301'n$'\\u0303'ez; list md5sum >manifest-md5.txt; mv data/N* data/N$'\\u00fa\\u00f1'ez; find data/N* | xargs md5sum >>manifest-md5.txt; tags"),
    ("0.97", "made-with-md5sum-tools", Odd, "sed -i 's,  , *,' manifest-md5.txt; tags"),
    ("0.97", "relative-path", Odd, "sed -i '1s,data/,./data/,' manifest-md5.txt; tags"),
    ("0.97", "same-filename-listed-twice-with-the-same-hash", Odd, "sed -n 1p manifest-md5.txt >>manifest-md5.txt; tags"),
    ("0.97", "special-system-files", Invalid, "echo 'd41d8cd98f00b204e9800998ecf8427e  data/.DS_Store' >>manifest-md5.txt; tags"),
    ("1.0", "basicBag", Valid, ":"),
    ("1.0", "bagit-with-invalid-whitespace", Invalid, "sed -i 's/: /:  /' bagit.txt; tags"),
    ("1.0", "notAllManifestsListAllFiles", Invalid, "list sha256sum | sed 1d >manifest-sha256.txt; tags"),
    ("1.0", "same-filename-listed-twice-with-different-hashes", Invalid, "sed 's/^[0-9a-f]*/d41d8cd98f00b204e9800998ecf8427e/;q' manifest-md5.txt >>manifest-md5.txt; tags"),
    ("1.0", "same-filename-listed-twice-with-the-same-hash", Invalid, "sed -n 1p manifest-md5.txt >>manifest-md5.txt; tags"),
];

#[test]
fn bags_are_judged_as_the_conformance_suite_has_it() {
    let mut wrong = Vec::new();
    for (version, name, expected, change) in CASES {
        let scene = Scene::new();
        shell(
            &scene,
            &format!("set -e; export LC_ALL=C.UTF-8; VERSION={version}; {BAG}\n{change}"),
        );
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_no_crash();
        let judged = match (run.code, run.stderr.is_empty()) {
            (Some(0), true) => Valid,
            (Some(0), false) => Odd,
            _ => Invalid,
        };
        if judged != *expected {
            wrong.push(format!("{version} {name}: {judged:?}\n{}{}", run.out(), run.err()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_of_another_form_is_taken_only_where_one_file_has_it() {
    let scene = Scene::new();
    shell(&scene, &format!("VERSION=1.0; {BAG}\nsed -i 's,test1,TEST1,' manifest-md5.txt; tags"));
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0).assert_says("data/TEST1.txt is taken for data/test1.txt");
    // Another content is none of it.
    scene.output().file("data/test1.txt", "oni\n");
    scene.bare(["verify", "dst"]).run().assert_code(4).assert_says("differs");
    shell(&scene, "printf 'one\\n' >dst/data/test1.txt; printf x >dst/data/Test1.txt");
    scene.bare(["verify", "dst"]).run().assert_code(4).assert_says("missing: dst/data/TEST1.txt");
}
