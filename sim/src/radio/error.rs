//! Temporary curves.

use std::sync::OnceLock;

use farhop_proto::base::{Bitrate, Phy};

/// The errors of one mode against the ratio of signal to noise and interference.
#[derive(Debug)]
pub(super) struct ErrorCurve {
    rate: f64,
}

impl ErrorCurve {
    pub(super) fn ln_success_per_bit(&self, sinr: f64) -> f64 {
        let db = 10.0 * libm::log10(sinr.max(1e-9));
        let mid = if self.rate > 5e6 { 6.3 } else { 0.0 };
        let success = 1.0 / (1.0 + libm::exp(-(db - mid) * 2.5));
        libm::log(success.max(1e-12)) / 8000.0
    }
}

pub(super) fn for_mode(_phy: Phy, rate: Bitrate) -> &'static ErrorCurve {
    static FAST: OnceLock<ErrorCurve> = OnceLock::new();
    static SLOW: OnceLock<ErrorCurve> = OnceLock::new();
    if rate.mbps() > 5.0 {
        FAST.get_or_init(|| ErrorCurve { rate: 11e6 })
    } else {
        SLOW.get_or_init(|| ErrorCurve { rate: 2e6 })
    }
}
