//! Sockets across six daemons on one host, which are killed while they carry blocks.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use farhop_run::sockets::client::{
    BlockListener, BlockReceiver, BlockSender, Daemon, DatagramSocket, SocketError, StreamListener,
    StreamSocket,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::place::Place;
use crate::row::Row;

/// Five hops.
const NODES: &[&str] = &["hill", "one", "two", "three", "four", "valley"];
const BLOCKS: u32 = 50;
const BLOCK_BYTES: usize = 100_000;

fn daemon(place: &Place, node: &str) -> Daemon {
    Daemon::at(place.runtime().join(format!("{node}.sock")))
}

/// The bytes of a block, which no other has.
fn content(number: u32) -> Vec<u8> {
    (0..BLOCK_BYTES as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761 + number) >> 13) as u8)
        .collect()
}

/// Something that works as soon as the daemon is there.
fn again<T>(mut what: impl FnMut() -> Result<T, SocketError>) -> T {
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        match what() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < limit, "in vain for 30 s: {error}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// A program that sends its blocks whatever becomes of its daemon.
fn send_all(daemon: &Daemon) {
    let open = || BlockSender::open(daemon, "valley", "archive", "today");
    let mut sender = again(open);
    loop {
        let next = sender.next();
        let outcome = match (next, sender.is_finished()) {
            (BLOCKS, false) => sender.finish(),
            (_, true) => match sender.wait_until_arrived() {
                Ok(()) => return assert_eq!((sender.next(), sender.arrived()), (BLOCKS, BLOCKS)),
                Err(error) => Err(error),
            },
            _ => sender.send(&content(next)).map(|_| thread::sleep(Duration::from_millis(60))),
        };
        if outcome.is_err() {
            sender = again(open);
        }
    }
}

/// A program that receives them, and keeps the number of the last one with what it has.
fn receive_all(daemon: &Daemon) -> Vec<Vec<u8>> {
    let mut got: Vec<Vec<u8>> = Vec::new();
    let open = || -> Result<BlockReceiver, SocketError> {
        let mut listener = BlockListener::bind(daemon, "archive")?;
        let incoming = listener.next_incoming()?;
        assert_eq!((incoming.from(), incoming.name()), ("hill", "today"));
        listener.accept(&incoming)
    };
    let mut receiver = again(open);
    loop {
        match receiver.receive() {
            Ok(None) => return got,
            Ok(Some((number, block))) => {
                let have = got.len() as u32;
                assert!(number <= have, "block {number} came before {have}");
                if number == have {
                    got.push(block);
                }
                let _ = receiver.confirm(number);
            }
            Err(_) => receiver = again(open),
        }
    }
}

#[test]
#[ignore = "system: 5 MB of blocks across six daemons that are killed, about 15 s"]
fn each_block_comes_once_and_in_order_whatever_daemon_is_killed() {
    let place = Place::new("blocks");
    let Some(mut row) = Row::up(&place, NODES, 14_881) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let receiving = thread::spawn(move || receive_all(&to));
    let sending = thread::spawn(move || send_all(&from));
    for index in [5, 0, 3, 0, 5] {
        thread::sleep(Duration::from_millis(700));
        row.kill_and_start(index);
    }
    sending.join().expect("all is sent");
    let got = receiving.join().expect("all came");
    assert_eq!(got.len(), BLOCKS as usize);
    for (number, block) in (0..).zip(&got) {
        assert!(*block == content(number), "block {number} came changed");
    }
}

#[test]
#[ignore = "system: blocks whose programs never run at the same time, about 8 s"]
fn blocks_that_were_taken_wait_for_a_program_that_starts_after_its_host() {
    let place = Place::new("late-program");
    let Some(mut row) = Row::up(&place, &["hill", "valley"], 14_986) else { return };
    let open = || BlockSender::open(&daemon(&place, "hill"), "valley", "archive", "today");
    let mut sender = again(open);
    for number in 0..3 {
        sender.send(&content(number)).expect("it is taken");
    }
    sender.finish().expect("it is taken");
    drop(sender);
    thread::sleep(Duration::from_secs(2));
    row.kill_and_start(1);
    let got = receive_all(&daemon(&place, "valley"));
    assert!(got == [0, 1, 2].map(content));
    let (limit, mut sender) = (Instant::now() + Duration::from_secs(20), again(open));
    while let Err(error) = sender.wait_until_arrived() {
        assert!(Instant::now() < limit, "{error}");
        sender = again(open);
    }
}

#[test]
#[ignore = "system: a stream across six daemons, about 5 s"]
fn a_stream_carries_bytes_both_ways_and_each_way_ends_by_itself() {
    let place = Place::new("stream");
    let Some(_row) = Row::up(&place, NODES, 14_891) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let none = StreamSocket::connect(&from, "valley", "echo", b"");
    assert!(matches!(none, Err(SocketError::Refused(_))), "{none:?}");
    let mut listener = StreamListener::bind(&to, "echo").expect("a listener");
    let echo = thread::spawn(move || {
        let mut stream = listener.next_incoming().expect("one").accept(b"hello ").expect("it");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("it ends");
        stream.write_all(&all).expect("it is taken");
        stream.finish().expect("it is taken");
        let _ = stream.read(&mut [0]);
    });
    let mut stream = StreamSocket::connect(&from, "valley", "echo", b"first,").expect("a stream");
    stream.write_all(&[b'x'; 300_000]).expect("it is taken");
    stream.finish().expect("it is taken");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it ends");
    assert_eq!(all.len(), 300_012);
    assert!(all.starts_with(b"hello first,x"), "{:?}", &all[..20]);
    drop(stream);
    echo.join().expect("it ends");
}

#[test]
#[ignore = "system: a stream that is not read, and whose end is killed, about 15 s"]
fn a_reader_that_does_not_read_stops_the_writer_and_one_that_is_killed_resets_it() {
    let place = Place::new("reader");
    let Some(mut row) = Row::up(&place, NODES, 14_901) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let mut listener = StreamListener::bind(&to, "sink").expect("a listener");
    let opening = thread::spawn(move || StreamSocket::connect(&from, "valley", "sink", b""));
    let reader = listener.next_incoming().expect("one").accept(b"").expect("a stream");
    let mut stream = opening.join().expect("it ends").expect("a stream");
    let (report, count) = std::sync::mpsc::channel();
    let writing = thread::spawn(move || {
        let mut sent = 0_u64;
        while stream.write_all(&[7; 100_000]).is_ok() {
            sent += 100_000;
            let _ = report.send(sent);
        }
    });
    // Until nothing more is taken for two seconds.
    let limit = Instant::now() + Duration::from_secs(30);
    let mut before = 0;
    while let Ok(sent) = count.recv_timeout(Duration::from_secs(2)) {
        before = sent;
        assert!(Instant::now() < limit, "{before} bytes are taken, and more");
    }
    assert!(before > 0 && before < 40_000_000, "{before} bytes are on their way");
    row.kill_and_start(5);
    let start = Instant::now();
    writing.join().expect("it ends");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    drop(reader);
}

#[test]
#[ignore = "system: a stream whose reader pauses for longer than its other end may be silent, 20 s"]
fn a_stream_whose_reader_pauses_goes_on_while_its_node_is_there() {
    let place = Place::new("pause");
    let Some(_row) = Row::patient(&place, &["hill", "ridge", "valley"], 14_991, 6) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let mut listener = again(|| StreamListener::bind(&to, "source"));
    // The one end has said all, the other is not read: neither can ask over the stream.
    let writing = thread::spawn(move || {
        let mut stream = listener.next_incoming().expect("one").accept(b"").expect("a stream");
        stream.write_all(&[7; 8_000_000])?;
        stream.finish()?;
        stream.read(&mut [0]).map(drop)
    });
    let mut stream = again(|| StreamSocket::connect(&from, "valley", "source", b""));
    stream.finish().expect("it is taken");
    thread::sleep(Duration::from_secs(15));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it is all there");
    assert_eq!(all.len(), 8_000_000);
    writing.join().expect("it ends").expect("all was taken");
}

#[test]
#[ignore = "system: 48 streams that are not read, and one that is, about 25 s"]
fn readers_that_do_not_read_do_not_stop_those_who_do() {
    let place = Place::new("unread");
    let Some(_row) = Row::patient(&place, &["hill", "valley"], 15_001, 6) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let mut listener = again(|| StreamListener::bind(&to, "sink"));
    let (report, broken) = std::sync::mpsc::channel();
    let mut unread = Vec::new();
    for _ in 0..48 {
        let opening = thread::spawn({
            let from = from.clone();
            move || again(|| StreamSocket::connect(&from, "valley", "sink", b""))
        });
        unread.push(listener.next_incoming().expect("one").accept(b"").expect("a stream"));
        let (mut stream, report) = (opening.join().expect("it ends"), report.clone());
        thread::spawn(move || {
            while stream.write_all(&[7; 100_000]).is_ok() {}
            let _ = report.send(());
        });
    }
    // More than the memory for them by far: the last ones wait.
    thread::sleep(Duration::from_secs(3));
    let mut reading = again(|| StreamListener::bind(&to, "reader"));
    let reader = thread::spawn(move || {
        let mut stream = reading.next_incoming().expect("one").accept(b"").expect("a stream");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map(|_| all.len())
    });
    let mut stream = again(|| StreamSocket::connect(&from, "valley", "reader", b""));
    stream.write_all(&[1; 5_000_000]).expect("it is taken");
    stream.finish().expect("it is taken");
    assert_eq!(reader.join().expect("it ends").expect("all is read"), 5_000_000);
    let resets = broken.try_iter().count();
    assert!((1..48).contains(&resets), "{resets} of those that are not read were reset");
}

#[test]
#[ignore = "system: datagrams to several services, about 2 s"]
fn the_first_datagrams_to_several_services_all_come() {
    let place = Place::new("several");
    let Some(_row) = Row::up(&place, &["hill", "valley"], 15_031) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let services: Vec<String> = (0..8).map(|number| format!("service-{number}")).collect();
    let bind = |service: &String| DatagramSocket::bind(&to, service).expect("a socket");
    let mut servers: Vec<DatagramSocket> = services.iter().map(bind).collect();
    let mut client = DatagramSocket::bind(&from, "client").expect("a socket");
    for service in &services {
        client.send_to("valley", service, &[7; 20_000]).expect("it is taken");
    }
    for server in &mut servers {
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
        assert_eq!(server.receive().expect("it comes").bytes.len(), 20_000);
    }
}

#[test]
#[ignore = "system: datagrams across six daemons, about 10 s"]
fn datagrams_go_both_ways_and_again_after_their_destination_began_anew() {
    let place = Place::new("datagrams");
    let Some(mut row) = Row::up(&place, NODES, 14_931) else { return };
    let (from, to) = (daemon(&place, "hill"), daemon(&place, "valley"));
    let mut client = DatagramSocket::bind(&from, "client").expect("a socket");
    client.set_read_timeout(Some(Duration::from_millis(500))).expect("a time");
    let ask = |client: &mut DatagramSocket, what: &[u8]| {
        client.send_to("valley", "echo", what).expect("it is taken");
        client.receive().ok().map(|datagram| datagram.bytes)
    };
    for round in 0..2 {
        assert_eq!(ask(&mut client, b"nobody"), None, "nobody is there to answer");
        let mut server = again(|| DatagramSocket::bind(&to, "echo"));
        let serving = thread::spawn(move || {
            while let Ok(asked) = server.receive() {
                let sent = server.send_to(&asked.from, &asked.service, &asked.bytes);
                assert!(sent.is_ok() && (&*asked.from, &*asked.service) == ("hill", "client"));
            }
        });
        let limit = Instant::now() + Duration::from_secs(20);
        // The first may still go to the flow that was refused.
        while ask(&mut client, &[b'a' + round; 20_000]) != Some(vec![b'a' + round; 20_000]) {
            assert!(Instant::now() < limit, "no answer for 20 s");
        }
        row.kill_and_start(5);
        serving.join().expect("it ends with its daemon");
    }
}

#[test]
#[ignore = "system: 1,024 sockets of one daemon, about 3 s"]
fn a_daemon_has_1024_sockets_and_refuses_the_next_with_words() {
    let place = Place::new("many");
    let Some(_row) = Row::up(&place, &["hill", "valley"], 14_961) else { return };
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, most).expect("as many as are allowed");
    let hill = daemon(&place, "hill");
    let bind = |name: &str| DatagramSocket::bind(&hill, name);
    let mut all: Vec<DatagramSocket> =
        (0..1_024).map(|number| bind(&format!("s{number}")).expect("a socket")).collect();
    match bind("one-more") {
        Err(SocketError::Refused(why)) => assert!(why.contains("1024 sockets"), "{why}"),
        other => panic!("{other:?}"),
    }
    drop(all.pop());
    again(|| bind("one-more"));
}
