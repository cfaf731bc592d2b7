//! Nodes with several radios.

use super::super::bits::Bits;
use super::*;

/// A block of 100 frames for each of nodes 2 and 3, at a node that knows which radios reach them.
fn for_two_neighbours(radios: [u8; 2]) -> Hop {
    let config = HopConfig { block_bytes: Some(140_000), ..HopConfig::default() };
    let rng = Seed(1).stream("hop");
    let mut hop = Hop::build(config, NodeId(1), AddressPlan::default(), None, rng);
    for (to, radio) in (2..).map(NodeId).zip(radios) {
        reach(&mut hop, to, RadioId(radio));
        let id = BlockId { flow: flow(to.0.into()), number: 0 };
        hop.push(Instant::ZERO, id, to, true, frames_of(&text(id, 140_000), 1_400));
    }
    hop
}

fn reach(hop: &mut Hop, to: NodeId, radio: RadioId) {
    let route = DatagramUp::NextHop { dst: to, via: to, radio, hops: 1 };
    hop.handle_rx(&mut Cx::new(Instant::ZERO), route);
}

/// Takes what there is to send, without passing it to a radio, and answers all requests. Returns
/// the frames for nodes 2 and 3.
fn take(hop: &mut Hop) -> [Vec<UnitId>; 2] {
    let mut frames = [const { Vec::new() }; 2];
    let mut cx = Cx::new(Instant::ZERO);
    while let Some(datagram) = hop.poll_tx(&mut cx, &|_| Room::UNLIMITED) {
        let Destination::NextHop(to) = datagram.to else { continue };
        if datagram.flow == FlowId(DATA_PORT) {
            frames[usize::from(to.0) - 2].push(datagram.id);
            continue;
        }
        let id = BlockId { flow: flow(to.0.into()), number: 0 };
        let nothing = Bits::none(100);
        hop.on_answer(Instant::ZERO, id, to, 1, &nothing.write());
    }
    frames
}

fn end(hop: &mut Hop, frames: &[UnitId]) {
    for id in frames {
        let (outcome, air_time) = (PacketOutcome::Delivered, Duration::ZERO);
        let done = PacketDone { id: *id, outcome, attempts: 1, air_time };
        hop.handle_rx(&mut Cx::new(Instant::ZERO), DatagramUp::Done(done));
    }
}

/// How many frames are sent to nodes 2 and 3 while the radio that reaches node 2 sends none of its
/// frames.
fn beside_a_slow_one(radios: [u8; 2]) -> [usize; 2] {
    let mut hop = for_two_neighbours(radios);
    let mut count = [0; 2];
    loop {
        let frames = take(&mut hop);
        count.iter_mut().zip(&frames).for_each(|(count, more)| *count += more.len());
        if frames[1].is_empty() {
            return count;
        }
        end(&mut hop, &frames[1]);
    }
}

#[test]
fn a_radio_that_is_slow_holds_up_nothing_that_goes_over_another() {
    assert_eq!(beside_a_slow_one([0, 1]), [12, 100]);
    let [of_slow, of_fast] = beside_a_slow_one([0, 0]);
    assert!(of_slow == 12 && of_fast <= 12, "on one radio they share its places");
}

#[test]
fn a_turn_of_a_block_that_is_over_is_forgotten() {
    let mut hop = for_two_neighbours([0, 0]);
    let frames = take(&mut hop).concat();
    assert!(hop.may_send(), "the radio is full, and there is more");
    for to in [2, 3] {
        let id = BlockId { flow: flow(to), number: 0 };
        hop.on_answer(Instant::ZERO, id, NodeId(to as u16), 1, &Bits::all(100).write());
    }
    end(&mut hop, &frames);
    assert_eq!(take(&mut hop), [const { Vec::new() }; 2]);
    assert!(!hop.may_send(), "nobody is asked again and again");
}

#[test]
fn a_block_goes_on_over_the_radio_that_reaches_its_neighbour_from_now_on() {
    let mut hop = for_two_neighbours([0, 0]);
    let first = take(&mut hop).concat();
    assert_eq!(first.len(), 12, "the radio is full");
    reach(&mut hop, NodeId(3), RadioId(1));
    let [of_2, of_3] = take(&mut hop);
    assert_eq!((of_2.len(), of_3.len()), (0, 12), "another one is free");
    end(&mut hop, &first);
    assert_eq!(take(&mut hop)[0].len(), 12, "the first one sends the other block");
}
