//! Calls over UDP, scored by the E-model (ITU-T G.107) in the reduced form of Cole and Rosenbluth
//! (2001).
//!
//! The playout buffer is fixed: a packet is not played if its delay exceeds that of the fastest one
//! by more than the buffer's depth. The mouth-to-ear delay is then the sum of the delay of the
//! fastest packet, the depth, the codec's delay, and what the scenario adds for the rest of the
//! way.

use farhop_proto::base::{Bitrate, Instant};
use farhop_proto::stack::{Codec, FlowConfig, VoipConfig};

use super::datagrams::{Datagrams, Measured};
use super::{App, Net};
use crate::engine::report::{FlowReport, VoipReport};
use crate::engine::world::Node;

/// One direction of a call.
pub(super) struct Voip {
    config: VoipConfig,
    datagrams: Datagrams,
}

impl Voip {
    pub(super) fn build(config: &FlowConfig) -> Self {
        let config = config.voip.unwrap_or_default();
        let size = config.codec.packet_bytes();
        let rate = Bitrate::from_mbps(size as f64 * 8e-6 / Codec::PACKET_S);
        Self { config, datagrams: Datagrams::paced(Some(rate), size) }
    }

    /// The score of a call; `None` if no packets were sent.
    fn score(&self, measured: &Measured) -> Option<VoipReport> {
        let Measured { received, sent, delays_ms } = measured;
        if *sent == 0 {
            return None;
        }
        let least = delays_ms.iter().copied().reduce(f64::min).unwrap_or_default();
        let late = delays_ms.iter().filter(|delay| **delay > least + self.config.playout_ms);
        let late = late.count() as f64 / delays_ms.len().max(1) as f64;
        let arrived = *received as f64 / *sent as f64;
        let loss = 1.0 - arrived * (1.0 - late);
        let own_ms = self.config.playout_ms + self.config.coding_ms + self.config.extra_ms;
        let delay_ms = least + own_ms;
        let r_factor =
            if *received > 0 { r_factor(self.config.codec, delay_ms, loss) } else { 0.0 };
        Some(VoipReport { r_factor, mos: mos(r_factor), loss, late: late * arrived, delay_ms })
    }
}

/// R from the mouth-to-ear delay in milliseconds and the fraction of packets that were not played.
fn r_factor(codec: Codec, delay_ms: f64, loss: f64) -> f64 {
    let late = (delay_ms - 177.3).max(0.0);
    let equipment = match codec {
        Codec::G711 => 30.0 * libm::log(1.0 + 15.0 * loss),
        Codec::G729 => 11.0 + 40.0 * libm::log(1.0 + 10.0 * loss),
    };
    (94.2 - 0.024 * delay_ms - 0.11 * late - equipment).max(0.0)
}

/// Mean opinion score from R (G.107, B.4).
fn mos(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        r => (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0),
    }
}

impl App for Voip {
    fn start(&mut self, net: &mut Net<'_>) {
        self.datagrams.start(net);
    }

    fn begin_measure(&mut self, net: &mut Net<'_>) {
        self.datagrams.begin_measure(net);
    }

    fn stop(&mut self, net: &mut Net<'_>) {
        self.datagrams.stop(net);
    }

    fn delivered(&self, nodes: &[Node]) -> u64 {
        self.datagrams.delivered(nodes)
    }

    fn report(&self, nodes: &[Node], end: Instant, report: &mut FlowReport) {
        self.datagrams.report(nodes, end, report);
        let measured = self.datagrams.measured(nodes, end);
        report.voip = measured.and_then(|measured| self.score(&measured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(codec: Codec) -> Voip {
        let voip = Some(VoipConfig { codec, ..VoipConfig::default() });
        Voip::build(&FlowConfig { voip, ..FlowConfig::default() })
    }

    #[test]
    fn scores_are_those_of_the_formula_by_hand() {
        // G.729, 115 ms, no loss: 94.2 - 2.76 - 11 = 80.44.
        assert!((r_factor(Codec::G729, 115.0, 0.0) - 80.44).abs() < 1e-9);
        assert!((mos(80.44) - 4.04).abs() < 0.005);
        // G.711, 200 ms, 5%: 94.2 - 4.8 - 0.11 * 22.7 - 30 ln 1.75 = 70.11.
        assert!((r_factor(Codec::G711, 200.0, 0.05) - 70.115).abs() < 0.01);
        assert_eq!((r_factor(Codec::G729, 2_000.0, 0.5), mos(0.0), mos(120.0)), (0.0, 1.0, 4.5));
    }

    #[test]
    fn packets_beyond_the_playout_buffer_are_lost() {
        let mut delays = [10.0; 100];
        delays[7] = 69.0;
        delays[8] = 71.0;
        delays[9] = 200.0;
        let delays_ms = delays.to_vec();
        let measured = Measured { received: 100, sent: 105, delays_ms };
        let score = call(Codec::G711).score(&measured).expect("packets came");
        assert!((score.late - 2.0 / 105.0).abs() < 1e-12);
        assert!((score.loss - 7.0 / 105.0).abs() < 1e-12);
        assert_eq!(score.delay_ms, 10.0 + 60.0 + 25.0);
        // Only each tenth delay was kept.
        let measured = Measured { received: 1000, sent: 1050, ..measured };
        let thinned = call(Codec::G711).score(&measured).expect("packets came");
        assert!(
            (thinned.loss - score.loss).abs() < 1e-12 && (thinned.late - score.late).abs() < 1e-12
        );
    }

    #[test]
    fn a_call_of_which_nothing_comes_is_as_bad_as_can_be() {
        let nothing = Measured { received: 0, sent: 500, delays_ms: Vec::new() };
        let score = call(Codec::G711).score(&nothing).expect("packets were sent");
        assert_eq!((score.r_factor, score.mos, score.loss, score.late), (0.0, 1.0, 1.0, 0.0));
        assert_eq!(call(Codec::G711).score(&Measured { sent: 0, ..nothing }), None);
    }
}
