#!/bin/sh
# What the library exports, what its map lists, what the headers declare and
# what the manual page names are the same functions.
# usage: symbols_test.sh LIBRARY MAP HEADERS_DIR MANUAL
set -eu
lib=$1 map=$2 headers=$3 manual=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

nm -D --defined-only "$lib" | awk '$2 == "T" { print $3 }' |
	sed 's/@.*//' | sort >"$dir/exported"
nm -D --defined-only "$lib" | awk '$2 != "T" && $2 != "A" { print $3 }' |
	sed 's/@.*//' | sort >"$dir/other"
sed -n 's/^[[:space:]]*\(evd_[a-z0-9_]*\);$/\1/p' "$map" | sort >"$dir/listed"
cat "$headers/client.h" "$headers/look.h" "$headers/queue.h" \
	"$headers/names.h" "$headers/access.h" \
	"$headers/history.h" "$headers/memfd.h" \
	"$headers/room.h" "$headers/sequence.h" | grep -v '^#' |
	tr '\n' ' ' | grep -o 'EVD_API [^;]*;' |
	sed 's/(.*//; s/.*[ *]\(evd_[a-z0-9_]*\)$/\1/' | sort >"$dir/declared"
sed -n 's/^\.Fn \(evd_[a-z0-9_]*\).*/\1/p; s/^\.Fo \(evd_[a-z0-9_]*\).*/\1/p' \
	"$manual" | sort -u >"$dir/documented"

test -s "$dir/declared" || {
	echo "no function found in $headers" >&2
	exit 1
}
diff -u "$dir/declared" "$dir/listed"
diff -u "$dir/declared" "$dir/exported"
diff -u "$dir/declared" "$dir/documented"
diff -u /dev/null "$dir/other"
