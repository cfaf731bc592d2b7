#!/bin/busybox sh
# In the guest: two daemons, each in a network namespace with a radio of its own, carry files.
#
#   two-nodes.sh KILOBYTES CHANNEL [WIDTH]
#
# Without namespaces the kernel would hand packets for its own addresses over by itself, and nothing
# would cross the air. Prints a line for each check; leaves captures of the air and the daemons'
# status in /out for the checks on the host.

kilobytes=$1
shift
channel=$*

left=10.66.0.1
right=10.66.0.2
failed=0

pass() { echo "passed: $*"; }
fail() { echo "FAILED: $*"; failed=$((failed + 1)); }
check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then pass "$what"; else fail "$what"; fi
}

# A namespace lives as long as a process in it.
unshare -n sleep 1000 & l=$!
unshare -n sleep 1000 & r=$!
sleep 0.3
at_left() { nsenter -t $l -n "$@"; }
at_right() { nsenter -t $r -n "$@"; }

iw phy phy0 set netns $l && iw phy phy1 set netns $r || exit 126
set_up() { # PID INTERFACE: what a move to another namespace undoes
    nsenter -t $1 -n ip link set lo up
    # The MTU of a monitor interface counts the radiotap header.
    nsenter -t $1 -n ip link set $2 mtu 2304
    nsenter -t $1 -n ip link set $2 up
    nsenter -t $1 -n iw dev $2 set channel $channel
    nsenter -t $1 -n ip link set $2 down
    nsenter -t $1 -n ip link set $2 up
}
set_up $l mon0
set_up $r mon1
ip link set hwsim0 up

# Started without a function in between, so that the number kept is that of the program itself.
options="-q -s 256"
nsenter -t $l -n ./dumpcap $options -i mon0 -w /out/mon0.pcapng 2>/out/mon0.log & c0=$!
nsenter -t $r -n ./dumpcap $options -i mon1 -w /out/mon1.pcapng 2>/out/mon1.log & c1=$!
./dumpcap $options -i hwsim0 -w /out/hwsim0.pcapng 2>/out/hwsim0.log & c2=$!
for port in mon0 mon1 hwsim0; do
    n=0
    until [ -s /out/$port.pcapng ] || [ $n -ge 50 ]; do
        n=$((n + 1))
        sleep 0.1
    done
done

# Each daemon has a runtime directory and keys of its own, as on two machines.
mkdir -p /run/left /run/right
for node in left right; do
    ./farhop keys --keys /run/$node/keys >/run/$node/line
done
./farhop keys trust --keys /run/left/keys --name right "$(head -n 1 /run/right/line)"
./farhop keys trust --keys /run/right/keys --name left "$(head -n 1 /run/left/line)"
up="./farhop up two-nodes.toml --node"
XDG_RUNTIME_DIR=/run/left nsenter -t $l -n $up left --keys /run/left/keys >/out/left.log 2>&1 & d0=$!
XDG_RUNTIME_DIR=/run/right nsenter -t $r -n $up right --keys /run/right/keys >/out/right.log 2>&1 & d1=$!

answers() { # seconds: whether the other end answers within them
    local n=0
    while [ $n -lt $1 ]; do
        at_left ping -q -c 1 -W 1 $right >/dev/null 2>&1 && return 0
        n=$((n + 1))
        sleep 0.2
    done
    return 1
}
check "the nodes reach each other" answers 30
tun() { at_left ip -o addr | awk -v a=$left '$3 == "inet" && index($4, a "/") == 1 { print $2 }'; }
mtu_is() { at_left ip link show "$(tun)" | grep -q "mtu $1 "; }
check "IP packets of 1500 bytes fit" mtu_is 1500

mkdir -p /tmp/www /tmp/got
dd if=/dev/urandom of=/tmp/www/file bs=1024 count=$kilobytes 2>/dev/null
at_right httpd -p 8080 -h /tmp/www
at_left httpd -p 8080 -h /tmp/www
same() { [ "$(sha256sum <$1)" = "$(sha256sum <$2)" ]; }
carry() { # NAME ADDRESS COMMAND: fetches the file, says how long it took, compares it
    local start=$(cut -d' ' -f1 /proc/uptime)
    $3 timeout 60 wget -q -O /tmp/got/$1 http://$2:8080/file
    echo "$1 took $(cut -d' ' -f1 /proc/uptime | awk -v s=$start '{ print $1 - s }') s"
    same /tmp/www/file /tmp/got/$1
}
check "a file from right to left arrives whole" carry leftward $right at_left
check "a file from left to right arrives whole" carry rightward $left at_right
check "ping without loss" at_left ping -q -c 10 -i 0.2 -W 3 -s 1400 $right

status() { XDG_RUNTIME_DIR=/run/$1 at_$1 ./farhop status $1 --json >/out/$1.json; }
check "the left daemon tells its status" status left
check "the right daemon tells its status" status right

kill $d0 $d1
stopped() { # within a second or two
    local n=0
    while kill -0 $d0 2>/dev/null || kill -0 $d1 2>/dev/null; do
        n=$((n + 1))
        [ $n -lt 20 ] || return 1
        sleep 0.1
    done
}
check "the daemons stop when told to" stopped
no_tun() { [ -z "$(tun)" ]; }
check "a daemon that stopped leaves no interface" no_tun
sleep 0.5
kill $c0 $c1 $c2
wait $c0 $c1 $c2
[ $failed = 0 ] && exit 0
tail -n 20 /out/left.log /out/right.log
exit 1
