#!/bin/sh
# golden_files.sh GOLDEN_CHECK FILE.h5: every quantity of one reference file.
if [ ! -f "$2" ]; then
    echo "skipped: $2 is not there"
    exit 77
fi
exec "$1" "$2"
