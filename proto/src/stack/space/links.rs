//! What follows for a link from its length, given or between its ends.

use super::{LIGHT_M_PER_S, PathLoss, Site, distance_m};
use crate::base::{Duration, NodeId, PhyKind};
use crate::stack::scenario::{RadioLinkConfig, Scenario};

impl Scenario {
    /// Delay of a link: that of its length, and the one it adds.
    pub(in crate::stack) fn propagation_of(
        &self,
        link: &RadioLinkConfig,
        ends: [NodeId; 2],
    ) -> Duration {
        let length_m = self.length_m(link, ends).unwrap_or_default();
        Duration::from_secs_f64(length_m / LIGHT_M_PER_S + link.delay_ms / 1e3)
    }

    /// What the radios of a link receive of each other, in dBm, without shadowing, if the link has
    /// radios of its own that say how strongly they send: else its antennas are taken for aligned,
    /// however long it is. `None` too where the link says how strong its signal is, and where the
    /// model of propagation makes nothing of the power.
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

    /// How long a link is, in metres, if that is given or its ends stand somewhere.
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
