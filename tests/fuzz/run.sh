#!/bin/sh
# Fuzzes every tests/fuzz/*_fuzz.c for SECONDS_EACH seconds (30) each with libFuzzer, AddressSanitizer
# and UndefinedBehaviorSanitizer, beginning with tests/fuzz/corpus/NAME; one line each; fails on any
# finding. usage: run.sh [SECONDS_EACH]
#
# Needs clang and its runtime (Debian 12, Ubuntu 24.04: clang libclang-rt-dev).
# New inputs go to build-fuzz/corpus/NAME, never to the corpus in the tree; the input of a finding to
# build-fuzz/findings/NAME-*: repeat it with build-fuzz/tests/NAME_fuzz FILE, and once it is fixed copy
# it into tests/fuzz/corpus/NAME, where `make test` runs it from then on.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-${SECONDS_EACH:-30}}
build=${BUILD_FUZZ:-build-fuzz}
PATH=$PATH:/usr/sbin

if ! echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
	clang -x c - -fsanitize=fuzzer,address -o /dev/null 2>/dev/null; then
	echo "clang cannot link -fsanitize=fuzzer: install its runtime (make setup-lint, or apt-get install libclang-rt-dev)" >&2
	exit 1
fi
if [ ! -f "$build/build.ninja" ]; then
	CC=clang meson setup "$build" -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
		-Dc_args=-fsanitize=fuzzer-no-link -Doptimization=1 >"/tmp/eacgm-fuzz-setup.$$" 2>&1 || {
		cat "/tmp/eacgm-fuzz-setup.$$" >&2
		rm -f "/tmp/eacgm-fuzz-setup.$$"
		exit 1
	}
	rm -f "/tmp/eacgm-fuzz-setup.$$"
fi

targets=""
for source in tests/fuzz/*_fuzz.c; do
	targets="$targets tests/$(basename "$source" .c)"
done
# shellcheck disable=SC2086  # a list of targets
ninja -C "$build" $targets >"$build/fuzz-build.log" 2>&1 || {
	cat "$build/fuzz-build.log" >&2
	exit 1
}

mkdir -p "$build/findings"
failed=0
for target in $targets; do
	name=$(basename "$target" _fuzz)
	log=$build/fuzz-$name.log
	mkdir -p "$build/corpus/$name"
	if ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		"$build/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$build/findings/$name-" "$build/corpus/$name" "tests/fuzz/corpus/$name" \
		>"$log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		covered=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
		echo "ok $name: $runs inputs in $seconds s, $covered edges covered"
	else
		failed=1
		echo "FINDING $name: see $log and $build/findings/"
		grep -m 3 -E 'ERROR|runtime error|SUMMARY' "$log" || tail -5 "$log"
	fi
done
exit $failed
