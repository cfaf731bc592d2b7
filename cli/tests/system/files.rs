//! Files cross three daemons on one host, which are killed while they carry them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::place::{Place, stderr, wait_for};

/// Three nodes in a row, each a daemon on a `udp` device.
const NODES: [&str; 3] = ["hill", "ridge", "valley"];

fn scenario(ports: u16, name: &str) -> String {
    let mut text = format!(
        "name = \"{name}\"\nsecurity = \"off\"\n[radio]\nphy = \"802.11a\"\n\
         [stack.link]\nkind = \"plain\"\n"
    );
    let address = |index: usize| format!("127.0.0.1:{}", ports + index as u16);
    for (index, node) in NODES.iter().enumerate() {
        let near = [index.checked_sub(1), Some(index + 1).filter(|next| *next < NODES.len())];
        let peer = |near: usize| format!("{} = \"{}\"", NODES[near], address(near));
        let peers: Vec<String> = near.into_iter().flatten().map(peer).collect();
        text += &format!(
            "[[node]]\nname = \"{node}\"\n\
             device = {{ kind = \"udp\", bind = \"{}\", peers = {{ {} }} }}\n",
            address(index),
            peers.join(", ")
        );
    }
    for ends in NODES.windows(2) {
        text += &format!("[[link]]\nbetween = [\"{}\", \"{}\"]\n", ends[0], ends[1]);
    }
    text
}

/// The three daemons, which end with the test.
struct Row<'a> {
    place: &'a Place,
    file: String,
    daemons: Vec<Child>,
    tun: String,
}

impl<'a> Row<'a> {
    /// `None` where no TUN interface can be made.
    fn up(place: &'a Place, ports: u16) -> Option<Self> {
        let file = place.path("row.toml");
        fs::write(&file, scenario(ports, "row")).expect("the scenario is written");
        let tun = format!("fh{ports}-");
        let mut row = Self { place, file, daemons: Vec::new(), tun };
        for index in 0..NODES.len() {
            let daemon = row.start(index);
            row.daemons.push(daemon);
            if !row.is_up(index) {
                println!("skipped: no daemon can run here");
                return None;
            }
        }
        Some(row)
    }

    fn start(&self, index: usize) -> Child {
        let (node, tun) = (NODES[index], format!("{}{index}", self.tun));
        let mut command = self.place.command(&["up", &self.file, "--node", node, "--tun", &tun]);
        command.args(["--state", &self.place.path("state")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("a daemon starts")
    }

    fn is_up(&mut self, index: usize) -> bool {
        let socket = self.place.runtime().join(format!("{}.sock", NODES[index]));
        wait_for("a daemon or its end", || {
            let has_ended = !matches!(self.daemons[index].try_wait(), Ok(None));
            has_ended || std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        matches!(self.daemons[index].try_wait(), Ok(None))
    }

    /// What no handler hears, and then the daemon again.
    fn kill_and_start(&mut self, index: usize) {
        self.daemons[index].kill().expect("it runs");
        self.daemons[index].wait().expect("it was started");
        self.daemons[index] = self.start(index);
        assert!(self.is_up(index), "{} does not come up again", NODES[index]);
    }

    /// Writes a file of bytes that nobody can guess.
    fn write(&self, name: &str, bytes: usize) -> (String, Vec<u8>) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let content: Vec<u8> = (0..bytes).map(next).collect();
        let path = self.place.path(name);
        fs::write(&path, &content).expect("the file is written");
        (path, content)
    }

    fn inbox(&self) -> PathBuf {
        let inbox = self.place.dir.join("in");
        fs::create_dir_all(&inbox).expect("a folder");
        inbox
    }

    /// Fetches one file at valley.
    fn receive(&self) {
        let inbox = self.inbox();
        let inbox = inbox.to_str().expect("a plain path");
        let out = self.place.farhop(&["receive", inbox, "--count", "1", "--node", "valley"]);
        assert!(out.status.success(), "{}", stderr(&out));
    }

    /// How many bytes of the only file have arrived.
    fn arrived(&self) -> u64 {
        let out = self.place.farhop(&["cache", "--json", "--node", "hill"]);
        let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        value["files"]["outgoing"][0]["arrived"].as_u64().unwrap_or(0)
    }
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
#[ignore = "system: files across three daemons, about 5 s"]
fn a_file_crosses_three_daemons_under_the_name_that_it_was_given() {
    let place = Place::new("files");
    let Some(row) = Row::up(&place, 14_851) else { return };
    for (name, bytes) in [("big.bin", 3_000_000), ("small.bin", 100), ("empty.bin", 0)] {
        let (path, content) = row.write(name, bytes);
        let to = format!("valley:new-{name}");
        let out = place.farhop(&["send", &path, &to, "--node", "hill"]);
        assert!(out.status.success(), "{}", stderr(&out));
        row.receive();
        let got = fs::read(row.inbox().join(format!("new-{name}"))).expect("it came");
        assert!(got == content, "{name} came changed");
    }
    let out = place.farhop(&["send", &place.path("big.bin"), "nowhere", "--node", "hill"]);
    assert!(!out.status.success() && stderr(&out).contains("hill, ridge, valley"));
}

#[test]
#[ignore = "system: three daemons killed while they carry a file, about 15 s"]
fn a_file_arrives_whatever_daemon_is_killed_on_the_way() {
    let place = Place::new("killed");
    let Some(mut row) = Row::up(&place, 14_861) else { return };
    let (path, content) = row.write("big.bin", 12_000_000);
    let out = place.farhop(&["send", &path, "valley", "--node", "hill", "--no-wait"]);
    assert!(out.status.success(), "{}", stderr(&out));
    for (index, share) in [(1, 10), (2, 25), (0, 40), (1, 55)] {
        let bytes = content.len() as u64 * share / 100;
        wait_for("more of the file", || row.arrived() >= bytes);
        row.kill_and_start(index);
    }
    row.receive();
    let got = fs::read(row.inbox().join("big.bin")).expect("it came");
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
