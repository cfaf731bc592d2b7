#!/usr/bin/env bash
# Runs one program inside a virtual machine that has real mac80211 radios (mac80211_hwsim).
#
#   run.sh BINARY [ARGS...]
#
# The program finds mon0 and mon1 (monitor mode, up, one channel, on two radios). Its output is
# streamed, its exit status is ours. 124: time limit; 125: the guest died; 126: set-up failed.
#
#   HWSIM_CACHE    downloads and built parts     (~/.cache/farhop-hwsim)
#   HWSIM_RADIOS   number of radios              (2)
#   HWSIM_CHANNEL  channel and width, as iw      (1)
#   HWSIM_COUNTRY  regulatory domain; without one, nothing is sent at 5 GHz   ()
#   HWSIM_OPTIONS  more mac80211_hwsim options   ()
#   HWSIM_SETUP    shell script, sourced in the guest in place of the monitor set-up
#   HWSIM_FILES    more files or programs, put into its folder in the guest (words)
#   HWSIM_OUT      folder that gets what the program left in /out
#   HWSIM_LIMIT    seconds for the program       (300)
#   HWSIM_ACCEL    kvm or tcg                    (kvm where it boots, found out once)
#   HWSIM_CPUS, HWSIM_MEMORY                     (2, 256 MiB)
#   HWSIM_KERNEL   Debian package of the kernel  (what linux-image-amd64 stands for)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${HWSIM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/farhop-hwsim}
limit=${HWSIM_LIMIT:-300}
root=$cache/root

say() { echo "hwsim: $*" >&2; }
die() { say "$*"; exit 126; }

# Unpacks packages into the cache. Nothing is installed on the host.
unpack() {
    local name
    mkdir -p "$cache/debs" "$root"
    for name in "$@"; do
        [ -e "$cache/debs/$name.done" ] && continue
        (cd "$cache/debs" && rm -f "${name}"_*.deb && apt-get -qq download "$name" 2>/dev/null) ||
            die "cannot download $name (try: apt-get update)"
        dpkg -x "$cache/debs/${name}"_*.deb "$root"
        rm -f "$cache/debs/${name}"_*.deb
        touch "$cache/debs/$name.done"
    done
}

# What `apt-get install` would add for a package, itself included.
missing() {
    apt-get install -s --no-install-recommends "$1" 2>/dev/null | awk '$1 == "Inst" { print $2 }'
}

libraries=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu
emulator() {
    if command -v qemu-system-x86_64 >/dev/null; then
        qemu=(qemu-system-x86_64)
        return
    fi
    if [ ! -e "$cache/debs/emulator.done" ]; then
        # shellcheck disable=SC2046
        unpack $(missing qemu-system-x86)
        touch "$cache/debs/emulator.done"
    fi
    qemu=(env "LD_LIBRARY_PATH=$libraries" "$root/usr/bin/qemu-system-x86_64"
        -L "$root/usr/share/qemu" -L "$root/usr/share/seabios")
}

