//! Recordings of losses: written by one run, read by the next, and refused where they are wrong.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder with a scenario, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, loss: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farhop-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        let text = format!(
            "name = \"two\"\nduration_s = 2\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nloss = {loss}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nkind = \"udp\"\n"
        );
        fs::write(path.join("two.toml"), text).expect("a file");
        Self(path)
    }

    fn farhop(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farhop"));
        command.current_dir(&self.0).args(words).output().expect("the program starts")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const REPLAY: &str = r#"{ kind = "trace", file = "losses.csv", link = "a>b" }"#;

#[test]
fn what_one_run_lost_the_next_one_loses() {
    let first = Folder::new("losses-first", "{ kind = \"modulated\", loss = 0.3 }");
    let said = first.farhop(&["sim", "two.toml", "--losses", "losses.csv", "--json"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let losses = fs::read_to_string(first.0.join("losses.csv")).expect("a recording");
    let second = Folder::new("losses-second", REPLAY);
    fs::write(second.0.join("losses.csv"), losses).expect("a file");
    let again = second.farhop(&["sim", "two.toml", "--json"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn a_wrong_recording_is_refused_with_its_line() {
    let head = "time_ns,link,fate\n";
    let cases = [
        (None, "losses.csv: No such file"),
        (Some("5,a>b,ok\n4,a>b,crc\n9,a>b,end\n"), "line 3: time goes back from 5 to 4 ns"),
        (Some("5,a>b,ok\n"), "line 2: the file ends early"),
        (Some("5,a>b,lost\n"), "line 2: 'lost' is none of ok, crc, preamble, end"),
        (Some("5,b>a,end\n"), "name one of the links of the file: b>a"),
        (Some("1000000000,a>b,end\n"), "ends at 1 s, the run at 2 s"),
    ];
    for (index, (lines, expected)) in cases.into_iter().enumerate() {
        let folder = Folder::new(&format!("losses-wrong-{index}"), REPLAY);
        if let Some(lines) = lines {
            fs::write(folder.0.join("losses.csv"), format!("{head}{lines}")).expect("a file");
        }
        let said = folder.farhop(&["sim", "two.toml"]);
        let text = String::from_utf8_lossy(&said.stderr).replace("\n  │ ", " ");
        let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.status.code(), Some(2), "{text}");
        assert!(flat.contains(expected), "{expected} is not in {text}");
        assert!(flat.contains("two.toml"), "{text}");
    }
}
