//! Real programs over a lab of real daemons: iperf3, curl and ping at 10% channel loss.
//!
//! One test, because each lab wants the machine for itself. In another, what ping marks as voice.

use std::path::Path;
use std::process::Command;

use crate::place::{Place, stderr, wait_for};

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

#[test]
#[ignore = "system: ping, curl and iperf3, about 50 s"]
fn real_programs_work_unchanged_over_a_lossy_link() {
    for program in ["ping", "iperf3", "curl", "python3", "sha256sum"] {
        assert!(is_installed(program), "{program} is missing: run scripts/setup.sh");
    }
    let lab = Place::new("programs");
    if !lab.keep(&lab.scenario("programs", 0.1, None)) {
        return;
    }
    ping_loses_nothing(&lab);
    a_download_arrives_whole(&lab);
    iperf3_runs_both_ways(&lab);
}

/// What ping tells of its packets: the share that was lost in percent, and the mean way there and
/// back in milliseconds, if any came.
fn ping_beside(lab: &Place, tos: &str) -> (f64, Option<f64>) {
    let words = ["ping", "-Q", tos, "-c", "20", "-i", "0.1", "-W", "2", "10.66.0.2"];
    let said = String::from_utf8_lossy(&lab.exec("hill", &words).stdout).into_owned();
    let loss = said.split("% packet loss").next().and_then(|text| text.split(' ').next_back());
    let mean = said.split(" = ").nth(1).and_then(|text| text.split('/').nth(1));
    let number = |text: &str| text.parse::<f64>().expect("a figure");
    (loss.map(number).unwrap_or_else(|| panic!("no loss in {said}")), mean.map(number))
}

#[test]
#[ignore = "system: ping in two access categories, about 10 s"]
fn what_a_program_marks_as_voice_does_not_wait_for_the_rest() {
    let lab = Place::new("marks");
    let file = lab.path("marks.toml");
    let text = "name = \"marks\"\nduration_s = 60\n\
                node = [{ name = \"hill\" }, { name = \"valley\" }]\n\
                link = [{ between = [\"hill\", \"valley\"] }]\n\
                radio = { phy = \"802.11a\", rate_mbps = 12, edca = true }\n\
                flow = [{ from = \"hill\", to = \"valley\", kind = \"udp\", rate_mbps = 20 }]\n";
    std::fs::write(&file, text).expect("a scenario is written");
    let running = lab.start(&["lab", &file]);
    lab.wait_until_ready();
    // The flow fills the queue of its category, in which packets without a mark wait for 60 ms.
    wait_for("a full queue", || {
        let (loss, mean_ms) = ping_beside(&lab, "0");
        loss > 50.0 || mean_ms.is_some_and(|mean_ms| mean_ms > 30.0)
    });
    let (loss, mean_ms) = ping_beside(&lab, "0xb8");
    running.signal(rustix::process::Signal::INT);
    running.end();
    assert_eq!(loss, 0.0);
    assert!(mean_ms.is_some_and(|mean_ms| mean_ms < 15.0), "{mean_ms:?}");
}

fn ping_loses_nothing(lab: &Place) {
    for address in ["10.66.0.2", "fd66:6172:686f:70::2"] {
        lab.assert_ping(address, "40");
    }
}

fn a_download_arrives_whole(lab: &Place) {
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
    assert!(out.status.success(), "{}", stderr(&out));
    assert_eq!(sha256(&file), sha256(&copy));
}

fn sha256(file: &Path) -> String {
    let out = Command::new("sha256sum").arg(file).output().expect("sha256sum runs");
    String::from_utf8_lossy(&out.stdout).split(' ').next().unwrap_or_default().to_owned()
}

fn iperf3_runs_both_ways(lab: &Place) {
    let _server = lab.spawn("valley", &["iperf3", "-s"]);
    let mut report = serde_json::Value::Null;
    // With -J iperf3 exits with 0 even if it did not reach its server; its report says so.
    wait_for("iperf3's server", || {
        let words = ["iperf3", "-c", "10.66.0.2", "-t", "15", "--bidir", "-J"];
        let run = lab.exec("hill", &words);
        report = serde_json::from_slice(&run.stdout).expect("iperf3 speaks JSON");
        report["error"].is_null()
    });
    for direction in ["sum_received", "sum_received_bidir_reverse"] {
        let mbps = report["end"][direction]["bits_per_second"].as_f64();
        let mbps = mbps.unwrap_or_else(|| panic!("no {direction} in {report}")) / 1e6;
        assert!(mbps > 1.0, "{direction}: {mbps:.2} Mb/s over a link of 11 Mb/s");
        println!("{direction}: {mbps:.2} Mb/s");
    }
}
