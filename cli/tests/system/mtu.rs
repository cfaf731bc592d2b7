//! Packets whose frames are longer than an Ethernet-like device takes.

use std::fs;

use serde_json::Value;

use crate::host::{Host, is_answered, join, stdout};
use crate::place::{Place, stderr, wait_for};

/// Two hosts with a wire between them, of the usual MTU.
pub(crate) const SCENARIO: &str = r#"
name = "mtu"
[security]
mode = "off"
[stack.link]
kind = "wild"
[[node]]
name = "left"
device = { kind = "ethernet", interface = "wire" }
[[node]]
name = "right"
device = { kind = "ethernet", interface = "wire" }
[[link]]
between = ["left", "right"]
"#;

/// Sets the MTU of the wire at both ends.
fn set_mtu(hosts: [&Host<'_>; 2], mtu: &str) {
    for host in hosts {
        let out = host.run(&["ip", "link", "set", "wire", "mtu", mtu]);
        assert!(out.status.success(), "{}", stderr(&out));
    }
}

/// Whether packets of so many bytes come back.
fn ping(host: &Host<'_>, bytes: u16) -> bool {
    let data = (bytes - 28).to_string();
    let words = ["ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", "-s", &data, "10.66.0.2"];
    is_answered(&host.run(&words))
}

#[test]
#[ignore = "system: namespaces and processes"]
fn a_packet_that_the_device_does_not_take_is_lost_and_told_and_the_rest_goes_on() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can join namespaces by a wire; labs have no `up`");
        return;
    }
    let place = Place::new("mtu");
    let file = place.path("mtu.toml");
    fs::write(&file, SCENARIO).expect("the scenario is written");
    let (mut left, mut right) = (Host::new(&place, "left"), Host::new(&place, "right"));
    join(&left, &right);
    set_mtu([&left, &right], "2304");
    left.up(&file);
    right.up(&file);
    wait_for("the hosts to meet", || ping(&left, 84));
    assert!(ping(&left, 1_500));
    set_mtu([&left, &right], "1500");

    assert!(!ping(&left, 1_500));
    assert!(ping(&left, 84), "what is short goes on");
    let status = left.status();
    let device = &status["devices"][0];
    assert_eq!(device["sent"]["frames_too_long"], 3, "{device}");
    assert_eq!(device["dropped"].as_object().map(serde_json::Map::len), Some(0), "{device}");
    assert_eq!(status["stack"]["link"]["drops"]["too-long"], 3, "{}", status["stack"]["link"]);
    let said = left.log();
    let told = "bytes was not sent, for the MTU of wire is 1500; `ip link set dev wire mtu 2304`";
    assert_eq!(said.matches(told).count(), 1, "once in a minute: {said}");
    let said = stdout(&left.run(&[env!("CARGO_BIN_EXE_farhop"), "status", "left"]));
    assert!(said.contains("3 frames NOT SENT, longer than its MTU"), "{said}");

    set_mtu([&left, &right], "2304");
    assert!(ping(&left, 1_500));
    let sent: Value = left.status()["devices"][0]["sent"].clone();
    assert_eq!(sent["frames_too_long"], 3, "{sent}");
    let said = stdout(&left.run(&[env!("CARGO_BIN_EXE_farhop"), "status", "left"]));
    assert!(said.contains("3 frames not sent while its MTU was below the 2304 of now"), "{said}");
    assert!(!said.contains("DOWN"), "{said}");
    assert!(left.run(&["ip", "link", "set", "wire", "down"]).status.success());
    let said = stdout(&left.run(&[env!("CARGO_BIN_EXE_farhop"), "status", "left"]));
    assert!(said.contains("its interface is DOWN: `ip link set dev wire up`"), "{said}");
    left.down();
    right.down();
}

#[test]
#[ignore = "system: namespaces and processes"]
fn the_host_sends_no_longer_packets_than_go_in_a_frame_of_the_device() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can join namespaces by a wire; labs have no `up`");
        return;
    }
    let place = Place::new("host-mtu");
    let file = place.path("mtu.toml");
    fs::write(&file, SCENARIO).expect("the scenario is written");
    let (mut left, mut right) = (Host::new(&place, "left"), Host::new(&place, "right"));
    join(&left, &right);
    left.up(&file);
    right.up(&file);
    wait_for("the hosts to meet", || ping(&left, 84));
    let said = left.log();
    assert!(said.contains("farhop0 takes packets of 14"), "{said}");
    // What wild puts together may be longer than a packet.
    assert!(said.contains("wire has an MTU of 1500, and frames of this link may have "), "{said}");
    let link = stdout(&left.run(&["ip", "link", "show", "farhop0"]));
    let mtu = link.split_whitespace().skip_while(|word| *word != "mtu").nth(1);
    let mtu: u16 = mtu.expect("its MTU").parse().expect("a number");
    assert!((1_400..1_500).contains(&mtu), "{link}");
    assert!(ping(&left, mtu), "the longest packet");
    left.down();
    right.down();
}
