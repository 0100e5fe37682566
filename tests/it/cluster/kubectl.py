# What a cluster does with a Job, for one that has a machine only: each pod is run in a root of its own, as its manifest
# says (user, capabilities, mounts, environment), and what its exit code leads to is looked up in podFailurePolicy.
#
#   kubectl apply -f FILE|-    kubectl get job/NAME ...    kubectl logs job/NAME
#
# $CLUSTER has the directories `claims/NAME`, and the program as `dircopy`.
import os, pathlib, subprocess, sys, yaml

home = pathlib.Path(os.environ["CLUSTER"])

ROOT = """
mount -t tmpfs -o mode=755 none "$0" && cd "$0" && mkdir opt && touch opt/dircopy && mount --bind {program} opt/dircopy
for dir in usr bin lib lib64 proc dev; do
    if [ -e /$dir ]; then mkdir $dir && mount --rbind /$dir $dir; fi
done
{mounts}
mount -o remount,{mode} "$0"
exec chroot . /usr/bin/env -i PATH=/opt:/usr/bin {environment} setpriv {privileges} "$@"
"""


def pod(spec, environment):
    """Runs the pod of `spec`; its exit code, and what it said."""
    (container,) = spec["containers"]
    pods, own, mounts = spec["securityContext"], container["securityContext"], ""
    claims = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        at, volume = mount["mountPath"].lstrip("/"), claims[mount["name"]]
        if "emptyDir" in volume:
            mounts += f"mkdir {at} && mount -t tmpfs -o mode=1777 none {at}\n"
        else:
            claim = home / "claims" / volume["persistentVolumeClaim"]["claimName"]
            mode = "ro" if mount.get("readOnly") else "rw"
            mounts += f"mkdir {at} && mount --bind {claim} {at} && mount -o remount,bind,{mode} {at}\n"
    assert pods["runAsNonRoot"] and own["capabilities"] == {"drop": ["ALL"]} and not own["allowPrivilegeEscalation"]
    privileges = f"--reuid={pods['runAsUser']} --regid={pods['runAsGroup']} --clear-groups --no-new-privs --bounding-set=-all"
    script = ROOT.format(program=home / "dircopy", mounts=mounts, environment=environment, privileges=privileges,
                         mode="ro" if own["readOnlyRootFilesystem"] else "rw")
    root = home / "root"
    root.mkdir(exist_ok=True)
    command = ["unshare", "--mount", "sh", "-ec", script, str(root), *container["command"]]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ran.returncode, ran.stdout


def action(spec, code):
    """What the policy of a Job says of an exit code."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        codes = rule.get("onExitCodes")
        if codes and codes["operator"] == "In" and code in codes["values"]:
            return rule["action"]
    return "Count"


def run(job):
    """Runs a Job; whether all of its pods came to a good end."""
    spec, name, complete = job["spec"], job["metadata"]["name"], True
    indexed = spec.get("completionMode") == "Indexed"
    with open(home / f"{name}.log", "ab") as log, open(home / f"{name}.pods", "a") as pods:
        for index in range(spec.get("completions", 1)):
            left = spec["backoffLimitPerIndex"] if indexed else spec["backoffLimit"]
            while True:
                code, said = pod(spec["template"]["spec"], f"JOB_COMPLETION_INDEX={index}" if indexed else "")
                log.write(said)
                does = action(spec, code) if code else "Succeed"
                print(index, code, does, file=pods)
                if does == "Count" and left > 0:
                    left -= 1
                elif does != "Ignore":
                    complete = complete and code == 0
                    break
    return complete


verb, *rest = sys.argv[1:]
if verb == "apply":
    text = sys.stdin.read() if rest[1] == "-" else pathlib.Path(rest[1]).read_text()
    job = yaml.safe_load(text)
    state = home / f"{job['metadata']['name']}.state"
    # One that has run is left alone.
    if not state.exists():
        state.write_text("SuccessCriteriaMet Complete" if run(job) else "FailureTarget Failed")
else:
    name = rest[0].removeprefix("job/")
    print((home / f"{name}.{'state' if verb == 'get' else 'log'}").read_text(), end="")
