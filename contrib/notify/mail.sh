#!/bin/sh
# Mails how a run ended, unless all is well. In a job:
#
#   on-end = "/usr/local/lib/dircopy/mail.sh admin@example.org"
set -eu
[ "$DIRCOPY_EXIT_CODE" != 0 ] || exit 0
{
    printf '%s\n\nexit code  %s\nsource     %s\noutputs    %s\nreport     %s\n' "$DIRCOPY_VERDICT" "$DIRCOPY_EXIT_CODE" \
        "$DIRCOPY_SOURCE" "$(printf '%s' "$DIRCOPY_OUTPUTS" | tr '\n' ' ')" "$DIRCOPY_REPORT"
} | mail -s "dircopy on $(uname -n): $DIRCOPY_ENDING" "$1"
