//! Keys in running daemons: made at the first start, trusted and revoked while they run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::host::{Host, SCENARIO, is_answered, join, stdout};
use crate::place::{Place, stderr, wait_for};

#[test]
#[ignore = "system: namespaces and processes"]
fn two_hosts_meet_once_each_trusts_the_key_of_the_other() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can join namespaces by a wire; labs have no `up`");
        return;
    }
    let place = Place::new("hosts");
    let file = place.path("hosts.toml");
    fs::write(&file, SCENARIO).expect("the scenario is written");
    let (mut left, mut right) = (Host::new(&place, "left"), Host::new(&place, "right"));
    join(&left, &right);
    left.up(&file);
    right.up(&file);
    first_start_makes_the_key(&left, "right");
    a_second_daemon_with_the_key_is_refused(&left, &file);
    assert!(!left.ping("10.66.0.2"), "strangers do not hear each other");
    assert!(left.status()["stack"]["security"]["peers"][0]["key"].is_null());

    let (l, r) = (left.line(), right.line());
    for (host, line, name) in [(&left, &r, "right"), (&right, &l, "left")] {
        let out = host.farhop(&["keys", "trust", line, "--name", name]);
        let said = stdout(&out);
        assert!(out.status.success(), "{}", stderr(&out));
        assert!(said.contains(&format!("the daemon of '{}' knows", host.name)), "{said}");
    }
    wait_for("the hosts to meet", || left.ping("10.66.0.2"));
    let status = left.status();
    let peer = &status["stack"]["security"]["peers"][0];
    assert_eq!(peer["key"], r.as_str());
    assert!(!peer["since"].is_null() && !peer["last_handshake"].is_null(), "{peer:#}");

    // After a new start the key is the same, and nothing has to be said again.
    left.down();
    left.up(&file);
    assert_eq!(left.line(), l);
    wait_for("the hosts to meet again", || left.ping("10.66.0.2"));
    let out = right.farhop(&["keys", "revoke", "left"]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(!left.ping("10.66.0.2"), "a revoked host is not heard");
    left.down();
    right.down();
}

#[test]
#[ignore = "system: namespaces and processes"]
fn two_hosts_whose_security_differs_say_so_on_both_sides() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can join namespaces by a wire; labs have no `up`");
        return;
    }
    let place = Place::new("differing");
    let (mut left, mut right) = (Host::new(&place, "left"), Host::new(&place, "right"));
    join(&left, &right);
    let (l, r) = (left.line(), right.line());
    for (host, line, name) in [(&left, &r, "right"), (&right, &l, "left")] {
        let out = host.farhop(&["keys", "trust", line, "--name", name]);
        assert!(out.status.success(), "{}", stderr(&out));
    }
    let file = |security: &str| {
        let file = place.path(&format!("{security}.toml"));
        let text =
            SCENARIO.replace("[stack.link]", &format!("security = {security:?}\n[stack.link]"));
        fs::write(&file, text).expect("the scenario is written");
        file
    };
    let [off, encrypt, readable] = ["off", "encrypt", "authenticate-only"].map(file);
    right.up(&encrypt);
    for (theirs, at_left, at_right) in [
        (&off, "right sends sealed frames", "left sends frames without security"),
        (&readable, "right has another security mode", "left has another security mode"),
    ] {
        left.up(theirs);
        for (host, words) in [(&left, at_left), (&right, at_right)] {
            wait_for(words, || {
                let said = stdout(&host.run(&[env!("CARGO_BIN_EXE_farhop"), "status", host.name]));
                said.contains(&format!("NOT HEARD: {words}"))
            });
        }
        wait_for("the log of left", || left.log().contains(at_left));
        assert_eq!(left.log().matches(at_left).count(), 1, "{}", left.log());
        left.down();
    }
    assert!(right.log().contains("left sends frames without security"), "{}", right.log());
    left.up(&encrypt);
    wait_for("the hosts to meet", || left.ping("10.66.0.2"));
    for host in [&left, &right] {
        assert_eq!(host.status()["differing"], serde_json::json!({}), "{}", host.name);
    }
    left.down();
    right.down();
}

fn first_start_makes_the_key(host: &Host<'_>, neighbour: &str) {
    let key = format!("{}/key", host.keys());
    let mode = fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let said = host.log();
    let out = host.farhop(&["keys", "--json"]);
    let keys: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let fingerprint = keys["fingerprint"].as_str().expect("a fingerprint");
    assert!(said.contains("made a new key in ") && said.contains(fingerprint), "{said}");
    assert!(said.contains(&format!("no key is known of {neighbour}")), "{said}");
    assert!(said.contains("keys trust"), "the command that helps: {said}");
}

fn a_second_daemon_with_the_key_is_refused(host: &Host<'_>, file: &str) {
    let out = host.farhop(&["up", file, "--node", "right", "--tun", "second"]);
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("the daemon of 'left' runs with the key"), "{said}");
}

#[test]
#[ignore = "system: namespaces and processes"]
fn a_revoked_node_is_cut_off_at_once_and_a_trusted_one_let_in() {
    let place = Place::new("revoked");
    if !place.keep(&place.scenario("quiet", 0.0, None)) {
        return;
    }
    let lab = place.labs()[0]["id"].as_str().expect("an id").to_owned();
    let folder = |node: &str| place.path(&format!("run/farhop/labs/{lab}/keys/{node}"));
    let ping = || {
        let words = ["ping", "-n", "-c", "2", "-i", "0.1", "-W", "1", "10.66.0.2"];
        is_answered(&place.exec("hill", &words))
    };
    assert!(ping());
    let key = fs::metadata(folder("hill") + "/key").expect("a key of the lab's own");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);

    // The key is the scenario's: that of the lab names each.
    let out = place.farhop(&["keys", "revoke", "valley", "--keys", &folder("hill")]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stdout(&out).contains("the daemon of 'hill' knows"), "{}", stdout(&out));
    assert!(!ping(), "what a revoked node sends is not heard");
    let security = &place.status("hill")["stack"]["security"];
    assert!(security["peers"][0]["key"].is_null(), "{security:#}");
    assert!(security["rejected"]["not-trusted"].as_u64() > Some(0), "{security:#}");

    let line = stdout(&place.farhop(&["keys", "--keys", &folder("valley")]));
    let line = line.lines().next().expect("a line");
    let words = ["keys", "trust", line, "--name", "valley", "--keys", &folder("hill")];
    let said = stderr(&place.farhop(&words));
    assert!(said.contains("of 'valley' was revoked on ") && said.contains("--again"), "{said}");
    assert!(place.farhop(&[&words[..], &["--again"]].concat()).status.success());
    wait_for("the nodes to agree again", ping);
    let said = stdout(&place.farhop(&["status", "hill"]));
    assert!(said.contains("frames are encrypted") && said.contains("key of valley: "), "{said}");
}
