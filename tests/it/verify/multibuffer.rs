//! Files that are hashed several at a time: what is found must not depend on it.

use crate::harness::{Scene, content, shell};

/// One byte differs in a small file and one in a large one, and one file is cut off.
#[test]
fn each_bad_file_is_found_among_many_and_no_good_one_is_blamed() {
    let scene = Scene::new();
    for i in 0..70 {
        scene.src.file(format!("small/{i:02}"), content(i * 977));
        if i < 20 {
            scene.src.file(format!("large/{i:02}"), content((1 << 20) + i * 7_001));
        }
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    shell(
        &scene,
        "printf X | dd status=none conv=notrunc bs=1 seek=9000 of=dst/small/41
         printf X | dd status=none conv=notrunc bs=1 seek=1100000 of=dst/large/07
         truncate -s 100 dst/small/66; rm dst/small/13",
    );
    for jobs in ["1", "2"] {
        for from in ["cache", "medium"] {
            for simd in ["on", "off"] {
                let args = [
                    "dst",
                    "--from",
                    from,
                    "--workers",
                    jobs,
                    "--list-failed",
                    "bad",
                    "--simd",
                    simd,
                ];
                scene.bare(args).dirverify().run().assert_code(4);
                let bad = shell(&scene, "grep -o '[a-z]*/[0-9][0-9]$' bad | sort | xargs");
                assert_eq!(bad, "large/07 small/13 small/41 small/66\n", "{args:?}");
            }
        }
    }
}
