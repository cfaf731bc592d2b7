//! One who sends: a stranger, or what one sent, repeated as noise.

use farhop_proto::base::{Instant, ReceivedFrame};

use super::{Script, Shot, Stranger};

/// Where hostile frames come from.
#[derive(Debug)]
pub enum Source {
    /// A stranger at work.
    Live(Box<Stranger>),
    /// The transmissions of one, with nothing in them.
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

    /// What it sends, if that is due.
    pub fn poll_shot(&mut self, now: Instant) -> Option<Shot> {
        match self {
            Self::Live(stranger) => stranger.poll_shot(now),
            Self::Noise(script) => script.poll_shot(now),
        }
    }

    /// What its radio heard.
    pub fn handle_frame(&mut self, now: Instant, frame: &ReceivedFrame) {
        if let Self::Live(stranger) = self {
            stranger.handle_frame(now, frame);
        }
    }
}
