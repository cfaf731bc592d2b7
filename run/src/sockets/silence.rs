//! Ends streams that stand still: the other end is silent, no program accepts them, or nobody
//! reads.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::transport::hop::Hop;

use super::SocketCounters;
use super::channel::Cause;
use super::stream::{Stage, Stream};
use super::streams::Streams;
use crate::blocks::Office;

/// Longest time between two searches for silent streams.
const LOOK: Duration = Duration::from_secs(1);
/// Longest silence after which a node is asked whether it is there.
const PROBE: Duration = Duration::from_secs(5);
/// How long an offered stream waits for a program that accepts it.
const OFFER: Duration = Duration::from_secs(60);

impl Streams {
    /// Ends streams with nodes that were silent for too long, and streams that no program accepts;
    /// probes nodes that are silent.
    pub(super) fn look_for_silent(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        counters: &mut SocketCounters,
    ) {
        for stream in self.all.values_mut() {
            stream.look(now, hop);
        }
        self.note_heard();
        let heard = &self.heard;
        let silence = office.config.silence();
        let has_ended = |stream: &Stream| match stream.stage {
            Stage::Offered => stream.heard + OFFER <= now,
            Stage::Opening => stream.heard + silence <= now,
            _ => heard[&stream.peer].max(stream.held_up) + silence <= now,
        };
        let ended: Vec<(u32, NodeId)> = self
            .all
            .iter()
            .filter(|(_, stream)| has_ended(stream))
            .map(|(local, stream)| (*local, stream.peer))
            .collect();
        for (local, peer) in ended {
            counters.reset += 1;
            counters.silent += 1;
            let (name, seconds) = (office.name(peer), silence.as_secs_f64());
            let why = format!("no word of {name} for {seconds:.0} s");
            self.end(now, hop, local, (Cause::Silent, &why));
        }
        self.make_room(now, hop, silence, counters);
        self.probe_opening(now, silence);
        let is_quiet = |last: Instant| last + probe_after(silence) <= now;
        let heard = self.heard.iter();
        let quiet: Vec<NodeId> =
            heard.filter(|(_, last)| is_quiet(**last)).map(|(peer, _)| *peer).collect();
        for peer in quiet {
            if !self.probe_one(peer)
                && let Some(life) = self.oldest_life(peer)
            {
                self.silent.insert(peer, life);
            }
        }
        // The daemon of one node has only one run: whichever is over refuses.
        let two = self.heard.keys().filter(|peer| self.has_two_lives(**peer));
        let asked = two.filter_map(|peer| Some((*peer, self.oldest_life(*peer)?)));
        self.silent.extend(asked.collect::<Vec<_>>());
    }

    /// Notes when each node with streams was last heard. A block of one stream counts for all
    /// streams with that node, also after that stream has ended, as the others were not probed in
    /// the meantime.
    pub(super) fn note_heard(&mut self) {
        let mut before = std::mem::take(&mut self.heard);
        let is_known = |stream: &&Stream| stream.stage != Stage::Opening;
        for stream in self.all.values().filter(is_known) {
            let last = self.heard.entry(stream.peer);
            let last = last.or_insert_with(|| before.remove(&stream.peer).unwrap_or(stream.heard));
            *last = stream.heard.max(*last);
        }
    }

    /// Probes streams whose first block has arrived, but whose answer has not come for some time.
    /// A node that was restarted does not know them, and refuses.
    fn probe_opening(&mut self, now: Instant, silence: Duration) {
        for (local, stream) in &mut self.all {
            let is_late = stream.heard + probe_after(silence) <= now;
            if stream.stage == Stage::Opening && is_late && stream.ours.can_probe() {
                stream.ours.probe();
                self.todo.insert(*local);
            }
        }
    }

