#!/bin/sh
# load_test.sh - Debian 12's own kernel takes all BPF programs, and one short recording under it has
# every call: one boot of run.sh's guest, which make test can afford. The rest is make test-kernels.
#
#   tests/kernels/load_test.sh BUILD
set -eu
if ldd "$1/eacgm" | grep -q libasan; then
	echo "1..0 # SKIP a build with sanitizers, whose BPF programs are the same"
	exit 0
fi
export EACGM_KERNELS_TITLE="every call of every kind of function, from four threads"
# With two emulated CPUs one of some ten boots on a busy host stood still: a timer of one CPU did not
# come, and the other one span.
export EACGM_KERNELS_CPUS=1
export EACGM_KERNELS_LIMIT_S="${EACGM_KERNELS_LIMIT_S:-570}" # tests/run.py ends it after 600 s
exec sh "$(dirname "$0")/run.sh" "$1" counts
