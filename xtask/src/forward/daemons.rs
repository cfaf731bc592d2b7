//! Three daemons in a row, and a stream from one end to the other.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use farhop_proto::transport::hop::HopConfig;
use farhop_run::daemon::socket_path;
use farhop_run::keys::Store;
use farhop_run::sockets::client::{Daemon, StreamListener, StreamSocket};

use super::place::{Guarded, NODES, Place, WIRES, wait_for};
use super::usage::{Cost, Meter, resident};
use crate::scratch::Scratch;

/// Bytes that the programs at the ends write and read at a time.
const CHUNK: usize = 1 << 16;
const SERVICE: &str = "forward";
const PORT: u16 = 4_850;
/// A full forwarder has at least this much more memory than at first; then it changes by less than
/// `STILL_BYTES`.
const FULL_BYTES: u64 = 8 << 20;
const STILL_BYTES: u64 = 1 << 19;

/// How frames are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Not protected.
    Off,
    /// Authenticated but readable.
    Authenticate,
    /// Encrypted with ChaCha20-Poly1305, the default.
    Encrypt,
    /// Encrypted with AES-128-GCM.
    EncryptAes,
}

impl Mode {
    pub(super) const ALL: [Self; 4] =
        [Self::Off, Self::Authenticate, Self::Encrypt, Self::EncryptAes];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Off => "blocks, keys off",
            Self::Authenticate => "blocks, authenticated",
            Self::Encrypt => "blocks, ChaCha20-Poly1305",
            Self::EncryptAes => "blocks, AES-128-GCM",
        }
    }

    /// The security setting of a scenario.
    fn setting(self) -> &'static str {
        match self {
            Self::Off => "{ mode = \"off\" }",
            Self::Authenticate => "{ mode = \"authenticate-only\" }",
            Self::Encrypt => "{ mode = \"encrypt\" }",
            Self::EncryptAes => "{ mode = \"encrypt\", cipher = \"aes-128-gcm\" }",
        }
    }
}

/// Where the daemons keep blocks (`durable`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kept {
    /// In memory alone.
    Memory,
    /// In a file, without waiting for the disk.
    PageCache,
    /// On disk, the default.
    Fsync,
}

impl Kept {
    fn setting(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::PageCache => "page-cache",
            Self::Fsync => "fsync",
        }
    }
}

/// Sends this many bytes; `own` are lines for the block settings in addition to the defaults.
/// Returns the cost, and the memory limit for blocks.
pub(super) fn measure(
    farhop: &Path,
    place: &Place,
    modes: (Mode, Kept),
    (radio, own): (&str, &str),
    bytes: u64,
) -> Result<(Cost, u64)> {
    let row = Row::start(farhop, place, modes, radio, own)?;
    let mut listener = StreamListener::bind(&row.daemon(2), SERVICE)?;
    let sink = thread::spawn(move || {
        let mut stream = listener.next_incoming()?.accept(b"")?;
        let (mut buffer, mut came) = (vec![0; CHUNK], 0);
        loop {
            match stream.read(&mut buffer)? {
                0 => break,
                length => came += length as u64,
            }
        }
        stream.finish()?;
        Ok::<_, anyhow::Error>(came)
    });
    // With keys the first hop may still be agreeing on them: the daemon repeats its request.
    let mut stream = StreamSocket::connect(&row.daemon(0), NODES[2], SERVICE, b"")?;
    let meter = Meter::start(Some(row.daemons[1].0.id()))?;
    write(&mut stream, bytes)?;
    stream.finish()?;
    ensure!(stream.read(&mut [0])? == 0, "the sink says something");
    let cost = meter.stop(bytes)?;
    let came = sink.join().map_err(|_| anyhow::anyhow!("the sink has panicked"))??;
    ensure!(came == bytes, "{came} of {bytes} bytes have come");
    Ok((cost, HopConfig::default().memory_bytes))
}

/// Sends blocks that nobody takes: the last node is gone, and the forwarder may accept as many as
/// its memory holds. Returns what it held in the end, and its memory limit for blocks.
pub(super) fn fill(farhop: &Path, place: &Place) -> Result<(Cost, u64)> {
    let budget = HopConfig::default().memory_bytes;
    let blocks = 4 * budget / u64::from(HopConfig::default().bytes_of_block());
    let own = format!("high_blocks = {blocks}\nlow_blocks = {}\n", blocks - 1);
    let mut row = Row::start(farhop, place, (Mode::Off, Kept::Memory), "", &own)?;
    let mut listener = StreamListener::bind(&row.daemon(2), SERVICE)?;
    let sink = thread::spawn(move || listener.next_incoming()?.accept(b""));
    let mut stream = StreamSocket::connect(&row.daemon(0), NODES[2], SERVICE, b"")?;
    let _sink = sink.join().map_err(|_| anyhow::anyhow!("the sink has panicked"))??;
    let forwarder = row.daemons[1].0.id();
    let meter = Meter::start(Some(forwarder))?;
    drop(row.daemons.pop());
    // The writer fails when the daemon ends.
    let source = thread::spawn(move || write(&mut stream, 4 * budget));
    wait_until_still(forwarder)?;
    let cost = meter.stop(0)?;
    drop(row);
    let outcome = source.join().map_err(|_| anyhow::anyhow!("the source has panicked"))?;
    ensure!(outcome.is_err(), "all was taken, though nobody was there");
    Ok((cost, budget))
}

