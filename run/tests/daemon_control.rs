//! The control socket: who may ask, what comes back, what a bad client can do.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use farhop_run::daemon::control::{Control, Request};
use farhop_run::daemon::{ControlError, barred, list, query, socket_path};
use serde_json::json;
use socket2::{Domain, SockAddr, Socket, Type};

fn serve(control: &mut Control) {
    control.serve(&mut |request| match request {
        Request::Status {} => json!({ "name": "a", "node": 1 }),
        Request::Begin {} => json!({ "error": "no air here" }),
        _ => json!({ "error": "no keys here" }),
    });
}

fn client(dir: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket_path(dir, "a")).expect("a daemon");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    stream
}

fn line(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    line
}

#[test]
fn a_request_is_answered_in_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let mut stream = client(dir.path());
    stream.write_all(b"{\"query\":\"status\"}\n{\"query\":\"status\"}\n").expect("a request");
    serve(&mut control);
    let mut reader = BufReader::new(&stream);
    for _ in 0..2 {
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        assert_eq!(line, "{\"name\":\"a\",\"node\":1}\n");
    }
}

#[test]
fn a_daemon_that_hangs_with_a_full_queue_is_not_waited_for_without_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = socket_path(dir.path(), "a");
    let hung = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    hung.bind(&SockAddr::unix(&path).expect("a path")).expect("a place");
    hung.listen(0).expect("it listens");
    let _first = UnixStream::connect(&path).expect("there is room for one");
    let (tell, told) = std::sync::mpsc::channel();
    let dir = dir.path().to_owned();
    thread::spawn(move || {
        let names: Vec<String> = list(&dir).into_iter().map(|daemon| daemon.name).collect();
        let again = Control::open(&dir, "a").map(|_| ());
        let _ = tell.send((names, barred(&dir), query(&path), again));
    });
    let told = told.recv_timeout(Duration::from_secs(20)).expect("it does not hang with it");
    assert_eq!((told.0, told.1), (vec!["a".to_owned()], Vec::new()));
    assert!(matches!(told.2, Err(ControlError::Silent { .. })), "{:?}", told.2);
    assert!(matches!(told.3, Err(ControlError::Running { .. })), "{:?}", told.3);
}

#[test]
fn a_client_asks_a_daemon_that_runs_in_a_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = socket_path(dir.path(), "a");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let daemon = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(1))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            serve(&mut control);
        }
    });
    assert_eq!(query(&path).expect("an answer")["node"], 1);
    let names: Vec<_> = list(dir.path()).into_iter().map(|running| running.name).collect();
    assert_eq!(names, ["a"]);
    drop(stop);
    daemon.join().expect("a daemon that ends");
    assert!(matches!(query(&path), Err(ControlError::NotRunning { .. })));
    assert!(list(dir.path()).is_empty() && !path.exists());
}

#[test]
fn a_daemon_that_hangs_is_told_by_how_long_was_waited_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = socket_path(dir.path(), "a");
    let _hangs = UnixListener::bind(&path).expect("a socket");
    let silent = query(&path).expect_err("nobody answers");
    assert!(silent.to_string().ends_with("a.sock: no answer came within 2 s"), "{silent}");
}

#[test]
fn the_socket_is_for_its_user_alone() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("farhop");
    let _control = Control::open(&dir, "a").expect("a socket");
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&socket_path(&dir, "a"))), (0o700, 0o600));
}

#[test]
fn a_second_daemon_of_the_name_is_refused_and_a_dead_one_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = socket_path(dir.path(), "a");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "a dead daemon leaves its socket");
    let control = Control::open(dir.path(), "a").expect("a socket in its place");
    let second = Control::open(dir.path(), "a").expect_err("one is enough");
    assert!(matches!(second, ControlError::Running { .. }), "{second}");
    assert!(path.exists(), "the first keeps its socket");
    drop(control);
    assert!(!path.exists());
}

#[test]
fn a_folder_with_too_long_a_path_is_refused_by_its_name_and_the_limit() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("x".repeat(100));
    let said = Control::open(&dir, "a").expect_err("no socket has such a path").to_string();
    assert!(said.contains("/xxx") && said.contains("at most 107 bytes"), "{said}");
    assert!(!dir.exists(), "a folder for nothing");
}

