//! Comparison with Linux, segment for segment: what arrived at a connection of the kernel in a lab
//! arrives at our sender at the same times, and it has to send exactly what the kernel sent.
//!
//! The recordings in `kernel/` are of Linux 6.18, made by `bench/kernel/record.sh`. They do not
//! show when the application wrote; this is deduced from what was sent, see [`find_writes`].

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::super::config::Tick;
use super::super::sender::{Ack, Sender};
use super::super::transmit::Deferral;
use super::*;

/// More than anybody writes ahead.
const AHEAD: u64 = 1 << 26;

/// Most lines of the application in a recording.
const MOST_WRITES: usize = 40;

/// Longest time from when an application may write until it does.
const WRITE: Duration = Duration::from_millis(2);

/// One line of a recording, with its time.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    /// The SYN+ACK came, after this time and with this window; and how long the kernel's ticks had
    /// been running when the clock of the recording was at zero.
    Open {
        round: Duration,
        window: u64,
        phase: Duration,
    },
    /// Data was sent: its first byte, and how many.
    Sent(u64, u64),
    Acked(Box<Ack>),
    /// The application has written what is before this byte.
    Written(u64),
    /// Something made the kernel try to send again: in the labs of these recordings, writes that
    /// timed out.
    Pushed,
}

fn parse(text: &str) -> Vec<(Instant, Line)> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let number = |word: Option<&str>| word.expect("a word").parse::<u64>().expect("a number");
        let at = Instant::from_nanos(number(words.next()) * 1_000);
        let kind = words.next().expect("a kind");
        let line = match kind {
            "S" => Line::Open {
                round: Duration::from_micros(number(words.next())),
                window: number(words.next()),
                phase: Duration::from_micros(number(words.next())),
            },
            "D" => Line::Sent(number(words.next()), number(words.next())),
            "W" => Line::Written(number(words.next())),
            "P" => Line::Pushed,
            "A" => {
                let mut ack = Ack {
                    number: ORIGIN + number(words.next()),
                    window: number(words.next()),
                    sacks: [(0, 0); 4],
                    sack_count: 0,
                    echo: Some(Instant::from_nanos(number(words.next()) * TICK_NANOS)),
                    bare: true,
                    echo_mark: false,
                };
                for block in words {
                    let (left, right) = block.split_once('-').expect("two ends");
                    let end = |text: &str| ORIGIN + text.parse::<u64>().expect("a number");
                    ack.sacks[ack.sack_count] = (end(left), end(right));
                    ack.sack_count += 1;
                }
                Line::Acked(Box::new(ack))
            }
            other => panic!("'{other}' is no kind of line"),
        };
        (at, line)
    };
    text.lines().filter(|text| !text.starts_with('#')).map(line).collect()
}

/// Our sender in the place of the kernel's.
struct Replay {
    config: TcpConfig,
    sender: Sender,
    /// Segments that it sent and the recording has not shown yet: first byte, bytes.
    wanted: VecDeque<(u64, u64)>,
    /// The byte after all that the kernel had sent.
    kernel_next: u64,
    /// Since when more could be sent than the application has written.
    starved: Option<Instant>,
    /// How often the application had been let write then.
    writes: usize,
    checked: usize,
}

/// Where our sender and the kernel differ.
#[derive(Debug)]
enum Parting {
    /// We send this at a time at which the kernel does not.
    Ours(u64),
    /// The kernel sends this when we do not.
    Kernels(u64),
    /// The kernel lets the application write when we do not, or the other way round.
    Room,
}

impl Replay {
    fn new(config: &TcpConfig) -> Self {
        let sender = Sender::build(config);
        Self {
            config: config.clone(),
            sender,
            wanted: VecDeque::new(),
            kernel_next: 1,
            starved: None,
            writes: 0,
            checked: 0,
        }
    }

