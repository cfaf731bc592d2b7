//! Explicit congestion notification (RFC 3168, 6.1). It is agreed on in the handshake. The receiver
//! echoes a mark until the sender reports that it has reduced its window, which it does once per
//! window.
//!
//! With [`Recovery::RackTlp`] the reduction is Linux's state CWR, in proportion; the older
//! recoveries reduce at once.

use super::config::Recovery;
use super::congestion::Controller;
use super::sender::{Sender, State, Tally};
use crate::wire::ip::Ecn;
use crate::wire::tcp::Flags;

/// How soon data has to be acknowledged because of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// As soon as other data.
    None,
    /// At once: the peer has reduced its window (`tcp_ecn_accept_cwr`).
    Cut,
    /// At once, and the next one too: it is the first mark (`tcp_enter_quickack_mode`).
    Mark,
}

/// What one end knows of marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Both ends use ECN.
    pub(super) agreed: bool,
    /// A mark came, and the peer has not reported yet that it reduced its window.
    echo: bool,
    /// Number of marks that came.
    pub(super) received: u64,
}

impl Marks {
    /// The flags that offer or accept ECN in a SYN.
    pub(super) fn syn_flags(self, wanted: bool, answer: bool) -> Flags {
        match (wanted, answer) {
            (true, false) => Flags::ECE.with(Flags::CWR),
            (true, true) if self.agreed => Flags::ECE,
            _ => Flags::default(),
        }
    }

    /// Takes the flags of the peer's SYN; `answer` if it is a SYN+ACK.
    pub(super) fn on_syn(&mut self, flags: Flags, wanted: bool, answer: bool) {
        let (echo, cut) = (flags.has(Flags::ECE), flags.has(Flags::CWR));
        self.agreed = wanted && echo && cut != answer;
    }

    /// Takes the marks of valid data; returns how soon its sender is to hear of them.
    pub(super) fn on_data(&mut self, flags: Flags, mark: Ecn) -> Haste {
        if !self.agreed {
            return Haste::None;
        }
        // A peer that reduced its window may have a window of one segment, so it is answered at
        // once.
        let is_cut = flags.has(Flags::CWR);
        self.echo &= !is_cut;
        if mark == Ecn::Ce {
            self.received += 1;
            if !std::mem::replace(&mut self.echo, true) {
                return Haste::Mark;
            }
        }
        if is_cut { Haste::Cut } else { Haste::None }
    }

    /// The flag of every acknowledgement.
    pub(super) fn ack_flags(self) -> Flags {
        if self.echo { Flags::ECE } else { Flags::default() }
    }
}

impl Sender {
    /// Whether marks reduce the window as in Linux, with a state of their own.
    pub(super) fn is_of_linux(&self) -> bool {
        matches!(self.recovery, Recovery::RackTlp | Recovery::LinuxReno)
    }

    /// Handles an echoed mark for the recoveries that have no state for it: one reduction per
    /// window.
    pub(super) fn on_echo_classic(&mut self, tally: &Tally) {
        // Above, not at: the segment that reports the reduction is the first after it.
        let is_new = self.una > self.mark_high && self.state < State::Recovery;
        if tally.echo_mark && is_new && !self.is_of_linux() {
            self.window.ssthresh = self.controller.threshold(self.reduction_basis(), self.mss);
            self.window.cwnd = self.window.ssthresh;
            self.window.count = 0;
            self.counts.marks += 1;
            self.note_reduction();
        }
    }

    /// `tcp_enter_cwr`.
    pub(super) fn enter_cwr(&mut self) {
        self.rack.prior_ssthresh = None;
        if self.state < State::Cwr {
            self.rack.undo_marker = None;
            self.begin_reduction();
            self.counts.marks += 1;
            self.state = State::Cwr;
        }
    }

    /// The window was reduced: the peer is to hear of it, and further marks of this window have no
    /// effect.
    pub(super) fn note_reduction(&mut self) {
        self.mark_high = self.nxt;
        self.tell_cut = self.ecn;
    }
}
