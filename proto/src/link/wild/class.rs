//! Classes of flows: which flows they select, how the link treats them, and who is served first
//! (`wildnet.md` 4, 8).
//!
//! The link's own values are the default class, at index 0. A class with the preset `auto` has an
//! entry in the list for each [`Manner`] of a flow, in that order.

use std::ops::Range;

use super::classify::{ClassConfig, Preset};
use super::config::{InOrder, Retries, WildConfig};
use super::habit::Manner;
use super::recovery::Rules;
use crate::base::{Duration, Packet};

/// Target loss of `interactive`.
const INTERACTIVE_LOSS: f64 = 0.001;
/// Most delay that retries of `realtime` may cause: what ITU-T G.114 allows speech for the whole
/// way.
const REALTIME_DELAY: Duration = Duration::from_millis(150);
/// Packets of a `realtime` flow that may wait.
const REALTIME_PACKETS: usize = 8;
/// Most retries where they are set automatically.
pub(super) const MOST_AUTO_RETRIES: u8 = 10;
/// Name of the class of all flows that no other class selects.
pub(super) const DEFAULT: &str = "default";

/// How the link treats the flows of a class.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) preset: Option<Preset>,
    pub(super) rules: Rules,
    pub(super) is_ordered: bool,
    /// Packets of one flow that may wait, and of one TCP flow.
    pub(super) queue: usize,
    pub(super) tcp_queue: usize,
    /// Whether a full queue drops its oldest packet instead of the new one.
    pub(super) drops_oldest: bool,
    /// Rank of the priority: 0 is served first.
    pub(super) level: usize,
    priority: u8,
}

/// A queue of the usual length, which depends on the radio.
const UNSET: usize = usize::MAX;

/// Length of a flow's queue, in packets, where the configuration does not set it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsualQueue {
    pub(super) packets: usize,
    pub(super) of_tcp: usize,
}

impl Class {
    /// The class with the link's own values.
    fn of_link(config: &WildConfig) -> Self {
        let rules = Rules {
            recovery: config.recovery,
            target: config.target_loss,
            retries: config.retries,
            most: MOST_AUTO_RETRIES,
        };
        Self {
            name: DEFAULT.into(),
            preset: None,
            rules,
            is_ordered: config.in_order != InOrder::None,
            queue: config.queue_packets.unwrap_or(UNSET),
            tcp_queue: UNSET,
            drops_oldest: false,
            level: 0,
            priority: 0,
        }
    }

    /// A class of the configuration, with `preset` as its preset.
    fn of_preset(config: &WildConfig, class: &ClassConfig, preset: Preset) -> Self {
        let mut it = Self::of_link(config);
        it.name.clone_from(&class.name);
        it.preset = Some(preset);
        match preset {
            Preset::Bulk | Preset::Auto => {}
            Preset::Interactive => {
                (it.rules.retries, it.rules.target) = (Retries::Auto, INTERACTIVE_LOSS);
                it.priority = 1;
            }
            Preset::Realtime => {
                it.rules.retries = Retries::Auto;
                it.rules.most = retries_within(REALTIME_DELAY, config.slot());
                (it.is_ordered, it.drops_oldest) = (false, true);
                (it.queue, it.priority) = (REALTIME_PACKETS, 2);
            }
        }
        it.with_own_values(class)
    }

    fn with_own_values(mut self, class: &ClassConfig) -> Self {
        self.rules.retries = class.retries.unwrap_or(self.rules.retries);
        self.rules.recovery = class.recovery.unwrap_or(self.rules.recovery);
        self.rules.target = class.target_loss.unwrap_or(self.rules.target);
        self.is_ordered = class.in_order.map_or(self.is_ordered, |order| order != InOrder::None);
        self.queue = class.queue_packets.unwrap_or(self.queue);
        self.priority = class.priority.unwrap_or(self.priority);
        self
    }
}

/// The most retries whose delay stays within `most`: n of them take n cycles and a slot.
fn retries_within(most: Duration, slot: Duration) -> u8 {
    let retries = most.saturating_sub(slot).div_duration(slot * 2);
    retries.min(u64::from(MOST_AUTO_RETRIES)) as u8
}

/// Which class a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The class; of an `auto` class, its first entry.
    pub(super) class: usize,
    pub(super) is_auto: bool,
}

impl Choice {
    /// Its entries.
    pub(super) fn entries(self) -> Range<usize> {
        self.class..self.class + if self.is_auto { Manner::ALL.len() } else { 1 }
    }
}

/// All classes of a link.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    all: Vec<Class>,
    matches: Vec<(ClassConfig, Choice)>,
    levels: usize,
}

impl Classes {
    /// The classes of a configuration, preceded by the default class.
    pub(super) fn build(config: &WildConfig) -> Self {
        let mut all = vec![Class::of_link(config)];
        let mut matches = Vec::new();
        for class in &config.class {
            let choice = Choice { class: all.len(), is_auto: class.preset == Preset::Auto };
            matches.push((class.clone(), choice));
            if choice.is_auto {
                let entry = |manner: Manner| Class::of_preset(config, class, manner.preset());
                all.extend(Manner::ALL.map(entry));
            } else {
                all.push(Class::of_preset(config, class, class.preset));
            }
        }
        let mut priorities: Vec<u8> = all.iter().map(|class| class.priority).collect();
        priorities.sort_unstable_by(|a, b| b.cmp(a));
        priorities.dedup();
        for class in &mut all {
            let level = priorities.iter().position(|priority| *priority == class.priority);
            class.level = level.expect("each priority is in the list");
        }
        Self { all, matches, levels: priorities.len() }
    }