    /// If programs that do not read keep others from getting data, ends the stream that has been
    /// unread for longest, if that is long ago.
    fn make_room(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        silence: Duration,
        counters: &mut SocketCounters,
    ) {
        if !hop.take_pressed() {
            return;
        }
        let since = |(local, stream): (&u32, &Stream)| Some((stream.unread_since()?, *local));
        let Some((since, local)) = self.all.iter().filter_map(since).min() else { return };
        if since + silence <= now {
            counters.reset += 1;
            counters.unread += 1;
            let seconds = silence.as_secs_f64();
            let why = format!("nothing was read for {seconds:.0} s, and others need the memory");
            self.end(now, hop, local, (Cause::Broken, &why));
        }
    }

    pub(super) fn take_silent(&mut self) -> BTreeMap<NodeId, u64> {
        std::mem::take(&mut self.silent)
    }

    /// The open streams with a node that told the number of its run, or to which a block is on its
    /// way: if it is there, they stand.
    fn standing(&self, peer: NodeId) -> impl Iterator<Item = (u32, &Stream)> {
        let is_one = move |stream: &Stream| {
            let is_open = matches!(stream.stage, Stage::Open | Stage::Leaving);
            stream.peer == peer && is_open && (stream.life != 0 || stream.ours.is_flying())
        };
        let all = self.all.iter().filter(move |(_, stream)| is_one(stream));
        all.map(|(local, stream)| (*local, stream))
    }

    /// The run of the stream that was silent for longest.
    fn oldest_life(&self, peer: NodeId) -> Option<u64> {
        let oldest = self.standing(peer).min_by_key(|(_, stream)| stream.heard);
        oldest.map(|(_, stream)| stream.life)
    }

    fn has_two_lives(&self, peer: NodeId) -> bool {
        let mut lives =
            self.standing(peer).map(|(_, stream)| stream.life).filter(|life| *life != 0);
        let first = lives.next();
        lives.any(|life| Some(life) != first)
    }

    /// A node answered that it is there, and this run of its daemon, if that is not 0. Otherwise
    /// that says nothing of streams of which no block is on its way.
    pub(super) fn on_there(&mut self, now: Instant, node: NodeId, life: u64) {
        let stands =
            |stream: &Stream| stream.ours.is_flying() || (life != 0 && stream.life == life);
        let all = self.standing(node).filter(|(_, stream)| stands(stream));
        for local in all.map(|(local, _)| local).collect::<Vec<_>>() {
            self.all.get_mut(&local).into_iter().for_each(|stream| stream.heard = now);
        }
    }

    /// This run of a node's daemon is over, and so are the streams with it.
    pub(super) fn on_over(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (node, life): (NodeId, u64),
        counters: &mut SocketCounters,
    ) {
        let is_of = |stream: &Stream| stream.peer == node && stream.life == life;
        let all = self.all.iter().filter(|(_, stream)| is_of(stream));
        for local in all.map(|(local, _)| *local).collect::<Vec<_>>() {
            counters.reset += 1;
            let why = "the daemon at the other end was restarted";
            self.end(now, hop, local, (Cause::Broken, why));
        }
    }

    /// Probes a node over the stream of it that was silent for longest. If the node was restarted
    /// it refuses the stream, and then the next stream is probed. Returns whether a probe is on its
    /// way.
    pub(super) fn probe_one(&mut self, peer: NodeId) -> bool {
        if self.all.values().any(|stream| stream.peer == peer && stream.is_probing) {
            return true;
        }
        let can = |stream: &Stream| {
            stream.peer == peer && stream.stage == Stage::Open && stream.ours.can_probe()
        };
        let all = self.all.iter_mut().filter(|(_, stream)| can(stream));
        let Some((local, stream)) = all.min_by_key(|(_, stream)| stream.heard) else {
            return false;
        };
        stream.ours.probe();
        stream.is_probing = true;
        self.todo.insert(*local);
        true
    }
}

/// The silence after which a node is probed. Two thirds of the time until it is given up remain for
/// its answer.
fn probe_after(silence: Duration) -> Duration {
    PROBE.min(silence / 3)
}

pub(super) fn look_after(silence: Duration) -> Duration {
    LOOK.min(silence / 6)
}
