//! MAC settings of a radio from the scenario.

use farhop_proto::base::{AccessCategory, Duration, NodeId, RadioSpec};
use farhop_proto::stack::{AccessConfig, RadioConfig};

use crate::radio::{AcParams, ChipConfig};

/// Frames that a simulated chip queues, like the hardware queue behind a driver.
const CHIP_FRAMES: usize = 8;

/// The chip of a radio with its settings for contention, protection, aggregation and rate control.
pub(super) fn chip(config: &RadioConfig, node: NodeId, spec: &RadioSpec) -> ChipConfig {
    let chip = ChipConfig::new(node, spec.id, spec.phy);
    let aggregate = chip.aggregate.min(usize::from(config.aggregate));
    let of = |access| params(AcParams::of(access, &spec.phy), config.access.of(access));
    let categories = || {
        use AccessCategory::{Background, BestEffort, Video, Voice};
        [Background, BestEffort, Video, Voice].map(of)
    };
    ChipConfig {
        attempts: config.attempts,
        long_attempts: config.long_attempts,
        rts_threshold: config.rts_threshold,
        first_access: config.first_access,
        cca: Duration::from_secs_f64(config.cca_us / 1e6),
        protection: config.protection,
        edca: config.edca.then(categories),
        aggregate,
        rate_control: config.rate_control,
        link_overhead: config.link_overhead,
        // Room for one aggregate on the air and one waiting.
        queue_frames: if aggregate > 1 { CHIP_FRAMES.max(2 * aggregate) } else { CHIP_FRAMES },
        ..chip
    }
}

/// The parameters of an access category, with the changes of the scenario.
fn params(standard: AcParams, config: &AccessConfig) -> AcParams {
    let AcParams { aifsn, cw_min, cw_max, txop } = standard;
    AcParams {
        aifsn: config.aifsn.unwrap_or(aifsn),
        cw_min: config.cw_min.unwrap_or(cw_min),
        cw_max: config.cw_max.unwrap_or(cw_max),
        txop: config.txop_us.map_or(txop, |us| Duration::from_micros(u64::from(us))),
    }
}
