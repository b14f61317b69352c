#!/bin/sh
# Makes the Debian package of what tools/dist.sh made (and checked: nothing but glibc is needed), with
# the agent as a service. usage: deb.sh BUILD
set -eu
build=$1
sh tools/dist.sh "$build" >/dev/null
version=$("$build/eacgm" --version | awk '{print $2}')
from=$build/eacgm-$version-x86_64
stage=$build/deb
package=$build/eacgm_${version}_amd64.deb
doc=$stage/usr/share/doc/eacgm
rm -rf "$stage"
umask 022
install -d "$stage/DEBIAN" "$doc/licenses"
install -D -m 755 "$from/eacgm" "$stage/usr/bin/eacgm"
install -D -m 644 -t "$stage/usr/lib/eacgm" "$from/libeacgm_gpu.so" "$from/libeacgm_calls.so"
install -D -m 644 -t "$stage/usr/share/man/man1" "$from"/man/*.1
gzip -9n "$stage"/usr/share/man/man1/*.1
install -D -m 644 "$from/completion/eacgm" "$stage/usr/share/bash-completion/completions/eacgm"
install -D -m 644 -t "$stage/etc/eacgm" deploy/agent.yaml
install -D -m 644 -t "$stage/usr/lib/systemd/system" deploy/eacgm-agent.service
install -m 644 LICENSE "$doc/copyright"
install -m 644 -t "$doc" README.md docs/agent.md deploy/kubernetes.yaml
install -m 644 -t "$doc/licenses" "$from"/licenses/*
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
install -m 755 -t "$stage/DEBIAN" deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm
echo /etc/eacgm/agent.yaml >"$stage/DEBIAN/conffiles"
cat >"$stage/DEBIAN/control" <<END
Package: eacgm
Version: $version
Architecture: amd64
Maintainer: eACGM <noreply@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$stage" | cut -f1)
Depends: libc6 (>= 2.36)
Section: utils
Priority: optional
Description: shows where an AI job's time goes, with eBPF
 Traces CUDA, NCCL, PyTorch and any function of any library without touching the job's code, and
 watches all AI jobs of a host as a service, with metrics for Prometheus.
END
(cd "$stage" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) \
	>"$build/md5sums"
install -m 644 "$build/md5sums" "$stage/DEBIAN/md5sums"
rm "$build/md5sums"
dpkg-deb --root-owner-group --build "$stage" "$package" >/dev/null
rm -r "$stage"
echo "$package ($(du -h "$package" | cut -f1))"
