#!/bin/sh
# Unpacks a Debian package into a folder, for tests that run a program of it: nothing is installed, no
# service starts, none that is there is changed. Where it cannot be had that is said, and is no failure:
# the tests skip.
# usage: unpack.sh PACKAGE FOLDER
set -eu
mkdir -p "$2"
folder=$(cd "$2" && pwd)
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
chmod 755 "$parts"
if (cd "$parts" && apt-get download -q "$1"); then
	dpkg-deb -x "$parts"/*.deb "$folder"
else
	echo "unpack: there is no package $1 to be had: tests that need it skip" >&2
fi
