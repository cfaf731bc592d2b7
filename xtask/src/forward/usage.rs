//! Processor time and memory, read from `/proc`.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// Clock ticks per second in `/proc`, the same on all machines that farhop runs on.
const TICKS: f64 = 100.0;

/// The cost of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) bytes: u64,
    pub(super) wall_s: f64,
    /// Processor time of the forwarder.
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    /// Processor time of the whole machine, whatever it did.
    pub(super) machine_s: f64,
    /// Resident memory of the forwarder: its peak, and before the transfer.
    pub(super) peak_bytes: u64,
    pub(super) idle_bytes: u64,
}

/// Counters at the start of a transfer.
pub(super) struct Meter {
    begun: Instant,
    machine_s: f64,
    forwarder: Option<Forwarder>,
}

struct Forwarder {
    pid: u32,
    times: [f64; 2],
    idle_bytes: u64,
}

impl Meter {
    /// Starts measuring; `forwarder` is the process to watch, if there is one.
    pub(super) fn start(forwarder: Option<u32>) -> Result<Self> {
        let of = |pid: u32| {
            Ok::<_, anyhow::Error>(Forwarder {
                pid,
                times: times_of(pid)?,
                idle_bytes: resident(pid)?,
            })
        };
        let forwarder = forwarder.map(of).transpose()?;
        Ok(Self { machine_s: machine_time()?, begun: Instant::now(), forwarder })
    }

    /// The cost since the start, of carrying this many bytes.
    pub(super) fn stop(self, bytes: u64) -> Result<Cost> {
        let wall_s = self.begun.elapsed().as_secs_f64();
        let machine_s = machine_time()? - self.machine_s;
        let mut cost = Cost { bytes, wall_s, machine_s, ..Cost::default() };
        if let Some(Forwarder { pid, times: [user, system], idle_bytes }) = self.forwarder {
            let after = times_of(pid)?;
            (cost.user_s, cost.system_s) = (after[0] - user, after[1] - system);
            (cost.peak_bytes, cost.idle_bytes) = (memory(pid, "VmHWM:")?, idle_bytes);
        }
        Ok(cost)
    }
}

/// User and system time of a process, in seconds.
fn times_of(pid: u32) -> Result<[f64; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the forwarder is gone")?;
    // The name of the program is in brackets, and may contain anything.
    let (_, rest) = text.rsplit_once(')').context("a stat without a name")?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || {
        let field = fields.next().context("a stat that ends early")?;
        Ok::<_, anyhow::Error>(field.parse::<f64>()? / TICKS)
    };
    Ok([next()?, next()?])
}

/// Resident memory of a process, in bytes.
pub(super) fn resident(process: u32) -> Result<u64> {
    memory(process, "VmRSS:")
}

/// A value of `/proc/PID/status`, in bytes.
fn memory(pid: u32, key: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.with_context(|| format!("no {key}"))?.parse::<u64>()? * 1_024)
}

/// Time in which the processors were neither idle nor stolen by the host, in seconds.
fn machine_time() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let fields: Vec<f64> = line
        .context("no figures of all processors")?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    // user, nice, system, idle, iowait, irq, softirq
    let busy = [0, 1, 2, 5, 6].into_iter().filter_map(|index| fields.get(index));
    Ok(busy.sum::<f64>() / TICKS)
}
