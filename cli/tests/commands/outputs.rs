//! Folders for results: what is wrong with one is said before anything runs.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, PAIR, end, farhop, flow, program, refusal, stderr};

fn one_run(folder: &Folder) -> String {
    let text = format!("name = \"one\"\nduration_s = 1\n\n{PAIR}{}", flow("udp"));
    folder.write("one.toml", &text)
}

#[test]
fn a_file_is_no_folder_and_nothing_runs_for_it() {
    let folder = Folder::new("outputs-file");
    let (one, file) = (one_run(&folder), folder.write("f.txt", "mine\n"));
    let sweep = fs::read_to_string(&one).expect("it is there") + "\n[sweep]\nseeds = 2\n";
    let sweep = folder.write("sweep.toml", &sweep);
    let inside = folder.file("f.txt/deeper");
    for words in [
        ["sim", &one, "--out", &file],
        ["sim", &one, "--out", &inside],
        ["sim", &sweep, "--out", &file],
        ["paper", "wildnet", "--out", &file],
    ] {
        let said = refusal(&words);
        assert!(said.contains("is a file, not a folder: --out takes a folder"), "{said}");
    }
    assert_eq!(fs::read_to_string(file).expect("it is there"), "mine\n");
}

#[test]
fn a_folder_that_nothing_can_be_written_into_is_refused() {
    let folder = Folder::new("outputs-barred");
    // Not even root makes a folder there.
    let said = refusal(&["sim", &one_run(&folder), "--out", "/proc/farhop"]);
    assert!(said.contains("cannot write into /proc/farhop"), "{said}");
}

/// A run that takes long, with something on air from the beginning.
fn long_run(folder: &Folder) -> String {
    let text = format!("name = \"long\"\nduration_s = 86400\n\n{PAIR}{}", flow("tcp"));
    folder.write("long.toml", &text)
}

/// The lengths of the files that are written and have no name yet.
fn unnamed(folder: &Folder) -> Vec<u64> {
    let files = fs::read_dir(folder.path()).expect("it is there").flatten();
    let is_unnamed = |file: &fs::DirEntry| {
        let name = file.file_name();
        name.to_str().is_some_and(|name| name.starts_with(".farhop-") && name.ends_with(".new"))
    };
    let length = |file: fs::DirEntry| file.metadata().map_or(0, |it| it.len());
    files.filter(is_unnamed).map(length).collect()
}

#[test]
fn no_output_takes_the_place_of_the_scenario() {
    let folder = Folder::new("outputs-own");
    let file = one_run(&folder);
    let before = fs::read(&file).expect("it is there");
    let link = folder.file("link.toml");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    for place in [&file, &link] {
        for option in ["--pcap", "--trace", "--losses"] {
            let said = refusal(&["sim", &file, option, place]);
            assert!(said.contains("which is the scenario: give"), "{said}");
        }
    }
    let (report, out) =
        (folder.write("report.json", &fs::read_to_string(&file).expect("text")), folder.file(""));
    let said = refusal(&["sim", &report, "--out", &out]);
    assert!(said.contains("which is the scenario: give --out another folder"), "{said}");
    assert_eq!(fs::read(&file).expect("it is there"), before);
    assert_eq!(unnamed(&folder), [0; 0]);
}

#[test]
fn two_outputs_are_not_written_into_one_file() {
    let folder = Folder::new("outputs-twice");
    let (one, file) = (one_run(&folder), folder.file("x"));
    let again = folder.file("./x");
    let said = refusal(&["sim", &one, "--trace", &file, "--losses", &again]);
    assert!(said.contains("--trace and --losses are both to write"), "{said}");
    assert!(!fs::exists(&file).expect("it can be seen"));
    assert!(unnamed(&folder).is_empty());
    let dir = folder.file("out");
    for name in ["report.json", "report.html", "flows.svg", "links.parquet"] {
        let file = folder.file(&format!("out/../out/{name}"));
        let said = refusal(&["sim", &one, "--trace", &file, "--out", &dir]);
        assert!(said.contains("are both to write") && said.contains(name), "{said}");
        assert!(!fs::exists(&dir).expect("it can be seen"));
    }
    let beside = folder.file("out/trace.jsonl");
    assert!(farhop(&["sim", &one, "--trace", &beside, "--out", &dir]).status.success());
    assert!(fs::exists(&beside).expect("it can be seen"));
    // A device takes all.
    let both = ["sim", &one, "--trace", "/dev/null", "--losses", "/dev/null"];
    assert!(farhop(&both).status.success());
}

