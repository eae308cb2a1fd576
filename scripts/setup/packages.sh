#!/usr/bin/env bash
# Programs that tests run for real, as Debian packages. Root gets those that are missing; others are told what to install.
set -euo pipefail

# program:package
NEEDED=(chromium:chromium blkparse:blktrace fio:fio groff:groff nbdkit:nbdkit nbdinfo:libnbd-bin qemu-io:qemu-utils fusermount3:fuse3 sqlite3:sqlite3)
# Only root can use these, and only root is sure to find them.
[ "$(id -u)" -ne 0 ] || NEEDED+=(losetup:mount strace:strace mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs sfdisk:fdisk)

missing=()
for entry in "${NEEDED[@]}"; do
    command -v "${entry%%:*}" > /dev/null || missing+=("${entry##*:}")
done
# Debian keeps the server's programs out of the PATH.
compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || command -v initdb > /dev/null || missing+=(postgresql)
# The header against which the SQLite extension's own declarations are tested.
[ -f /usr/include/sqlite3ext.h ] || missing+=(libsqlite3-dev)
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # Another apt-get may hold the lock for a while: wait for it rather than fail.
    wait=(-o DPkg::Lock::Timeout=300)
    apt-get "${wait[@]}" update -qq
    apt-get "${wait[@]}" install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
    exit 0
fi

echo "make: some tests need programs that are not installed: sudo apt install ${missing[*]}" >&2
if [ -n "${CI:-}" ]; then
    exit 1
fi
echo "make: going on without; those tests are skipped and say so" >&2
