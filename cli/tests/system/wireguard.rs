//! WireGuard over farhop: secrecy from end to end, where relays are not to read along.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::place::{Place, Running, stderr, wait_for};

/// Four nodes in a row. With one radio each on one channel, every other node of a row would have the
/// same slot: the link is plain.
const CHAIN: &str = r#"
name = "relays"
[radio]
phy = "802.11b"
preamble = "short"
rate_mbps = 11
[stack.link]
kind = "plain"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
[[node]]
name = "d"
[[link]]
between = ["a", "b"]
distance_km = 5
[[link]]
between = ["b", "c"]
distance_km = 5
[[link]]
between = ["c", "d"]
distance_km = 5
"#;

/// One end of a tunnel.
struct End {
    node: &'static str,
    /// Its interface, whose name no other test has: the program's socket is the host's.
    interface: String,
    /// Its address in farhop's network.
    outside: &'static str,
    /// Its address in the tunnel.
    inside: &'static str,
    private: String,
}

/// Runs `wg` with something on its standard input; returns what it says.
fn wg(word: &str, input: &str) -> String {
    let mut wg = Command::new("wg");
    let wg = wg.arg(word).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = wg.spawn().expect("wg is missing: run scripts/setup.sh");
    let mut stdin = child.stdin.take().expect("it was asked for");
    stdin.write_all(input.as_bytes()).expect("wg reads");
    drop(stdin);
    let out = child.wait_with_output().expect("wg runs");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn run(place: &Place, node: &str, words: &str) -> String {
    let out = place.exec(node, &words.split_whitespace().collect::<Vec<_>>());
    assert!(out.status.success(), "{node}: {words}: {}", stderr(&out));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Makes one end of a tunnel to the other.
fn set_up(place: &Place, own: &End, other: &End) -> Running {
    let End { node, interface, inside, .. } = own;
    let program = place.spawn(node, &["wireguard-go", "-f", interface]);
    let show = ["wg", "show", interface];
    wait_for("wireguard-go", || place.exec(node, &show).status.success());
    let file = place.path(&format!("{node}.private"));
    std::fs::write(&file, &own.private).expect("a key file");
    let peer = wg("pubkey", &other.private);
    let (outside, theirs) = (other.outside, other.inside);
    run(
        place,
        node,
        &format!(
            "wg set {interface} private-key {file} listen-port 51820 peer {peer} \
             endpoint {outside}:51820 allowed-ips {theirs}/32"
        ),
    );
    run(place, node, &format!("ip addr add {inside}/24 dev {interface}"));
    run(place, node, &format!("ip link set {interface} up"));
    program
}

#[test]
#[ignore = "system: wireguard-go and curl over three hops"]
fn wireguard_carries_a_page_across_three_hops() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: wireguard-go puts its socket where only root may");
        return;
    }
    let place = Place::new("wireguard");
    let file = place.path("relays.toml");
    std::fs::write(&file, CHAIN).expect("the scenario is written");
    if !place.keep(&file) {
        return;
    }
    let end = |node, outside, inside| End {
        node,
        interface: format!("wg{}{node}", std::process::id()),
        outside,
        inside,
        private: wg("genkey", ""),
    };
    let ends = [end("a", "10.66.0.1", "10.88.0.1"), end("d", "10.66.0.4", "10.88.0.2")];
    let _programs = [set_up(&place, &ends[0], &ends[1]), set_up(&place, &ends[1], &ends[0])];

    let said = run(&place, "a", "ping -n -c 10 -i 0.2 -W 5 10.88.0.2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let hops = run(&place, "a", "ping -n -c 1 -W 5 10.66.0.4");
    assert!(hops.contains("ttl=62"), "two relays lie between: {hops}");
    let shown = run(&place, "d", &format!("wg show {} latest-handshakes", ends[1].interface));
    let when = shown.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    assert!(when > Some(0), "{shown}");

    let root = place.dir.join("www");
    std::fs::create_dir_all(&root).expect("a folder to serve");
    let page = "a page\n".repeat(20_000);
    std::fs::write(root.join("page"), &page).expect("a page");
    let folder = root.to_str().expect("a plain path");
    let serve = ["python3", "-m", "http.server", "8000", "-b", "10.88.0.2", "-d", folder];
    let _server = place.spawn("d", &serve);
    let url = "http://10.88.0.2:8000/page";
    let head = ["curl", "-sfI", "-m", "5", url];
    wait_for("the web server", || place.exec("a", &head).status.success());
    let out = place.exec("a", &["curl", "-sSf", "-m", "60", url]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(out.stdout == page.as_bytes(), "{} bytes of {}", out.stdout.len(), page.len());
}
