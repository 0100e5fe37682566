#!/bin/sh
# A nightly copy in a container, for whatever starts it: cron, a timer, an orchestrator. The image is
# that of the Dockerfile. The source is read-only, nothing but the output and the directory of the
# reports can be written, and there is no network. The exit code is that of dircopy.
#
# The container has no time zone of its own: --stop-at there is UTC unless TZ says otherwise, as a rule
# and not as a name (TZ=CET-1CEST,M3.5.0,M10.5.0/3), because the image holds no table of names.
set -eu
exec docker run --rm --name dircopy-nightly --read-only --network none \
    --cap-drop ALL --cap-add DAC_OVERRIDE --cap-add CHOWN --cap-add FOWNER --cap-add FSETID \
    --security-opt no-new-privileges --stop-timeout 60 --env TZ \
    --volume /srv/data:/in:ro --volume /mnt/archive/data:/out --volume /var/lib/dircopy:/state \
    dircopy -i /in -o /out --overwrite-policy update --report /state/nightly.json --metrics /state/nightly.prom --quiet --wait --stop-at 06:00 --nice 10 --keep-manifests 30
