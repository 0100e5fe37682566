#!/bin/sh
# A copy by three Kubernetes Jobs, one after the other: the plan, an Indexed Job with a pod for each shard, and the end.
#
#   kubernetes.sh [options of kubectl, such as --namespace=copies]
#
# Needs Kubernetes 1.29, the image `dircopy`, and the claims `plan` (any small volume), `source` and `output`, all of them
# ReadWriteMany. Ends with 0 only if the end of the plan did. Started again after that failed, it goes on: delete the Jobs
# that are to run again, dircopy-shards and dircopy-finish.
here=$(dirname "$0")

# Waits until a Job has come to its end; whether it is complete.
has_completed() {
    until ended=$(kubectl "$@" -o 'jsonpath={.status.conditions[?(@.status=="True")].type}') &&
        case " $ended " in *" Complete "* | *" Failed "*) true ;; *) false ;; esac
    do
        sleep "${POLL:-5}"
    done
    case " $ended " in *" Failed "*) return 1 ;; esac
}

kubectl "$@" apply -f "$here/kubernetes-plan.yaml" || exit
has_completed "$@" get job/dircopy-plan || {
    kubectl "$@" logs job/dircopy-plan
    exit 1
}

# "planned 70 files, 9 MB, in shards 0 to 11, ..."
last=$(kubectl "$@" logs job/dircopy-plan | sed -n 's/.* in shards 0 to \([0-9]*\),.*/\1/p')
sed "s/^  completions: .*/  completions: $((last + 1))/" "$here/kubernetes-shards.yaml" | kubectl "$@" apply -f - || exit
# What finish says is what counts: a shard that failed for good is named there.
has_completed "$@" get job/dircopy-shards

kubectl "$@" apply -f "$here/kubernetes-finish.yaml" || exit
has_completed "$@" get job/dircopy-finish
code=$?
kubectl "$@" logs job/dircopy-finish
exit $code
