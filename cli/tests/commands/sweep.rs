//! Sweeps: what is finished is never lost, and what is wrong is said before anything runs.

use std::fs;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, PAIR, end, farhop, flow, refusal, stderr};

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
fn a_sweep_that_has_grown_keeps_its_finished_runs() {
    let folder = Folder::new("sweep-grown");
    let (file, out) = (scenario(&folder, &sweep()), folder.file("out"));
    lines(&farhop(&["sim", &file, "--json", "--out", &out, "--jobs", "1"]));
    let runs = folder.file("out/runs.jsonl");
    let kept = fs::read_to_string(&runs).expect("the finished runs");
    // No run would say that.
    let marked = kept.replace("\"simulated_s\":1", "\"simulated_s\":7");
    assert_ne!(marked, kept);
    fs::write(&runs, marked).expect("room");
    let grown = sweep().replace("seeds = 2", "seeds = 3").replace("[0, 0.5]", "[0.2, 0, 0.5]");
    let file = scenario(&folder, &grown);
    let all = lines(&farhop(&["sim", &file, "--json", "--out", &out]));
    let again = all.iter().filter(|line| line["simulated_s"].as_f64() == Some(7.0)).count();
    assert_eq!((all.len(), again), (9, 4));
}

#[test]
fn a_value_that_only_a_lab_can_run_is_refused_before_anything_runs() {
    let folder = Folder::new("sweep-lab-only");
    let text = sweep().replace("kind = \"udp\"", "kind = \"tcp\"").replace(
        "key = \"link[0].loss\"\nvalues = [0, 0.5]",
        "key = \"flow[0].congestion\"\nvalues = [\"reno\", \"bbr\"]",
    );
    let file = scenario(&folder, &text);
    for command in ["check", "sim"] {
        let said = refusal(&[command, &file]);
        assert!(said.contains("BBR is in the lab only") && said.contains("sweep.toml:"), "{said}");
    }
}

