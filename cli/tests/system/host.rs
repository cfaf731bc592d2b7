//! Hosts of their own, each a network namespace, with wires between them.

use std::fs::{self, File};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::place::{Place, stderr, wait_for};

/// Two hosts with a wire between them, each with a daemon on a `udp` device.
pub(crate) const SCENARIO: &str = r#"
name = "hosts"
[stack.link]
kind = "wild"
[[node]]
name = "left"
device = { kind = "udp", bind = "192.0.2.1:4850", peers = { right = "192.0.2.2:4850" } }
[[node]]
name = "right"
device = { kind = "udp", bind = "192.0.2.2:4850", peers = { left = "192.0.2.1:4850" } }
[[link]]
between = ["left", "right"]
"#;

pub(crate) fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Whether a ping gets all its answers; each may take a second.
pub(crate) fn is_answered(out: &Output) -> bool {
    stdout(out).contains(" 0% packet loss")
}

/// A host of its own: a network namespace, with folders for keys and for the control socket.
pub(crate) struct Host<'a> {
    pub(crate) place: &'a Place,
    pub(crate) name: &'static str,
    /// The process that holds the namespace.
    holder: Child,
    daemon: Option<Child>,
}

impl<'a> Host<'a> {
    pub(crate) fn new(place: &'a Place, name: &'static str) -> Self {
        let mut holder = Command::new("unshare");
        let holder = holder.args(["--net", "sleep", "1000"]).spawn().expect("unshare runs");
        let own = fs::read_link("/proc/self/ns/net").expect("/proc is mounted");
        let theirs = format!("/proc/{}/ns/net", holder.id());
        wait_for("a namespace", || fs::read_link(&theirs).is_ok_and(|theirs| theirs != own));
        Self { place, name, holder, daemon: None }
    }

    pub(crate) fn keys(&self) -> String {
        self.place.path(&format!("{}/keys", self.name))
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--net"]).args(words);
        let runtime = self.place.path(&format!("{}/run", self.name));
        command.env("FARHOP_RUNTIME_DIR", runtime).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("nsenter runs")
    }

    pub(crate) fn farhop(&self, words: &[&str]) -> Output {
        let keys = self.keys();
        self.run(&[&[env!("CARGO_BIN_EXE_farhop")], words, &["--keys", &keys]].concat())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.place.path(&format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Starts the daemon, and waits until it answers.
    pub(crate) fn up(&mut self, file: &str) {
        let log = File::create(self.place.path(&format!("{}.log", self.name))).expect("a log");
        let program = env!("CARGO_BIN_EXE_farhop");
        let keys = self.keys();
        let words = [program, "up", file, "--node", self.name, "--keys", &keys];
        let daemon = self.command(&words).stderr(log).spawn().expect("nsenter runs");
        self.daemon = Some(daemon);
        let is_up = || self.run(&[program, "status", self.name]).status.success();
        wait_for(&format!("the daemon of {}", self.name), is_up);
    }

    pub(crate) fn down(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        signal(&daemon, Signal::TERM);
        assert!(daemon.wait().expect("it was started").success(), "{}", self.log());
    }

    /// Has the daemon stand still meanwhile.
    pub(crate) fn while_it_stands(&self, what: impl FnOnce()) {
        let daemon = self.daemon.as_ref().expect("it is up");
        signal(daemon, Signal::STOP);
        what();
        signal(daemon, Signal::CONT);
    }

    pub(crate) fn status(&self) -> Value {
        let out = self.run(&[env!("CARGO_BIN_EXE_farhop"), "status", self.name, "--json"]);
        serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", stderr(&out)))
    }

    /// The public key, as its user reads it.
    pub(crate) fn line(&self) -> String {
        stdout(&self.farhop(&["keys"])).lines().next().unwrap_or_default().to_owned()
    }

    pub(crate) fn ping(&self, address: &str) -> bool {
        is_answered(&self.run(&["ping", "-n", "-c", "2", "-i", "0.1", "-W", "1", address]))
    }
}

fn signal(process: &Child, signal: Signal) {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), signal).expect("our own process");
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        for child in self.daemon.iter_mut().chain([&mut self.holder]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A wire between two hosts.
pub(crate) fn join(left: &Host<'_>, right: &Host<'_>) {
    let (l, r) = (left.holder.id().to_string(), right.holder.id().to_string());
    let add = ["link", "add", "wire", "netns", &l, "type", "veth", "peer", "wire", "netns", &r];
    let out = Command::new("ip").args(add).output().expect("ip runs");
    assert!(out.status.success(), "{}", stderr(&out));
    for (host, address) in [(left, "192.0.2.1/24"), (right, "192.0.2.2/24")] {
        for words in ["link set lo up", "link set wire up", &format!("addr add {address} dev wire")]
        {
            let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
            let out = host.run(&words);
            assert!(out.status.success(), "{}", stderr(&out));
        }
    }
}
