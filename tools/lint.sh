#!/bin/sh
# The static checks: all at zero findings, else the exit status is 1. usage: tools/lint.sh BUILD
#   format    clang-format over every C and C++ file that git tracks
#   clang     a build of everything by clang with warnings as errors, in BUILD-lint
#   tidy      clang-tidy (.clang-tidy) over what that build compiles
#   cppcheck  over all C files, BPF programs apart
#   types     tsc over the page (web/), where the build has it
# A finding that is wrong is suppressed where it stands, with the reason: NOLINTNEXTLINE(check): why,
# or cppcheck-suppress. Run `make setup-lint` first.
set -u
cd "$(dirname "$0")/.."
build=${1:-build}-lint
jobs=$(nproc)
PATH=$PATH:/usr/sbin
failed=0

say() { # step, number of findings
	if [ "$2" -eq 0 ]; then
		echo "ok $1"
	else
		echo "FAIL $1: $2 findings"
		failed=1
	fi
}

for tool in clang clang-format clang-tidy cppcheck meson ninja; do
	command -v "$tool" >/dev/null || {
		echo "lint: $tool is missing: run 'make setup-lint'" >&2
		exit 1
	}
done
if [ ! -f "$build/build.ninja" ]; then
	CC=clang CXX=clang++ meson setup "$build" >"/tmp/eacgm-lint.$$" 2>&1 || {
		cat "/tmp/eacgm-lint.$$" >&2
		rm -f "/tmp/eacgm-lint.$$"
		exit 1
	}
	rm -f "/tmp/eacgm-lint.$$"
fi

# ---- format ----
git ls-files -z '*.c' '*.h' '*.cc' | xargs -0 clang-format --dry-run 2>"$build/format.log"
grep -a -E '(warning|error):' "$build/format.log" | cut -d: -f1 | sort | uniq -c
say format "$(grep -a -c -E '(warning|error):' "$build/format.log")"

# ---- clang ----
if ninja -k 0 -C "$build" >"$build/clang.log" 2>&1; then
	say clang 0
else
	grep -a -E '(error|warning|undefined reference)' "$build/clang.log" | sort -u
	say clang 1
fi

# ---- clang-tidy ---- (one process a file: checkers of clang 14 keep state from one to the next)
python3 - "$build" >"$build/tidy.files" <<'END'
import json, os, sys
root, build = os.getcwd(), os.path.realpath(sys.argv[1])
files = {os.path.normpath(os.path.join(e["directory"], e["file"]))
         for e in json.load(open(os.path.join(build, "compile_commands.json")))}
for f in sorted(files):
    if f.startswith(root) and not f.startswith(build) and not f.endswith(".S"):
        print(f)
END
xargs -a "$build/tidy.files" -P "$jobs" -n 1 clang-tidy --quiet -p "$build" >"$build/tidy.log" 2>/dev/null
# findings in generated headers (the BPF skeleton) lie under BUILD-lint itself and are not ours
sed -e 's/\x1b\[[0-9;]*m//g' -e "s,^.*$build/\.\./,," -e 's,^\.\./,,' "$build/tidy.log" |
	grep -a -E '^[a-z]+/[^:]*:[0-9]+:[0-9]+: (error|warning):' | sort -u >"$build/tidy.findings"
cat "$build/tidy.findings"
say tidy "$(wc -l <"$build/tidy.findings")"

# ---- cppcheck ----
# the macros it cannot see: libbpf's declaration of options; cmocka's skip(), which does not return
git ls-files 'src/*.c' 'inject/*.c' 'tests/*.c' 'bench/*.c' 'lab/*.c' 'wire/*.h' >"$build/cppcheck.files"
cppcheck -q -j "$jobs" --enable=warning,performance,portability --std=c11 --language=c --inline-suppr \
	-Isrc -I. -D_GNU_SOURCE '-Dskip()=abort()' \
	'-DDECLARE_LIBBPF_OPTS(type,name,...)=struct type name = {__VA_ARGS__}' \
	--template='{file}:{line}: {severity}: {message} [{id}]' \
	--file-list="$build/cppcheck.files" 2>"$build/cppcheck.log"
grep -E '^[a-z]+/.*: (error|warning|performance|portability):' "$build/cppcheck.log" | sort -u >"$build/cppcheck.findings"
cat "$build/cppcheck.findings"
say cppcheck "$(wc -l <"$build/cppcheck.findings")"

# ---- types ----
if command -v npm >/dev/null && [ -d "$build/src/web/web_page.c.p" ]; then
	mkdir -p "$build/types"
	cp -R web/. "$build/types/"
	if (cd "$build/types" && npm ci --no-progress && npx tsc -p .) >"$build/types.log" 2>&1; then
		say types 0
	else
		cat "$build/types.log"
		say types "$(grep -c 'error TS' "$build/types.log" | sed 's/^0$/1/')"
	fi
fi

exit $failed
