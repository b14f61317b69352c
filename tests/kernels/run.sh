#!/bin/sh
# run.sh - runs root tests on Debian's 6.1 kernel in QEMU; see README.md.
#
#   tests/kernels/run.sh [BUILD [TEST...]]
#
# Environment: EACGM_KERNEL (a vmlinuz in place of Debian's), EACGM_KERNELS_LIMIT_S (of all that
# this script does, 1500), EACGM_KERNELS_TITLE (only tests that have it in their title: one of them
# has to pass), EACGM_KERNELS_CPUS (2), EACGM_KERNELS_ACCEL (tcg; kvm where it works, it often does
# not inside another virtual machine).
# Prints TAP, and ends with "N passed, N failed, N skipped"; status 1 when something failed.
set -eu

uptime_s() {
	cut -d . -f 1 /proc/uptime
}
began_s=$(uptime_s)
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" 2>/dev/null && pwd || echo "${1:-$root/build}")
[ $# -gt 0 ] && shift
tests=${*:-counts processes leave failures harm python stalls}
limit_s=${EACGM_KERNELS_LIMIT_S:-1500}
slow=6 # emulated: the time limits of the tests are stretched by this

skip() {
	echo "1..0 # SKIP $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

for program in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio; do
	command -v "${program%%:*}" >/dev/null ||
		skip "${program%%:*} is missing: apt-get install ${program##*:}"
done
busybox=$(command -v busybox)
! ldd "$busybox" >/dev/null 2>&1 || skip "busybox is not static: apt-get install busybox-static"
[ -x "$build/eacgm" ] || skip "$build/eacgm is not built: run 'make'"
[ -e "$build/tests/root/targets/libtarget.so" ] ||
	skip "the targets are not built: run 'ninja -C $build'"
python=/usr/bin/python3
[ -x $python ] || skip "$python is missing: apt-get install python3"

work=$(mktemp -d "${TMPDIR:-/tmp}/eacgm-kernels.XXXXXX")
qemu_pid=
cleanup() {
	[ -z "$qemu_pid" ] || kill "$qemu_pid" 2>/dev/null || true
	wait # who shows the lines ends with QEMU
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A file and the shared libraries that it needs, at the same paths in the guest.
add_program() {
	for file in "$1" $(ldd "$1" 2>/dev/null | sed -n 's/.*[ \t]\(\/[^ ]*\) (0x.*/\1/p'); do
		mkdir -p "$guest$(dirname "$file")"
		cp -L "$file" "$guest$file"
	done
}

add_python() {
	add_program $python
	real=$(readlink -f $python)
	[ "$real" = $python ] || add_program "$real"
	lib=$($python -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')
	mkdir -p "$guest$lib"
	(cd "$lib" && tar cf - --exclude=test --exclude=tests --exclude=idlelib \
		--exclude=lib2to3 --exclude=ensurepip --exclude=tkinter --exclude=dist-packages \
		--exclude=site-packages --exclude='config-*' .) | tar xf - -C "$guest$lib"
	for extension in "$lib"/lib-dynload/*.so; do
		case $extension in
		*_json*|*_ctypes.*|*_posixshmem*) add_program "$extension" ;;
		esac
	done
}

pack_guest() {
	guest=$work/guest
	mkdir -p "$guest"/usr/bin "$guest"/proc "$guest"/sys "$guest"/dev "$guest"/tmp "$guest"/root \
		"$guest"/etc "$guest"/lib64 "$guest"/eacgm/build/tests/root "$guest"/eacgm/tests
	ln -s usr/bin "$guest/bin"
	cp "$busybox" "$guest/bin/busybox"
	cp "$root/tests/kernels/guest_init" "$guest/init"
	chmod 755 "$guest/init"
	printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$guest/etc/passwd"
	printf "TESTS='%s'\nTITLE='%s'\nEACGM_TEST_SLOW=%s\n" "$tests" "${EACGM_KERNELS_TITLE:-}" \
		"$slow" >"$guest/guest.conf"
	add_python
	# busybox has no nice, and its shell runs other programs of its own without executing them
	for program in sh ls nice sleep taskset setpriv unshare mount umount; do
		[ ! -x /usr/bin/$program ] || add_program /usr/bin/$program
	done
	for i in $(seq 300); do # tests list these
		mkdir -p "$guest/usr/share/doc/$i"
		: >"$guest/usr/share/doc/$i/copyright"
	done
	add_program "$build/eacgm"
	mv "$guest$build/eacgm" "$guest/eacgm/build/eacgm"
	cp -r "$root/tests/root" "$guest/eacgm/tests/root"
	for target in "$build"/tests/root/targets/*; do
		[ -f "$target" ] && [ -x "$target" ] || continue
		add_program "$target"
		mkdir -p "$guest/eacgm/build/tests/root/targets"
		mv "$guest$target" "$guest/eacgm/build/tests/root/targets/"
	done
	(cd "$guest" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initrd.gz"
	rm -rf "$guest"
}

# Shows the tests' lines as they come: a guest takes minutes. Nothing is in the foreground, since a
# shell heeds a signal only when that has ended.
boot() {
	left_s=$((limit_s - $(uptime_s) + began_s))
	[ "$left_s" -gt 0 ] || left_s=1
	truncate -s 1G "$work/disk" # empty: as large as what is written
	timeout -k 5 "$left_s" qemu-system-x86_64 -accel "${EACGM_KERNELS_ACCEL:-tcg}" -kernel "$kernel" \
		-initrd "$work/initrd.gz" -append "console=ttyS0 panic=-1 quiet" -display none \
		-drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" \
		-device nvme,serial=disk,drive=disk \
		-serial "file:$work/console" -monitor none -no-reboot -m 2G -smp "${EACGM_KERNELS_CPUS:-2}" \
		-nic none </dev/null >"$work/qemu.log" 2>&1 &
	qemu_pid=$!
	: >>"$work/console"
	tail -f -n +1 --pid=$qemu_pid "$work/console" 2>/dev/null | tr -d '\r' |
		grep --line-buffered -a -E '^(guest:|ok |not ok |# |1\.\.)' &
	shows_pid=$!
	wait $shows_pid || true
	wait $qemu_pid && status=0 || status=$?
	qemu_pid=
	tr -d '\r' <"$work/console" >"$work/lines"
}

if [ -n "${EACGM_KERNEL:-}" ]; then
	kernel=$EACGM_KERNEL
	[ -r "$kernel" ] || skip "$kernel cannot be read"
else
	kernel=$(ls "$build"/kernels/vmlinuz-6.1.* 2>/dev/null | tail -n 1)
	[ -n "$kernel" ] || skip "Debian's kernel 6.1 is not in $build/kernels: run 'make setup-kernels'"
fi
echo "# $(basename "$kernel") in QEMU: $tests"
pack_guest
boot

count() {
	grep -a -c -E "$1" "$work/lines" || true
}
skipped=$(count '^(ok .*# SKIP|1\.\.0 # SKIP)')
passed=$(($(count '^ok ') - $(count '^ok .*# SKIP')))
failed=$(count '^not ok ')
fail() {
	echo "not ok - $1"
	failed=$((failed + 1))
}
if ! grep -a -q '^guest: done' "$work/lines"; then
	fail "the guest did not come to its end (QEMU ended with $status, limit $limit_s s)"
	tail -n 25 "$work/lines" | sed 's/^/# /'
	cat "$work/qemu.log"
fi
# A test file that dies reports less than it planned, or nothing at all.
planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$work/lines" | awk '{ n += $1 } END { print n + 0 }')
reported=$(($(count '^ok ') + $(count '^not ok ')))
if [ "$reported" -lt "$planned" ]; then
	fail "$reported of $planned tests reported"
fi
ended=$(sed -n 's/^guest: end \(.*\) [1-9][0-9]*$/\1/p' "$work/lines")
[ "$failed" -gt 0 ] || [ -z "$ended" ] || fail "ended with an error: $(echo $ended)"
if [ -n "${EACGM_KERNELS_TITLE:-}" ] &&
	! grep -a '^ok ' "$work/lines" | grep -a -v '# SKIP' | grep -a -q -F -e "$EACGM_KERNELS_TITLE"
then
	fail "no test passed that has '$EACGM_KERNELS_TITLE' in its title"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$((passed + skipped))" -gt 0 ]
