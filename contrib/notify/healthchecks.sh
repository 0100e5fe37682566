#!/bin/sh
# Tells healthchecks.io, or a server that takes the same pings, how a run ended; with a check that expects a ping every day,
# a night that did not happen is noticed too. In a job:
#
#   on-end = "/usr/local/lib/dircopy/healthchecks.sh https://hc-ping.com/UUID"
set -eu
printf '%s\n' "$DIRCOPY_VERDICT" |
    curl -fsS -m 20 --retry 2 -o /dev/null --data-binary @- "$1/$DIRCOPY_EXIT_CODE"
