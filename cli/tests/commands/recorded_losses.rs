//! Recordings of losses: written by one run, read by the next, and refused where they are wrong.

use std::process::Output;

use crate::folder::{Folder, PAIR, flat, flow, program, stderr};

/// A folder with two nodes, whose link has this loss.
fn folder(name: &str, loss: &str) -> Folder {
    let folder = Folder::new(name);
    let text = format!("name = \"two\"\nduration_s = 2\n\n{PAIR}loss = {loss}\n{}", flow("udp"));
    folder.write("two.toml", &text);
    folder
}

/// Runs the program in a folder: files of losses are named as they stand there.
fn farhop(folder: &Folder, words: &[&str]) -> Output {
    program().current_dir(folder.path()).args(words).output().expect("farhop runs")
}

const REPLAY: &str = r#"{ kind = "trace", file = "losses.csv", link = "hill>valley" }"#;

#[test]
fn what_one_run_lost_the_next_one_loses() {
    let first = folder("losses-first", "{ kind = \"modulated\", loss = 0.3 }");
    let out = farhop(&first, &["sim", "two.toml", "--losses", "losses.csv", "--json"]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stderr(&out).lines().any(|line| line == "losses.csv"), "{}", stderr(&out));
    let second = folder("losses-second", REPLAY);
    second.write("losses.csv", &first.read("losses.csv"));
    let out = farhop(&second, &["sim", "two.toml", "--json"]);
    assert!(out.status.success(), "{}", stderr(&out));
}

#[test]
fn a_wrong_recording_is_refused_with_its_line() {
    let head = "time_ns,link,fate\n";
    let cases = [
        (None, "losses.csv: No such file"),
        (
            Some("5,hill>valley,ok\n4,hill>valley,crc\n9,hill>valley,end\n"),
            "line 3: time goes back from 5 to 4 ns",
        ),
        (Some("5,hill>valley,ok\n"), "line 2: the file ends early"),
        (
            Some("5,hill>valley,lost\n"),
            "line 2: 'lost' is none of ok, crc, preamble, dropped, unanswered, end",
        ),
        (Some("5,valley>hill,end\n"), "`link` must name one of the links in it: valley>hill"),
        (Some("1000000000,hill>valley,end\n"), "ends at 1 s, the run at 2 s"),
    ];
    for (index, (lines, expected)) in cases.into_iter().enumerate() {
        let folder = folder(&format!("losses-wrong-{index}"), REPLAY);
        if let Some(lines) = lines {
            folder.write("losses.csv", &format!("{head}{lines}"));
        }
        let out = farhop(&folder, &["sim", "two.toml"]);
        let said = flat(&out);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{expected} is not in {said}");
        assert!(said.contains("two.toml"), "{said}");
    }
}