#[test]
fn an_output_that_cannot_have_its_name_keeps_no_other_from_it() {
    let folder = Folder::new("outputs-blocked");
    let (file, pcap, trace) =
        (long_run(&folder), folder.file("air.pcapng"), folder.file("air.jsonl"));
    let words = ["sim", &file, "--pcap", &pcap, "--trace", &trace];
    let is_begun = || {
        let is_there = unnamed(&folder).len() == 2;
        // No file can take the place of a folder.
        is_there && fs::create_dir_all(&pcap).is_ok()
    };
    let (status, said) = end(&words, is_begun, Signal::INT);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("what was written is in"), "{said}");
    assert!(fs::metadata(&trace).is_ok_and(|it| it.len() > 0), "{said}");
    assert_eq!(unnamed(&folder).len(), 1);
}

#[test]
fn an_interrupted_run_leaves_what_is_whole_and_says_how_long_it_is() {
    let folder = Folder::new("outputs-interrupted");
    let mut names: Vec<String> =
        ["air.pcapng", "air.jsonl", "air.csv", "new/out"].map(|name| folder.file(name)).into();
    names.insert(0, long_run(&folder));
    let [file, pcap, trace, losses, out] = &names[..] else { unreachable!("five names") };
    let words = ["--pcap", pcap, "--trace", trace, "--losses", losses, "--out", out];
    let words = [&["sim", file], &words[..]].concat();
    let is_begun = || {
        let lengths = unnamed(&folder);
        lengths.len() == 3 && lengths.iter().all(|bytes| *bytes > 20_000)
    };
    let (status, said) = end(&words, is_begun, Signal::TERM);
    assert_eq!(status, Some(143), "{said}");
    for name in [pcap, trace, losses] {
        assert!(said.contains(&format!("{name}: the first ")), "{said}");
    }
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .expect("it is there")
        .flatten()
        .map(|it| it.file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["air.csv", "air.jsonl", "air.pcapng", "long.toml"]);
    let last: Value = serde_json::from_str(folder.read("air.jsonl").lines().last().expect("lines"))
        .expect("the last line is whole");
    assert!(last.is_object());
    // A recording says at its end how long it is, and can be played back.
    let text = fs::read_to_string(one_run(&folder)).expect("a scenario");
    let loss = "loss = { kind = \"trace\", file = \"air.csv\", link = \"hill>valley\" }\n";
    let text = text.replace("duration_s = 1", "duration_s = 0.2");
    let text = text.replace("\n[[flow]]", &format!("{loss}\n[[flow]]"));
    let played = farhop(&["sim", &folder.write("play.toml", &text)]);
    assert!(played.status.success(), "{}", stderr(&played));
}

#[test]
fn ctrl_c_and_a_hangup_have_statuses_of_their_own() {
    let folder = Folder::new("outputs-signals");
    let (file, trace) = (long_run(&folder), folder.file("air.jsonl"));
    let words = ["sim", &file, "--trace", &trace];
    for (signal, expected) in [(Signal::INT, 130), (Signal::HUP, 129)] {
        let is_begun = || !unnamed(&folder).is_empty();
        let (status, said) = end(&words, is_begun, signal);
        assert_eq!(status, Some(expected), "{said}");
    }
}

