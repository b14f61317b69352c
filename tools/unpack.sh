#!/bin/sh
# Unpacks Debian packages into a folder that is not there, for tests that run or read what is in
# them: nothing is installed, no service starts, none that is there is changed. Where one cannot be
# had that is said, and is no failure: the tests skip. With -s they are those of another release of
# Debian, of which this system's apt is told nothing.
# usage: unpack.sh [-s RELEASE] FOLDER PACKAGE...
set -eu
release=
if [ "$1" = -s ]; then
	release=$2
	shift 2
fi
folder=$1
shift
mkdir -p "$(dirname "$folder")"
parts=$(realpath "$(mktemp -d "$folder.XXXXXX")")
trap 'rm -rf "$parts"' EXIT
chmod 755 "$parts"

# $1: a release; sets the options by which apt knows it alone, from where this system's own comes
know() {
	system=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	uri=$(apt-get indextargets --format '$(REPO_URI)' "Origin: Debian" "Codename: $system" \
		"Component: main" "Created-By: Packages" | head -n 1)
	[ -n "$uri" ] || { echo "unpack: apt has no list of Debian's $system" >&2 && return 1; }
	mkdir -p "$parts/apt/lists/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $1 main" \
		>"$parts/apt/sources.list"
	options="-o Dir::Etc::sourcelist=$parts/apt/sources.list -o Dir::Etc::sourceparts=/dev/null
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
		-o Dir::State::lists=$parts/apt/lists -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
		-o Acquire::Languages=none"
	apt-get $options update -q
}

options=
if { [ -z "$release" ] || know "$release"; } && (cd "$parts" && apt-get $options download -q "$@"); then
	for package in "$parts"/*.deb; do
		dpkg-deb -x "$package" "$parts/unpacked"
	done
	mv "$parts/unpacked" "$folder"
else
	echo "unpack: to be had is not each of: $*; tests that need it skip" >&2
fi
