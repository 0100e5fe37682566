//! Shards that are killed, run twice at once, and lose their records: in the end the output is what a single run makes.

use std::fs;
use std::time::Duration;

use super::Cluster;
use crate::harness::{Random, content, long};

#[test]
fn killed_shards_come_to_the_same_end() {
    let rounds = if long() { 50 } else { 3 };
    for round in 0..rounds {
        let cluster = Cluster::new(5);
        for large in 0..3 {
            cluster.scene.src.file(format!("d{large}/large{large}"), content(900_000 + large));
        }
        (0..5).for_each(|dir| {
            cluster.scene.src.mtime(format!("d{dir}"), 1_000_000_000 + dir as u64, 5);
        });
        let shards = cluster.plan();
        let mut random = Random::new(round);
        for _ in 0..4 {
            let some: Vec<_> = (0..4)
                .map(|_| {
                    let number = random.below(shards as usize).to_string();
                    match random.below(3) {
                        0 => cluster.command("shard", &["--claim", "--dead-after", "1s"]).spawn(),
                        _ => cluster
                            .command("shard", &["--index", &number, "--dead-after", "1s"])
                            .spawn(),
                    }
                })
                .collect();
            std::thread::sleep(Duration::from_millis(random.below(60) as u64));
            some.iter().for_each(|run| run.disturb(&mut random));
            some.into_iter().for_each(|run| drop(run.wait()));
            let record = cluster
                .plan_dir()
                .join(format!("done/{:04}.sha256sum", random.below(shards as usize)));
            match (random.below(3), fs::read(&record)) {
                (0, Ok(_)) => fs::remove_file(&record).unwrap(),
                (1, Ok(bytes)) => fs::write(&record, &bytes[..random.below(bytes.len())]).unwrap(),
                _ => {}
            }
        }
        let early = cluster.finish();
        early.assert_code_in(&[0, 1]);
        // What the end of the plan names is run again; also what an attempt was at work on that died after another had
        // recorded it, when that is known.
        let mut ended = early.code == Some(0);
        for _ in 0..20 {
            if ended {
                break;
            }
            for shard in 0..shards {
                cluster.shard(shard).assert_code(0);
            }
            ended = cluster.finish().assert_code_in(&[0, 1]).code == Some(0);
            std::thread::sleep(Duration::from_millis(if ended { 0 } else { 300 }));
        }
        cluster.finish().assert_code(0);
        cluster.is_as_a_single_run();
    }
}
