//! `farhop send` beside a daemon of an older version, which only knows what that knew.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;

use crate::folder::{Folder, end, farhop, stderr};

/// How it refuses what it does not know.
const REFUSAL: &str = r#"{"error": "not a request: unknown field `modified_ns`, expected `path`"}"#;
/// How it takes a file.
const TAKEN: &str = r#"{"id": 17}"#;
/// How its files stand.
const FILES: &str = r#"{"incoming": [], "outgoing": [{"id": 17, "path": "/map.png", "to": "valley",
    "name": "map.png", "size": 3, "arrived": 0, "state": "moving"}]}"#;

/// Starts such a daemon in a folder; tells whenever somebody comes.
fn old_daemon(folder: &Folder) -> Receiver<()> {
    let socket = UnixListener::bind(folder.path().join("mast.sock")).expect("a socket");
    let (came, come) = channel();
    std::thread::spawn(move || {
        for stream in socket.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = came.send(());
            let mut request = String::new();
            // Whoever only looks whether somebody is here asks nothing.
            if BufReader::new(&stream).read_line(&mut request).is_ok_and(|bytes| bytes > 0) {
                let answer = match () {
                    () if request.contains("modified_ns") => REFUSAL,
                    () if request.contains("sha256") => TAKEN,
                    () => FILES,
                };
                let _ = stream.write_all((answer.replace('\n', " ") + "\n").as_bytes());
            }
        }
    });
    come
}

#[test]
fn a_daemon_that_does_not_know_the_time_of_the_last_change_is_not_told() {
    let folder = Folder::new("send-old");
    let _come = old_daemon(&folder);
    let (file, here) = (folder.write("map.png", "map"), folder.file(""));
    let sent = farhop(&["send", &file, "valley", "--no-wait", "--runtime-dir", &here]);
    assert!(sent.status.success(), "{}", stderr(&sent));
    let said = String::from_utf8_lossy(&sent.stdout);
    assert!(said.contains("on its way as number 17"), "{said}");
}

#[test]
fn ctrl_c_while_the_checksum_is_computed_is_an_interruption() {
    let folder = Folder::new("send-interrupted");
    let come = old_daemon(&folder);
    let (file, here) = (folder.file("large"), folder.file(""));
    // It takes no room, and longer than anybody waits here.
    File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("a file with a hole");
    let words = ["send", &file, "valley", "--runtime-dir", &here];
    // It looks for the daemon once signals are a flag to it, and then computes.
    let (status, said) = end(&words, || come.try_recv().is_ok(), Signal::INT);
    assert_eq!(status, Some(130), "{said}");
}
