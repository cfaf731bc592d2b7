#!/usr/bin/env bash
# Looks whether this machine has what is needed, and says or installs what is missing.
#
#   setup.sh demo     what building and the demo need: cargo and a linker
#   setup.sh test     what the tests need as well
#   setup.sh validate what the comparison with ns-3 needs as well
#
# On Debian, as root, missing packages are installed. Otherwise one line names the command.
set -euo pipefail

say() { echo "setup: $*" >&2; }

# A command, and the Debian package that brings it.
demo="cc:gcc ld:binutils"
test="$demo git:git ip:iproute2 ping:iputils-ping iperf3:iperf3 tshark:tshark dumpcap:tshark
    ssh:openssh-client sshd:openssh-server curl:curl nft:nftables python3:python3 xz:xz-utils objcopy:binutils flock:util-linux chrt:util-linux
    wg:wireguard-tools wireguard-go:wireguard-go"

validate="$test make:make g++:g++"

case ${1:-} in
demo) wanted=$demo ;;
test) wanted=$test ;;
validate) wanted=$validate ;;
*) say "which set? demo, test or validate"; exit 2 ;;
esac

# sshd and others stand where only root looks.
PATH=$PATH:/usr/sbin:/sbin
missing=()
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
# Of libraries no command tells that they are there.
if [ "$1" != demo ] && ! python3 -c 'import cryptography' 2>/dev/null; then
    missing+=(python3-cryptography)
fi
if [ "$1" = validate ] && [ ! -e /usr/include/ns3/wifi-module.h ]; then
    missing+=(libns3-dev)
fi
if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    install="apt-get install --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "missing: ${missing[*]}; on Debian: sudo $install"
        exit 1
    fi
    say "$install"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null; then
    say "missing: cargo; see https://rustup.rs (Cargo.toml names the oldest version that will do)"
    exit 1
fi
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
version=$(cargo --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -1)" != "$oldest" ]; then
    say "cargo is $version, and $oldest is the oldest that will do; with rustup: rustup update"
    exit 1
fi
[ "$1" != demo ] || exit 0
for part in fmt clippy; do
    cargo "$part" --version >/dev/null 2>&1 || {
        say "missing: cargo $part; with rustup: rustup component add rustfmt clippy"
        exit 1
    }
done
deny=0.20.2
if ! cargo deny --version >/dev/null 2>&1; then
    say "cargo install cargo-deny (once, a minute or two on two cores)"
    # Its own folder: our profiles and our flags do not apply to it. Without optimisation it is
    # built in half the time, and it runs for seconds.
    (cd / && cargo install --quiet --locked --debug --version "$deny" cargo-deny)
fi
