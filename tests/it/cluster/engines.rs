//! The examples in `contrib/cluster`, run by the engines that are here.

use std::fs;
use std::path::{Path, PathBuf};

use super::Cluster;
use crate::harness::{Need, Scene, have, need, shell};

fn contrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/cluster")
}

fn example(name: &str) -> String {
    contrib().join(name).to_str().unwrap().to_owned()
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

/// A host that is reached by a real `sshd`, as two: by its address and by its name.
const HOSTS: &str = r#"
    ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f key && mkdir -p /run/sshd
    printf '%s\n' "ListenAddress 127.0.0.1" "Port $PORT" "HostKey $PWD/host" "AuthorizedKeysFile $PWD/key.pub" \
        "PidFile $PWD/sshd.pid" "StrictModes no" "UsePAM no" "MaxStartups 100" >sshd_config
    printf '%s\n' "Port $PORT" "IdentityFile $PWD/key" "IdentitiesOnly yes" "UserKnownHostsFile $PWD/known" \
        "StrictHostKeyChecking no" "LogLevel ERROR" "Host one two" "HostName 127.0.0.1" >ssh_config
    /usr/sbin/sshd -f $PWD/sshd_config
"#;

#[test]
fn gnu_parallel_runs_the_shards_on_several_hosts() {
    need!(Root);
    if !have(&["parallel", "ssh", "/usr/sbin/sshd"].map(Need::Program)) {
        return;
    }
    let cluster = Cluster::new(4);
    let shards = cluster.plan();
    // A port that is free now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = HOSTS.replace("$PORT", &port.to_string());
    let copy = format!(
        "HOME=$PWD PARALLEL_SSH=\"ssh -F $PWD/ssh_config\" {} $PWD/plan 2/one,2/two",
        example("parallel.sh")
    );
    let stop = "trap 'kill $(cat sshd.pid)' EXIT";
    shell(&cluster.scene, &with_program(&format!("{start}\n{stop}\n{copy}")));
    let log = fs::read_to_string(cluster.plan_dir().join("parallel.log")).unwrap();
    for host in ["one", "two"] {
        assert!(log.contains(&format!("\t{host}\t")), "nothing ran on {host}:\n{log}");
    }
    assert_eq!(log.lines().count(), shards as usize + 1, "{log}");
    cluster.is_as_a_single_run();
    // A shard whose record was lost is run again, whatever ran before.
    fs::remove_file(cluster.plan_dir().join("FINISHED")).unwrap();
    fs::remove_file(cluster.manifest(&cluster.out())).unwrap();
    fs::remove_file(cluster.plan_dir().join("done/0001.sha256sum")).unwrap();
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

/// The versions of Kubernetes that the Jobs are for, the oldest and the newest that the validator knows.
const VERSIONS: &str = "1.29 1.33 1.37";

#[test]
fn the_jobs_are_what_kubernetes_takes() {
    if !have(&[Need::Program("kubernetes-validate")]) {
        return;
    }
    let scene = Scene::new();
    let line = format!(
        "for version in {VERSIONS}; do kubernetes-validate --strict -k $version {}; done",
        example("*.yaml")
    );
    let passed = shell(&scene, &line);
    assert_eq!(passed.matches(" passed ").count(), 9, "{passed}");
    // It finds what is wrong.
    let wrong = format!(
        "sed 's/backoffLimitPerIndex/backoffLimitEachIndex/' {} > wrong.yaml && \
         ! kubernetes-validate --strict -k 1.33 wrong.yaml",
        example("kubernetes-shards.yaml")
    );
    let said = shell(&scene, &wrong);
    assert!(said.contains("backoffLimitEachIndex"), "{said}");
}

/// Puts `kubectl` before all programs: it runs Jobs as their manifests say, without a cluster.
const KUBECTL: &str = r#"
    mkdir -p cluster/claims/plan cluster/claims/output programs && ln -sf $DIRCOPY cluster/dircopy
    [ -e cluster/claims/source ] || ln -s $PWD/src cluster/claims/source
    chown -hR 1000:1000 src cluster/claims && chmod 711 . cluster
    python=$(dirname $(realpath -s $(command -v kubernetes-validate)))/python
    printf '#!/bin/sh\nexec %s %s "$@"\n' $python $KUBECTL >programs/kubectl && chmod +x programs/kubectl
    export CLUSTER=$PWD/cluster PATH=$PWD/programs:$PATH POLL=0.1
"#;

fn with_kubectl(line: &str) -> String {
    let kubectl = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cluster/kubectl.py");
    with_program(&format!("KUBECTL={kubectl}\n{KUBECTL}\n{line}"))
}

#[test]
fn the_jobs_of_kubernetes_copy_the_whole() {
    need!(Root, Mount, Setpriv);
    if !have(&[Need::Program("kubernetes-validate")]) {
        return;
    }
    let cluster = Cluster::new(2);
    // With small shards, so that there are some.
    let small = format!(
        "cp -r {} examples && sed -i 's/\"--hard-links\"/&, \"--shard-files=9\"/' examples/*-plan.yaml",
        contrib().display()
    );
    let run = shell(&cluster.scene, &with_kubectl(&format!("{small} && examples/kubernetes.sh")));
    assert!(run.contains("finished"), "{run}");
    let pods = shell(&cluster.scene, "cat cluster/dircopy-shards.pods");
    assert!(pods.lines().count() > 2, "{pods}");
    assert!(pods.lines().all(|line| line.ends_with(" 0 Succeed")), "{pods}");
    // The mode and the time of a root that was there are left alone, as by every run.
    shell(
        &cluster.scene,
        "mv cluster/claims/output out && chmod --reference=src out && touch -r src out",
    );
    cluster.is_as_a_single_run();
}

#[test]
fn a_job_of_kubernetes_that_fails_is_told() {
    need!(Root, Mount, Setpriv);
    if !have(&[Need::Program("kubernetes-validate")]) {
        return;
    }
    let cluster = Cluster::new(1);
    // Not to be read by the user of the pods: tried four times, and named by the end of the plan.
    let late = "chown 0:0 src/d0/f3 && chmod 600 src/d0/f3 && ";
    let run = with_kubectl(&format!("{late} ! {}", example("kubernetes.sh")));
    let said = shell(&cluster.scene, &run);
    assert!(said.contains("shard 0 is not done"), "{said}");
    let pods = shell(&cluster.scene, "cat cluster/dircopy-shards.pods");
    assert_eq!(pods, "0 1 Count\n0 1 Count\n0 1 Count\n0 1 Count\n");
    // Once it is mended the Jobs go on.
    let again =
        "chown 1000:1000 src/d0/f3 && rm cluster/dircopy-shards.* cluster/dircopy-finish.* && ";
    shell(&cluster.scene, &with_kubectl(&format!("{again} {}", example("kubernetes.sh"))));
    shell(&cluster.scene, "diff -r --no-dereference -x '*.*' src cluster/claims/output");
    // What cannot be planned ends at once.
    let pods = shell(
        &cluster.scene,
        &with_kubectl(&format!("rm cluster/*.state && ! {}", example("kubernetes.sh"))),
    );
    assert!(pods.contains("it is not empty"), "{pods}");
    assert!(!cluster.scene.path("cluster/dircopy-shards.state").exists());
}
