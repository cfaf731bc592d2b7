//! Sweeps: what is finished is never lost, and what is wrong is said before anything runs.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::folder::{Folder, PAIR, farhop, flow, refusal, stderr};

/// Two values, two seeds.
fn sweep() -> String {
    let more = "[sweep]\nseeds = 2\n\n[[sweep.vary]]\nkey = \"link[0].loss\"\nvalues = [0, 0.5]\n";
    format!("name = \"sweep\"\nduration_s = 1\n\n{PAIR}{}\n{more}", flow("udp"))
}

fn scenario(folder: &Folder, text: &str) -> String {
    folder.write("sweep.toml", text)
}

fn lines(out: &Output) -> Vec<Value> {
    assert!(out.status.success(), "{}", stderr(out));
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn every_point_runs_with_every_seed_in_order_on_any_number_of_threads() {
    let folder = Folder::new("sweep-order");
    let file = scenario(&folder, &sweep());
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
    let (file, out) = (scenario(&folder, &sweep()), folder.file("out"));
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
    let (file, out) = (scenario(&folder, &sweep()), folder.file("out"));
    lines(&farhop(&["sim", &file, "--json", "--out", &out]));
    let other = scenario(&folder, &sweep().replace("duration_s = 1", "duration_s = 2"));
    let said = refusal(&["sim", &other, "--out", &out]);
    assert!(said.contains("4 runs of another scenario") && said.contains("--fresh"), "{said}");
    let fresh = lines(&farhop(&["sim", &other, "--json", "--out", &out, "--fresh"]));
    assert!(fresh.iter().all(|line| line["simulated_s"].as_f64() == Some(2.0)));
}

#[test]
fn a_million_runs_are_not_started_without_a_word() {
    let folder = Folder::new("sweep-million");
    let file = scenario(&folder, &sweep().replace("seeds = 2", "seeds = 500_000"));
    let out = folder.file("out");
    let said = refusal(&["sim", &file, "--out", &out]);
    assert!(!fs::exists(&out).expect("it can be seen"), "something is left of what was refused");
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
        let file = scenario(&folder, &sweep().replace(from, to));
        for command in ["sim", "check"] {
            let said = refusal(&[command, &file]);
            assert!(said.contains(expected), "{from} to {to}: {said}");
        }
    }
    let file = scenario(&folder, &sweep());
    let out = farhop(&["check", &file]);
    assert!(out.status.success(), "{}", stderr(&out));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("sweep: 4 runs: 2 values of link[0].loss, 2 seeds\n"), "{said}");
}

#[test]
fn the_lab_says_that_it_leaves_a_sweep_out() {
    let folder = Folder::new("sweep-lab");
    // Whatever else there is to say of it: the lab does not get as far as building this.
    let said = |text: &str| stderr(&farhop(&["lab", &scenario(&folder, text)]));
    let web = sweep().replace("kind = \"udp\"", "kind = \"web\"");
    let found = said(&web);
    let about = |said: &str| said.lines().filter(|line| line.contains("[sweep]")).count();
    assert_eq!(about(&found), 1, "{found}");
    assert!(found.contains("`farhop sim`"), "{found}");
    let (plain, _) = web.split_once("[sweep]").expect("there is one");
    assert_eq!(about(&said(plain)), 0);
}
