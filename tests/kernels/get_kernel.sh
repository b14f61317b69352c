#!/bin/sh
# get_kernel.sh - unpacks the kernel of Debian's linux-image-cloud-amd64, where that is a 6.1, into
# BUILD/kernels; nothing is installed. What cannot be had is said in one line, with status 1.
#
#   tests/kernels/get_kernel.sh BUILD
set -eu
kernels=$1/kernels
! ls "$kernels"/vmlinuz-6.1.* >/dev/null 2>&1 || exit 0

give_up() {
	echo "Debian's kernel 6.1: $1"
	exit 1
}

package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
	sed -n 's/.*Depends: \(linux-image-6\.1\.[^ ]*\)/\1/p' | head -n 1)
[ -n "$package" ] || give_up "apt knows no linux-image-cloud-amd64 of 6.1 (apt-get update?)"
work=$(mktemp -d "${TMPDIR:-/tmp}/eacgm-kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
(cd "$work" && timeout 120 apt-get -o Acquire::http::Timeout=20 -o Acquire::Retries=1 \
	download "$package" >apt.log 2>&1) ||
	give_up "$package cannot be downloaded: $(tail -n 1 "$work/apt.log")"
dpkg-deb -x "$work"/*.deb "$work/x"
for option in UPROBES DEBUG_INFO_BTF BPF_SYSCALL BPF_EVENTS FTRACE_SYSCALLS; do
	grep -q "^CONFIG_$option=y" "$work"/x/boot/config-* ||
		give_up "$package is built without CONFIG_$option"
done
mkdir -p "$kernels"
kernel=$(basename "$work"/x/boot/vmlinuz-*)
cp "$work/x/boot/$kernel" "$kernels/part" # whole, or not there
mv "$kernels/part" "$kernels/$kernel"
