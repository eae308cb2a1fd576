#!/usr/bin/env bash
# The tests of NVMe passthrough (tests/all/nvme.rs) on drives that QEMU emulates, under a kernel of
# their own. No privileges are needed. QEMU 8.1 or newer has drives with FDP.
#
#   KERNEL=vmlinuz BUSYBOX=busybox.static crates/devices/tests/nvme_in_qemu.sh
#
# QEMU, KERNEL and BUSYBOX are paths; the kernel has NVMe and devtmpfs built in, as Debian's
# linux-image-cloud-amd64 does, and busybox is a static one. NVME, if given, is nvme-cli's program,
# whose view of the placement handles is shown then, with the folder of its libraries in NVME_LIBS.
set -euo pipefail
cd "$(dirname "$0")/../../.."

qemu=${QEMU:-qemu-system-x86_64}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
guest=$folder/guest
mkdir -p "$guest"/{bin,dev,proc,sys,tmp,lib,lib64}

# The program of the tests, with the libraries that it is linked to.
# shellcheck disable=SC2086
tests=$(cargo ${CARGO_OPTIONS:-} test -p flashwright-devices --test all --no-run \
    --message-format=json 2>/dev/null | grep -o '"executable":"[^"]*"' | tail -1 | cut -d'"' -f4)
cp "$tests" "$guest/bin/tests"
cp "$BUSYBOX" "$guest/bin/busybox"
programs=("$tests")
if [[ -n ${NVME:-} ]]; then
    cp "$NVME" "$guest/bin/nvme"
    programs+=("$NVME")
fi
for program in "${programs[@]}"; do
    libraries=$(LD_LIBRARY_PATH=${NVME_LIBS:-} ldd "$program" | grep -oE '/[^ ]+')
    # shellcheck disable=SC2086
    cp -L $libraries "$guest/lib/"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$guest/lib64/"

# Drive 0 has five placement handles and sectors of 4096 bytes; drive 1 is plain, with a short
# longest transfer and room for few commands; drive 2 has metadata with its sectors; drive 3 is
# there to be pulled out.
cat >"$guest/init" <<'END'
#!/bin/busybox sh
export PATH=/bin:/sbin LD_LIBRARY_PATH=/lib RUST_BACKTRACE=1
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev && mount -t proc none /proc && mount -t sysfs none /sys
uname -r
ls /dev/ng* /dev/nvme*
# Drives are numbered as they are found, in any order.
by_serial() {
    for namespace in /dev/ng*; do
        name=$(basename "$namespace" | sed s/ng/nvme/)
        for serial in /sys/class/block/$name/device/serial \
            /sys/class/block/$name/device/nvme*/serial; do
            [ "$(cat "$serial" 2>/dev/null | tr -d ' ')" = "$1" ] && echo "$namespace"
        done
    done | head -1
}
handles() {
    [ -x /bin/nvme ] || return 0
    nvme fdp status "$FLASHWRIGHT_NVME"
    nvme fdp stats "$FLASHWRIGHT_NVME" --endgrp-id=1
}
export FLASHWRIGHT_NVME=$(by_serial fdp) FLASHWRIGHT_NVME_METADATA=$(by_serial metadata)
handles
tests nvme::writes_of_all --nocapture && handles
tests nvme:: --test-threads=1 --nocapture --skip writes_of_all; echo "with FDP: $?"
export FLASHWRIGHT_NVME=$(by_serial plain)
tests nvme:: --test-threads=1 --nocapture; echo "without: $?"
pulled=$(by_serial pulled)
controller=$(dirname "$(grep -l pulled /sys/class/nvme/nvme*/serial)")
export FLASHWRIGHT_NVME_PULLED=$pulled,$(readlink -f "$controller/device")/remove
tests nvme::a_drive_that --nocapture
echo "pulled out: $?"
poweroff -f
END
chmod +x "$guest/init"
(cd "$guest" && find . | "$BUSYBOX" cpio -o -H newc 2>/dev/null | gzip -1) >"$folder/initrd"

for drive in 0 1 2 3; do
    truncate -s 256M "$folder/drive$drive"
done
drive() {
    echo "-drive file=$folder/drive$1,if=none,id=drive$1,format=raw,discard=unmap"
}
subsystem=nvme-subsys,id=placed,nqn=placed,fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8
sectors=logical_block_size=4096,physical_block_size=4096
# shellcheck disable=SC2046,SC2086
"$qemu" ${QEMU_OPTIONS:-} -machine q35 -cpu max -smp 2 -m 1024 -display none -no-reboot \
    -serial stdio -monitor none -kernel "$KERNEL" -initrd "$folder/initrd" \
    -append 'console=ttyS0 quiet panic=-1' \
    $(drive 0) $(drive 1) $(drive 2) $(drive 3) \
    -device "$subsystem" -device nvme,id=nvme0,serial=fdp,subsys=placed,mdts=7 \
    -device "nvme-ns,drive=drive0,bus=nvme0,nsid=1,fdp.ruhs=0-4,$sectors" \
    -device nvme,id=nvme1,serial=plain,mdts=5,max_ioqpairs=1,mqes=15 \
    -device nvme-ns,drive=drive1,bus=nvme1,nsid=1 \
    -device nvme,id=nvme2,serial=metadata -device nvme-ns,drive=drive2,bus=nvme2,nsid=1,ms=8 \
    -device nvme,id=nvme3,serial=pulled -device nvme-ns,drive=drive3,bus=nvme3,nsid=1