#[test]
fn a_good_folder_holds_the_report_and_nothing_of_the_trial() {
    let folder = Folder::new("outputs-good");
    let out = folder.file("new/out");
    let done = farhop(&["sim", &one_run(&folder), "--out", &out]);
    assert!(done.status.success(), "{}", stderr(&done));
    let names = fs::read_dir(&out).expect("it was made").flatten();
    let names: Vec<String> = names.map(|it| it.file_name().to_string_lossy().into()).collect();
    assert!(names.iter().any(|name| name == "report.html"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
}

#[test]
fn one_run_does_not_overwrite_a_sweep() {
    let folder = Folder::new("outputs-sweep");
    folder.write("runs.jsonl", "{}\n");
    folder.write("report.html", "of the sweep\n");
    let here = folder.file("");
    let said = refusal(&["sim", &one_run(&folder), "--out", &here]);
    assert!(said.contains("runs of a sweep") && said.contains("another folder"), "{said}");
    assert_eq!(folder.read("report.html"), "of the sweep\n");
}

#[test]
fn a_standard_error_that_cannot_be_written_is_no_panic() {
    let folder = Folder::new("outputs-stderr");
    let bad = folder.write("bad.toml", "nonsense = 1\n");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let status = program().args(["check", &bad]).stderr(full).status().expect("farhop runs");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn options_of_a_sweep_are_refused_for_one_run() {
    let folder = Folder::new("outputs-options");
    let (one, out) = (one_run(&folder), folder.file("out"));
    for words in [&["--jobs", "2"][..], &["--yes"], &["--fresh", "--out", &out]] {
        let said = refusal(&[&["sim", &one], words].concat());
        assert!(said.contains(words[0]) && said.contains("has no [sweep]"), "{said}");
    }
}

#[test]
fn keys_in_the_node_of_a_lab_are_not_those_of_the_host() {
    let folder = Folder::new("outputs-keys");
    let mut keys = program();
    keys.arg("keys").env("FARHOP_LAB", "gone-1@1.1").env("FARHOP_LAB_NODE", "hill");
    let home = folder.file("home");
    keys.env("HOME", &home).env("XDG_CONFIG_HOME", &home);
    let out = keys.env("FARHOP_RUNTIME_DIR", folder.file("run")).output().expect("farhop runs");
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert!(stderr(&out).contains("in the node of a lab"), "{}", stderr(&out));
    assert!(!fs::exists(home).expect("it can be seen"), "a key was made");
}

#[test]
fn numbers_and_files_that_are_wrong_are_told_what_would_be_right() {
    let folder = Folder::new("outputs-words");
    let (one, binary) = (one_run(&folder), folder.file("binary.toml"));
    fs::write(&binary, [0x7f, 0xff, 0xfe]).expect("it can be written");
    for (words, right) in [
        (&["sim", &one, "--jobs", "0"][..], "a whole number from 1 on"),
        (&["sim", &one, "--jobs", "-1"], "a whole number from 1 on"),
        (&["sim", &one, "--seed", "x"], "a whole number from 0 to"),
        (&["sim", &one, "--seed", "-1"], "a whole number from 0 to"),
        (&["lab", &one, "--seed", "-1"], "a whole number from 0 to"),
        (&["sim", &one, "--pcap", "-"], "--pcap takes a file"),
        (&["sim", &one, "--trace", "-"], "--trace takes a file"),
        (&["top", "--count", "0"], "a whole number from 1 on"),
        (&["top", "--count", "-1"], "a whole number from 1 on"),
        (&["receive", "--count", "0"], "a whole number from 1 on"),
        (&["receive", "--count", "-1"], "a whole number from 1 on"),
        (&["up", &one, "--node", "hill", "--tun", "a/b"], "without white space, '/'"),
        (&["lab", "down", "no-such-lab"], "there is no lab 'no-such-lab'"),
        (&["exit", "--limit", "none"], "a whole number from 1 on"),
        (&["proxy", "--exit", "gw", "--limit", "0"], "a whole number from 1 on"),
        (&["proxy", "--exit", "gw", "--limit", "-1"], "a whole number from 1 on"),
        (&["send", "--cancel", "4294967296"], "a whole number from 0 to 4294967295"),
        (&["send", "--cancel", "-1"], "a whole number from 0 to 4294967295"),
        (&["paper", "--seeds", "0"], "a whole number from 1 to 1000"),
        (&["paper", "--seeds", "-1"], "a whole number from 1 to 1000"),
        (&["paper", "--jobs", "-1"], "a whole number from 1 on"),
        (&["check", &binary], "it is no text"),
    ] {
        let said = refusal(words);
        assert!(said.contains(right), "{said}");
    }
    assert!(!fs::exists("-").expect("it can be seen"), "a file of that name");
}

#[test]
fn the_unit_is_installed_with_its_program_and_with_what_tells_systemd_where_it_is() {
    let folder = Folder::new("install");
    let (target, root) = (folder.file("target"), folder.file("root"));
    fs::create_dir_all(format!("{target}/release")).expect("a folder");
    fs::copy("/bin/true", format!("{target}/release/farhop")).expect("a program");
    for (prefix, is_found) in [("/usr/local", true), ("/opt/farhop", false)] {
        let mut make = std::process::Command::new("make");
        make.args(["-C", concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "install"]);
        make.args([format!("PREFIX={prefix}"), format!("DESTDIR={root}")]);
        // Not those of a `make test` around this one.
        let out = make.env("CARGO_TARGET_DIR", &target).env_remove("MAKEFLAGS").output();
        let out = out.expect("make runs");
        assert!(out.status.success(), "{}", stderr(&out));
        let unit = format!("{prefix}/lib/systemd/system/farhop@.service");
        let text = fs::read_to_string(format!("{root}{unit}")).expect("it is there");
        let start = format!("\nExecStart={prefix}/bin/farhop up /etc/farhop/%i.toml --node %i\n");
        assert!(text.contains(&start), "{text}");
        assert!(fs::exists(format!("{root}{prefix}/bin/farhop")).expect("it can be seen"));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let advice = format!("sudo systemctl link {unit}\n");
        assert_eq!(said.contains(&advice), !is_found, "{said}");
    }
}
