#!/bin/sh
# The same crontab on every machine:
#
#     0 2 * * *   /srv/shop/once.sh
#
# One machine runs the backup, the others exit at once, without a word. onejob ends the backup when
# its lease is lost; whoever writes to something that can compare, passes ONEJOB_TOKEN along.
set -eu
: "${ONEJOB_URL:=postgresql://localhost/shop}"
export ONEJOB_URL

exec onejob once backup --per day --tz Europe/Berlin -- sh -eu -c '
    target="${BACKUPS:-/srv/backups}/$ONEJOB_KEY"
    echo "backup of $ONEJOB_KEY under token $ONEJOB_TOKEN" >"$target.part"
    mv "$target.part" "$target"
'
