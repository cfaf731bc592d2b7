#!/usr/bin/env bash
# The radio test: two daemons on real mac80211 carry files; then their frames are looked at. Once
# with each kind of rate that a card can be told: one of 802.11b, an MCS of n, and one of ac.
#
#   test.sh FARHOP
#
# The transfers run in the guest (two-nodes.sh). What it captured is checked here, with a program
# that knows nothing of farhop. Ends with `radio test: N passed, M failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
farhop=${1:?which farhop?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

check() { # WHAT NUMBER OPERATOR NUMBER
    if [ "$2" "$3" "$4" ]; then
        echo "passed: $1 ($2)"
        passed=$((passed + 1))
    else
        echo "FAILED: $1: $2, wanted $3 $4"
        failed=$((failed + 1))
    fi
}
frames() { # CAPTURE FILTER: how many frames the filter takes; -1 if tshark does not know it
    tshark -r "$out/$1.pcapng" -Y "$2" -T fields -e frame.number 2>/dev/null >"$out/found" ||
        { echo -1; return; }
    wc -l <"$out/found"
}
counter() { # NODE NAME: the sum of all counters of that name in a daemon's status
    { grep -o "\"$2\": *[0-9]*" "$out/$1.json" || true; } |
        awk -F: '{ sum += $2 } END { print sum + 0 }'
}
says() { # NODE TEXT: how often it stands in a daemon's status
    { grep -o -E "$2" "$out/$1.json" || true; } | wc -l
}

# The daemons on one kind of radio, and what became of their frames.
carry() { # NAME RADIO KILOBYTES COUNTRY CHANNEL RATE: RADIO is the scenario's, RATE a filter of tshark
    local name=$1 radio=$2 kilobytes=$3 country=$4 channel=$5 rate=$6 guest=0
    local few=$((kilobytes * 2 / 3))
    out=$work/$name
    mkdir -p "$out"
    sed "s/^radio = .*/radio = $radio/" "$here/two-nodes.toml" >"$work/two-nodes.toml"
    # shellcheck disable=SC2086
    HWSIM_COUNTRY=$country HWSIM_CHANNEL=$channel HWSIM_OUT=$out HWSIM_LIMIT=240 \
        HWSIM_FILES="$farhop $work/two-nodes.toml $(command -v dumpcap)" \
        "$here/run.sh" "$here/two-nodes.sh" "$kilobytes" $channel |
        sed -u "s/^\(passed\|FAILED\): /&$name: /" | tee "$out/lines" || guest=${PIPESTATUS[0]}
    passed=$((passed + $(grep -c '^passed: ' "$out/lines" || true)))
    failed=$((failed + $(grep -c '^FAILED: ' "$out/lines" || true)))
    # A guest that broke off failed one check more than it tells.
    if [ "$guest" -gt 1 ]; then
        echo "the guest ended with $guest" >&2
        failed=$((failed + 1))
    fi
    look "$name" "$rate" "$few"
}

# farhop's addresses are 02:66:68:RADIO:NODE:NODE; a frame is a reception where it has a timestamp,
# an echo where it tells retries, and else the copy of what the daemon wrote.
left=02:66:68:00:00:01
right=02:66:68:00:00:02
received="radiotap.present.tsft == 1"
echoed="radiotap.present.tsft == 0 && radiotap.present.data_retries == 1"
written="radiotap.present.tsft == 0 && radiotap.present.data_retries == 0"

look() { # NAME RATE FEW: at the captures, in which there are more than FEW frames each way
    local name=$1 rate=$2 few=$3
    for side in "mon0 $left $right" "mon1 $right $left"; do
        read -r port own other <<<"$side"
        [ -s "$out/$port.pcapng" ] || { check "$name: $port was captured" 0 -gt 0; continue; }
        local at="$name: $port" theirs="wlan.ta == $other && $received" ours="wlan.ta == $own"
        check "$at: frames came from the other radio" "$(frames "$port" "$theirs")" -gt "$few"
        check "$at: none of them came without a hardware timestamp" \
            "$(frames "$port" "wlan.ta == $other && radiotap.present.tsft == 0")" -eq 0
        check "$at: none of them at another rate than was asked for" \
            "$(frames "$port" "$theirs && !($rate)")" -eq 0
        check "$at: none of them asked for a MAC acknowledgement" \
            "$(frames "$port" "$theirs && !(wlan.qos.ack == 1)")" -eq 0
        local sent
        sent=$(frames "$port" "$ours && $written")
        check "$at: frames were written" "$sent" -gt "$few"
        check "$at: every frame was written with its rate" \
            "$(frames "$port" "$ours && $written && $rate")" -eq "$sent"
        check "$at: every frame had its status echo" \
            "$(frames "$port" "$ours && $echoed")" -eq "$sent"
        check "$at: no frame was tried twice" \
            "$(frames "$port" "$ours && $echoed && radiotap.data_retries > 0")" -eq 0
    done
    if [ -s "$out/hwsim0.pcapng" ]; then
        check "$name: nobody acknowledged on the air" \
            "$(frames hwsim0 "wlan.fc.type_subtype == 0x1d")" -eq 0
    fi

    # What the daemons themselves say of it.
    for node in left right; do
        [ -s "$out/$node.json" ] || continue
        local at="$name: $node"
        check "$at: its neighbour is in step" "$(says $node '"up": *true')" -ge 1
        check "$at: every frame received had a stamp of the radio" \
            "$(counter $node hardware_stamps)" -eq "$(counter $node frames_received)"
        check "$at: it slots by these stamps" "$(says $node '"sync_error_ns": *-?[0-9]')" -ge 1
        check "$at: it took the status echoes" "$(counter $node echoes)" -gt "$few"
        check "$at: no echo was missed" "$(counter $node echoes_missing)" -eq 0
        echo "$at: $(counter $node frames_outside_slot) frames outside their slot," \
            "$(counter $node frames_late) held back"
    done
}

carry b '{ phy = "802.11b", preamble = "short", rate_mbps = 11, gap = "difs", channel = 1 }' \
    2048 "" 1 "radiotap.datarate == 11"
carry n '{ phy = "802.11n", mcs = 7, gap = "difs", channel = 1 }' \
    512 "" "1 HT20" "radiotap.mcs.index == 7 && radiotap.mcs.bw == 0 && radiotap.mcs.gi == 0"
carry ac '{ phy = "802.11ac", width_mhz = 80, mcs = 5, gap = "difs", channel = 36 }' \
    512 DE "36 80MHz" "radiotap.vht.mcs.0 == 5 && radiotap.vht.bw == 4"

echo "radio test: $passed passed, $failed failed"
[ "$failed" = 0 ]
