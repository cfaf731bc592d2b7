//! A runtime directory of a test's own: its labs are found by nobody else and end with the test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use farhop_testkit::skip;
use rustix::process::Pid;
use serde_json::Value;

/// The radio and the nodes of all tests here.
const NETWORK: &str = r#"
[radio]
phy = "802.11b"
preamble = "short"
rate_mbps = 11
ack_rate_mbps = 2
gap = "difs"

[stack.link]
kind = "wild"

[[node]]
name = "hill"

[[node]]
name = "valley"

[[link]]
between = ["hill", "valley"]
distance_km = 80
"#;

/// One TCP flow.
const FLOW: &str = "\n[[flow]]\nfrom = \"hill\"\nto = \"valley\"\nkind = \"tcp\"\n";

/// A folder with scenarios and a runtime directory; labs in it are taken down when the test ends,
/// however it ends.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("farhop-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder for the test");
        Self { dir }
    }

    /// Also what farhop takes for an ordinary user whose `XDG_RUNTIME_DIR` is its parent.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.dir.join("run").join("farhop")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a scenario of two nodes with a loss, and one flow that runs for `flow_s` seconds if
    /// that is given; returns the file.
    pub(crate) fn scenario(&self, name: &str, loss: f64, flow_s: Option<f64>) -> String {
        let mut text = format!("name = \"{name}\"\nduration_s = {}\n", flow_s.unwrap_or(1.0));
        text += &format!("{NETWORK}loss = {loss}\n");
        if flow_s.is_some() {
            text += FLOW;
        }
        let file = self.path(&format!("{name}.toml"));
        std::fs::write(&file, text).expect("the scenario is written");
        file
    }

    /// Writes the scenario of a chain of three nodes, hill, ridge and valley, on these channels;
    /// returns the file.
    pub(crate) fn chain(&self, name: &str, channels: [u16; 2]) -> String {
        let radio = NETWORK.split("[[node]]").next().unwrap_or_default();
        let mut text = format!("name = \"{name}\"\nduration_s = 1\n{radio}");
        for node in ["hill", "ridge", "valley"] {
            text += &format!("[[node]]\nname = \"{node}\"\n");
        }
        for (ends, channel) in
            [("\"hill\", \"ridge\"", channels[0]), ("\"ridge\", \"valley\"", channels[1])]
        {
            text += &format!(
                "[[link]]\nbetween = [{ends}]\ndistance_km = 30\n\
                 radio = {{ channel = {channel} }}\n"
            );
        }
        let file = self.path(&format!("{name}.toml"));
        std::fs::write(&file, text).expect("the scenario is written");
        file
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farhop"));
        command.args(words).env("FARHOP_RUNTIME_DIR", self.runtime()).stdin(Stdio::null());
        command
    }

    pub(crate) fn farhop(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("farhop runs")
    }

    /// Starts a lab that stays up. False where the kernel has no namespaces, TUN or veth for us;
    /// that is printed.
    pub(crate) fn keep(&self, file: &str) -> bool {
        let out = self.farhop(&["lab", file, "--keep"]);
        let said = stderr(&out);
        if !out.status.success() && said.contains("namespace") {
            skip(said.trim());
            return false;
        }
        assert!(out.status.success(), "the lab did not start: {said}");
        true
    }

    pub(crate) fn exec(&self, node: &str, words: &[&str]) -> Output {
        self.farhop(&[&["lab", "exec", node, "--"], words].concat())
    }

    /// Starts a program inside that ends with its value.
    pub(crate) fn spawn(&self, node: &str, words: &[&str]) -> Running {
        self.start(&[&["lab", "exec", node, "--"], words].concat())
    }

    /// Starts farhop itself, quietly but for what it complains of.
    pub(crate) fn start(&self, words: &[&str]) -> Running {
        let mut command = self.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Running(command.spawn().expect("farhop starts"))
    }

    /// Starts farhop; what it says goes to files here, `NAME.out` and `NAME.err`.
    pub(crate) fn start_into(&self, words: &[&str], name: &str) -> Running {
        let mut command = self.command(words);
        let [out, err] = ["out", "err"].map(|end| self.dir.join(format!("{name}.{end}")));
        command.stdout(std::fs::File::create(out).expect("a file"));
        command.stderr(std::fs::File::create(err).expect("a file"));
        Running(command.spawn().expect("farhop starts"))
    }

    /// Starts farhop with a standard output that nobody reads.
    pub(crate) fn start_unread(&self, words: &[&str]) -> Running {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("farhop starts");
        drop(child.stdout.take());
        Running(child)
    }

    /// What is written down of the labs here, by folder.
    pub(crate) fn labs(&self) -> Vec<Value> {
        let folders = std::fs::read_dir(self.runtime().join("labs")).into_iter().flatten();
        let read = |entry: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read(entry.ok()?.path().join("lab.json")).unwrap_or_default();
            Some(serde_json::from_slice(&text).unwrap_or(Value::Null))
        };
        folders.filter_map(read).collect()
    }

    /// Waits until the flows of the only lab here run.
    pub(crate) fn wait_until_ready(&self) -> Value {
        wait_for("the lab", || self.labs().iter().any(|lab| lab["ready"] == true));
        self.labs().remove(0)
    }

    /// The processes, other than direct children of the test, that belong to labs of this place.
    pub(crate) fn insiders(&self) -> Vec<u32> {
        let runtime = format!("FARHOP_RUNTIME_DIR={}", self.runtime().display());
        let is_inside = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let has = |wanted: &[u8]| {
                environment.split(|byte| *byte == 0).any(|line| line.starts_with(wanted))
            };
            has(runtime.as_bytes()) && has(b"FARHOP_LAB=")
        };
        let entries = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(is_inside).collect()
    }

    /// Fails unless no process and no folder of a lab is left.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.insiders(), [] as [u32; 0], "processes are left");
        assert!(self.labs().is_empty(), "folders are left: {:?}", self.labs());
    }

    pub(crate) fn status(&self, node: &str) -> Value {
        let out = self.farhop(&["status", node, "--json"]);
        serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", stderr(&out)))
    }

    /// Pings from hill, and fails if an answer is missing.
    pub(crate) fn assert_ping(&self, address: &str, count: &str) {
        let words = ["ping", "-n", "-c", count, "-i", "0.1", "-W", "5", address];
        let said = String::from_utf8_lossy(&self.exec("hill", &words).stdout).into_owned();
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.farhop(&["lab", "down", "--all"]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A process that is killed when the test ends.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process"), signal).expect("it runs");
    }

    /// Waits for its end; returns its exit status and what it complained of.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        wait_for("its end", || self.has_ended());
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
        }
        (self.0.wait().expect("it was started").code(), said)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process of a node of a lab that is written down, by its place.
pub(crate) fn pid_of(lab: &Value, node: usize) -> Pid {
    let pid = lab["nodes"][node][1]["pid"].as_i64().expect("a process");
    Pid::from_raw(i32::try_from(pid).expect("a process number")).expect("no zero")
}

pub(crate) fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Waits until something is so, for at most 30 seconds.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < limit, "waited for 30 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The interfaces of the host.
pub(crate) fn interfaces() -> BTreeSet<String> {
    let entries = std::fs::read_dir(Path::new("/sys/class/net")).expect("sysfs is mounted");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