#[test]
fn a_sweep_without_a_finished_run_leaves_nothing() {
    let folder = Folder::new("sweep-none");
    let file = scenario(&folder, &sweep().replace("duration_s = 1", "duration_s = 86400"));
    let made_by = folder.file("deep/out/scenario.toml");
    let is_begun = || fs::exists(&made_by).expect("it can be seen");
    let words = ["sim", &file, "--out", &folder.file("deep/out")];
    let (status, said) = end(&words, is_begun, Signal::INT);
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("0 of 4 runs finished"), "{said}");
    assert!(!fs::exists(folder.file("deep")).expect("it can be seen"), "a folder is left");
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
fn a_sweep_and_a_single_run_do_not_share_a_folder() {
    let folder = Folder::new("sweep-shared");
    let file = scenario(&folder, &sweep());
    let single = folder.write("single.toml", sweep().split("[sweep]").next().expect("a part"));
    let [of_run, of_sweep] = ["run", "sweep"].map(|name| folder.file(name));
    for (file, out) in [(&single, &of_run), (&file, &of_sweep)] {
        let out = farhop(&["sim", file, "--out", out]);
        assert!(out.status.success(), "{}", stderr(&out));
    }
    let page = folder.read("run/report.html");
    for more in [&[][..], &["--fresh"]] {
        let said = refusal(&[&["sim", &file, "--out", &of_run][..], more].concat());
        assert!(said.contains("the report of a single run") && said.contains("another"), "{said}");
    }
    assert_eq!(folder.read("run/report.html"), page);
    assert!(!fs::exists(folder.file("run/runs.jsonl")).expect("it can be seen"));
    let said = refusal(&["sim", &single, "--out", &of_sweep]);
    assert!(said.contains("the runs of a sweep"), "{said}");
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
        ("seeds = 2", "seeds = [1, 1]", "the seed 1 stands there twice"),
        ("[0, 0.5]", "[0.5, 0.5]", "0.5 stands there twice"),
        ("link[0].loss", "seed", "sweep.seeds = 5"),
        ("seeds = 2", "seeds = [9223372036854775808]", "below 2^63"),
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

/// A sweep that is finished: its scenario, and the folder that it is kept in.
fn kept(folder: &Folder) -> (String, String) {
    let (file, out) = (scenario(folder, &sweep()), folder.file("out"));
    lines(&farhop(&["sim", &file, "--json", "--out", &out]));
    (file, out)
}

#[test]
fn runs_of_another_program_or_of_other_files_are_not_mixed_in() {
    let folder = Folder::new("sweep-made-by");
    let places = folder.write("places.csv", "a,0,0\nb,0,50\n");
    let more = "[sweep]\nseeds = 2\n";
    let nodes = "[[layout]]\nkind = \"file\"\nname = \"x\"\nfile = \"places.csv\"\n";
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nkind = \"udp\"\n";
    let file = scenario(&folder, &format!("name = \"x\"\nduration_s = 1\n{nodes}{flow}{more}"));
    let out = folder.file("out");
    assert_eq!(lines(&farhop(&["sim", &file, "--json", "--out", &out])).len(), 2);
    fs::write(&places, "a,0,0\nb,0,60\n").expect("it can be written");
    let said = refusal(&["sim", &file, "--out", &out]);
    assert!(said.contains("2 runs of another places.csv"), "{said}");
    fs::write(&places, "a,0,0\nb,0,50\n").expect("it can be written");
    assert_eq!(lines(&farhop(&["sim", &file, "--json", "--out", &out])).len(), 2);
    let made_by = folder.read("out/made-by.json");
    let program = made_by.lines().find(|line| line.contains("program")).expect("its sum");
    let other = made_by.replace(program, "  \"program\": \"another\",");
    folder.write("out/made-by.json", &other);
    let said = refusal(&["sim", &file, "--out", &out]);
    assert!(said.contains("2 runs of another build of farhop"), "{said}");
}

#[test]
fn what_a_folder_holds_is_dropped_only_when_asked_for() {
    let folder = Folder::new("sweep-lines");
    let (file, out) = kept(&folder);
    let kept = folder.read("out/runs.jsonl");
    let mut wrong: Vec<&str> = kept.lines().collect();
    wrong[1] = "{ \"something\": \"else\" }";
    let wrong = wrong.join("\n") + "\n";
    let runs = folder.write("out/runs.jsonl", &wrong);
    let said = refusal(&["sim", &file, "--out", &out]);
    assert!(said.contains("line 2 of") && said.contains("--fresh"), "{said}");
    assert_eq!(fs::read_to_string(&runs).expect("they are there"), wrong);
    // A last line that ends in the middle of a letter.
    let cut = [kept.as_bytes(), b"{\"point\":{\"\xc3"].concat();
    fs::write(&runs, cut).expect("it can be written");
    assert_eq!(lines(&farhop(&["sim", &file, "--json", "--out", &out])).len(), 4);
    assert_eq!(folder.read("out/runs.jsonl"), kept);
}

#[test]
fn a_scenario_of_the_users_own_is_not_overwritten() {
    let folder = Folder::new("sweep-own");
    let own = folder.write("scenario.toml", "# mine\n");
    let file = scenario(&folder, &sweep());
    let here = folder.path().to_str().expect("a plain path").to_owned();
    for more in [&[][..], &["--fresh"]] {
        let words = [&["sim", &file, "--out", &here], more].concat();
        let said = refusal(&words);
        assert!(said.contains("scenario.toml would be overwritten"), "{said}");
    }
    assert_eq!(fs::read_to_string(own).expect("it is there"), "# mine\n");
    assert!(!fs::exists(folder.file("runs.jsonl")).expect("it can be seen"));
}

#[test]
fn two_sweeps_do_not_share_a_folder() {
    let folder = Folder::new("sweep-lock");
    let (file, out) = kept(&folder);
    let runs = fs::File::open(folder.file("out/runs.jsonl")).expect("the runs");
    runs.lock().expect("nobody else has it");
    let refused = farhop(&["sim", &file, "--out", &out]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("another farhop"), "{}", stderr(&refused));
}

#[test]
fn numbers_of_many_digits_are_found_again() {
    let folder = Folder::new("sweep-digits");
    let text = sweep().replace("link[0].loss", "link[0].distance_km");
    let text = text.replace("[0, 0.5]", "[1.4000000000000001, 9.799999999999999]");
    let (file, out) = (scenario(&folder, &text), folder.file("out"));
    for _ in 0..2 {
        assert_eq!(lines(&farhop(&["sim", &file, "--json", "--out", &out])).len(), 4);
        assert_eq!(folder.read("out/runs.jsonl").lines().count(), 4);
    }
}

#[test]
fn flows_have_columns_where_all_points_have_the_same() {
    let folder = Folder::new("sweep-columns");
    let flow = |from: &str, to: &str| {
        format!("{{ kind = \"udp\", from = \"{from}\", to = \"{to}\", rate_mbps = 0.1 }}")
    };
    let (one, two) = (flow("hill", "valley"), flow("valley", "hill"));
    let table = |first: &str| {
        let text = sweep().replace("\"link[0].loss\"", "\"flow\"");
        let text = text.replace("[0, 0.5]", &format!("[[{first}], [{two}, {one}]]"));
        let out = farhop(&["sim", &scenario(&folder, &text)]);
        assert!(out.status.success(), "{}", stderr(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let alike = table(&format!("{two}, {one}").replace("0.1 }", "0.2 }"));
    assert!(alike.contains("hill to valley"), "{alike}");
    let differing = table(&one);
    let head = differing.lines().find(|line| line.contains("all flows")).expect("a head");
    assert!(!head.contains("hill to valley"), "{differing}");
}
