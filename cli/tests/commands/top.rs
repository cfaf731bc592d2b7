//! `farhop top` beside a daemon that answers always the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::folder::{Folder, farhop, stderr};

/// What the daemon says.
const STATUS: &str = r#"{"name": "mast", "pid": 7, "uptime_s": 5.0, "names": {"2": "barn"},
    "stack": {"link": {"kind": "wild", "neighbours": [{"node": 2, "up": true, "loss": 0.1,
    "coding_rate": 0, "queue_packets": 1, "classes": [{"name": "voice", "preset": "realtime",
    "retries": 3, "codes": "nothing", "queue_packets": 1, "unfinished_packets": 0, "dropped": 2,
    "abandoned": 0}]}]}}}"#;

/// A folder with the socket of a daemon for `mast`; gone when the test ends.
struct Place(Folder);

impl Place {
    fn build(name: &str) -> Self {
        let folder = Folder::new(name);
        let socket = UnixListener::bind(folder.path().join("mast.sock")).expect("a socket");
        let answer = STATUS.replace('\n', " ") + "\n";
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut request = String::new();
                // Whoever only looks whether somebody is here asks nothing.
                let asked = BufReader::new(&stream).read_line(&mut request);
                if asked.is_ok_and(|bytes| bytes > 0) {
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        });
        Self(folder)
    }

    fn words(&self) -> [String; 4] {
        ["top", "mast", "--runtime-dir", &self.0.file("")].map(str::to_owned)
    }

    /// What a terminal of 24 lines gets from it while `keys` are typed, and the exit status.
    fn types(&self, keys: &[u8]) -> (String, Option<i32>) {
        let program = env!("CARGO_BIN_EXE_farhop");
        let line = format!(
            "stty rows 24 cols 80; before=$(stty -g); {program} {}; status=$?; \
             [ \"$before\" = \"$(stty -g)\" ] && echo as before; exit $status",
            self.words().join(" ")
        );
        let mut terminal = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of bsdutils");
        let mut out = terminal.stdout.take().expect("piped");
        let mut said = Vec::new();
        let mut block = [0; 4096];
        while !String::from_utf8_lossy(&said).contains("q: quit") {
            let count = out.read(&mut block).expect("the terminal lives");
            assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&block[..count]);
        }
        terminal.stdin.take().expect("piped").write_all(keys).expect("it listens");
        out.read_to_end(&mut said).expect("the rest");
        let status = terminal.wait().expect("it ends").code();
        (String::from_utf8_lossy(&said).into_owned(), status)
    }
}

#[test]
fn without_a_terminal_it_prints_blocks() {
    let place = Place::build("top-plain");
    let run = |more: &[&str]| {
        let words = place.words();
        let out = farhop(&[&words.each_ref().map(String::as_str), more].concat());
        assert!(out.status.success(), "{}", stderr(&out));
        String::from_utf8(out.stdout).expect("text")
    };
    let once = run(&[]);
    let class = "class voice (realtime): 3 retries, no coding; 1 packet queued, 0 under way, \
                 2 dropped, 0 given up";
    assert!(once.contains("neighbour barn: up, loss 10.0 %") && once.contains(class), "{once}");
    assert!(!once.contains('\x1b'), "{once:?}");
    assert_eq!(run(&["--count", "2"]).matches("mast: up for 5 s").count(), 2);
}

#[test]
fn nobody_to_look_at_is_an_error() {
    let out = farhop(&["top", "nobody", "--runtime-dir", "/nonexistent"]);
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("no daemon for 'nobody' is running"), "{said}");
}

#[test]
fn the_terminal_is_given_back_as_it_was() {
    let place = Place::build("top-live");
    for keys in [&b"q"[..], b"\x03"] {
        let (said, status) = place.types(keys);
        assert_eq!(status, Some(0), "{said:?}");
        assert!(said.contains("class voice (realtime)"), "{said:?}");
        // The other screen is left, and the cursor is there again.
        let left = said.rfind("\x1b[?1049l").expect("left");
        assert!(left > said.rfind("\x1b[?1049h").expect("entered"));
        assert!(said.rfind("\x1b[?25h") > said.rfind("\x1b[?25l"), "{said:?}");
        assert!(said[left..].contains("as before"), "{said:?}");
    }
}

#[test]
fn a_terminal_without_a_screen_is_refused_and_told_what_suits_it() {
    let place = Place::build("top-dumb");
    let line = format!("{} {}", env!("CARGO_BIN_EXE_farhop"), place.words().join(" "));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("TERM", "dumb");
    let out = terminal.output().expect("script, of bsdutils");
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{said:?}");
    assert!(said.contains("`farhop status --watch`") && !said.contains('\x1b'), "{said:?}");
}

#[test]
fn a_lab_that_is_not_there_is_told_from_one_without_daemons() {
    let folder = Folder::new("top-lab");
    let mut top = Command::new(env!("CARGO_BIN_EXE_farhop"));
    top.args(["top", "--lab", "zz"]).env("FARHOP_RUNTIME_DIR", folder.file(""));
    let out = top.output().expect("farhop runs");
    assert_eq!(out.status.code(), Some(2));
    let said = stderr(&out);
    assert!(said.contains("no lab 'zz' is running; running: none"), "{said}");
}
