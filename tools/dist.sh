#!/bin/sh
# Makes the tarball: the one binary, beside it the libraries that it gives to traced commands, its
# man pages, completion and licence, and what a GPU host can run with nothing else: the tests (make
# test-gpu), the fault laboratory and the evaluations (lab/faults, lab/detect, lab/diagnose,
# lab/advice). Binary and libraries may need nothing but glibc, of version 2.36 at most.
# usage: dist.sh BUILD
set -eu
build=$1
version=$("$build/eacgm" --version | awk '{print $2}')
name=eacgm-$version-x86_64
stage=$build/$name
ninja -C "$build" eacgm libeacgm_gpu.so libeacgm_calls.so lab/libfault_cuda.so man >/dev/null
recording=tests/golden/recordings/v1.eacgm # any one
if ! why=$("$build/eacgm" report "$recording" --html - 2>&1 >/dev/null); then
	echo "dist: $build/eacgm makes no page (was npm there? touch web/build.py; make): $why" >&2
	exit 1
fi
for file in "$build/libeacgm_gpu.so" "$build/libeacgm_calls.so" "$build/lab/libfault_cuda.so" "$build/eacgm"; do
	needs=$(objdump -p "$file" | awk '/NEEDED/{print $2}' | grep -vE '^(libc|libm|libpthread|ld-linux-x86-64)\.so' || true)
	if [ -n "$needs" ]; then
		echo "dist: $file needs more than glibc: $needs" >&2
		exit 1
	fi
	newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
	if [ "$(printf '%s\nGLIBC_2.36\n' "$newest" | sort -V | tail -n 1)" != GLIBC_2.36 ]; then
		echo "dist: $file needs $newest, newer than GLIBC_2.36" >&2
		exit 1
	fi
done
rm -rf "$stage"
mkdir -p "$stage/man" "$stage/completion" "$stage/licenses" "$stage/tests" "$stage/bench" "$stage/lab"
strip -o "$stage/eacgm" "$build/eacgm"
strip -o "$stage/libeacgm_gpu.so" "$build/libeacgm_gpu.so"
strip -o "$stage/libeacgm_calls.so" "$build/libeacgm_calls.so"
cp "$build"/*.1 "$stage/man/"
cp "$build/eacgm.bash" "$stage/completion/eacgm"
cp LICENSE README.md CHANGELOG.md "$stage/"
cp -R tests/gpu "$stage/tests/"
cp bench/common.py "$stage/bench/"
cp -R lab/advice lab/faults lab/detect lab/diagnose "$stage/lab/"
rm -r "$stage/lab/detect/unseen"
strip -o "$stage/lab/faults/helpers/libfault_cuda.so" "$build/lab/libfault_cuda.so"
strip -o "$stage/lab/faults/helpers/cpu_kinds" "$build/lab/cpu_kinds"
find "$stage/tests" "$stage/lab" -name __pycache__ -prune -exec rm -r {} +
mv "$stage/tests/gpu/dist.mk" "$stage/Makefile"
for p in libbpf-dev libelf-dev zlib1g-dev libzstd-dev libyaml-dev libjansson-dev libcapstone-dev libprotobuf-c-dev libcsv-dev libcap-dev libseccomp-dev libnghttp2-dev libevent-dev libssl-dev libsqlite3-dev libstdc++6; do
	[ -f "/usr/share/doc/$p/copyright" ] && cp "/usr/share/doc/$p/copyright" "$stage/licenses/$p"
done
page=$build/src/web/web_page.c.p/node_modules # what the page in the binary is made of
cp "$page/uplot/LICENSE" "$stage/licenses/uplot"
tar -C "$build" -czf "$build/$name.tar.gz" "$name"
echo "$build/$name.tar.gz ($(du -h "$build/$name.tar.gz" | cut -f1), needs glibc only, at least ${newest#GLIBC_})"
