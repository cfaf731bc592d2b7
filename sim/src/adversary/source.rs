//! A source of hostile frames: a stranger, or a script that repeats one's transmissions as noise.

use farhop_proto::base::{Instant, ReceivedFrame};

use super::{Script, Shot, Stranger};

/// Where hostile frames come from.
#[derive(Debug)]
pub enum Source {
    /// A live stranger.
    Live(Box<Stranger>),
    /// The transmissions of a stranger, without their contents.
    Noise(Script),
}

impl Source {
    /// When it next sends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Live(stranger) => stranger.poll_timeout(),
            Self::Noise(script) => script.poll_timeout(),
        }
    }

    /// The frame that it sends, if one is due.
    pub fn poll_shot(&mut self, now: Instant) -> Option<Shot> {
        match self {
            Self::Live(stranger) => stranger.poll_shot(now),
            Self::Noise(script) => script.poll_shot(now),
        }
    }

    /// Takes a frame that its radio heard.
    pub fn handle_frame(&mut self, now: Instant, frame: &ReceivedFrame) {
        if let Self::Live(stranger) = self {
            stranger.handle_frame(now, frame);
        }
    }
}