/// Waits until a process has used the same memory for some time, and more than at first.
fn wait_until_still(process: u32) -> Result<()> {
    let first = resident(process)?;
    let (mut last, mut since) = (first, Instant::now());
    wait_for("a full forwarder", || {
        let now = resident(process)?;
        if now.abs_diff(last) > STILL_BYTES {
            (last, since) = (now, Instant::now());
        }
        Ok(last > first + FULL_BYTES && since.elapsed() > Duration::from_secs(2))
    })
}

fn write(stream: &mut StreamSocket, bytes: u64) -> Result<()> {
    let byte = |at: u32| (at.wrapping_mul(2_654_435_761) >> 23) as u8;
    let chunk: Vec<u8> = (0..CHUNK as u32).map(byte).collect();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(CHUNK as u64);
        stream.write_all(&chunk[..part as usize])?;
        left -= part;
    }
    Ok(())
}

/// The daemons, which end when this is dropped.
struct Row {
    dir: Scratch,
    daemons: Vec<Guarded>,
}

impl Row {
    /// Starts the daemons; `own` are lines for the block settings in addition to the defaults.
    fn start(
        farhop: &Path,
        place: &Place,
        modes: (Mode, Kept),
        radio: &str,
        own: &str,
    ) -> Result<Self> {
        let dir = Scratch::new()?;
        let mut row = Self { dir, daemons: Vec::new() };
        let file = row.path("forward.toml");
        fs::write(&file, row.scenario(modes, radio, own)?)?;
        let program = farhop.to_str().context("a plain path")?;
        for (index, node) in NODES.into_iter().enumerate() {
            let [keys, state, runtime] =
                ["keys", "state", "run"].map(|folder| row.path(&format!("{node}/{folder}")));
            let words = [program, "up", &file, "--node", node, "--keys", &keys, "--state", &state];
            let mut command = place.command(index, &words);
            command.args(["--runtime-dir", &runtime]).stdout(Stdio::null());
            let log = row.path(&format!("{node}.log"));
            command.stderr(File::create(&log)?);
            let mut daemon = Guarded(command.spawn().context("nsenter does not run")?);
            let socket = socket_path(Path::new(&runtime), node);
            wait_for(node, || {
                let said = || fs::read_to_string(&log).unwrap_or_default();
                ensure!(daemon.0.try_wait()?.is_none(), "{node}: {}", said());
                Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
            })?;
            row.daemons.push(daemon);
        }
        // Wait until all have met all others.
        thread::sleep(Duration::from_secs(1));
        Ok(row)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn daemon(&self, index: usize) -> Daemon {
        let runtime = self.path(&format!("{}/run", NODES[index]));
        Daemon::at(socket_path(Path::new(&runtime), NODES[index]))
    }

    /// The scenario; its keys are made here.
    fn scenario(&self, (mode, kept): (Mode, Kept), radio: &str, own: &str) -> Result<String> {
        let mut text = format!(
            "name = \"forward\"\nsecurity = {}\n[radio]\n{radio}\n[stack.link]\nkind = \"plain\"\n\
             [stack.hop]\ndurable = \"{}\"\n{own}",
            mode.setting(),
            kept.setting()
        );
        for (index, node) in NODES.into_iter().enumerate() {
            let keys = self.path(&format!("{node}/keys"));
            let (identity, _) = Store::open(Some(Path::new(&keys)))?.own_or_new()?;
            text += &format!("[[node]]\nname = \"{node}\"\nkey = \"{}\"\n", identity.public());
            text += &format!("devices = [{}]\n", devices(index).join(", "));
        }
        for (ends, channel) in NODES.windows(2).zip([1, 6]) {
            text += &format!(
                "[[link]]\nbetween = [\"{}\", \"{}\"]\nradio = {{ channel = {channel} }}\n",
                ends[0], ends[1]
            );
        }
        Ok(text)
    }
}

/// The devices of a node, in the order of its wires.
fn devices(node: usize) -> Vec<String> {
    let device = |wire: usize, end: usize| {
        let peer = NODES[wire + 1 - end];
        let (own, other) = (WIRES[wire][end], WIRES[wire][1 - end]);
        let bind = format!("kind = \"udp\", bind = \"{own}:{PORT}\"");
        format!("{{ {bind}, peers = {{ {peer} = \"{other}:{PORT}\" }} }}")
    };
    let west = node.checked_sub(1).map(|wire| device(wire, 1));
    let east = (node < WIRES.len()).then(|| device(node, 0));
    west.into_iter().chain(east).collect()
}
