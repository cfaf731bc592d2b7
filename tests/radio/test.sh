#!/usr/bin/env bash
# The radio test: two daemons on real mac80211 carry files; then their frames are looked at.
#
#   test.sh FARHOP
#
# The transfer runs in the guest (two-nodes.sh). What it captured is checked here, with a program
# that knows nothing of farhop. Ends with `radio test: N passed, M failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
farhop=${1:?which farhop?}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

guest=0
HWSIM_FILES="$farhop $here/two-nodes.toml $(command -v dumpcap)" HWSIM_OUT=$out HWSIM_LIMIT=240 \
    "$here/run.sh" "$here/two-nodes.sh" | tee "$out/lines" || guest=${PIPESTATUS[0]}
if [ "$guest" -gt 1 ]; then
    echo "the guest ended with $guest" >&2
fi
passed=$(grep -c '^passed: ' "$out/lines" || true)
failed=$(grep -c '^FAILED: ' "$out/lines" || true)
# A guest that broke off failed one check more than it tells.
[ "$guest" -le 1 ] || failed=$((failed + 1))

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

# farhop's addresses are 02:66:68:RADIO:NODE:NODE; a frame is a reception where it has a timestamp,
# an echo where it tells retries, and else the copy of what the daemon wrote.
left=02:66:68:00:00:01
right=02:66:68:00:00:02
received="radiotap.present.tsft == 1"
echoed="radiotap.present.tsft == 0 && radiotap.present.data_retries == 1"
written="radiotap.present.tsft == 0 && radiotap.present.data_retries == 0"
for side in "mon0 $left $right" "mon1 $right $left"; do
    read -r port own other <<<"$side"
    [ -s "$out/$port.pcapng" ] || { check "$port was captured" 0 -gt 0; continue; }
    theirs="wlan.ta == $other && $received"
    ours="wlan.ta == $own"
    check "$port: frames came from the other radio" "$(frames "$port" "$theirs")" -gt 1400
    check "$port: none of them came without a hardware timestamp" \
        "$(frames "$port" "wlan.ta == $other && radiotap.present.tsft == 0")" -eq 0
    check "$port: none of them at another rate than 11 Mb/s" \
        "$(frames "$port" "$theirs && radiotap.datarate != 11")" -eq 0
    check "$port: none of them asked for a MAC acknowledgement" \
        "$(frames "$port" "$theirs && !(wlan.qos.ack == 1)")" -eq 0
    sent=$(frames "$port" "$ours && $written")
    check "$port: frames were written" "$sent" -gt 1400
    check "$port: every frame was written with its rate" \
        "$(frames "$port" "$ours && $written && radiotap.datarate == 11")" -eq "$sent"
    check "$port: every frame had its status echo" \
        "$(frames "$port" "$ours && $echoed")" -eq "$sent"
    check "$port: no frame was tried twice" \
        "$(frames "$port" "$ours && $echoed && radiotap.data_retries > 0")" -eq 0
done
if [ -s "$out/hwsim0.pcapng" ]; then
    check "nobody acknowledged on the air" "$(frames hwsim0 "wlan.fc.type_subtype == 0x1d")" -eq 0
fi

# What the daemons themselves say of it.
for node in left right; do
    [ -s "$out/$node.json" ] || continue
    check "$node: its neighbour is in step" "$(says $node '"up": *true')" -ge 1
    check "$node: every frame received had a stamp of the radio" \
        "$(counter $node hardware_stamps)" -eq "$(counter $node frames_received)"
    check "$node: it slots by these stamps" "$(says $node '"sync_error_ns": *-?[0-9]')" -ge 1
    check "$node: it took the status echoes" "$(counter $node echoes)" -gt 1400
    check "$node: no echo was missed" "$(counter $node echoes_missing)" -eq 0
    echo "$node: $(counter $node frames_outside_slot) frames outside their slot," \
        "$(counter $node frames_late) held back"
done

echo "radio test: $passed passed, $failed failed"
[ "$failed" = 0 ]
