#!/bin/sh
# Installs Debian packages that tests run programs of: no service of theirs starts, neither now nor at
# boot. Those that are installed already are not for it: their services would be disabled. Needs root.
# usage: install_stopped.sh PACKAGE...
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d # asked by who starts services, where it is there; 101: no
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi
apt-get update -q
apt-get install -y -q --no-install-recommends "$@"
for package; do
	dpkg -L "$package" | sed -n 's,^/etc/init\.d/,,p' | while read -r service; do
		update-rc.d "$service" disable
	done
done
