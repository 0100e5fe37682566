//! The examples in `contrib/cluster`, run by the engines that are here.

use std::path::Path;

use super::Cluster;
use crate::harness::{Need, have, shell};

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/cluster").join(name);
    path.to_str().unwrap().to_owned()
}

fn with_program(line: &str) -> String {
    format!("export DIRCOPY={}; {line}", env!("CARGO_BIN_EXE_dircopy"))
}

#[test]
fn gnu_parallel_runs_the_shards() {
    if !have(&[Need::Program("parallel")]) {
        return;
    }
    let cluster = Cluster::new(4);
    cluster.plan();
    // Its files are its own.
    let line = format!("HOME=$PWD {} $PWD/plan :", example("parallel.sh"));
    shell(&cluster.scene, &with_program(&line));
    cluster.is_as_a_single_run();
}

#[test]
fn mpirun_shares_the_shards_among_ranks() {
    if !have(&[Need::Program("mpirun")]) {
        return;
    }
    let cluster = Cluster::new(4);
    cluster.plan();
    let options = "--allow-run-as-root --oversubscribe -np 3";
    let line = format!("HOME=$PWD TMPDIR=$PWD {} $PWD/plan {options}", example("mpirun.sh"));
    shell(&cluster.scene, &with_program(&line));
    cluster.is_as_a_single_run();
}