    /// Sets the queue length of the classes for which the configuration does not set it.
    pub(super) fn set_usual_queue(&mut self, usual: UsualQueue) {
        for class in self.all.iter_mut().filter(|class| class.queue == UNSET) {
            (class.queue, class.tcp_queue) = (usual.packets, usual.of_tcp);
        }
    }

    /// All classes; the default class is the first.
    pub(super) fn all(&self) -> &[Class] {
        &self.all
    }

    pub(super) fn get(&self, class: usize) -> &Class {
        &self.all[class]
    }

    /// Number of different priorities.
    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    /// The recovery rules of each class.
    pub(super) fn rules(&self) -> Vec<Rules> {
        self.all.iter().map(|class| class.rules).collect()
    }

    /// Most retries of any class.
    pub(super) fn most_retries(&self) -> u8 {
        self.all.iter().map(|class| class.rules.most_retries()).max().unwrap_or(0)
    }

    /// The class of a packet: the first that matches, otherwise the default class.
    pub(super) fn choose(&self, packet: &Packet) -> Choice {
        let default = Choice { class: 0, is_auto: false };
        if self.matches.is_empty() {
            return default;
        }
        let found = self.matches.iter().find(|(matches, _)| matches.takes(packet));
        found.map_or(default, |(_, choice)| *choice)
    }
}

/// Decides among the priorities of one radio. The highest priority is served first until all
/// priorities above the lowest have together had this much more air time than the lowest. From then
/// on all priorities take turns, so that none starves.
#[derive(Debug)]
pub(super) struct Precedence {
    levels: usize,
    turn: usize,
    /// How much more air time the others have had than the lowest priority, and the limit.
    ahead: Duration,
    most: Duration,
}

impl Precedence {
    /// For `levels` priorities; `slot` is the length of a send slot.
    pub(super) fn new(levels: usize, slot: Duration) -> Self {
        Self { levels, turn: 0, ahead: Duration::ZERO, most: slot / 2 }
    }

    /// The order in which the levels are asked for the next frame.
    pub(super) fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let first = if self.ahead < self.most { 0 } else { self.turn };
        let levels = self.levels;
        (0..levels).map(move |step| (first + step) % levels)
    }

    /// The levels that are served before the lowest one now.
    pub(super) fn favoured(&self) -> impl Iterator<Item = usize> + use<> {
        let lowest = self.levels - 1;
        self.order().take_while(move |level| *level != lowest)
    }

    /// A frame of a level is sent.
    pub(super) fn on_frame(&mut self, level: usize, air: Duration) {
        let is_lowest = level + 1 == self.levels;
        self.ahead = match is_lowest {
            true => self.ahead.saturating_sub(air),
            // It may exceed `most`, so that the lowest level is compensated, but not without limit.
            false => (self.ahead + air).min(self.most * 2),
        };
        self.turn = (level + 1) % self.levels;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_what_it_says_and_own_values_win() {
        let class = |name: &str, preset, priority| ClassConfig {
            name: name.into(),
            preset,
            priority,
            ..ClassConfig::default()
        };
        let config = WildConfig {
            class: vec![
                class("voice", Preset::Realtime, None),
                class("shell", Preset::Interactive, Some(5)),
                class("any", Preset::Auto, None),
            ],
            ..WildConfig::default()
        };
        let classes = Classes::build(&config);
        let levels: Vec<_> =
            classes.all().iter().map(|class| (class.name.as_str(), class.level)).collect();
        let right =
            [("default", 3), ("voice", 1), ("shell", 0), ("any", 2), ("any", 3), ("any", 1)];
        assert_eq!(levels, right);
        let voice = classes.get(1);
        // Three rounds of 40 ms and a slot of 20 ms are 140 ms.
        assert_eq!((voice.rules.most_retries(), voice.queue), (3, 8));
        assert!(voice.drops_oldest && !voice.is_ordered);
        assert_eq!(classes.get(2).rules.target, 0.001);
        assert_eq!(classes.get(4).rules.retries, config.retries);
        assert_eq!((classes.get(5).queue, classes.get(5).preset), (8, Some(Preset::Realtime)));
    }

    /// The levels of `frames` frames of 1 ms, if the levels in `busy` always have something to
    /// send.
    fn serves(precedence: &mut Precedence, busy: &[usize], frames: usize) -> Vec<usize> {
        let next = |_| {
            let mut order = precedence.order();
            let level = order.find(|level| busy.contains(level)).expect("a busy level");
            precedence.on_frame(level, Duration::from_millis(1));
            level
        };
        (0..frames).map(next).collect()
    }

    #[test]
    fn a_priority_goes_first_for_half_a_slot_and_then_shares() {
        let mut precedence = Precedence::new(2, Duration::from_millis(20));
        let served = serves(&mut precedence, &[0, 1], 30);
        assert_eq!(served[..10], [0; 10]);
        assert_eq!(served[10..].iter().filter(|level| **level == 1).count(), 10);
        // A level that was silent while others had the air is served at once.
        serves(&mut precedence, &[1], 5);
        assert_eq!(serves(&mut precedence, &[0, 1], 5), [0; 5]);
    }

    #[test]
    fn of_three_priorities_none_starves() {
        let mut precedence = Precedence::new(3, Duration::from_millis(20));
        let served = serves(&mut precedence, &[0, 1, 2], 100);
        for level in [0, 1, 2] {
            let share = served.iter().filter(|other| **other == level).count();
            assert!(share >= 20, "{share} of 100 frames for level {level}");
        }
    }
}