#[test]
fn of_several_that_begin_at_once_one_has_the_socket() {
    for _ in 0..30 {
        let dir = tempfile::tempdir().expect("a directory");
        drop(UnixListener::bind(socket_path(dir.path(), "a")).expect("what a dead one left"));
        let starts = Barrier::new(8);
        let begin = || {
            starts.wait();
            Control::open(dir.path(), "a").ok()
        };
        let begun: Vec<Control> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().filter_map(|it| it.join().expect("no panic")).collect()
        });
        assert_eq!(begun.len(), 1);
        UnixStream::connect(socket_path(dir.path(), "a")).expect("its socket is there");
    }
}

#[test]
fn a_folder_that_was_made_for_a_socket_goes_with_the_last_that_may_take_it() {
    let above = tempfile::tempdir().expect("a directory");
    let dir = above.path().join("run/farhop");
    let first = Control::open(&dir, "a").expect("a socket");
    let second = Control::open(&dir, "b").expect("a socket");
    assert!(Control::open(&dir, "b").is_err(), "it runs");
    drop(second);
    assert!(socket_path(&dir, "a").exists(), "the folder is another's");
    drop(first);
    assert!(!dir.exists());
    // A name that no socket can have: what begins in vain leaves nothing.
    assert!(Control::open(&dir, &"a".repeat(200)).is_err());
    assert!(!dir.exists());
    fs::create_dir(&dir).expect("somebody made it");
    drop(Control::open(&dir, "a").expect("a socket"));
    assert!(dir.exists());
}

#[test]
fn daemons_that_begin_and_end_at_once_do_not_take_the_folder_from_each_other() {
    let above = tempfile::tempdir().expect("a directory");
    let dir = above.path().join("farhop");
    let begin = |name: &str| {
        for _ in 0..200 {
            let control = Control::open(&dir, name).expect("a socket");
            assert!(socket_path(&dir, name).exists());
            drop(control);
        }
    };
    thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            scope.spawn(move || begin(name));
        }
    });
}

#[test]
fn a_daemon_that_ends_leaves_the_socket_of_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = socket_path(dir.path(), "a");
    let first = Control::open(dir.path(), "a").expect("a socket");
    fs::remove_file(&path).expect("somebody removed it");
    let second = Control::open(dir.path(), "a").expect("a socket");
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn what_is_not_a_request_gets_an_error_and_the_next_one_an_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let mut stream = client(dir.path());
    for wrong in ["nonsense", "{\"query\":\"shutdown\"}", "{\"query\":\"status\",\"x\":1}"] {
        stream.write_all(format!("{wrong}\n").as_bytes()).expect("a request");
        serve(&mut control);
        assert!(line(&stream).starts_with("{\"error\":\"not a request: "), "{wrong}");
    }
    stream.write_all(b"{\"query\":\"status\"}\n").expect("a request");
    serve(&mut control);
    assert!(line(&stream).contains("\"node\":1"));
}

#[test]
fn a_request_without_end_is_cut_off() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let mut stream = client(dir.path());
    stream.write_all(&[b'x'; 20_000]).expect("a request");
    serve(&mut control);
    assert_eq!(line(&stream), "{\"error\":\"a request has 16384 bytes at most\"}\n");
    serve(&mut control);
    // What was not read of it turns the end into a reset.
    assert!(!matches!(stream.read(&mut [0; 16]), Ok(1..)), "the daemon has hung up");
}

#[test]
fn a_request_that_breaks_off_is_told_where() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let mut stream = client(dir.path());
    stream.write_all(b"{\"query\":\"sta").expect("a part");
    stream.shutdown(std::net::Shutdown::Write).expect("its end");
    serve(&mut control);
    let said = line(&stream);
    assert!(said.contains("EOF while parsing a string at line 1 column 13"), "{said}");
}

#[test]
fn idle_clients_do_not_keep_others_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let idle: Vec<_> = (0..200).map(|_| client(dir.path())).collect();
    serve(&mut control);
    let mut stream = client(dir.path());
    stream.write_all(b"{\"query\":\"status\"}\n").expect("a request");
    assert!(is_answered(&mut control, &stream), "{} idle clients", idle.len());
    assert!(control.sources().count() <= 65);
}

/// Serves until a client has its answer.
fn is_answered(control: &mut Control, stream: &UnixStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
    let mut answer = String::new();
    for _ in 0..500 {
        serve(control);
        if BufReader::new(stream).read_line(&mut answer).is_ok() {
            break;
        }
    }
    answer.contains("\"node\":1")
}

