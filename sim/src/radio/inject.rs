//! Frames sent at once under any sender's name, by a radio that follows no rules.

use bytes::Bytes;
use farhop_proto::base::{Bitrate, Duration, EtherType, Instant, NodeId, UnitId};

use super::air::Air;
use super::chip::Chip;
use super::transmission::TransmissionKind;

/// A frame of a stranger.
#[derive(Clone, Debug)]
pub struct Injected {
    /// The transmitter that its header names, true or not.
    pub from: NodeId,
    /// The receiver, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The bytes that follow the LLC/SNAP header.
    pub payload: Bytes,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Air time.
    pub air_time: Duration,
}

impl Chip {
    /// Sends a frame now, with the transmitter address that it names. It asks for no
    /// acknowledgement. Returns false if the radio is down or transmitting.
    pub(super) fn inject(&mut self, air: &mut Air, now: Instant, injected: Injected) -> bool {
        if !self.is_up || self.is_transmitting(air) {
            return false;
        }
        let Injected { from, to, protocol, payload, rate, air_time } = injected;
        let kind = TransmissionKind::Data {
            id: UnitId(0),
            to,
            protocol,
            payload,
            wants_ack: false,
            sequence: (self.stats.sent & 0x0fff) as u16,
            attempt: 1,
            access: None,
            window: None,
        };
        self.stats.frames += 1;
        self.stats.sent += 1;
        self.transmit_as(air, now, now + air_time, (rate, Duration::ZERO), (from, kind));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::{AirLink, ChipConfig, LossModel, Medium, MediumConfig};
    use farhop_proto::base::{Dbm, FrameUp, Phy, RadioId, Seed};

    fn injected(from: u16, to: u16) -> Injected {
        Injected {
            from: NodeId(from),
            to: Some(NodeId(to)),
            protocol: EtherType::FARHOP,
            payload: Bytes::from_static(b"hostile"),
            rate: Phy::default().rates()[0],
            air_time: Duration::from_micros(500),
        }
    }

    /// Two nodes and a stranger that all hear each other; the stranger's frames are lost with this
    /// probability.
    fn medium(lost: f64) -> Medium {
        let radio = |node| ChipConfig::new(NodeId(node), RadioId(0), Phy::default());
        let link = |(from, to)| AirLink {
            from,
            to,
            delay: Duration::from_micros(1),
            signal: Dbm::new(-60),
            loss: LossModel::Bernoulli { p: if from == 2 { lost } else { 0.0 } },
        };
        let links = [(0, 1), (1, 0), (0, 2), (1, 2), (2, 0), (2, 1)].map(link);
        Medium::new(MediumConfig::new([1, 2, 900].map(radio).into(), links.into()), Seed(1))
    }

    /// Frames that the radios report: the radio, the sender, and whether the frame was for this
    /// radio.
    fn heard(medium: &mut Medium) -> Vec<(usize, NodeId, bool)> {
        medium.handle_timeout(Instant::from_nanos(10_000_000));
        let event = || medium.poll_event();
        std::iter::from_fn(event)
            .filter_map(|event| match event.event {
                FrameUp::Received(frame) => Some((event.radio, frame.from, true)),
                FrameUp::Overheard(frame) => Some((event.radio, frame.from, false)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_stranger_speaks_in_the_name_of_a_node() {
        let mut medium = medium(0.0);
        assert!(medium.inject(Instant::ZERO, 2, injected(1, 2)));
        assert_eq!(heard(&mut medium), [(0, NodeId(1), false), (1, NodeId(1), true)]);
    }

    #[test]
    fn it_sends_one_frame_at_a_time() {
        let mut medium = medium(0.0);
        assert!(medium.inject(Instant::ZERO, 2, injected(1, 2)));
        assert!(!medium.inject(Instant::from_nanos(100_000), 2, injected(1, 2)));
        assert!(medium.inject(Instant::from_nanos(500_000), 2, injected(1, 2)));
        assert_eq!(heard(&mut medium).len(), 4);
        assert_eq!(medium.stats(2).sent, 2);
    }

    #[test]
    fn what_nobody_can_decode_still_occupies_the_air() {
        let mut medium = medium(1.0);
        assert!(medium.inject(Instant::ZERO, 2, injected(1, 2)));
        assert_eq!(heard(&mut medium), []);
        assert_eq!(medium.stats(1).lost, 1);
        assert_eq!(medium.stats(1).busy, Duration::from_micros(500));
    }
}
