#!/bin/bash
# Records what a TCP of this machine's kernel sends and gets in a lab of farhop, for the replays in
# proto/src/transport/tcp/tests/kernel: bench/kernel/record.sh SCENARIO FLOW OUT
#
# FLOW is the number of a flow of the scenario, from 1. The flow should start a few seconds after the
# lab (start_s = 3), so that the capture has its handshake. OUT names the congestion control:
# newreno-40km.txt, reno-..., cubic-.... What the other end got and acknowledged goes to receiver-OUT
# beside it. Needs root, dumpcap and tshark, a build of farhop, and a machine with nothing else to do.
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,10s/^# \?//p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
farhop=${FARHOP:-$root/target/release/farhop}
[ -x "$farhop" ] || { echo "there is no $farhop: make build makes it, or FARHOP names one" >&2; exit 1; }
scenario=$1 port=$((5000 + $2)) out=$(realpath -m "$3") dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$farhop" lab "$scenario" --json > "$dir/report.json" &
lab=$!
own=$(readlink /proc/self/ns/net)
seen=""
# Captures in every namespace of the lab; those of nodes have the interface farhop0.
for _ in $(seq 1 20); do
    for process in $(pgrep -x farhop); do
        space=$(readlink "/proc/$process/ns/net" || true)
        case "$own $seen" in *"$space"*) continue ;; esac
        nsenter -t "$process" -n ip -br link show farhop0 > /dev/null 2>&1 || continue
        seen="$seen $space"
        # Ends with the namespace.
        nsenter -t "$process" -n dumpcap -q -i farhop0 -s 100 -w "$dir/$process.pcap" \
            -f "tcp port $port" > /dev/null 2>&1 &
    done
    sleep 0.1
done
wait "$lab" || true
sleep 1

# Of the two ends the sender saw its own SYN first.
ends=$(for file in "$dir"/*.pcap; do
    tshark -r "$file" -c 1 -T fields -e frame.time_epoch 2>/dev/null | sed "s|\$| $file|"
done | sort | cut -d' ' -f2)
sender=$(sed -n 1p <<< "$ends") receiver=$(sed -n 2p <<< "$ends")
[ -n "$receiver" ] || { echo "no packet of port $port was captured at both ends" >&2; exit 1; }

fields="frame.time_epoch tcp.dstport tcp.flags.syn tcp.seq tcp.ack tcp.len tcp.window_size_value
    tcp.options.timestamp.tsval tcp.options.timestamp.tsecr tcp.options.wscale.shift
    tcp.options.sack_le tcp.options.sack_re tcp.flags.push"
rows() {
    # shellcheck disable=SC2046
    tshark -r "$1" -T fields $(printf -- '-e %s ' $fields) 2>/dev/null > "$dir/rows"
}
# The clock of a recording is that of its own end's timestamps, in whole milliseconds: the least
# time that none of the packets sent contradicts. It reads the rows twice, the first time for that.
# shellcheck disable=SC2016
clock='
    FNR == 1 { start = $1 }
    $8 == "" { next }
    { at = $1 - start; is_own = ($2 == port) == is_sender; is_syn = $3 == "True" || $3 == 1 }
    FNR == NR && is_own {
        # Also where one before was refused.
        if (base == "" || is_syn) { base = $8 - 100; ahead = "" }
        gap = ($8 - base) / 1000 - at
        if (gap > ahead || ahead == "") ahead = gap
    }
    FNR == NR { next }
    { at += ahead }
    function blocks(    text, count, left, right, block) {
        count = split($11, left, ","); split($12, right, ",")
        for (block = 1; block <= count; block++) text = text " " left[block] "-" right[block]
        return text
    }'

rows "$sender"
# Ticks begin when retransmission timers go off.
awk -F'\t' -v port="$port" -v is_sender=1 "$clock"'
    is_own && $6 > 0 && ($4 in sent) && at - last > 0.03 {
        step = int(at * 1000 + 0.5) % 4
        if (++steps[step] > most) { most = steps[step]; tick = step }
    }
    is_own && $6 > 0 { sent[$4] = 1 }
    { last = at }
    is_syn {
        if (is_own) { syn = at } else { round = at - syn; window = $7; shift = $10; open = at }
        next
    }
    is_own && $6 > 0 { line[++lines] = sprintf("%d D %d %d", at * 1e6, $4, $6) }
    !is_own {
        head = sprintf("%d A %d %d %d", at * 1e6, $5, $7 * 2 ^ shift, $9 - base)
        line[++lines] = head blocks()
    }
    END {
        printf "%d S %d %d %d\n", open * 1e6, round * 1e6, window, (4 - tick) % 4 * 1000 + 10
        for (place = 1; place <= lines; place++) print line[place]
    }' "$dir/rows" "$dir/rows" > "$out"

rows "$receiver"
awk -F'\t' -v port="$port" -v is_sender=0 "$clock"'
    is_syn { if (is_own) answered = at; next }
    !is_own && $6 == 0 && !is_open { printf "%d S %d\n", at * 1e6, (at - answered) * 1e6; is_open = 1 }
    !is_own && $6 > 0 {
        printf "%d D %d %d %d %d\n", at * 1e6, $4, $6, $9 - base, $13 == "True" || $13 == 1
    }
    is_own { print sprintf("%d A %d", at * 1e6, $5) blocks() }
    ' "$dir/rows" "$dir/rows" > "$(dirname "$out")/receiver-$(basename "$out")"

# What the application did, as far as it can be told.
cd "$root"
RECORDING=$out cargo test -q -p farhop-proto --lib -- --nocapture kernel::complete
mv "$out.completed" "$out"
