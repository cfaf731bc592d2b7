//! Who hears whom: the directed links between radios, and for each radio the list of its hearers,
//! nearest first.
//!
//! For most pairs of radios only the signal and the delay matter ([`Path`]). The rest of a link,
//! its losses and the state of its receiver ([`Link`]), exists only where frames can be decoded.
//!
//! Where radios of different PHYs share a channel, frames in a newer format are only energy to some
//! hearers (802.11g beside 802.11b). A radio may therefore have several lists of hearers: one for
//! each format, and one for each form of n and ac in which it sends to less capable radios.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use farhop_proto::base::{Bitrate, Dbm, Duration, Instant, NodeId, Phy, PhyKind, RadioId, Seed};

use super::config::{AirLink, ChipConfig, Interference, MediumConfig};
use super::loss::{LossModel, LossProcess};
use super::power::Power;
use super::stats::LinkAir;

/// How the transmissions of a radio affect a hearer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reach {
    /// Strong enough to be decoded, over the link with this index.
    Decodable(u32),
    /// Can be sensed, or only adds to the noise.
    Energy,
    /// The hearer is another radio of the same node, deafened with this probability.
    Sibling(f32),
}

/// One radio that hears another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hearer {
    pub(super) delay: Duration,
    pub(super) power: Power,
    pub(super) radio: u32,
    pub(super) signal: Dbm,
    pub(super) reach: Reach,
}

/// One direction between two radios over which frames can be decoded.
#[derive(Debug)]
pub(super) struct Link {
    /// Index of the hearing radio.
    pub(super) to: u32,
    pub(super) is_up: bool,
    /// Whether this radio of the hearer's node is the one that frames for the node are for.
    pub(super) is_addressed: bool,
    /// `None` if nothing is ever lost.
    pub(super) loss: Option<Box<LossProcess>>,
    /// The last sequence number that was accepted, for each access category.
    pub(super) last_sequence: [Option<u16>; 4],
    /// Air time of answers to frames over this link.
    pub(super) answered: Duration,
    /// Air time of frames for the hearer that collided there.
    pub(super) collided: Duration,
}

/// One direction between two radios, with what a list of hearers needs.
#[derive(Clone, Copy, Debug)]
struct Path {
    delay: Duration,
    from: u32,
    to: u32,
    signal: Dbm,
    /// Index of its [`Link`], if frames can be decoded over it.
    link: Option<u32>,
    is_up: bool,
    is_addressed: bool,
}

/// A radio, as the air knows it.
#[derive(Debug)]
struct Station {
    node: NodeId,
    radio: RadioId,
    phy: Phy,
    channel: u16,
    receive_threshold: Dbm,
    receives_by_rate: bool,
    sense_threshold: Dbm,
    /// Indices of the paths from it, in the order in which they were added.
    paths: Vec<u32>,
    /// Its hearers, nearest first.
    hearers: Rc<[Hearer]>,
    /// Its hearers for frames in its newer format, by the number of the form; only lists that
    /// differ from `hearers`.
    newer: Vec<(u8, Rc<[Hearer]>)>,
}

/// The weakest signal at which a frame at `rate` can be decoded, if that depends on the rate.
pub(super) fn weakest(phy: &Phy, rate: Bitrate) -> Dbm {
    Dbm::from_f64(phy.sensitivity_dbm(rate))
}

impl Station {
    /// How much of the power of another radio falls into this radio's channel, 0 to 1.
    fn share_of(&self, source: &Self) -> f64 {
        self.phy.overlap(self.channel, &source.phy, source.channel)
    }
}

/// Two nodes, so that a pair is found in either order.
fn in_order([a, b]: [NodeId; 2]) -> [NodeId; 2] {
    [a.min(b), a.max(b)]
}

/// The links between all radios.
#[derive(Debug)]
pub(super) struct Links {
    stations: Vec<Station>,
    paths: Vec<Path>,
    links: Vec<Link>,
    /// Pairs of nodes whose links are cut.
    cut: BTreeSet<[NodeId; 2]>,
    /// Paths by their ends; filled when links are first replaced.
    by_pair: BTreeMap<(u32, u32), u32>,
    seed: Seed,
    /// Signals too weak to be sensed count too, as interference.
    sums_energy: bool,
}

