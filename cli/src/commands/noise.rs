//! `farhop lab-noise`: sends invalid frames on an interface, to test that a daemon withstands them.

use farhop_proto::base::{Seed, counted};
use farhop_run::device::PacketSocket;

use crate::Failure;

/// Sends random, truncated and bit-flipped frames from an interface.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Interface to send from.
    #[arg(long)]
    interface: String,
    /// Number of frames to send.
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Seed of the random frames.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Frames received on the interface that are kept, to be bit-flipped or truncated.
const SAMPLES: usize = 64;
/// Range of the payload length of a random frame, in bytes.
const LONGEST: u64 = 1_600;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let socket = PacketSocket::open(&options.interface, None)?;
    let mut rng = Seed(options.seed).stream("noise");
    let mut samples: Vec<Vec<u8>> = Vec::new();
    let mut buffer = vec![0; farhop_run::device::FRAME_BYTES];
    let mut sent = 0;
    while sent < options.count {
        if samples.len() < SAMPLES
            && let Some(arrival) = socket.receive(&mut buffer)?
        {
            samples.push(buffer[..arrival.length].to_vec());
        }
        let frame = rubbish(&mut rng, &samples);
        if socket.send(&frame)? {
            sent += 1;
        } else {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let (sent, samples) = (counted(sent, "frame"), counted(samples.len(), "sample"));
    super::print_text(&format!("{sent} sent, made from {samples}"))?;
    Ok(())
}

/// A frame of random bytes, or a received one that is truncated or has some bits flipped.
fn rubbish(rng: &mut farhop_proto::base::Rng, samples: &[Vec<u8>]) -> Vec<u8> {
    let kind = rng.below(3);
    if samples.is_empty() || kind == 0 {
        // The kernel sends nothing shorter than an Ethernet header.
        let length = 14 + rng.below(LONGEST);
        return (0..length).map(|_| rng.next_u64() as u8).collect();
    }
    let mut frame = samples[rng.below(samples.len() as u64) as usize].clone();
    if kind == 1 {
        frame.truncate(14 + rng.below(frame.len() as u64) as usize);
    } else {
        for _ in 0..=rng.below(8) {
            let bit = rng.below(frame.len() as u64 * 8);
            frame[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
    frame
}
