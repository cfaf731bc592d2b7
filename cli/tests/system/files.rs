//! Files cross three daemons on one host, which are killed while they carry them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::place::{Place, Running, pid_of, stderr, wait_for};
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
    assert!(String::from_utf8_lossy(&out.stdout).contains(" bytes from "), "{}", stderr(&out));
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

/// Starts fetching all files at valley; what it says goes to files of this name.
fn start_receiving(row: &Row<'_>, name: &str) -> Running {
    let inbox = inbox(row);
    let inbox = inbox.to_str().expect("a plain path");
    row.place.start_into(&["receive", inbox, "--node", "valley"], name)
}

#[test]
#[ignore = "system: two commands that fetch into one folder, about 10 s"]
fn of_two_that_fetch_into_one_folder_one_alone_tells_of_each_file() {
    let place = Place::new("two");
    let Some(mut row) = Row::up(&place, &["hill", "valley"], 15_031) else { return };
    let _receiving = ["one", "other"].map(|out| start_receiving(&row, out));
    let (path, _) = row.write("small.bin", 20_000);
    for number in 0..30 {
        let to = format!("valley:{number}.bin");
        let out = place.farhop(&["send", &path, &to, "--node", "hill"]);
        assert!(out.status.success(), "{}", stderr(&out));
        if number == 15 {
            row.kill_and_start(1);
        }
    }
    let told = || {
        let told = ["one.out", "other.out"].map(|out| fs::read_to_string(place.path(out)));
        let told = told.map(|text| text.expect("it is there")).concat();
        let mut lines: Vec<String> = told.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    wait_for("all to be told of", || {
        let left = files(&row, "valley", "incoming");
        left.as_array().is_some_and(Vec::is_empty) && told().len() >= 30
    });
    let [mut once, all] = [told(), told()];
    once.dedup();
    assert!(all.len() == 30 && once.len() == 30, "{all:?}");
}

#[test]
#[ignore = "system: a folder that is away for a while, about 15 s"]
fn a_file_that_could_not_be_put_into_its_folder_is_once_that_can_be() {
    let place = Place::new("again");
    let Some(row) = Row::up(&place, &["hill", "valley"], 15_021) else { return };
    let _receiving = start_receiving(&row, "out");
    let said = || fs::read_to_string(place.path("out.err")).expect("it is there");
    // It may not have looked for the folder yet.
    std::thread::sleep(Duration::from_secs(1));
    let (inbox, aside) = (inbox(&row), place.path("aside"));
    fs::rename(&inbox, &aside).expect("it is there");
    let (path, content) = row.write("small.bin", 20_000);
    let out = place.farhop(&["send", &path, "valley", "--node", "hill"]);
    assert!(out.status.success(), "{}", stderr(&out));
    wait_for("what is wrong", || said().contains("not fetched: small.bin"));
    fs::rename(&aside, &inbox).expect("it is there");
    wait_for("the file", || fs::read(inbox.join("small.bin")).is_ok_and(|got| got == content));
    assert_eq!(said().lines().count(), 1, "{}", said());
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
#[ignore = "system: a file that its destination drops while its sender is away, about 10 s"]
fn a_file_that_is_dropped_is_not_taken_when_its_sender_is_back() {
    let place = Place::new("dropped");
    let Some(mut row) = Row::up(&place, NODES, 14_921) else { return };
    let (path, content) = row.write("big.bin", 20_000_000);
    let out = place.farhop(&["send", &path, "valley", "--node", "hill", "--no-wait"]);
    assert!(out.status.success(), "{}", stderr(&out));
    wait_for("some of the file", || arrived(&row) >= 2_000_000);
    row.kill(0);
    let coming = || files(&row, "valley", "incoming");
    let inbox_parts = || {
        let inbox = place.dir.join("state/valley/inbox");
        fs::read_dir(inbox).expect("it is there").count()
    };
    let before = coming();
    assert_eq!((before.as_array().map(Vec::len), inbox_parts()), (Some(1), 1), "{before}");
    let id = before[0]["id"].as_str().expect("an id");
    let drop = |id: &str| place.farhop(&["cache", "drop", id, "--node", "valley"]);
    for unknown in ["1-2-3", "77"] {
        let out = drop(unknown);
        assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
        assert!(stderr(&out).contains(&format!("no file {unknown}")), "{}", stderr(&out));
    }
    let out = place.farhop(&["send", "--cancel", "77", "--node", "valley"]);
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    assert!(drop(id).status.success());
    wait_for("its bytes to be gone", || inbox_parts() == 0);
    row.restart(0);
    wait_for("the sender to hear of it", || {
        let out = place.farhop(&["cache", "--node", "hill"]);
        String::from_utf8_lossy(&out.stdout)
            .contains("failed: valley does not take it: it was dropped there")
    });
    let out = place.farhop(&["cache", "drop", "--failed", "--node", "valley"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "dropped: 1 file\n", "{}", stderr(&out));
    assert_eq!(files(&row, "valley", "incoming"), serde_json::json!([]));
    let out = place.farhop(&["send", &path, "valley", "--node", "hill"]);
    assert!(out.status.success(), "{}", stderr(&out));
    receive(&row);
    assert!(fs::read(inbox(&row).join("big.bin")).expect("it came") == content);
}

#[test]
#[ignore = "system: files that are given up before their destination is there, about 15 s"]
fn a_cancel_that_comes_before_the_file_is_not_forgotten() {
    let place = Place::new("early");
    let Some(mut row) = Row::up(&place, NODES, 14_941) else { return };
    let (path, _) = row.write("big.bin", 30_000_000);
    for round in 0..4 {
        row.kill(2);
        let out = place.farhop(&["send", &path, "valley", "--node", "hill", "--no-wait"]);
        assert!(out.status.success(), "{}", stderr(&out));
        let id = files(&row, "hill", "outgoing")[round]["id"].to_string();
        // Some of it waits at ridge by then, and so does soon the word that it is given up.
        std::thread::sleep(Duration::from_millis(700));
        let out = place.farhop(&["send", "--cancel", &id, "--node", "hill"]);
        assert!(out.status.success(), "{}", stderr(&out));
        row.restart(2);
        // What is whole at ridge comes within a second, and the word of the end with it.
        std::thread::sleep(Duration::from_secs(2));
        let coming = files(&row, "valley", "incoming");
        let is_moving = |file: &serde_json::Value| file["state"] == "moving";
        assert!(!coming.as_array().expect("files").iter().any(is_moving), "{coming}");
        let inbox = place.dir.join("state/valley/inbox");
        assert_eq!(fs::read_dir(inbox).expect("it is there").count(), 0);
    }
}

#[test]
#[ignore = "system: a pipe in the place of a file, about 2 s"]
fn what_is_no_file_is_refused_and_stops_nobody() {
    let place = Place::new("pipe");
    let Some(row) = Row::up(&place, &["hill", "valley"], 14_951) else { return };
    let pipe = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let out = place.farhop(&["send", &pipe, "valley", "--node", "hill"]);
    assert!(stderr(&out).contains("not a file"), "{}", stderr(&out));
    // A program of its own may ask the daemon for it without having looked.
    let wanted = farhop_run::files::SendFile {
        path: pipe.into(),
        to: "valley".into(),
        name: "x".into(),
        size: 0,
        sha256: String::new(),
        modified_ns: None,
    };
    let socket = place.runtime().join("hill.sock");
    let asked = farhop_run::daemon::client::ask(
        &socket,
        farhop_run::daemon::control::Request::Send(wanted),
    );
    assert!(asked.expect_err("it is no file").to_string().contains("cannot read"));
    let (path, content) = row.write("whole.bin", 100_000);
    assert!(place.farhop(&["send", &path, "valley", "--node", "hill"]).status.success());
    receive(&row);
    assert!(fs::read(inbox(&row).join("whole.bin")).expect("it came") == content);
}

#[test]
#[ignore = "system: a store that is none, moved away under a daemon, about 25 s"]
fn a_daemon_that_could_not_open_its_store_says_so_and_does_once_it_can() {
    let place = Place::new("no-store");
    let store = place.dir.join("state/hill/blocks.redb");
    fs::create_dir_all(store.parent().expect("a folder")).expect("it can be made");
    fs::write(&store, "no store").expect("it can be written");
    let Some(row) = Row::up(&place, &["hill", "valley"], 15_041) else { return };
    let out = place.farhop(&["status", "hill", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&out.stdout).expect("its status");
    let (blocks, advice) = (&status["blocks"], "move it away, and a new one is made");
    assert_eq!(blocks["are_carried"], false, "{blocks}");
    let trouble = blocks["trouble"].as_str().expect("words");
    assert!(trouble.contains("state/hill/blocks.redb") && trouble.ends_with(advice), "{trouble}");
    let (path, content) = row.write("whole.bin", 100_000);
    let send = || place.farhop(&["send", &path, "valley", "--node", "hill"]);
    let said = stderr(&send());
    assert!(said.contains(&format!("carries no blocks: {trouble}")), "{said}");
    let out = place.farhop(&["receive", &place.path("in"), "--node", "hill", "--count", "1"]);
    assert!(!out.status.success() && stderr(&out).contains(trouble), "{}", stderr(&out));
    fs::rename(&store, store.with_extension("aside")).expect("it is there");
    let is_carried = || {
        let out = place.farhop(&["status", "hill"]);
        !String::from_utf8_lossy(&out.stdout).contains("NO BLOCKS")
    };
    wait_for("a new store", is_carried);
    assert!(send().status.success(), "it knows no way, or carries none");
    receive(&row);
    assert!(fs::read(inbox(&row).join("whole.bin")).expect("it came") == content);
}

#[test]
#[ignore = "system: a daemon in the folder of another, about 2 s"]
fn a_second_daemon_on_the_folder_of_another_does_not_start() {
    let place = Place::new("one-folder");
    let Some(_row) = Row::up(&place, &["hill", "valley"], 15_051) else { return };
    let scenario = fs::read_to_string(place.path("row.toml")).expect("it was written");
    let file = place.path("other.toml");
    fs::write(&file, scenario.replace(":1505", ":1506")).expect("the scenario is written");
    let (state, runtime) = (place.path("state"), place.path("other"));
    let words = ["up", &file, "--node", "hill", "--tun", "fh15061-0", "--state", &state];
    let out = place.farhop(&[&words[..], &["--runtime-dir", &runtime]].concat());
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    let right = format!("another daemon keeps its blocks in {state}/hill: give each a folder");
    assert!(stderr(&out).contains(&right) && stderr(&out).contains("--state"), "{}", stderr(&out));
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
    let out = place.farhop(&["send", &path, "valley"]);
    assert!(stderr(&out).contains("several daemons run here"), "{}", stderr(&out));
    // A folder of control sockets is that one alone, whatever labs there are.
    let folder = place.labs()[0]["id"].as_str().map(|id| place.runtime().join("labs").join(id));
    let folder = folder.expect("a lab");
    let folder = folder.to_str().expect("a plain path");
    let out = place.farhop(&["status", "--json", "--runtime-dir", folder]);
    let statuses: serde_json::Value = serde_json::from_slice(&out.stdout).expect("statuses");
    assert_eq!(statuses.as_array().map(Vec::len), Some(3));
    let out = place.farhop(&["cache", "--runtime-dir", &place.path("empty")]);
    assert!(stderr(&out).contains("no daemon is running"), "{}", stderr(&out));
    // What watches ends with whoever reads it.
    assert_eq!(place.start_unread(&["status", "--watch"]).end(), (Some(0), String::new()));
    // Within the lab it is clear who sends.
    let send = |to| place.exec("hill", &[env!("CARGO_BIN_EXE_farhop"), "send", &path, to]);
    let out = send("nowhere");
    assert_eq!(out.status.code(), Some(2), "nothing was done");
    assert!(stderr(&out).contains("no node 'nowhere' in the scenario; it has"), "{}", stderr(&out));
    let out = send("valley");
    assert!(out.status.success(), "{}", stderr(&out));
    let out = place.farhop(&["receive", &inbox, "--count", "1", "--node", "valley"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let got = fs::read(place.path("in/sent.bin")).expect("it came");
    assert!(got == content, "it came changed");
    // A file of which nobody is told stays with the daemon.
    let out = send("valley:untold.bin");
    assert!(out.status.success(), "{}", stderr(&out));
    let unread = place.start_unread(&["receive", &inbox, "--node", "valley"]);
    assert_eq!(unread.end(), (Some(0), String::new()));
    let out = place.farhop(&["cache", "--node", "valley"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("untold.bin from hill"), "{said}");
}

#[test]
#[ignore = "system: a file across a lab whose daemons are killed, about 30 s"]
fn a_file_crosses_a_lab_whatever_daemon_of_it_is_killed() {
    let place = Place::new("killed-lab");
    if !place.keep(&place.chain("killed-lab", [1, 6])) {
        return;
    }
    let content: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let (path, inbox) = (place.path("sent.bin"), place.path("in"));
    fs::write(&path, &content).expect("the file is written");
    let send = place.start(&["send", &path, "valley", "--node", "hill"]);
    let list = || {
        let out = place.farhop(&["lab", "list"]);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    for node in 0..3 {
        std::thread::sleep(Duration::from_millis(500));
        let before = pid_of(&place.labs()[0], node);
        kill_process(before, Signal::KILL).expect("it runs");
        wait_for("a daemon in its place", || pid_of(&place.labs()[0], node) != before);
    }
    let stopped = place.farhop(&["lab", "stop", "ridge"]);
    assert!(stopped.status.success(), "{}", stderr(&stopped));
    std::thread::sleep(Duration::from_millis(1_500));
    let seen = list();
    assert!(seen.contains("up; nodes hill, ridge, valley; stopped: ridge"), "{seen}");
    for told in [place.exec("ridge", &["true"]), place.farhop(&["status", "ridge"])] {
        let told = stderr(&told);
        assert!(told.contains("farhop lab start --lab killed-lab-1 ridge"), "{told}");
    }
    let started = place.farhop(&["lab", "start", "ridge"]);
    assert!(started.status.success(), "{}", stderr(&started));
    let out = place.farhop(&["receive", &inbox, "--count", "1", "--node", "valley"]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(fs::read(place.path("in/sent.bin")).expect("it came") == content, "it came changed");
    drop(send);
    let wrong = place.farhop(&["lab", "stop", "moon"]);
    assert_eq!(wrong.status.code(), Some(2));
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
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    for index in [0, 2] {
        std::thread::sleep(Duration::from_millis(600));
        row.kill_and_start(index);
    }
    input.join().expect("all is written");
    wait_for("the push to end", || !matches!(push.try_wait(), Ok(None)));
    assert!(push.wait().expect("it was started").success());
    receive(&row);
    let got = fs::read(inbox(&row).join("site.tar")).expect("it came");
    assert!(got == content, "it came changed");
}

/// What hill sends, or valley gets, of files.
fn files(row: &Row<'_>, node: &str, way: &str) -> serde_json::Value {
    let out = row.place.farhop(&["cache", "--json", "--node", node]);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    value["files"][way].clone()
}

/// Waits until valley has some of the only file.
fn wait_for_some(row: &Row<'_>) {
    wait_for("some of the file", || {
        files(row, "valley", "incoming")[0]["received"].as_u64() > Some(500_000)
    });
}

/// Waits until valley knows that no more comes of the file, and has nothing of it any more.
fn wait_until_let_go(row: &Row<'_>) {
    wait_for("valley to hear of it", || {
        let state = files(row, "valley", "incoming")[0]["state"].to_string();
        state.contains("its sender gave it up")
    });
    let inbox = row.place.dir.join("state/valley/inbox");
    assert_eq!(fs::read_dir(inbox).expect("it is there").count(), 0);
    wait_for("its blocks to be gone", || {
        let out = row.place.farhop(&["cache", "--json", "--node", "valley"]);
        let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        value["cache"]["waiting"].as_array().is_some_and(Vec::is_empty)
    });
}

#[test]
#[ignore = "system: files across three daemons that are given up, about 10 s"]
fn a_file_that_is_given_up_leaves_nothing_at_its_destination() {
    let place = Place::new("given-up");
    let Some(row) = Row::up(&place, NODES, 14_881) else { return };
    let (path, content) = row.write("big.bin", 30_000_000);
    let out = place.farhop(&["send", &path, "valley", "--node", "hill", "--no-wait"]);
    assert!(out.status.success(), "{}", stderr(&out));
    wait_for_some(&row);
    let id = files(&row, "hill", "outgoing")[0]["id"].to_string();
    let out = place.farhop(&["send", "--cancel", &id, "--node", "hill"]);
    assert!(out.status.success(), "{}", stderr(&out));
    wait_until_let_go(&row);
    // What comes next is not in its way.
    let out = place.farhop(&["send", &path, "valley:small.bin", "--node", "hill", "--no-wait"]);
    assert!(out.status.success(), "{}", stderr(&out));
    receive(&row);
    assert!(fs::read(inbox(&row).join("small.bin")).expect("it came") == content);
}

#[test]
#[ignore = "system: standard input across three daemons that is given up, about 5 s"]
fn a_push_that_is_interrupted_leaves_nothing_at_its_destination() {
    let place = Place::new("push-up");
    let Some(row) = Row::up(&place, NODES, 14_971) else { return };
    let mut command = place.command(&["push", "--stdin", "valley:site.tar", "--node", "hill"]);
    let mut push = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("farhop");
    let mut stdin = push.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, &[7; 3_000_000]).expect("it is read");
    wait_for_some(&row);
    let pid = rustix::process::Pid::from_raw(push.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("our own");
    // Though nothing more comes.
    wait_for("the push to end", || !matches!(push.try_wait(), Ok(None)));
    drop(stdin);
    assert!(!push.wait().expect("it was started").success());
    wait_until_let_go(&row);
}

#[test]
#[ignore = "system: a file across three daemons that is changed on the way, about 5 s"]
fn a_file_that_is_changed_while_it_is_sent_leaves_nothing_at_its_destination() {
    let place = Place::new("changed");
    let Some(row) = Row::up(&place, NODES, 14_991) else { return };
    let (path, _) = row.write("big.bin", 30_000_000);
    let out = place.farhop(&["send", &path, "valley", "--node", "hill", "--no-wait"]);
    assert!(out.status.success(), "{}", stderr(&out));
    wait_for_some(&row);
    fs::File::options()
        .append(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"more"))
        .expect("it is ours");
    wait_until_let_go(&row);
    let state = files(&row, "hill", "outgoing")[0]["state"].to_string();
    assert!(state.contains("was changed while it was sent"), "{state}");
}
