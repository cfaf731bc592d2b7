//! Daemons in a row on one host, each on a `udp` device.

use std::fs;
use std::process::{Child, Stdio};

use farhop_testkit::skip;

use crate::place::{Place, wait_for};

fn scenario(nodes: &[&str], ports: u16, silence_s: u32) -> String {
    let mut text = format!(
        "name = \"row\"\nsecurity = \"off\"\n[stack.hop]\nsilence_s = {silence_s}\n\
         [radio]\nphy = \"802.11a\"\n\
         [stack.link]\nkind = \"plain\"\n"
    );
    let address = |index: usize| format!("127.0.0.1:{}", ports + index as u16);
    for (index, node) in nodes.iter().enumerate() {
        let near = [index.checked_sub(1), Some(index + 1).filter(|next| *next < nodes.len())];
        let peer = |near: usize| format!("{} = \"{}\"", nodes[near], address(near));
        let peers: Vec<String> = near.into_iter().flatten().map(peer).collect();
        text += &format!(
            "[[node]]\nname = \"{node}\"\n\
             device = {{ kind = \"udp\", bind = \"{}\", peers = {{ {} }}, paced = true }}\n",
            address(index),
            peers.join(", ")
        );
    }
    for ends in nodes.windows(2) {
        text += &format!("[[link]]\nbetween = [\"{}\", \"{}\"]\n", ends[0], ends[1]);
    }
    text
}

/// The daemons, which end with the test.
pub(crate) struct Row<'a> {
    pub(crate) place: &'a Place,
    nodes: &'static [&'static str],
    file: String,
    daemons: Vec<Child>,
    tun: String,
}

impl<'a> Row<'a> {
    /// `None` on a host where no TUN interface can be made.
    pub(crate) fn up(place: &'a Place, nodes: &'static [&'static str], ports: u16) -> Option<Self> {
        Self::patient(place, nodes, ports, 20)
    }

    /// The same with a time after which streams with a node that is silent end.
    pub(crate) fn patient(
        place: &'a Place,
        nodes: &'static [&'static str],
        ports: u16,
        silence_s: u32,
    ) -> Option<Self> {
        let file = place.path("row.toml");
        fs::write(&file, scenario(nodes, ports, silence_s)).expect("the scenario is written");
        let tun = format!("fh{ports}-");
        let mut row = Self { place, nodes, file, daemons: Vec::new(), tun };
        for (index, name) in nodes.iter().enumerate() {
            let daemon = row.start(index);
            row.daemons.push(daemon);
            if !row.is_up(index) {
                skip(format!("the daemon of {name} does not start"));
                return None;
            }
        }
        Some(row)
    }

    fn start(&self, index: usize) -> Child {
        let (node, tun) = (self.nodes[index], format!("{}{index}", self.tun));
        let mut command = self.place.command(&["up", &self.file, "--node", node, "--tun", &tun]);
        command.args(["--state", &self.place.path("state")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("a daemon starts")
    }

    fn is_up(&mut self, index: usize) -> bool {
        let socket = self.place.runtime().join(format!("{}.sock", self.nodes[index]));
        wait_for("a daemon or its end", || {
            let has_ended = !matches!(self.daemons[index].try_wait(), Ok(None));
            has_ended || std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        matches!(self.daemons[index].try_wait(), Ok(None))
    }

    /// What no handler hears, and then the daemon again.
    pub(crate) fn kill_and_start(&mut self, index: usize) {
        self.kill(index);
        self.restart(index);
    }

    /// A daemon that was killed, again.
    pub(crate) fn restart(&mut self, index: usize) {
        self.daemons[index] = self.start(index);
        assert!(self.is_up(index), "{} does not come up again", self.nodes[index]);
    }

    /// What no handler hears.
    pub(crate) fn kill(&mut self, index: usize) {
        self.daemons[index].kill().expect("it runs");
        self.daemons[index].wait().expect("it was started");
    }

    /// Writes a file of bytes that nobody can guess.
    pub(crate) fn write(&self, name: &str, bytes: usize) -> (String, Vec<u8>) {
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
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