#[test]
fn all_who_asked_while_the_daemon_had_no_time_are_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let ask = |_| {
        let mut stream = client(dir.path());
        stream.write_all(b"{\"query\":\"status\"}\n").expect("a request");
        stream
    };
    let clients: Vec<UnixStream> = (0..100).map(ask).collect();
    assert!(clients.iter().all(|stream| is_answered(&mut control, stream)));
}

/// Serves with answers of 8 KiB, and counts them.
fn serve_long(control: &mut Control, answers: &mut u32) {
    control.serve(&mut |_| {
        *answers += 1;
        json!("x".repeat(8 << 10))
    });
}

#[test]
fn who_asks_nothing_more_still_gets_all_its_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let mut stream = client(dir.path());
    stream.write_all(&b"{\"query\":\"status\"}\n".repeat(199)).expect("requests");
    // The last one ends with all that it says.
    stream.write_all(b"{\"query\":\"status\"}").expect("a request");
    stream.shutdown(std::net::Shutdown::Write).expect("its end");
    let mut answers = 0;
    for _ in 0..100 {
        serve_long(&mut control, &mut answers);
    }
    assert!((1..150).contains(&answers), "{answers} answers while nobody reads");
    let reader = thread::spawn(move || {
        let lines = BufReader::new(stream).lines();
        lines.map(|line| line.expect("an answer")).filter(|line| line.len() > 8 << 10).count()
    });
    // Its client is gone from among the sources once all is written.
    for _ in 0..5_000 {
        serve_long(&mut control, &mut answers);
        if control.sources().count() == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((answers, reader.join().expect("a reader")), (200, 200));
}

#[test]
fn clients_that_do_not_read_are_answered_no_more_and_wake_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut control = Control::open(dir.path(), "a").expect("a socket");
    let asks = |_| {
        let mut stream = client(dir.path());
        stream.write_all(&b"{\"query\":\"status\"}\n".repeat(500)).expect("requests");
        stream
    };
    let clients: Vec<UnixStream> = (0..10).map(asks).collect();
    let mut answers = 0;
    for _ in 0..200 {
        serve_long(&mut control, &mut answers);
    }
    let before = answers;
    serve_long(&mut control, &mut answers);
    assert_eq!(answers, before);
    let mut fds: Vec<_> = control
        .sources()
        .map(|(fd, flags)| rustix::event::PollFd::from_borrowed_fd(fd, flags))
        .collect();
    let at_once = rustix::event::Timespec::default();
    assert_eq!(rustix::event::poll(&mut fds, Some(&at_once)), Ok(0));
    drop(fds);
    drop(clients);
    serve_long(&mut control, &mut answers);
    assert_eq!(control.sources().count(), 1, "they are gone");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a directory that belongs to another user");
        return;
    }
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("farhop");
    fs::create_dir(&dir).expect("a directory");
    std::os::unix::fs::chown(&dir, Some(12_345), None).expect("another owner");
    let error = Control::open(&dir, "a").expect_err("refused");
    assert!(error.to_string().contains("belongs to another user"), "{error}");
}

#[test]
fn what_another_user_may_not_use_is_told_from_what_is_not_there() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let _control = Control::open(dir.path(), "a").expect("a socket");
    let as_another = |mode: u32| {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).expect("ours");
        let path = dir.path().to_owned();
        let look = move || {
            // Of this thread alone.
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
            (list(&path).len(), barred(&path))
        };
        std::thread::spawn(look).join().expect("it looks")
    };
    assert_eq!((list(dir.path()).len(), barred(dir.path())), (1, vec![]));
    assert_eq!(as_another(0o755), (0, vec![dir.path().join("a.sock")]));
    assert_eq!(as_another(0o700), (0, vec![dir.path().to_owned()]));
    assert_eq!(barred(&dir.path().join("none")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_socket_that_was_taken_away_is_made_anew() {
    let above = tempfile::tempdir().expect("a folder");
    let dir = above.path().join("run");
    let mut control = Control::open(&dir, "a").expect("a socket");
    assert!(!control.renew().expect("it is there"));
    fs::remove_dir_all(&dir).expect("it goes");
    assert!(control.renew().expect("it can be made"));
    UnixStream::connect(socket_path(&dir, "a")).expect("it listens");
    assert!(!control.renew().expect("it is there"));
    // Another daemon's is left alone.
    fs::remove_dir_all(&dir).expect("it goes");
    let other = Control::open(&dir, "a").expect("a socket");
    assert!(!control.renew().expect("it is there"));
    drop(control);
    assert!(socket_path(&dir, "a").exists());
    drop(other);
    assert!(!dir.exists(), "nothing is left");
}