    fn take(&mut self, at: Instant, line: &Line) -> Result<(), Parting> {
        // A timer sends what it has to send by itself, and at once.
        while let Some((_, due)) = self.sender.timer
            && due + self.grain() <= at
        {
            self.sender.handle_timeout(due);
            self.poll(due);
        }
        match line {
            Line::Open { round, window, phase } => {
                let tick = Tick { phase: *phase, ..self.config.tick };
                self.sender = Sender::build(&TcpConfig { tick, ..self.config.clone() });
                let start = self.sender.una;
                self.sender.rtt.on_sample(*round, start, start);
                self.sender.rtt.on_minimum(at, *round);
                self.sender.on_established(at, *window, false);
            }
            Line::Written(until) => self.write(*until)?,
            Line::Pushed => self.sender.deferral = Deferral::Allowed,
            Line::Sent(first, bytes) => {
                let is_new = ORIGIN + first == self.sender.nxt;
                if self.wanted.is_empty()
                    && !(is_new && matches!(self.sender.deferral, Deferral::Waiting { .. }))
                {
                    self.fire(at);
                }
                let Some(ours) = self.wanted.pop_front() else {
                    return Err(Parting::Kernels(*first));
                };
                if ours.0 == *first && ours.1 > *bytes {
                    // It had no more than this.
                    self.kernel_next = self.kernel_next.max(first + bytes);
                    return Err(Parting::Ours(first + bytes));
                }
                if ours != (*first, *bytes) {
                    return Err(Parting::Ours(ours.0));
                }
                self.kernel_next = self.kernel_next.max(first + bytes);
                self.checked += 1;
            }
            Line::Acked(ack) => {
                if let Some(ours) = self.wanted.front() {
                    return Err(Parting::Ours(ours.0));
                }
                let is_starved = self.starved.is_some_and(|since| at.since(since) > WRITE);
                if is_starved && self.is_writable() {
                    return Err(Parting::Room);
                }
                assert!(self.sender.on_ack(at, ack), "{ack:?}");
            }
        }
        self.poll(at);
        let sender = &self.sender;
        let could_send = sender.board.in_flight() < sender.window.cwnd
            && sender.window_end > sender.nxt
            && sender.board.packets_out() > 0;
        let is_starved = sender.unsent() == 0 && could_send;
        self.starved = if is_starved { self.starved.or(Some(at)) } else { None };
        Ok(())
    }

    fn write(&mut self, until: u64) -> Result<(), Parting> {
        if self.starved.take().is_some() {
            if !self.is_writable() {
                return Err(Parting::Room);
            }
            self.writes += 1;
        }
        let bytes = ORIGIN + until - self.sender.buffer.end();
        self.sender.write(Bytes::from(vec![0; bytes as usize]));
        Ok(())
    }

    fn is_writable(&self) -> bool {
        self.sender.memory.is_writable(self.sender.held())
    }

    /// How much earlier or later a timer of the kernel may fire: by a tick or two of 4 ms, and by a
    /// step of 32 ms from 63 ticks on. Which step it is depends on when else its processor looked
    /// at its timers.
    fn grain(&self) -> Duration {
        let is_coarse = self.sender.rtt.rto() >= Duration::from_millis(240);
        Duration::from_millis(if is_coarse { 40 } else { 8 })
    }

    /// Fires the timer of ours that corresponds to the kernel's at `at`.
    fn fire(&mut self, at: Instant) {
        let Some((timer, due)) = self.sender.timer else { return };
        if due <= at + self.grain() {
            self.sender.timer = Some((timer, at));
            self.sender.handle_timeout(at);
            self.poll(at);
        }
    }

