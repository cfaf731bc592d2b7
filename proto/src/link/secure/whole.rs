//! Whole packets, which are sealed before a link cuts them and opened after it has assembled them.

use std::cell::RefCell;

use bytes::Bytes;

use super::Secure;
use crate::base::{Cx, EtherType, Instant, Lane, Layer, NodeId, Room, Seal};
use crate::wire::secure::{Header, Kind};

/// The keys of a node, lent to its link while the link is called.
#[derive(Debug)]
pub struct Keys<'a>(RefCell<&'a mut Secure>);

impl<'a> Keys<'a> {
    /// Lends the keys.
    pub fn new(secure: &'a mut Secure) -> Self {
        Self(RefCell::new(secure))
    }

    /// The part of `below` that a lane may use: none as long as nobody could open the frame.
    pub fn room(&self, lane: Lane, below: Room) -> Room {
        if self.0.borrow().room(lane).is_none() { Room::NONE } else { below }
    }
}

impl Seal for Keys<'_> {
    fn seal(&self, to: NodeId, protocol: EtherType, packet: &[u8]) -> Option<Bytes> {
        if Kind::Cut.protocol(packet) != Some(protocol) {
            return None;
        }
        let mut secure = self.0.borrow_mut();
        let header = secure.header(Kind::Cut);
        let (us, index) = (secure.node, *secure.index.get(&to)?);
        let peer = &mut secure.peers[index];
        let sealed = peer.current.as_mut()?.seal(header, us, to, packet);
        peer.sealed += 1;
        secure.counters.sealed += 1;
        Some(sealed)
    }

    fn open(&self, now: Instant, from: NodeId, sealed: Bytes) -> Option<(EtherType, Bytes)> {
        let mut secure = self.0.borrow_mut();
        let index = *secure.index.get(&from)?;
        let header = Header::decode_cut(&sealed).ok()?;
        let opened = secure.open_for_us(&mut Cx::new(now), index, &header, sealed);
        let body = opened.map_err(|reason| secure.peers[index].rejected.count(reason)).ok()?;
        secure.counters.opened += 1;
        Some((header.kind.protocol(&body)?, body))
    }
}
