//! What shards know of large files is beside the manifest at the end, so that checks are as fast as after one run.

use std::fs;

use super::Cluster;
use crate::harness::{Scene, content, need, shell, states_of};

const MIB: usize = 1 << 20;

#[test]
fn the_states_of_large_files_are_beside_the_manifest() {
    need!(Crypto);
    let scene = Scene::new();
    scene.src.file("one/large", content(3 * MIB + 7)).file("two/larger", content(5 * MIB));
    scene.src.file("three/large too", content(2 * MIB)).file("small", "x");
    let cluster = Cluster::of(scene, 2);
    cluster.plan_with(&["--shard-bytes", "4M"]).assert_code(0);
    assert!(cluster.shards() > 1);
    cluster.claim().assert_code(0);
    // One that is torn is as good as none, and costs nothing but time.
    let of_shards = "find plan/done -name '*.states' -size +0 | sort";
    let first = shell(&cluster.scene, of_shards);
    assert!(first.lines().count() > 1, "{first}");
    cluster.finish().assert_code(0);
    let side = cluster.manifest(&cluster.out()).with_extension("states");
    let states = states_of(&side, &cluster.out());
    assert_eq!(states, ["one/large 3", "three/large too 1", "two/larger 4"]);
    let bad = cluster.out().join("two/larger");
    let mut bytes = fs::read(&bad).unwrap();
    bytes[3 * MIB + 5] ^= 1;
    fs::write(&bad, bytes).unwrap();
    let run = cluster.scene.bare(["verify", "out"]).run();
    run.assert_code(4).assert_says("two/larger: 1 MiB of 5: 3-4 MiB");
}

#[test]
fn states_that_are_torn_or_forged_do_no_harm() {
    let scene = Scene::new();
    scene.src.file("one/large", content(3 * MIB + 7)).file("two/larger", content(5 * MIB));
    let cluster = Cluster::of(scene, 1);
    cluster.plan_with(&["--shard-bytes", "4M"]).assert_code(0);
    cluster.claim().assert_code(0);
    let script = "for it in plan/done/*.states; do head -c 200 $it > torn; mv torn $it; done; \
                  first=$(ls plan/done/*.states | head -1); rm $first; mkfifo $first";
    shell(&cluster.scene, script);
    cluster.finish().assert_code(0);
    cluster.scene.bare(["verify", "-q", "out"]).run().assert_code(0);
}
