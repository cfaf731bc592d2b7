//! Tail loss probes (RFC 8985, 7): if the last segments of a flight are lost, one more segment
//! brings the acknowledgement that reveals it, well before a time-out.

use super::config::Recovery;
use super::sender::{Cut, Sender, State, TIMER_SLACK, Tally, Timer};
use super::transmit::Small;
use crate::base::Instant;

impl Sender {
    /// RFC 8985, 7.4: whether a probe repaired a loss.
    pub(super) fn on_probe_acked(&mut self, tally: &Tally) {
        let dsack = std::mem::take(&mut self.rack.probe_dsack);
        let Some(end) = self.rack.probe_end.filter(|end| self.una >= *end) else {
            return;
        };
        let plain_duplicate = !tally.una_advanced && !tally.sacked && tally.duplicate;
        if !self.rack.probe_resent || dsack || plain_duplicate {
            self.rack.probe_end = None;
        } else if self.una > end {
            self.rack.probe_end = None;
            self.counts.probe_recoveries += 1;
            self.begin_reduction();
            self.window.cwnd = self.window.ssthresh;
            self.keep_open();
        }
    }

    /// Sets a probe timer if a probe is allowed (RFC 8985, 7.2); returns whether it did.
    pub(super) fn schedule_probe(&mut self, now: Instant, advancing: bool) -> bool {
        let out = self.board.packets_out();
        let recovering = !matches!(self.state, State::Open | State::Cwr);
        if self.recovery != Recovery::RackTlp || out == 0 || recovering {
            return false;
        }
        let srtt = self.rtt.smoothed();
        let mut wait = match srtt.is_zero() {
            true => self.initial_rto(),
            false => srtt * 2 + if out == 1 { self.min_rto } else { TIMER_SLACK },
        };
        let rto = self.rtt.rto();
        let head = self.board.front().map_or(now, |head| head.sent);
        let until_rto = if advancing { rto } else { (head + rto).since(now) };
        if !until_rto.is_zero() {
            wait = wait.min(until_rto);
        }
        self.arm(Timer::Probe, now, wait);
        true
    }

    pub(super) fn on_probe_timer(&mut self, now: Instant) {
        self.rack.probe = self.rack.probe_end.is_none() && self.board.packets_out() > 0;
        self.rearm_after_probe(now);
    }

    /// The time-out counts from the head's last transmission, not from now.
    fn rearm_after_probe(&mut self, now: Instant) {
        self.timer = Some((Timer::Probe, now));
        self.rearm_rto(now);
    }

    /// Retransmits a segment that is not known to be lost: it does not count as a retransmission in
    /// flight.
    fn repeat_as_probe(&mut self, now: Instant, id: u64) -> Cut {
        self.board.on_probed(id, now, self.delivered);
        self.repetition(now, id)
    }

    /// The probe: new data if there is any, else the last segment again (RFC 8985, 7.3).
    pub(super) fn cut_probe(&mut self, now: Instant, options: u32) -> Option<Cut> {
        self.rack.probe_resent = false;
        let cut = self.cut_new(now, options, Small::Sent).or_else(|| {
            let last = self.board.end_id().checked_sub(1).filter(|id| *id >= self.board.first_id());
            let id = last.filter(|id| !self.board.get(*id).sacked)?;
            self.rack.probe_resent = true;
            Some(self.repeat_as_probe(now, id))
        })?;
        // The time-out starts anew with the probe, so that there is time for its answer.
        self.timer = None;
        self.rearm_rto(now);
        self.rack.probe_end = Some(self.nxt);
        self.counts.probes += 1;
        Some(cut)
    }
}
