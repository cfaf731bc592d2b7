//! The three sockets of farhop, between two nodes whose daemons run.
//!
//! ```text
//! sockets serve valley            answers whatever comes for the service "example" of valley
//! sockets ask hill valley         asks it from hill: by a stream, with blocks, with a datagram
//! ```

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Duration;

use farhop_run::sockets::client::{
    BlockListener, BlockReceiver, BlockSender, Daemon, DatagramSocket, IncomingStream, SocketError,
    StreamListener, StreamSocket,
};

type Outcome = Result<(), Box<dyn Error>>;

const SERVICE: &str = "example";

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", node] => serve(&Daemon::of_node(node)),
        ["ask", node, to] => {
            let daemon = Daemon::of_node(node);
            ask_by_stream(&daemon, to)?;
            send_blocks(&daemon, to)?;
            ask_by_datagram(&daemon, to)
        }
        _ => Err("sockets serve NODE, or sockets ask NODE TO".into()),
    }
}

fn serve(daemon: &Daemon) -> Outcome {
    let (streams, blocks) = (daemon.clone(), daemon.clone());
    thread::spawn(move || echo_streams(&streams).map_err(|error| eprintln!("streams: {error}")));
    thread::spawn(move || print_blocks(&blocks).map_err(|error| eprintln!("blocks: {error}")));
    let mut socket = DatagramSocket::bind(daemon, SERVICE)?;
    loop {
        let asked = socket.receive()?;
        socket.send_to(&asked.from, &asked.service, &asked.bytes)?;
    }
}

fn echo_streams(daemon: &Daemon) -> Outcome {
    let mut listener = StreamListener::bind(daemon, SERVICE)?;
    loop {
        let incoming = listener.next_incoming()?;
        // That one is over is no reason to serve no other.
        thread::spawn(move || echo(&incoming).map_err(|error| eprintln!("a stream: {error}")));
    }
}

fn echo(incoming: &IncomingStream) -> io::Result<()> {
    let mut stream = incoming.accept(b"you said: ")?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    stream.write_all(&said)?;
    stream.finish()?;
    // Until the other end has ended as well: a stream that is dropped before is reset.
    stream.read(&mut [0]).map(drop)
}

fn print_blocks(daemon: &Daemon) -> Outcome {
    let mut listener = BlockListener::bind(daemon, SERVICE)?;
    loop {
        let incoming = listener.next_incoming()?;
        // Its sender may have given it up before.
        match listener.accept(&incoming) {
            Ok(receiver) => {
                thread::spawn(move || {
                    let name = incoming.name();
                    print(name, receiver).map_err(|error| eprintln!("blocks of {name}: {error}"))
                });
            }
            Err(error) => eprintln!("blocks of {}: {error}", incoming.name()),
        }
    }
}

fn print(name: &str, mut receiver: BlockReceiver) -> Result<(), SocketError> {
    while let Some((number, block)) = receiver.receive()? {
        println!("block {number} of {name}: {} bytes", block.len());
        // Only now the daemon forgets it.
        receiver.confirm(number)?;
    }
    Ok(())
}

fn ask_by_stream(daemon: &Daemon, to: &str) -> Outcome {
    let mut stream = StreamSocket::connect(daemon, to, SERVICE, b"hello, ")?;
    stream.write_all(b"world")?;
    stream.finish()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("stream: {answer}");
    Ok(())
}

fn send_blocks(daemon: &Daemon, to: &str) -> Outcome {
    // The same name again would go on with the same flow.
    let name = format!("blocks-{}", std::process::id());
    let mut sender = BlockSender::open(daemon, to, SERVICE, &name)?;
    for block in [&b"first"[..], b"second"] {
        sender.send(block)?;
    }
    sender.finish()?;
    sender.wait_until_arrived()?;
    println!("blocks: {} have arrived", sender.next());
    Ok(())
}

fn ask_by_datagram(daemon: &Daemon, to: &str) -> Outcome {
    let mut socket = DatagramSocket::bind(daemon, "example-client")?;
    socket.send_to(to, SERVICE, b"ping")?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let answer = socket.receive()?;
    println!("datagram: {} from {}", String::from_utf8_lossy(&answer.bytes), answer.from);
    Ok(())
}