impl Links {
    /// Panics if a link names a radio that does not exist, or leads from a radio to itself.
    pub(super) fn new(config: &MediumConfig, seed: Seed) -> Self {
        let station = |config: &ChipConfig| Station {
            node: config.node,
            radio: config.radio,
            phy: config.phy,
            channel: config.channel,
            receive_threshold: config.receive_threshold,
            receives_by_rate: config.receives_by_rate,
            sense_threshold: config.sense_threshold,
            paths: Vec::new(),
            hearers: Rc::default(),
            newer: Vec::new(),
        };
        let mut links = Self {
            stations: config.radios.iter().map(station).collect(),
            paths: Vec::with_capacity(config.links.len()),
            links: Vec::new(),
            cut: BTreeSet::new(),
            by_pair: BTreeMap::new(),
            seed,
            sums_energy: matches!(config.interference, Interference::Sinr(_)),
        };
        for link in &config.links {
            links.add(link);
        }
        for radio in 0..links.stations.len() {
            links.stations[radio].paths.shrink_to_fit();
            links.line_up(radio);
        }
        links.links.shrink_to_fit();
        links
    }

    /// The hearers of a radio for frames at `rate`.
    pub(super) fn hearers(&self, radio: usize, rate: Bitrate) -> &Rc<[Hearer]> {
        let station = &self.stations[radio];
        let mut newer = station.newer.iter().filter(|_| station.phy.is_newer(rate));
        let of_form = newer.find(|(form, _)| *form == rate.form());
        of_form.map_or(&station.hearers, |(_, hearers)| hearers)
    }

    /// Whether a radio's signal is strong enough at a hearer for a frame at `rate`, if that depends
    /// on the rate.
    pub(super) fn is_strong(&self, hearer: &Hearer, radio: usize, rate: Bitrate) -> bool {
        !self.stations[hearer.radio as usize].receives_by_rate
            || hearer.signal >= weakest(&self.stations[radio].phy, rate)
    }

    /// Air time of answers and collisions on each link that had any.
    pub(super) fn air(&self) -> impl Iterator<Item = LinkAir> {
        let end = |radio: u32| {
            let station = &self.stations[radio as usize];
            (station.node, station.radio)
        };
        self.paths.iter().filter_map(move |path| {
            let Link { answered, collided, .. } = *self.get(path.link?);
            let (from, to) = (end(path.from), end(path.to));
            let air = LinkAir { from, to, answered, collided };
            (answered + collided > Duration::ZERO).then_some(air)
        })
    }

    /// The radios that frames of this radio are addressed to, one of each node.
    pub(super) fn addressed(&self, radio: usize) -> impl Iterator<Item = usize> {
        let paths = self.stations[radio].paths.iter().map(|path| &self.paths[*path as usize]);
        paths.filter(|path| path.is_addressed).map(|path| path.to as usize)
    }

    /// The node of a radio.
    pub(super) fn node(&self, radio: usize) -> NodeId {
        self.stations[radio].node
    }

    /// The number of a radio at its node.
    pub(super) fn radio_id(&self, radio: usize) -> RadioId {
        self.stations[radio].radio
    }

    /// The channel of a radio.
    pub(super) fn channel(&self, radio: usize) -> u16 {
        self.stations[radio].channel
    }

    /// The PHY of a radio.
    pub(super) fn phy(&self, radio: usize) -> Phy {
        self.stations[radio].phy
    }

    /// A link over which frames can be decoded.
    pub(super) fn get(&self, link: u32) -> &Link {
        &self.links[link as usize]
    }

    pub(super) fn get_mut(&mut self, link: u32) -> &mut Link {
        &mut self.links[link as usize]
    }

    /// Sets when the loss recordings of links begin to play.
    pub(super) fn begin_recordings_at(&mut self, begin: Instant) {
        for loss in self.links.iter_mut().filter_map(|link| link.loss.as_mut()) {
            loss.begin_recording_at(begin);
        }
    }

