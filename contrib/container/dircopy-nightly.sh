#!/bin/sh
# A nightly copy in a container, for whatever starts it: cron, a timer, an orchestrator. The image is
# that of the Dockerfile, the job is contrib/jobs/nightly.toml: the container sees the same paths as the
# host, and no others. The source is read-only, nothing but the output and the directory of the reports
# can be written, and there is no network. The exit code is that of dircopy.
#
# The volume is the mount point itself and not a directory on the disk: only so can the job's require-mount tell in
# the container whether the disk is mounted. Every volume is a mount point there.
#
#   install -D contrib/jobs/nightly.toml /etc/dircopy/jobs/nightly.toml && mkdir -p /var/lib/dircopy
#
# The container has no time zone of its own: stop-at there is UTC unless TZ says otherwise, as a rule
# and not as a name (TZ=CET-1CEST,M3.5.0,M10.5.0/3), because the image holds no table of names.
set -eu
exec docker run --rm --name dircopy-nightly --read-only --network none \
    --cap-drop ALL --cap-add DAC_OVERRIDE --cap-add CHOWN --cap-add FOWNER --cap-add FSETID \
    --security-opt no-new-privileges --stop-timeout 60 --env TZ \
    --volume /etc/dircopy/jobs:/etc/dircopy/jobs:ro --volume /srv/data:/srv/data:ro \
    --volume /mnt/archive:/mnt/archive --volume /var/lib/dircopy:/var/lib/dircopy \
    dircopy --job nightly
