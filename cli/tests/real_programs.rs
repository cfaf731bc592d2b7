//! Real programs over a lab of real daemons: iperf3, curl, ssh and ping at 10% channel loss.
//!
//! One test, because each lab wants the machine for itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
name = "real-programs"

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
loss = 0.1
"#;

/// A lab that is taken down when the test ends, however it ends.
struct Lab {
    dir: PathBuf,
}

impl Lab {
    /// `None` where the kernel has no namespaces, TUN or veth for us; says so.
    fn start() -> Option<Self> {
        let dir = std::env::temp_dir().join(format!("farhop-real-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder for the test");
        let file = dir.join("scenario.toml");
        std::fs::write(&file, SCENARIO).expect("the scenario is written");
        let lab = Self { dir };
        let out = lab.farhop(&["lab", file.to_str().expect("a plain path"), "--keep"]);
        let said = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() && said.contains("namespace") {
            println!("skipped: {}", said.trim());
            return None;
        }
        assert!(out.status.success(), "the lab did not start: {said}");
        Some(lab)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farhop"));
        command.args(words).env("FARHOP_RUNTIME_DIR", self.dir.join("run"));
        command
    }

    fn farhop(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("farhop runs")
    }

    fn exec(&self, node: &str, words: &[&str]) -> Output {
        self.farhop(&[&["lab", "exec", node, "--"], words].concat())
    }

    fn spawn(&self, node: &str, words: &[&str]) -> Server {
        let words = [&["lab", "exec", node, "--"], words].concat();
        let mut command = self.command(&words);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Server(child.spawn().expect("the server starts"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.farhop(&["lab", "down", "--all"]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a program says yes, for at most ten seconds.
fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !ready() {
        assert!(Instant::now() < limit, "{what} was not ready in 10 s");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

#[test]
fn real_programs_work_unchanged_over_a_lossy_link() {
    for program in ["ping", "iperf3", "curl", "python3", "sha256sum"] {
        assert!(is_installed(program), "{program} is missing: run scripts/setup.sh");
    }
    let Some(lab) = Lab::start() else { return };
    ping_loses_nothing(&lab);
    a_download_arrives_whole(&lab);
    iperf3_runs_both_ways(&lab);
}

fn ping_loses_nothing(lab: &Lab) {
    for address in ["10.66.0.2", "fd66:6172:686f:70::2"] {
        let out = lab.exec("hill", &["ping", "-n", "-c", "40", "-i", "0.1", "-W", "5", address]);
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
}

fn a_download_arrives_whole(lab: &Lab) {
    let root = lab.dir.join("www");
    std::fs::create_dir_all(&root).expect("a folder to serve");
    let bytes: Vec<u8> =
        (0..10_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = root.join("ten-megabytes");
    std::fs::write(&file, bytes).expect("the file is written");
    let folder = root.to_str().expect("a plain path");
    let _server = lab.spawn("valley", &["python3", "-m", "http.server", "8000", "-d", folder]);
    let url = "http://10.66.0.2:8000/ten-megabytes";
    wait_for("the web server", || {
        lab.exec("hill", &["curl", "-sfI", "-m", "5", url]).status.success()
    });
    let copy = lab.dir.join("copy");
    let to = copy.to_str().expect("a plain path");
    let out = lab.exec("hill", &["curl", "-sSf", "-m", "120", "-o", to, url]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(sha256(&file), sha256(&copy));
}

fn sha256(file: &Path) -> String {
    let out = Command::new("sha256sum").arg(file).output().expect("sha256sum runs");
    String::from_utf8_lossy(&out.stdout).split(' ').next().unwrap_or_default().to_owned()
}

fn iperf3_runs_both_ways(lab: &Lab) {
    let _server = lab.spawn("valley", &["iperf3", "-s"]);
    let mut out = None;
    wait_for("iperf3's server", || {
        let words = ["iperf3", "-c", "10.66.0.2", "-t", "30", "--bidir", "-J"];
        let run = lab.exec("hill", &words);
        let ready = run.status.success();
        out = Some(run);
        ready
    });
    let out = out.expect("it ran");
    let report: serde_json::Value =
        serde_json::from_slice(&out.stdout).expect("iperf3 speaks JSON");
    for direction in ["sum_received", "sum_received_bidir_reverse"] {
        let mbps = report["end"][direction]["bits_per_second"].as_f64().expect("a rate") / 1e6;
        assert!(mbps > 1.0, "{direction}: {mbps:.2} Mb/s over a link of 11 Mb/s");
        println!("{direction}: {mbps:.2} Mb/s");
    }
}