    /// The state of our sender.
    fn told(&self) -> String {
        let Sender { window, state, board, rack, timer, deferral, .. } = &self.sender;
        let place = |place: u64| place.saturating_sub(ORIGIN);
        let [una, nxt, high, end] =
            [self.sender.una, self.sender.nxt, self.sender.high_seq, self.sender.buffer.end()]
                .map(place);
        let (flight, out, sacked, lost) =
            (board.in_flight(), board.packets_out(), board.sacked_out, board.lost_out);
        let (resent, assumed) = (board.resent_out, board.assumed);
        let (rto, srtt) = (self.sender.rtt.rto(), self.sender.rtt.smoothed());
        format!(
            "{state:?} {window:?} {deferral:?} {timer:?} una {una} nxt {nxt} high {high} written \
             {end}, of {out} segments {flight} in flight, {sacked} sacked, {lost} lost, {resent} \
             resent, {assumed} assumed, rto {rto:?} srtt {srtt:?} {rack:?} {:?}",
            self.sender.memory
        )
    }

    fn poll(&mut self, at: Instant) {
        while let Some(cut) = self.sender.next_segment(at, 0) {
            self.wanted.push_back((cut.seq - ORIGIN, cut.length.into()));
        }
    }
}

/// Replays a recording; fails with what led to the first difference.
fn replay(
    config: &TcpConfig,
    lines: &[(Instant, Line)],
) -> Result<Replay, Box<(usize, Parting, Replay)>> {
    let mut replay = Replay::new(config);
    for (place, (at, line)) in lines.iter().enumerate() {
        if let Err(parting) = replay.take(*at, line) {
            return Err(Box::new((place, parting, replay)));
        }
    }
    Ok(replay)
}

/// Checks a recording of so many segments. Returns how often the application was let write when it
/// had nothing more to be sent.
fn check(config: &TcpConfig, text: &str, segments: usize) -> usize {
    let lines = parse(text);
    match replay(config, &lines) {
        Ok(replay) => {
            assert_eq!(replay.checked, segments, "segments of the kernel");
            replay.writes
        }
        Err(parted) => {
            let (place, parting, replay) = *parted;
            let mut story = String::new();
            for (at, line) in &lines[place.saturating_sub(12)..=place] {
                let _ = writeln!(story, "{} us: {line:?}", at.as_nanos() / 1_000);
            }
            panic!("{story}{parting:?}\n{}\nline {place}", replay.told());
        }
    }
}

fn linux(congestion: Congestion, sack: bool) -> TcpConfig {
    TcpConfig { congestion, sack, ..TcpConfig::linux() }
}

#[test]
fn newreno_does_over_40_km_what_linux_does() {
    // Acknowledgements collide with data: time-outs, some of them needless, and empty buffers.
    let writes =
        check(&linux(Congestion::Reno, false), include_str!("kernel/newreno-40km.txt"), 1_779);
    assert!(writes > 0, "the send buffer is tried too");
}

#[test]
fn rack_with_tail_loss_probes_does_with_losses_what_linux_does() {
    let config = linux(Congestion::Reno, true);
    check(&config, include_str!("kernel/reno-1km-lossy.txt"), 1_803);
    check(&config, include_str!("kernel/reno-100km-lossy.txt"), 2_152);
}

#[test]
fn cubic_does_what_linux_does() {
    let config = linux(Congestion::Cubic, true);
    check(&config, include_str!("kernel/cubic-40km.txt"), 2_028);
    check(&config, include_str!("kernel/cubic-100km-lossy.txt"), 2_177);
}

#[test]
fn other_settings_part_from_linux() {
    let config = TcpConfig { initial_window: 9, ..linux(Congestion::Reno, false) };
    let lines = parse(include_str!("kernel/newreno-40km.txt"));
    let (place, parting, _) = *replay(&config, &lines).err().expect("they part");
    assert!(place < 20 && matches!(parting, Parting::Kernels(_)), "{place} {parting:?}");
    let config = TcpConfig { undo: false, ..linux(Congestion::Reno, false) };
    assert!(replay(&config, &lines).is_err(), "Linux undoes what was needless");
}