    fn add(&mut self, config: &AirLink) {
        let (from, to) = (config.from, config.to);
        let index = self.paths.len() as u32;
        let count = self.stations.len();
        assert!(from < count && to < count, "link {index} to an unknown radio");
        assert!(from != to, "link {index} leads from a radio to itself");
        let (source, sink) = (&self.stations[from], &self.stations[to]);
        let is_of_node =
            |index: usize| self.stations.get(index).is_some_and(|other| other.node == sink.node);
        let reaches_node = |other: &u32| {
            let other = &self.stations[self.paths[*other as usize].to as usize];
            other.node == sink.node && other.channel == source.channel
        };
        // The radios of a node are adjacent. Most nodes have only one, so that no search is needed.
        let has_others = is_of_node(to + 1) || is_of_node(to.wrapping_sub(1));
        let is_addressed = source.channel == sink.channel
            && !(has_others && source.paths.iter().any(reaches_node));
        self.paths.push(Path {
            delay: config.delay,
            from: from as u32,
            to: to as u32,
            signal: config.signal,
            link: None,
            is_up: !self.cut.contains(&in_order([source.node, sink.node])),
            is_addressed,
        });
        self.stations[from].paths.push(index);
        self.open(index, &config.loss);
    }

    /// Whether frames at `rate` can be decoded over a path.
    fn is_clear(&self, path: &Path, rate: Bitrate) -> bool {
        let (source, sink) = (&self.stations[path.from as usize], &self.stations[path.to as usize]);
        let is_heard = source.channel == sink.channel && path.signal >= sink.receive_threshold;
        (is_heard || sink.phy.kind == PhyKind::Wire) && sink.phy.decodes(&source.phy, rate)
    }

    /// One rate of each format that a radio sends, the older format first.
    fn formats(&self, radio: usize) -> [Bitrate; 2] {
        let phy = &self.stations[radio].phy;
        let rates = phy.rates();
        [phy.basic_rates()[0], rates[rates.len() - 1]]
    }

    /// Creates the link of a path if frames can be decoded over it and it has none.
    fn open(&mut self, index: u32, loss: &LossModel) {
        let path = self.paths[index as usize];
        let formats = self.formats(path.from as usize);
        if path.link.is_some() || !formats.iter().any(|rate| self.is_clear(&path, *rate)) {
            return;
        }
        let (source, sink) = (&self.stations[path.from as usize], &self.stations[path.to as usize]);
        let build = || {
            let name = format!(
                "air/{}.{}-{}.{}/loss",
                source.node.0, source.radio.0, sink.node.0, sink.radio.0
            );
            Box::new(loss.build(self.seed.stream(&name)))
        };
        let link = Link {
            to: path.to,
            is_up: path.is_up,
            is_addressed: path.is_addressed,
            loss: (*loss != LossModel::None).then(build),
            last_sequence: [None; 4],
            answered: Duration::ZERO,
            collided: Duration::ZERO,
        };
        self.paths[index as usize].link = Some(self.links.len() as u32);
        self.links.push(link);
    }

    /// Rebuilds the lists of a radio's hearers.
    fn line_up(&mut self, radio: usize) {
        let [older, newer] = self.formats(radio);
        let phy = self.stations[radio].phy;
        let sinks = self.stations[radio].paths.iter().map(|path| self.paths[*path as usize].to);
        let mut others: Vec<Phy> = Vec::new();
        for other in sinks.map(|sink| self.stations[sink as usize].phy) {
            if other != phy && !others.contains(&other) {
                others.push(other);
            }
        }
        let hearers = self.list(radio, older);
        let mut lists = Vec::new();
        if !others.is_empty() && phy.is_newer(newer) {
            let forms = others.iter().filter_map(|other| phy.rates_for(other).last().copied());
            let forms: BTreeMap<u8, Bitrate> =
                forms.chain([newer]).map(|rate| (rate.form(), rate)).collect();
            lists.extend(forms.into_iter().map(|(form, rate)| (form, self.list(radio, rate))));
        }
        let station = &mut self.stations[radio];
        lists.retain(|(_, list)| *list != hearers);
        (station.newer, station.hearers) = (lists, hearers);
    }

