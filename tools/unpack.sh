#!/bin/sh
# Unpacks a Debian package into a folder that is not there, for tests that run a program of it: nothing
# is installed, no service starts, none that is there is changed. Where it cannot be had that is said,
# and is no failure: the tests skip.
# usage: unpack.sh PACKAGE FOLDER
set -eu
mkdir -p "$(dirname "$2")"
parts=$(mktemp -d "$2.XXXXXX")
trap 'rm -rf "$parts"' EXIT
chmod 755 "$parts"
if (cd "$parts" && apt-get download -q "$1"); then
	dpkg-deb -x "$parts"/*.deb "$parts/unpacked"
	mv "$parts/unpacked" "$2"
else
	echo "unpack: there is no package $1 to be had: tests that need it skip" >&2
fi
