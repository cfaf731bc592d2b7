//! The medium: all radios and the air between them, driven by its caller.

use std::collections::VecDeque;

use farhop_proto::base::{AccessCategory, FrameDown, FrameUp, Instant, Seed};

use super::air::{Air, TIMERS, Timer};
use super::chip::Chip;
use super::config::{AirLink, MediumConfig};
use super::loss::FateRecord;
use super::stats::ChipStats;
use super::transmission::Transmission;

/// What a radio reports.
#[derive(Clone, Debug)]
pub struct MediumEvent {
    /// Index of the radio.
    pub radio: usize,
    /// When it happened: the end of the frame or of its acknowledgement.
    pub at: Instant,
    /// What happened.
    pub event: FrameUp,
}

/// Radios and the air between them.
#[derive(Debug)]
pub struct Medium {
    chips: Vec<Chip>,
    air: Air,
    now: Instant,
    events: u64,
}

impl Medium {
    /// A silent medium at time zero.
    ///
    /// Panics if a link names a radio that does not exist, or a loss is not a probability.
    pub fn new(config: MediumConfig, seed: Seed) -> Self {
        let air = Air::new(&config, seed);
        let chips = config
            .radios
            .into_iter()
            .enumerate()
            .map(|(index, chip)| Chip::new(index, chip, config.interference, seed))
            .collect();
        Self { chips, air, now: Instant::ZERO, events: 0 }
    }

    /// Gives a frame to a radio, or takes one back. All that is due up to `now` happens first.
    ///
    /// Panics if the radio has no [`Self::room`] for a frame.
    pub fn handle_frame(&mut self, now: Instant, radio: usize, frame: FrameDown) {
        self.handle_timeout(now);
        self.chips[radio].handle_frame(&mut self.air, self.now, frame);
    }

    /// Frames of an access category that a radio would take now; none while it is down. Without
    /// EDCA all share one queue.
    pub fn room(&self, radio: usize, access: AccessCategory) -> usize {
        self.chips[radio].room(access)
    }

    /// When the next event of the model is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.air.queue.next_at()
    }

    /// Lets everything happen that is due up to and including `now`, in the order of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, handle)) = self.air.queue.peek()
            && at <= now
        {
            debug_assert!(at >= self.now, "an event before the present");
            self.now = at;
            self.fire(at, handle);
        }
        self.now = self.now.max(now);
    }

    fn fire(&mut self, at: Instant, handle: usize) {
        if let Some((tx, is_end)) = self.air.edge(handle) {
            while let Some(hearer) = self.air.pass(tx, is_end, at) {
                self.events += 1;
                let chip = &mut self.chips[hearer.radio as usize];
                if chip.config.is_wire() {
                    if is_end {
                        chip.on_wire_arrival(&mut self.air, at, &hearer, tx);
                    }
                } else if is_end {
                    chip.on_signal_end(&mut self.air, at, &hearer, tx);
                } else {
                    chip.on_signal_start(&mut self.air, at, &hearer, tx);
                }
            }
            return;
        }
        self.events += 1;
        self.air.queue.cancel(handle);
        let chip = &mut self.chips[handle / TIMERS];
        match Timer::ALL[handle % TIMERS] {
            Timer::Access => chip.on_access(&mut self.air, at),
            Timer::TxEnd => chip.on_tx_end(&mut self.air, at),
            Timer::AckTimeout => chip.on_ack_timeout(&mut self.air, at),
            Timer::Reply => chip.on_reply(&mut self.air, at),
            Timer::Preamble => chip.on_preamble(&mut self.air, at),
            Timer::Nav => chip.on_nav_unused(&mut self.air, at),
        }
    }

    /// What the radios report, in the order of time.
    pub fn poll_event(&mut self) -> Option<MediumEvent> {
        self.air.reports.pop_front()
    }

    /// Switches a radio off or on. Off, it ends its frames as failed, sends and hears nothing;
    /// what it has on air is cut off, so that nobody can decode it.
    pub fn set_radio_up(&mut self, now: Instant, radio: usize, up: bool) {
        self.handle_timeout(now);
        self.chips[radio].set_up(&mut self.air, self.now, up);
    }

    /// Cuts or restores one direction of a link. A frame on its way over a link that is cut
    /// arrives as energy that cannot be decoded.
    pub fn set_link_up(&mut self, now: Instant, link: usize, up: bool) {
        self.handle_timeout(now);
        self.air.set_link_up(link, up);
    }

    /// Puts other links in the place of all those from a radio, for radios that move. What is on
    /// its way arrives over the links that it set out on. Links beyond those of the start have no
    /// index of their own.
    ///
    /// Panics as [`Self::new`] does, or if a link leads from another radio.
    pub fn set_links(&mut self, now: Instant, radio: usize, links: &[AirLink]) {
        self.handle_timeout(now);
        self.air.set_links(radio, links);
    }

    /// Counters of a radio.
    pub fn stats(&self, radio: usize) -> ChipStats {
        self.chips[radio].stats
    }

    /// Events that have happened.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Transmissions of all radios, acknowledgements included.
    pub fn frames_on_air(&self) -> u64 {
        self.air.frames_on_air
    }

    /// A hash over the times, radios, kinds and numbers of all transmissions so far: equal where
    /// two runs were the same.
    pub fn trace_hash(&self) -> u64 {
        self.air.trace_hash
    }

    /// Has the medium keep what becomes of frames on each link, for [`Self::poll_fate`].
    pub fn record_fates(&mut self, on: bool) {
        self.air.fates = on.then(VecDeque::new);
    }

    /// What became of the next frame that a link carried.
    pub fn poll_fate(&mut self) -> Option<FateRecord> {
        self.air.fates.as_mut()?.pop_front()
    }

    /// Whether transmissions are kept for [`Self::poll_transmission`]; off at first.
    pub fn record_transmissions(&mut self, on: bool) {
        self.air.is_recording = on;
    }

    /// The next recorded transmission, in the order of their starts.
    pub fn poll_transmission(&mut self) -> Option<Transmission> {
        self.air.recorded.pop_front()
    }
}