/// Adds what the application did, and ends the recording where that no longer helps.
fn find_writes(config: &TcpConfig, lines: &mut Vec<(Instant, Line)>) -> Option<(Parting, Replay)> {
    let is_write = |line: &(Instant, Line)| matches!(line.1, Line::Written(_));
    lines.insert(1, (lines[0].0, Line::Written(AHEAD)));
    // A recording that needs more explanations than this is not explained by them.
    let most = lines.len() + MOST_WRITES;
    loop {
        let (place, parting, replay) = *replay(config, lines).err()?;
        let at = lines[place].0;
        let last = lines[..place].iter().rposition(is_write).expect("it wrote");
        if lines.len() >= most {
            lines.truncate(place + 1);
            return Some((parting, replay));
        }
        match parting {
            // It had no more than that: the last write before ended there.
            Parting::Ours(ours)
                if ours >= replay.kernel_next && lines[last].1 == Line::Written(AHEAD) =>
            {
                let end = replay.kernel_next;
                let is_behind = |line: &Line| matches!(line, Line::Sent(first, _) if *first >= end);
                lines[last].1 = Line::Written(end);
                let next = lines[place..].iter().position(|(_, line)| is_behind(line));
                if let Some(next) = next.map(|next| place + next) {
                    lines.insert(next, (lines[next].0, Line::Written(AHEAD)));
                }
            }
            Parting::Kernels(first)
                if matches!(replay.sender.deferral, Deferral::Waiting { .. })
                    && first == replay.kernel_next =>
            {
                // Not even a second try: the application has only now written that.
                if lines[place - 1].1 == Line::Pushed {
                    lines.remove(place - 1);
                    lines[last].1 = Line::Written(replay.kernel_next);
                    lines.insert(place - 1, (at, Line::Written(AHEAD)));
                } else {
                    lines.insert(place, (at, Line::Pushed));
                }
            }
            parting => {
                lines.truncate(place + 1);
                return Some((parting, replay));
            }
        }
    }
}

/// Completes a new recording with what the application did, as far as it can be deduced: where the
/// kernel stopped and our sender would have gone on, it had written no more than was sent.
///
/// Not a test: `RECORDING=file cargo test` makes it do that, for `bench/kernel/record.sh`.
#[test]
fn complete() {
    let Ok(name) = std::env::var("RECORDING") else { return };
    let file = std::path::Path::new(&name).file_name().expect("a file").to_string_lossy();
    let is_cubic = file.starts_with("cubic");
    let congestion = if is_cubic { Congestion::Cubic } else { Congestion::Reno };
    let config = linux(congestion, !file.starts_with("newreno"));
    let text = std::fs::read_to_string(&name).expect("a recording");
    // The coarser steps of the timer wheel, of which 8 begin in 32 ms.
    let phases = (0..8).map(|step| {
        let mut lines = parse(&text);
        let Line::Open { phase, .. } = &mut lines[0].1 else { panic!("it begins with an S") };
        *phase += Duration::from_millis(4 * step);
        let phase = *phase;
        let parting = find_writes(&config, &mut lines);
        (lines, parting, phase)
    });
    let (lines, parting, phase) = phases.max_by_key(|(lines, ..)| lines.len()).expect("phases");
    if let Some((parting, replay)) = parting {
        for (at, line) in &lines[lines.len().saturating_sub(60)..] {
            println!("{} us: {line:?}", at.as_nanos() / 1_000);
        }
        println!("{}", replay.told());
        println!("after {} lines: {parting:?}", lines.len());
    } else {
        println!("whole: {} lines", lines.len());
    }
    let mut completed = String::new();
    let mut recorded = text.lines().filter(|text| !text.starts_with('#'));
    for (at, line) in &lines {
        let at = at.as_nanos() / 1_000;
        let _ = match line {
            Line::Written(until) => writeln!(completed, "{at} W {until}"),
            Line::Pushed => writeln!(completed, "{at} P"),
            Line::Open { round, window, .. } => {
                recorded.next();
                let [round, phase] = [*round, phase].map(|time| time.as_micros());
                writeln!(completed, "{at} S {round} {window} {phase}")
            }
            _ => writeln!(completed, "{}", recorded.next().expect("as many lines")),
        };
    }
    std::fs::write(format!("{name}.completed"), completed).expect("it can be written");
}
