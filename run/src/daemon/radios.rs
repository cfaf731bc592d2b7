//! Faults of a daemon's devices, logged as they begin.

use farhop_proto::base::Instant;

use super::episodes::Episodes;
use super::neighbours::Line;
use crate::device::{DeviceStatus, interface};

/// What the log was told about the devices, in their order.
#[derive(Debug, Default)]
pub(super) struct Radios(Vec<Told>);

#[derive(Debug, Default)]
struct Told {
    /// `None` before the first look: whoever opened the device warned if it was down then.
    is_down: Option<bool>,
    /// Whether that was said.
    has_no_echoes: bool,
    own_name: Episodes,
    strangers: Episodes,
    unreachable: Episodes,
}

impl Radios {
    /// Lines for the log.
    pub(super) fn news(&mut self, now: Instant, devices: &[DeviceStatus]) -> Vec<Line> {
        self.0.resize_with(devices.len(), Told::default);
        let both = self.0.iter_mut().zip(devices);
        both.flat_map(|(told, device)| told.news(now, device)).collect()
    }
}

impl Told {
    fn news(&mut self, now: Instant, device: &DeviceStatus) -> Vec<Line> {
        let mut news = Vec::new();
        let name = &device.name;
        // The loss of an interface is logged where it is opened again.
        let is_down = device.is_up == Some(false) && !device.is_gone;
        let before = self.is_down.replace(is_down);
        if before.is_some_and(|before| before != is_down) {
            news.push(match is_down {
                true => Line::Warning(interface::down(name)),
                false => Line::Info(format!("{name} is no longer down")),
            });
        }
        if !self.has_no_echoes && device.lacks_echoes() {
            self.has_no_echoes = true;
            news.push(Line::Warning(format!(
                "{name}: no transmit status came back for any of {} frames. Does this card report \
                 none? Then `transmit_status = false` in the `radio` of this node makes it many \
                 times as fast",
                device.sent.echoes_missing
            )));
        }
        if self.own_name.begins(now, device.dropped.get("own-name")) {
            news.push(Line::Warning(format!(
                "{name}: somebody sends as this node. Is another daemon started with its --node, \
                 or has a neighbour's file its [[node]] in another order?"
            )));
        }
        if self.strangers.begins(now, device.dropped.get("stranger"))
            && let Some(from) = device.last_stranger
        {
            news.push(Line::Warning(format!(
                "{name}: datagrams come from {from}, which is the address of no neighbour here, \
                 and are not taken. Is it a neighbour whose address in `peers` is another?"
            )));
        }
        if self.unreachable.begins(now, device.failed.get("unreachable")) {
            news.push(Line::Info(format!(
                "{name}: nothing listens at the address of a neighbour, or there is no way to it"
            )));
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn what_goes_on_is_told_once_and_again_after_a_pause() {
        let mut radios = Radios::default();
        let mut device = DeviceStatus { name: "0.0.0.0:4850".into(), ..DeviceStatus::default() };
        let mut warnings = |now, strangers: u64| {
            device.dropped.insert("stranger", strangers);
            device.last_stranger = Some("192.0.2.1:4850".parse().expect("an address"));
            let news = radios.news(at(now), std::slice::from_ref(&device));
            news.iter()
                .map(|line| match line {
                    Line::Warning(text) => text.contains("192.0.2.1:4850, which is"),
                    Line::Info(_) => false,
                })
                .collect::<Vec<_>>()
        };
        assert!(warnings(1, 0).is_empty());
        assert_eq!(warnings(2, 1), [true]);
        for second in 3..100 {
            assert!(warnings(second, second).is_empty(), "second {second}");
        }
        assert!(warnings(200, 99).is_empty(), "no more of them");
        assert_eq!(warnings(201, 100), [true]);
    }

    #[test]
    fn a_card_without_transmit_status_is_told_of_once() {
        let mut radios = Radios::default();
        let mut told = |echoes, echoes_missing| {
            let mut device = DeviceStatus { name: "mon0".into(), ..DeviceStatus::default() };
            (device.sent.echoes, device.sent.echoes_missing) = (echoes, echoes_missing);
            radios.news(at(1), &[device]).len()
        };
        assert_eq!([told(0, 99), told(0, 100), told(0, 200)], [0, 1, 0]);
        assert_eq!(Told::default().news(at(1), &DeviceStatus::default()), []);
        let mut busy = DeviceStatus::default();
        (busy.sent.echoes, busy.sent.echoes_missing) = (1, 5_000);
        assert_eq!(Told::default().news(at(1), &busy), []);
    }

    #[test]
    fn an_interface_that_goes_down_is_told_of_and_so_is_its_end() {
        let mut radios = Radios::default();
        let mut told = |is_up| {
            let name = "mon0".into();
            let device = DeviceStatus { name, is_up: Some(is_up), ..DeviceStatus::default() };
            radios.news(at(1), &[device])
        };
        assert_eq!(told(true), []);
        let down = "mon0 is down: nothing is sent or heard until `ip link set dev mon0 up`";
        assert_eq!(told(false), [Line::Warning(down.into())]);
        assert_eq!(told(false), []);
        assert_eq!(told(true), [Line::Info("mon0 is no longer down".into())]);
    }
}
