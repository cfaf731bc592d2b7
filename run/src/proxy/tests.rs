//! Tests of both ends of a proxy, with a daemon that a test controls.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::net::{SendFlags, send};
use socket2::SockRef;
use tempfile::TempDir;

use super::relay::wait_for_place;
use super::{Entry, Exit, Exits, Forward, Rules, SERVICE};
use crate::sockets::client::{Daemon, StreamSocket};

/// Kinds of records.
const REFUSE: u8 = 5;
const OPENED: u8 = 6;
const RESET: u8 = 7;
const INCOMING: u8 = 8;
const DATA: u8 = 1;

/// A daemon whose sockets the test handles.
struct Fake {
    dir: TempDir,
    listener: UnixListener,
}

impl Fake {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(dir.path().join("sock")).expect("a socket");
        Self { dir, listener }
    }

    fn daemon(&self) -> Daemon {
        Daemon::at(self.dir.path().join("sock"))
    }

    /// Accepts the next request for a socket, and returns both.
    fn next(&self) -> (Line, String) {
        let (socket, _) = self.listener.accept().expect("one");
        let mut reader = BufReader::new(socket);
        let mut request = String::new();
        reader.read_line(&mut request).expect("a request");
        (Line(reader), request)
    }
}

struct Line(BufReader<UnixStream>);

impl Line {
    fn say(&mut self, kind: u8, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let record = [&[kind], &length[..], payload].concat();
        self.0.get_mut().write_all(&record).expect("it is taken");
    }

    fn hear(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).expect("a record");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).expect("all of it");
        (head[0], payload)
    }

    /// Whether the program closes the socket within the time limit.
    fn is_dropped_within(&mut self, limit: Duration) -> bool {
        self.0.get_mut().set_read_timeout(Some(limit)).expect("a time");
        match self.0.read(&mut [0]) {
            Ok(0) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            other => panic!("neither its end nor nothing: {other:?}"),
        }
    }
}

/// A client of a forwarded port, and the entry's request to the daemon.
fn client_of(fake: &Fake) -> (TcpStream, Line) {
    let exits = Exits::read(["far"]).expect("an exit");
    let entry = Entry::build(fake.daemon(), exits, 1);
    let forward: Forward = "0=192.0.2.1:80".parse().expect("a forward");
    let place: SocketAddr = entry.take_forward(forward).expect("a place");
    let client = TcpStream::connect(place).expect("it is taken");
    let (mut line, request) = fake.next();
    assert!(request.contains("far"), "{request}");
    assert_eq!(line.hear(), (DATA, b"{\"connect\":\"192.0.2.1:80\"}\n".to_vec()));
    (client, line)
}

#[test]
fn a_client_that_leaves_before_it_is_connected_takes_its_stream_along() {
    for has_exit in [false, true] {
        let fake = Fake::new();
        let (client, mut line) = client_of(&fake);
        if has_exit {
            line.say(OPENED, b"{}");
        }
        assert!(!line.is_dropped_within(Duration::from_millis(100)), "it waits: {has_exit}");
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("it can be");
        drop(client);
        assert!(line.is_dropped_within(Duration::from_secs(10)), "with an exit: {has_exit}");
    }
}

#[test]
fn a_client_that_has_said_all_is_connected() {
    let fake = Fake::new();
    let (mut client, mut line) = client_of(&fake);
    client.shutdown(Shutdown::Write).expect("it is connected");
    assert!(!line.is_dropped_within(Duration::from_millis(100)), "it listens");
    line.say(OPENED, b"{}");
    assert!(!line.is_dropped_within(Duration::from_millis(100)), "it listens still");
    line.say(DATA, b"{\"connected\":\"192.0.2.1:80\"}\nhello");
    let mut heard = [0; 5];
    client.read_exact(&mut heard).expect("all of it");
    assert_eq!(&heard, b"hello");
}

#[test]
fn an_http_client_hears_that_this_is_no_http_proxy() {
    let fake = Fake::new();
    let entry = Entry::build(fake.daemon(), Exits::read(["far"]).expect("an exit"), 1);
    let place = entry.take_socks("0".parse().expect("a port")).expect("it is free");
    let mut client = TcpStream::connect(place).expect("it is taken");
    // More bytes than the entry reads until it recognises the protocol.
    client.write_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n").expect("it is there");
    let mut heard = String::new();
    client.read_to_string(&mut heard).expect("it is not reset");
    assert!(heard.starts_with("HTTP/1.1 400 This is a SOCKS5 port\r\n"), "{heard}");
}

#[test]
fn an_exit_refuses_a_stream_that_it_cannot_take() {
    let fake = Fake::new();
    let daemon = fake.daemon();
    let serving = thread::spawn(move || Exit::open(&daemon, Rules::default(), 1)?.serve_next());
    let (mut listener, request) = fake.next();
    assert!(request.contains("proxy"), "{request}");
    listener.say(OPENED, b"{}");
    let (unanswered, request) = fake.next();
    assert!(request.contains("status"), "it asks for the names of nodes: {request}");
    drop(unanswered);
    listener.say(INCOMING, b"{\"id\":7,\"from\":\"near\"}");
    let (mut line, request) = fake.next();
    assert!(request.contains('7'), "{request}");
    line.say(RESET, &[2]);
    assert_eq!(listener.hear(), (REFUSE, b"7".to_vec()));
    serving.join().expect("it ends").expect("it goes on");
}

#[test]
fn a_connection_that_has_ended_both_ways_is_not_watched_while_its_bytes_wait() {
    let fake = Fake::new();
    let stream = StreamSocket::begin(&fake.daemon(), "far", SERVICE, b"").expect("a stream");
    while send(&stream, &[0; 1_000], SendFlags::DONTWAIT).is_ok() {}
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("a port")).expect("it is taken");
    let (taken, _) = listener.accept().expect("it is there");
    for end in [&client, &taken] {
        end.shutdown(Shutdown::Write).expect("it is connected");
    }
    let (report, done) = mpsc::channel();
    thread::spawn(move || report.send(wait_for_place(&stream, &taken)));
    let done = done.recv_timeout(Duration::from_secs(10)).expect("it does not look for ever");
    done.expect("nothing is broken");
}
