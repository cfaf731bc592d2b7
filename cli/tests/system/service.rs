//! A daemon as a service of systemd: what the service manager is told, and the rights of the unit.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Host, SCENARIO, join};
use crate::place::{Place, stderr, wait_for};

/// The unit.
const UNIT: &str = include_str!("../../../packaging/systemd/farhop@.service");

/// The value of a setting of the unit.
fn setting(name: &str) -> &'static str {
    let value = |line: &'static str| line.strip_prefix(name)?.strip_prefix('=');
    UNIT.lines().find_map(value).expect(name)
}

/// What the service manager was told next, a line each.
fn told(socket: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("something is told within 30 s");
    String::from_utf8_lossy(&buffer[..length]).lines().map(String::from).collect()
}

/// Has the daemon end, which tells so, and ends well.
fn end(daemon: &mut Child, signal: Signal, socket: &UnixDatagram) {
    let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("our own process");
    assert_eq!(told(socket), ["STOPPING=1", "STATUS=node left goes down"]);
    wait_for("the daemon to end", || daemon.try_wait().expect("it was started").is_some());
    assert!(daemon.wait().expect("it has ended").success());
}

/// A raw socket, as under a card; the other node has an interface that its host has not.
fn on_wires() -> String {
    let line = |line: &str| {
        let interface = match () {
            () if line.contains("bind = \"192.0.2.1") => "wire",
            () if line.contains("bind = \"192.0.2.2") => "absent",
            () => return line.to_owned() + "\n",
        };
        format!("device = {{ kind = \"ethernet\", interface = \"{interface}\" }}\n")
    };
    SCENARIO.lines().map(line).collect()
}

#[test]
#[ignore = "system: namespaces and processes"]
fn a_service_manager_is_told_when_the_daemon_answers_and_when_it_ends() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can join namespaces by a wire; labs have no `up`");
        return;
    }
    let place = Place::new("service");
    let (left, right) = (Host::new(&place, "left"), Host::new(&place, "right"));
    join(&left, &right);
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("half a minute");
    let file = place.path("service.toml");
    fs::write(&file, on_wires()).expect("the scenario is written");
    // The unit's own line and rights, but for the places of the files.
    let line = setting("ExecStart").replace("/etc/farhop/%i.toml", &file);
    let line = |node: &str| line.replace("%i", node);
    let rights = setting("CapabilityBoundingSet").to_lowercase().replace("cap_", "+");
    let rights = format!("-all,{}", rights.replace(' ', ","));
    let command = |host: &Host<'_>, node: &str| {
        let (line, keys) = (line(node), host.keys());
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let program = [env!("CARGO_BIN_EXE_farhop")];
        // Whoever runs the tests may have it ignored, as under `nohup`.
        let env = ["env", "--default-signal=HUP"];
        let start = ["setpriv", "--no-new-privs", "--bounding-set", &rights];
        let mut command =
            host.command(&[&env[..], &start, &program, &words, &["--keys", &keys]].concat());
        command.env("NOTIFY_SOCKET", &path);
        command
    };

    let out = command(&left, "right").output().expect("setpriv runs");
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert!(stderr(&out).contains("cannot open the device"), "{}", stderr(&out));
    socket.set_nonblocking(true).expect("it can be asked");
    assert!(socket.recv(&mut [0; 64]).is_err(), "a daemon without a device was never ready");
    socket.set_nonblocking(false).expect("it can be waited for");

    // The session of whoever started it may also have closed.
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP, as when the session")]
    {
        let log = File::create(place.path("log")).expect("a log");
        let mut daemon = command(&left, "left").stderr(log).spawn().expect("setpriv runs");
        assert_eq!(told(&socket), ["READY=1", "STATUS=node left is up on wire"]);
        let status = left.status();
        assert_eq!(status["devices"][0]["name"], "wire");
        assert_eq!(status["host"]["name"], "farhop0");
        end(&mut daemon, signal, &socket);
        let log = fs::read_to_string(place.path("log")).expect("a log");
        assert!(log.contains(name) && log.contains("ends this daemon"), "{log}");
    }
    a_terminal_that_stands_still_does_not_stop_it(command(&left, "left"), &socket);
}

/// As after Ctrl-S, or where the terminal's connection goes over the daemon.
fn a_terminal_that_stands_still_does_not_stop_it(mut command: Command, socket: &UnixDatagram) {
    let (shown, mut terminal) = std::io::pipe().expect("a pipe");
    let written = terminal.try_clone().expect("a descriptor");
    let mut daemon = command.stderr(written).spawn().expect("setpriv runs");
    assert_eq!(told(socket), ["READY=1", "STATUS=node left is up on wire"]);
    rustix::io::ioctl_fionbio(&terminal, true).expect("it can be asked");
    while terminal.write(b".").is_ok() {}
    rustix::io::ioctl_fionbio(&terminal, false).expect("it can be waited for");
    end(&mut daemon, Signal::TERM, socket);
    drop(shown);
}
