//! Builds the medium from a plan: which scenario key becomes which setting of a radio or the air.

use farhop_proto::base::{Bitrate, Dbm, NodeId, RadioId};
use farhop_proto::stack::{EifsConfig, InterferenceConfig, NodePlan, Plan, RadioPlan, Scenario};

use super::losses::loss_model;
use super::mac;
use crate::radio::{AirLink, ChipConfig, EifsRule, Interference, MediumConfig};

/// The radios of a scenario and the air between them.
pub fn medium_config(scenario: &Scenario, plan: &Plan) -> MediumConfig {
    let mut radios = Vec::new();
    let mut first_radio = Vec::with_capacity(plan.nodes.len());
    for node in &plan.nodes {
        first_radio.push(radios.len());
        radios.extend(node.radios.iter().map(|radio| chip_config(node, radio)));
    }
    let index = |(node, radio): (NodeId, RadioId)| {
        first_radio[usize::from(node.0) - 1] + usize::from(radio.0)
    };
    let links = plan.hops.iter().map(|hop| AirLink {
        from: index(hop.from),
        to: index(hop.to),
        delay: hop.delay,
        signal: hop.signal,
        loss: loss_model(&hop.loss),
    });
    let links = links.collect();
    let mut config = MediumConfig::new(radios, links);
    if let InterferenceConfig::Sinr(sinr) = scenario.interference {
        config.interference = Interference::Sinr(sinr);
    }
    config
}

fn chip_config(node: &NodePlan, radio: &RadioPlan) -> ChipConfig {
    let config = &radio.config;
    let usual = mac::chip(config, node.node, &radio.spec);
    ChipConfig {
        slot: radio.slot,
        rate: radio.spec.rate,
        broadcast_rate: config.broadcast_rate_mbps.map_or(usual.broadcast_rate, Bitrate::from_mbps),
        ack_rate: config.ack_rate_mbps.map(Bitrate::from_mbps),
        ack_timeout: radio.ack_timeout,
        gap: radio.spec.gap,
        exponential_backoff: config.exponential_backoff,
        quiet_backoff: config.quiet_backoff,
        carrier_sense: radio.carrier_sense,
        eifs: match config.eifs {
            EifsConfig::AfterLock => EifsRule::AfterLock,
            EifsConfig::Always => EifsRule::Always,
        },
        channel: radio.spec.channel,
        receive_threshold: Dbm::from_f64(radio.thresholds.receive),
        receives_by_rate: radio.thresholds.by_rate,
        sense_threshold: Dbm::from_f64(radio.thresholds.sense),
        capture_db: config.capture_db,
        ..usual
    }
}
