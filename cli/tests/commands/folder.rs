//! What the tests here share: the built program, a folder for its files, two nodes to put there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Two nodes and, last, the link between them: what follows may be more of the link.
pub(crate) const PAIR: &str = r#"[[node]]
name = "hill"

[[node]]
name = "valley"

[[link]]
between = ["hill", "valley"]
"#;

/// A flow over it; what follows may be more of the flow.
pub(crate) fn flow(kind: &str) -> String {
    format!("\n[[flow]]\nfrom = \"hill\"\nto = \"valley\"\nkind = \"{kind}\"\n")
}

/// The program, as built for the tests.
pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_farhop"))
}

/// Runs the program with these arguments.
pub(crate) fn farhop(words: &[&str]) -> Output {
    program().args(words).output().expect("farhop runs")
}

/// Runs the program until something is so, and ends it with a signal; its exit status, and what it
/// said to the user.
pub(crate) fn end(
    words: &[&str],
    is_so: impl Fn() -> bool,
    signal: Signal,
) -> (Option<i32>, String) {
    // Whoever runs the tests may have signals ignored, as under `nohup`, and so would the program.
    let mut program = Command::new("env");
    program.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_farhop")]);
    program.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("farhop runs");
    while !is_so() {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it runs");
    let out = child.wait_with_output().expect("it ends");
    (out.status.code(), stderr(&out))
}

/// What it said to the user.
pub(crate) fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// The same in one line: those of a text with several are marked at the side.
pub(crate) fn flat(out: &Output) -> String {
    stderr(out).split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

/// What it said is wrong with what it was asked for: status 2, and nothing on stdout.
pub(crate) fn refusal(words: &[&str]) -> String {
    let out = farhop(words);
    assert_eq!(out.status.code(), Some(2), "{words:?}: {}", stderr(&out));
    assert!(out.stdout.is_empty(), "{words:?}");
    flat(&out)
}

/// What it printed, which has to be one JSON value, after a good end.
pub(crate) fn json(out: &Output) -> Value {
    assert!(out.status.success(), "{}", stderr(out));
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

/// A folder of a test's own; gone when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one; no two tests of this program take the same name.
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("farhop-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder for the test");
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The name of a file in it, which need not be there.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file, and gives its name.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let file = self.file(name);
        std::fs::write(&file, text).expect("the file is written");
        file
    }

    /// What a file in it has.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Path of the demo's scenario.
pub(crate) fn demo() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/demo.toml");
    file.to_str().expect("a plain path").to_owned()
}
