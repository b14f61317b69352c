#!/bin/sh
# run.sh - the service of Debian's package under a systemd that booted; see README.md.
#
#   tests/systemd/run.sh [BUILD]
#
# Environment: EACGM_SYSTEMD_ACCEL (tcg; kvm where it works), EACGM_SYSTEMD_LIMIT_S (time limit, 6000),
# EACGM_SYSTEMD_DEB (a package in place of the one that tools/deb.sh makes of BUILD).
# Ends with "N passed, N failed, N skipped"; status 1 when something failed.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:-$root/build}")
limit_s=${EACGM_SYSTEMD_LIMIT_S:-6000}
release=bookworm
guest=$build/systemd

skip() {
	echo "ok 1 - the service under systemd # SKIP $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

for program in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio \
	mmdebstrap:mmdebstrap mke2fs:e2fsprogs dpkg-deb:dpkg; do
	command -v "${program%%:*}" >/dev/null ||
		skip "${program%%:*} is missing: apt-get install ${program##*:}"
done
[ -e "$build/tests/root/targets/libtarget.so" ] || skip "the targets are not built: run 'ninja -C $build'"
[ "$(id -u)" = 0 ] || skip "a file system with root's files is made by root"
[ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = $release ] || skip "this is no Debian $release"

mkdir -p "$guest"
work=$(mktemp -d "$guest/run.XXXXXX")
chmod 755 "$work"
qemu_pid=
cleanup() {
	[ -z "$qemu_pid" ] || kill "$qemu_pid" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Debian's kernel with its modules: the package is unpacked, never installed.
get_kernel() {
	[ ! -d "$guest/kernel" ] || return 0
	package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
		sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)/\1/p' | head -n 1)
	[ -n "$package" ] || skip "apt knows no linux-image-cloud-amd64 (apt-get update?)"
	sh "$root/tools/unpack.sh" "$guest/kernel" "$package" >"$work/log" 2>&1
	[ -d "$guest/kernel" ] || skip "$package cannot be had: $(tail -n 1 "$work/log")"
}

# A disk with a Debian that has systemd and Python; kept, and never written to.
get_disk() {
	[ ! -e "$guest/disk" ] || return 0
	uri=$(apt-get indextargets --format '$(REPO_URI)' "Origin: Debian" "Codename: $release" \
		"Component: main" "Created-By: Packages" | head -n 1)
	[ -n "$uri" ] || skip "apt has no lists of $release (apt-get update?)"
	mmdebstrap --quiet --variant=apt --include=systemd-sysv,dbus,python3 \
		$release "$work/root.tar" "deb $uri $release main" >"$work/log" 2>&1 ||
		skip "a Debian cannot be made: $(tail -n 1 "$work/log")"
	mkdir "$work/root"
	tar -xf "$work/root.tar" -C "$work/root"
	rm -rf "$work/root.tar" "$work"/root/var/cache/apt/archives/*.deb
	mke2fs -q -t ext4 -d "$work/root" "$work/disk" \
		$(($(du -sm "$work/root" | cut -f1) * 5 / 4 + 500))M
	rm -rf "$work/root"
	mv "$work/disk" "$guest/disk"
}

# Of a version that is higher, and with another agent.yaml: what an upgrade goes to.
make_later() {
	dpkg-deb -R "$1" "$work/later"
	sed -i 's/^Version: .*/&+later/' "$work/later/DEBIAN/control"
	echo "# of a later version" >>"$work/later/etc/eacgm/agent.yaml"
	(cd "$work/later" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' |
		xargs -0 md5sum >DEBIAN/md5sums)
	dpkg-deb --root-owner-group --build "$work/later" "$2" >/dev/null
}

# The packages, and what looks at them: a second disk.
make_check() {
	set -- "${EACGM_SYSTEMD_DEB:-$(sh "$root/tools/deb.sh" "$build" | cut -d' ' -f1)}"
	mkdir "$work/check"
	cp "$1" "$work/check/package.deb"
	make_later "$1" "$work/check/later.deb"
	cp "$root"/tests/systemd/guest_* "$build/tests/root/targets/libtarget.so" "$work/check/"
	mke2fs -q -t ext4 -d "$work/check" "$work/check.disk" 64M >/dev/null
}

make_initramfs() {
	mkdir -p "$work/init/bin" "$work/init/modules" "$work/init/proc" "$work/init/dev" "$work/init/root"
	cp "$(command -v busybox)" "$work/init/bin/busybox"
	cp "$root/tests/systemd/guest_init" "$work/init/init"
	chmod 755 "$work/init/init"
	find "$guest/kernel/lib/modules" -name 'virtio*.ko' -exec cp -t "$work/init/modules" '{}' +
	(cd "$work/init" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initrd.gz"
}

# Shows the tests' lines as they come: a guest takes minutes. Nothing reaches it but its disks.
boot() {
	timeout -k 5 "$limit_s" qemu-system-x86_64 -accel "${EACGM_SYSTEMD_ACCEL:-tcg,thread=multi}" -cpu max \
		-kernel "$(ls "$guest"/kernel/boot/vmlinuz-*)" -initrd "$work/initrd.gz" \
		-append "console=ttyS0 panic=-1 quiet systemd.show_status=no systemd.mask=serial-getty@ttyS0.service" \
		-drive "file=$guest/disk,format=raw,if=virtio,snapshot=on" \
		-drive "file=$work/check.disk,format=raw,if=virtio,readonly=on" \
		-display none -serial "file:$work/console" -monitor none -no-reboot -m 3G -smp 2 \
		-nic none </dev/null >"$work/qemu.log" 2>&1 &
	qemu_pid=$!
	: >>"$work/console"
	tail -f -n +1 --pid=$qemu_pid "$work/console" 2>/dev/null | sed -u 's/\r$//' |
		grep --line-buffered -a -E '^(guest:|ok |not ok |# |1\.\.)' || true
	wait $qemu_pid && status=0 || status=$?
	qemu_pid=
	tr -d '\r' <"$work/console" >"$work/lines"
}

get_kernel
get_disk
make_check
make_initramfs
boot

count() {
	grep -a -c -E "$1" "$work/lines" || true
}
passed=$(count '^ok ')
failed=$(count '^not ok ')
if ! grep -a -q '^guest: done' "$work/lines"; then
	echo "not ok - the guest did not come to its end (QEMU ended with $status, limit $limit_s s)"
	tail -n 25 "$work/lines" | sed 's/^/# /'
	cat "$work/qemu.log"
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
