//! Sweeps: what is finished is never lost, and what is wrong is said before anything runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Two values, two seeds.
const SWEEP: &str = r#"name = "sweep"
duration_s = 1

[[node]]
name = "hill"

[[node]]
name = "valley"

[[link]]
between = ["hill", "valley"]

[[flow]]
from = "hill"
to = "valley"
kind = "udp"

[sweep]
seeds = 2

[[sweep.vary]]
key = "link[0].loss"
values = [0, 0.5]
"#;

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("farhop-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the test");
        Self(dir)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    fn scenario(&self, text: &str) -> String {
        let path = self.file("sweep.toml");
        fs::write(&path, text).expect("a file for the test");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn farhop(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farhop")).args(words).output().expect("farhop runs")
}

fn lines(out: &Output) -> Vec<Value> {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// What a command says that is refused.
fn refusal(words: &[&str]) -> String {
    let out = farhop(words);
    assert_eq!(out.status.code(), Some(2), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(out.stdout.is_empty());
    // Long lines are broken by the terminal's width, and marked at the side.
    String::from_utf8_lossy(&out.stderr)
        .replace("  │", "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn every_point_runs_with_every_seed_in_order_on_any_number_of_threads() {
    let folder = Folder::new("sweep-order");
    let file = folder.scenario(SWEEP);
    let [one, two] =
        ["1", "2"].map(|jobs| lines(&farhop(&["sim", &file, "--json", "--jobs", jobs])));
    let of = |line: &Value| (line["point"]["link[0].loss"].as_f64(), line["seed"].as_u64());
    let expected =
        [(0.0, 1), (0.0, 2), (0.5, 1), (0.5, 2)].map(|(loss, seed)| (Some(loss), Some(seed)));
    assert_eq!(one.iter().map(of).collect::<Vec<_>>(), expected);
    let hashes =
        |lines: &[Value]| lines.iter().map(|line| line["trace_hash"].clone()).collect::<Vec<_>>();
    assert_eq!(hashes(&one), hashes(&two));
    assert!(
        one[0]["flows"][0]["goodput_mbps"].as_f64() > one[2]["flows"][0]["goodput_mbps"].as_f64()
    );
}

#[test]
fn a_sweep_goes_on_from_what_is_finished() {
    let folder = Folder::new("sweep-resume");
    let (file, out) = (folder.scenario(SWEEP), folder.file("out"));
    // On one thread runs end, and are kept, in their order.
    let whole = lines(&farhop(&["sim", &file, "--json", "--out", &out, "--jobs", "1"]));
    let runs = folder.file("out/runs.jsonl");
    let kept = fs::read_to_string(&runs).expect("the finished runs");
    assert_eq!(kept.lines().count(), 4);
    for name in
        ["flows.parquet", "over-time.parquet", "counters.parquet", "sweep.svg", "report.html"]
    {
        assert!(
            fs::metadata(folder.file(&format!("out/{name}"))).is_ok_and(|file| file.len() > 100)
        );
    }
    // Cut off in the middle of the third line; the first says something that no run would.
    let mut cut: Vec<String> = kept.lines().map(str::to_owned).collect();
    let mut first: Value = serde_json::from_str(&cut[0]).expect("a line of JSON");
    first["events"] = 7.into();
    cut[0] = first.to_string();
    let text = format!("{}\n{}\n{}", cut[0], cut[1], &cut[2][..cut[2].len() / 2]);
    fs::write(&runs, text).expect("the cut file");
    let again = lines(&farhop(&["sim", &file, "--json", "--out", &out]));
    assert_eq!(again[0]["events"], 7, "a finished run was run again");
    for (before, after) in whole[1..].iter().zip(&again[1..]) {
        assert_eq!(before["trace_hash"], after["trace_hash"]);
    }
    assert_eq!(fs::read_to_string(&runs).expect("the runs").lines().count(), 4);
}

#[test]
fn runs_of_another_scenario_are_not_mixed_in() {
    let folder = Folder::new("sweep-foreign");
    let (file, out) = (folder.scenario(SWEEP), folder.file("out"));
    lines(&farhop(&["sim", &file, "--json", "--out", &out]));
    let other = folder.scenario(&SWEEP.replace("duration_s = 1", "duration_s = 2"));
    let said = refusal(&["sim", &other, "--out", &out]);
    assert!(said.contains("4 runs of another scenario") && said.contains("--fresh"), "{said}");
    let fresh = lines(&farhop(&["sim", &other, "--json", "--out", &out, "--fresh"]));
    assert!(fresh.iter().all(|line| line["simulated_s"].as_f64() == Some(2.0)));
}

#[test]
fn a_million_runs_are_not_started_without_a_word() {
    let folder = Folder::new("sweep-million");
    let file = folder.scenario(&SWEEP.replace("seeds = 2", "seeds = 500_000"));
    let said = refusal(&["sim", &file]);
    assert!(said.contains("1000000 runs") && said.contains("--yes"), "{said}");
    assert!([" min ", " h ", " days "].iter().any(|unit| said.contains(unit)), "{said}");
}

#[test]
fn keys_and_values_that_do_not_fit_are_refused_before_anything_runs() {
    let folder = Folder::new("sweep-keys");
    for (from, to, expected) in [
        ("link[0].loss", "link[7].loss", "the scenario has no link '7'"),
        ("link[0].loss", "link[0].los", "unknown field `los`"),
        ("[0, 0.5]", "[0, 1.5]", "1.5"),
        ("[0, 0.5]", "[]", "no values"),
        ("seeds = 2", "seeds = 0", "runs nothing"),
    ] {
        let file = folder.scenario(&SWEEP.replace(from, to));
        let said = refusal(&["sim", &file]);
        assert!(said.contains(expected), "{from} to {to}: {said}");
    }
}
