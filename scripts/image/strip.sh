#!/bin/sh
# Removes from a Debian what a Python that runs does not need: package managers, Perl, documentation, caches.
#
# The list of packages stays in /var/lib/dpkg/status, where scanners of images look for it, and so do the licences.
set -eu
export DEBIAN_FRONTEND=noninteractive PYTHONHASHSEED=0

unneeded='adduser apt apt-utils bash bsdutils debconf debian-archive-keyring diffutils e2fsprogs gpgv gzip hostname
  init-system-helpers libapt-pkg6.0 libapt-pkg7.0 libaudit1 libaudit-common libblkid1 libcap-ng0 libgcrypt20 libgpg-error0
  liblz4-1 libmd0 libmount1 libpam-modules libpam-modules-bin libpam-runtime libpam0g libsemanage2 libsemanage-common
  libsmartcols1 libsystemd0 libudev1 login login.defs logsave mawk media-types mount ncurses-bin netbase openssl
  passwd perl-base python3-distutils python3-lib2to3 python3-pip-whl python3-setuptools-whl python3-venv python3.11-venv
  sqv sysvinit-utils tar usr-is-merged util-linux util-linux-extra'

# What scripts of packages would do at their removal is of no use here, and some need Perl.
find /var/lib/dpkg/info -name '*.p*rm' -delete
for package in $unneeded dpkg; do
  if dpkg-query --show "$package" >/dev/null 2>&1; then installed="${installed-} $package"; fi
done
# shellcheck disable=SC2086 # words
dpkg --purge --force-all $installed 2>/dev/null

library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
rm -rf "$library/ensurepip" "$library/idlelib" "$library/lib2to3" "$library/turtledemo" "$library/test" \
  "$library"/site-packages/pip* /usr/local/bin/pip* /usr/local/bin/idle* /usr/local/bin/2to3*
# The whole library, since the time of its files will differ from the one that is recorded in its byte code.
find /usr/lib/python3 "$library" -name __pycache__ -prune -exec rm -rf {} +
python3 -m compileall -q --invalidation-mode unchecked-hash "$library"

rm -rf /var/lib/dpkg/info /var/lib/dpkg/*-old /var/lib/apt /var/lib/pam /var/lib/systemd /var/cache/* /var/log/* /var/backups /etc/apt /etc/dpkg \
  /usr/lib/apt /usr/lib/dpkg /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/perl5 \
  /etc/machine-id /root/.cache
find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -type d -empty -delete
find /etc /usr -xtype l -delete

# What was removed must not be missed.
python3 -B -c 'import asyncio, bz2, ctypes, lzma, sqlite3, ssl, uuid, zlib'

echo 'linkwise:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd
echo 'linkwise:x:65532:' >> /etc/group