# Copies a program and the libraries it asks for to the same paths below a folder.
with_libraries() { # FILE DESTINATION
    local file
    mkdir -p "$2"
    for file in $(LD_LIBRARY_PATH=$libraries ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        case $file in
        "$root"/*) install -D "$file" "$2/lib/x86_64-linux-gnu/$(basename "$file")" ;;
        *) install -D "$file" "$2$file" ;;
        esac
    done
}

pack() { # FOLDER: a cpio archive of it, compressed, on standard output
    (cd "$1" && find . -mindepth 1 | "$root/bin/busybox" cpio -o -H newc -R 0:0 2>/dev/null | gzip -1)
}

revision=1 # of the part that is kept: raise it after a change
modules="tun veth virtio_console virtio_pci virtio_pci_modern_dev mac80211_hwsim"
base() { # the kernel, and the part of the guest's file system that does not change
    local tree order module folder file
    kernel=${HWSIM_KERNEL:-$(apt-cache depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')}
    [ -n "$kernel" ] || die "no linux-image-amd64 known to apt"
    vmlinux=$cache/vmlinux-$kernel
    initramfs=$cache/base-$kernel-$revision.cpio.gz
    [ -e "$vmlinux" ] && [ -e "$initramfs" ] && return
    unpack "$kernel" busybox-static iw libnl-3-200 libnl-genl-3-200 wireless-regdb
    tree=$(mktemp -d) && order=
    folder=$root/lib/modules/${kernel#linux-image-}
    mkdir -p "$tree/lib/modules" "$tree/bin" "$tree/sbin" "$tree/lib/firmware"
    add() { # a module after those it depends on; one that is built in has no file
        local file needed
        case " $order " in *" $1 "*) return ;; esac
        file=$(find "$folder" -name "$1.ko*" | head -1)
        [ -n "$file" ] || return 0
        for needed in $(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr ',' ' '); do
            add "$needed"
        done
        objcopy --strip-debug "$file" "$tree/lib/modules/$1.ko" 2>/dev/null ||
            cp "$file" "$tree/lib/modules/$1.ko"
        order="$order $1"
    }
    for module in $modules; do add "$module"; done
    [ -e "$tree/lib/modules/mac80211_hwsim.ko" ] || die "$kernel has no mac80211_hwsim"
    echo "$order" >"$tree/lib/modules/order"
    cp "$root/bin/busybox" "$tree/bin/"
    cp "$root/sbin/iw" "$tree/sbin/"
    for file in regulatory.db regulatory.db.p7s; do
        cp "$root/lib/firmware/$file-debian" "$tree/lib/firmware/$file" # signed with Debian's key
    done
    with_libraries "$root/sbin/iw" "$tree"
    pack "$tree" >"$initramfs.new"
    uncompress "$root/boot/vmlinuz-${kernel#linux-image-}" >"$vmlinux.new"
    mv "$vmlinux.new" "$vmlinux"
    mv "$initramfs.new" "$initramfs"
    # The rest of the kernel package is large, and needed no more.
    rm -rf "$tree" "$root/lib/modules" "$root/boot" "$cache/debs/$kernel.done"
}

# The kernel inside a bzImage: an emulated processor takes 4 s to unpack it, at every start.
uncompress() {
    local sectors offset length
    sectors=$(od -An -tu1 -j 497 -N 1 "$1")
    read -r offset length < <(od -An -tu4 -j 584 -N 8 "$1")
    if ! { tail -c "+$(((sectors + 1) * 512 + offset + 1))" "$1" 2>/dev/null || true; } |
        head -c "$((length - 4))" | xz -dc 2>/dev/null; then
        say "cannot unpack the kernel (no xz, or packed otherwise): each start takes longer"
        cat "$1"
    fi
}

[ $# -ge 1 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 126; }
[ -f "$1" ] || die "no such program: $1"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
emulator
base
exec 9>&-

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/test" "$work/tree/etc"
for file in "$1" ${HWSIM_FILES:-}; do
    install -m 755 "$file" "$work/tree/test/"
    # What debuggers want would fill the guest's memory: a root in memory has half of it.
    objcopy --strip-debug "$work/tree/test/$(basename "$file")" 2>/dev/null || true # a script
    with_libraries "$file" "$work/tree"
done
[ -z "${HWSIM_SETUP:-}" ] || cp "$HWSIM_SETUP" "$work/tree/etc/setup"
install -m 755 "$here/init" "$work/tree/init"
program=/test/$(basename "$1") && shift
printf '%s\n' "$program" "$@" >"$work/tree/etc/arguments"
cat >"$work/tree/etc/hwsim.env" <<END
RADIOS=${HWSIM_RADIOS:-2}
CHANNEL="${HWSIM_CHANNEL:-1}"
COUNTRY="${HWSIM_COUNTRY:-}"
HWSIM_OPTIONS="${HWSIM_OPTIONS:-}"
LIMIT=$limit
END
{ cat "$initramfs"; pack "$work/tree"; } >"$work/initramfs"

# A /dev/kvm may open, start a machine and then hang: believe it only after the kernel has booted.
accel=${HWSIM_ACCEL:-$(cat "$cache/accel" 2>/dev/null || true)}
if [ -z "$accel" ]; then
    accel=tcg
    if [ -w /dev/kvm ]; then
        # In a shell of its own, which keeps to itself that the emulator was aborted.
        (timeout 10 "${qemu[@]}" -M q35 -accel kvm -cpu host -m 256 -nodefaults -no-reboot \
            -display none -kernel "$vmlinux" -initrd "$initramfs" \
            -append "console=ttyS0 panic=-1" -serial "file:$work/probe" </dev/null || true) \
            >/dev/null 2>&1
        ! grep -q "Run /init" "$work/probe" 2>/dev/null || accel=kvm
    fi
    echo "$accel" >"$cache/accel"
fi
cpu=$([ "$accel" = kvm ] && echo host || echo max)
say "kernel ${kernel#linux-image-}, $accel, initramfs $(($(stat -c %s "$work/initramfs") / 1024)) KiB"
mkfifo "$work/out"
cat "$work/out" &
status=0
timeout -k 5 $((limit + 120)) "${qemu[@]}" -M q35 -accel "$accel" -cpu "$cpu" \
    -smp "${HWSIM_CPUS:-2}" -m "${HWSIM_MEMORY:-256}" \
    -nodefaults -no-user-config -no-reboot -display none \
    -kernel "$vmlinux" -initrd "$work/initramfs" \
    -append "console=ttyS0 panic=-1 quiet loglevel=4 ${HWSIM_APPEND:-}" \
    -serial "file:$work/console" -device virtio-serial-pci \
    -chardev "file,id=out,path=$work/out" -device virtserialport,chardev=out,name=out \
    -chardev "file,id=status,path=$work/status" -device virtserialport,chardev=status,name=status \
    -chardev "file,id=files,path=$work/files" -device virtserialport,chardev=files,name=files \
    </dev/null || status=$?
: <>"$work/out" # ends the reader, should the emulator never have opened it
wait
if [ -n "${HWSIM_OUT:-}" ] && [ -s "$work/files" ]; then
    mkdir -p "$HWSIM_OUT" && tar xf "$work/files" -C "$HWSIM_OUT"
fi
result=$(cat "$work/status" 2>/dev/null || true)
[ -z "${HWSIM_LOG:-}" ] || cp "$work/console" "$HWSIM_LOG"
if [ -z "$result" ]; then
    tail -40 "$work/console" >&2 || true
    [ "$status" = 124 ] && exit 124
    say "the guest gave no exit status (emulator: $status)"
    exit 125
fi
[ "$result" = 137 ] && { say "time limit"; exit 124; }
[ "$result" = 126 ] && tail -20 "$work/console" >&2
exit "$result"