    /// The hearers of a radio at `rate`: the ends of its paths, and the other radios of its node.
    fn list(&self, radio: usize, rate: Bitrate) -> Rc<[Hearer]> {
        let source = &self.stations[radio];
        let from_path = |index: &u32| {
            let path = &self.paths[*index as usize];
            let sink = &self.stations[path.to as usize];
            let overlap = match sink.phy.kind {
                PhyKind::Wire => 1.0,
                _ => sink.share_of(source),
            };
            if overlap == 0.0 || !path.is_up {
                return None;
            }
            let reach = match path.link.filter(|_| self.is_clear(path, rate)) {
                Some(link) => Reach::Decodable(link),
                None => Reach::Energy,
            };
            // A frame that can be decoded is no wider than the channel of its receiver, so all of
            // its power counts.
            let signal = match reach {
                Reach::Energy if overlap < 1.0 => {
                    path.signal.weaker_by(-10.0 * libm::log10(overlap))
                }
                _ => path.signal,
            };
            if signal < sink.sense_threshold && !self.sums_energy {
                return None;
            }
            let power = if self.sums_energy { Power::of(signal) } else { Power::LEAST };
            Some(Hearer { delay: path.delay, power, radio: path.to, signal, reach })
        };
        let mut hearers: Vec<Hearer> = source.paths.iter().filter_map(from_path).collect();
        hearers.extend(self.siblings(radio));
        hearers.sort_by_key(|hearer| hearer.delay);
        hearers.into()
    }

    /// The other radios of a node, if their channels overlap (`radio.md` 6). The radios of a node
    /// are adjacent.
    fn siblings(&self, radio: usize) -> impl Iterator<Item = Hearer> {
        let own = &self.stations[radio];
        let is_of_node = |index: &usize| self.stations[*index].node == own.node;
        let before = (0..radio).rev().take_while(is_of_node);
        let after = (radio + 1..self.stations.len()).take_while(is_of_node);
        before.chain(after).filter_map(|index| {
            let other = &self.stations[index];
            let overlap = other.share_of(own);
            (overlap > 0.0).then_some(Hearer {
                delay: Duration::ZERO,
                power: Power::ZERO,
                radio: index as u32,
                signal: Dbm::new(0),
                reach: Reach::Sibling(overlap as f32),
            })
        })
    }

    /// Cuts or restores a path. Transmissions on their way continue.
    pub(super) fn set_up(&mut self, index: usize, up: bool) {
        let path = &mut self.paths[index];
        path.is_up = up;
        let from = path.from as usize;
        if let Some(link) = path.link {
            self.links[link as usize].is_up = up;
        }
        self.line_up(from);
    }

    /// Cuts or restores all paths between two nodes, and those that come to be until they are
    /// restored.
    pub(super) fn set_linked(&mut self, nodes: [NodeId; 2], up: bool) {
        let pair = in_order(nodes);
        if up {
            self.cut.remove(&pair);
        } else {
            self.cut.insert(pair);
        }
        for index in 0..self.paths.len() {
            let Path { from, to, .. } = self.paths[index];
            if in_order([from, to].map(|radio| self.node(radio as usize))) == pair {
                self.set_up(index, up);
            }
        }
    }

    /// Replaces the links from a radio. Pairs that stay linked keep their state, and pairs that
    /// were linked before get theirs back.
    ///
    /// Panics as [`Links::new`] does.
    pub(super) fn replace(&mut self, radio: usize, links: &[AirLink]) {
        if self.by_pair.is_empty() {
            let pair = |(index, path): (usize, &Path)| ((path.from, path.to), index as u32);
            self.by_pair = self.paths.iter().enumerate().map(pair).collect();
        }
        self.stations[radio].paths.clear();
        for config in links {
            assert_eq!(config.from, radio, "a link from another radio");
            match self.by_pair.entry((radio as u32, config.to as u32)) {
                Entry::Occupied(known) => {
                    let index = *known.get();
                    let path = &mut self.paths[index as usize];
                    (path.delay, path.signal) = (config.delay, config.signal);
                    self.stations[radio].paths.push(index);
                    self.open(index, &config.loss);
                }
                Entry::Vacant(place) => {
                    place.insert(self.paths.len() as u32);
                    self.add(config);
                }
            }
        }
        self.line_up(radio);
    }
}
