//! What follows for a link from its length, which is given or the distance between its ends.

use super::{LIGHT_M_PER_S, PathLoss, Site, distance_m};
use crate::base::{Duration, NodeId, PhyKind};
use crate::stack::scenario::{RadioLinkConfig, Scenario};

impl Scenario {
    /// Delay of a link: that of its length, and the delay that it adds.
    pub(in crate::stack) fn propagation_of(
        &self,
        link: &RadioLinkConfig,
        ends: [NodeId; 2],
    ) -> Duration {
        let length_m = self.length_m(link, ends).unwrap_or_default();
        Duration::from_secs_f64(length_m / LIGHT_M_PER_S + link.delay_ms / 1e3)
    }

    /// The power that the radios of a link receive from each other, in dBm, without shadowing, if
    /// the link has radios of its own with a link budget: its antennas are assumed to be aligned,
    /// whatever its length. `None` also if the signal of the link is given, or if the propagation
    /// model ignores the power.
    pub(in crate::stack) fn budget_dbm(
        &self,
        link: &RadioLinkConfig,
        ends: [NodeId; 2],
    ) -> Option<f64> {
        let own = link.radio.as_ref().filter(|own| own.has_budget() && link.signal_dbm.is_none());
        let radio = own?.over(&self.radio);
        let phy = (radio.phy != PhyKind::Wire).then(|| radio.phy())?;
        let path_loss = PathLoss::build(self, phy.band()).filter(PathLoss::weakens)?;
        let site = Site::build(self, &radio, [0.0; 3]);
        Some(path_loss.received(site.sent_dbm, self.length_m(link, ends)?)? + site.gain_db)
    }

    /// The length of a link, in metres, if it is given or both ends have positions.
    pub(in crate::stack) fn length_m(
        &self,
        link: &RadioLinkConfig,
        ends: [NodeId; 2],
    ) -> Option<f64> {
        let between = || {
            let [a, b] = ends.map(|end| self.node[usize::from(end.0) - 1].place());
            let wrap_m = self.area.and_then(|area| area.wrap.then_some(area.size_m));
            Some(distance_m(wrap_m, a?, b?))
        };
        link.distance_km.map(|km| km * 1e3).or_else(between)
    }
}
