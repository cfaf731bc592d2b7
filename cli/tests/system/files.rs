//! Files cross three daemons on one host, which are killed while they carry them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::place::{Place, stderr, wait_for};
use crate::row::Row;

/// Three nodes in a row.
const NODES: &[&str] = &["hill", "ridge", "valley"];

fn inbox(row: &Row<'_>) -> PathBuf {
    let inbox = row.place.dir.join("in");
    fs::create_dir_all(&inbox).expect("a folder");
    inbox
}

/// Fetches one file at valley.
fn receive(row: &Row<'_>) {
    let inbox = inbox(row);
    let inbox = inbox.to_str().expect("a plain path");
    let out = row.place.farhop(&["receive", inbox, "--count", "1", "--node", "valley"]);
    assert!(out.status.success(), "{}", stderr(&out));
}

/// How many bytes of the only file have arrived.
fn arrived(row: &Row<'_>) -> u64 {
    let out = row.place.farhop(&["cache", "--json", "--node", "hill"]);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    value["files"]["outgoing"][0]["arrived"].as_u64().unwrap_or(0)
}

#[test]
#[ignore = "system: files across three daemons, about 5 s"]
fn a_file_crosses_three_daemons_under_the_name_that_it_was_given() {
    let place = Place::new("files");
    let Some(row) = Row::up(&place, NODES, 14_851) else { return };
    for (name, bytes) in [("big.bin", 3_000_000), ("small.bin", 100), ("empty.bin", 0)] {
        let (path, content) = row.write(name, bytes);
        let to = format!("valley:new-{name}");
        let out = place.farhop(&["send", &path, &to, "--node", "hill"]);
        assert!(out.status.success(), "{}", stderr(&out));
        receive(&row);
        let got = fs::read(inbox(&row).join(format!("new-{name}"))).expect("it came");
        assert!(got == content, "{name} came changed");
    }
    let out = place.farhop(&["send", &place.path("big.bin"), "nowhere", "--node", "hill"]);
    assert!(!out.status.success() && stderr(&out).contains("hill, ridge, valley"));
}

#[test]
#[ignore = "system: three daemons killed while they carry a file, about 15 s"]
fn a_file_arrives_whatever_daemon_is_killed_on_the_way() {
    let place = Place::new("killed");
    let Some(mut row) = Row::up(&place, NODES, 14_861) else { return };
    let (path, content) = row.write("big.bin", 12_000_000);
    let out = place.farhop(&["send", &path, "valley", "--node", "hill", "--no-wait"]);
    assert!(out.status.success(), "{}", stderr(&out));
    for (index, share) in [(1, 10), (2, 25), (0, 40), (1, 55)] {
        let bytes = content.len() as u64 * share / 100;
        wait_for("more of the file", || arrived(&row) >= bytes);
        row.kill_and_start(index);
    }
    receive(&row);
    let got = fs::read(inbox(&row).join("big.bin")).expect("it came");
    assert!(got == content, "it came changed");
}

#[test]
#[ignore = "system: a file across a lab of three daemons, about 20 s"]
fn a_file_crosses_a_lab() {
    let place = Place::new("file-lab");
    if !place.keep(&place.chain("file-lab", [1, 6])) {
        return;
    }
    let content: Vec<u8> = (0..400_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let (path, inbox) = (place.path("sent.bin"), place.path("in"));
    fs::write(&path, &content).expect("the file is written");
    fs::create_dir_all(&inbox).expect("a folder");
    let out = place.farhop(&["send", &path, "valley", "--node", "hill"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let out = place.farhop(&["receive", &inbox, "--count", "1", "--node", "valley"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let got = fs::read(place.path("in/sent.bin")).expect("it came");
    assert!(got == content, "it came changed");
}

#[test]
#[ignore = "system: standard input across three daemons that are killed, about 10 s"]
fn what_is_pushed_arrives_though_both_ends_are_killed() {
    let place = Place::new("pushed");
    let Some(mut row) = Row::up(&place, NODES, 14_871) else { return };
    let (path, content) = row.write("big.bin", 9_000_000);
    let words = ["push", "--stdin", "valley:site.tar", "--node", "hill"];
    let mut command = place.command(&words);
    let mut push = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("farhop");
    let mut stdin = push.stdin.take().expect("a pipe");
    let input = std::thread::spawn(move || {
        for part in fs::read(path).expect("it was written").chunks(1_000_000) {
            std::io::Write::write_all(&mut stdin, part).expect("it is read");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    });
    for index in [0, 2] {
        std::thread::sleep(std::time::Duration::from_millis(600));
        row.kill_and_start(index);
    }
    input.join().expect("all is written");
    wait_for("the push to end", || !matches!(push.try_wait(), Ok(None)));
    assert!(push.wait().expect("it was started").success());
    receive(&row);
    let got = fs::read(inbox(&row).join("site.tar")).expect("it came");
    assert!(got == content, "it came changed");
}
