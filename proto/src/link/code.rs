//! The erasure code over the packets of a block (`wildnet.md` 7.2): systematic; any K of N units
//! recover the block.
//!
//! The field is GF(2^8) with x^8+x^4+x^3+x^2+1. This differs from the sheet (Rizzo's Vandermonde
//! matrix): the parity matrix is a Cauchy matrix, `c(j, i) = 1 / ((255 - j) xor i)` for parity `j`
//! and data `i`. It depends neither on K nor on N, so that a block may be closed at any length, and
//! only the part for the missing units has to be inverted. The sets of units that can be decoded
//! are the same: every square submatrix of a Cauchy matrix is invertible. `fec-rs` does the field
//! arithmetic.

use bytes::Bytes;
use fec_rs::galois;

use crate::wire::wild::{UNIT_HEAD_BYTES, UnitHead, encode_unit};

/// Most data packets of a block.
pub(super) const MAX_DATA: usize = 64;
/// Most parity packets of a block.
pub(super) const MAX_PARITY: usize = 128;

fn coefficient(parity: usize, data: usize) -> u8 {
    galois::div(1, (255 - parity as u8) ^ data as u8)
}

/// Parity unit number `parity` over these data units, `bytes` long.
pub(super) fn parity_of<'a>(
    units: impl Iterator<Item = &'a [u8]>,
    parity: usize,
    bytes: usize,
) -> Vec<u8> {
    let mut out = vec![0; bytes];
    for (index, unit) in units.enumerate() {
        galois::mul_slice_xor(coefficient(parity, index), unit, &mut out[..unit.len()]);
    }
    out
}

/// The data units with the indices `missing`, computed from all other data units and as many parity
/// units, each with its index and all of one length. Shorter data counts as padded with zeros.
pub(super) fn recover<'a>(
    missing: &[usize],
    data: impl Iterator<Item = (usize, &'a [u8])>,
    parity: &[(usize, Bytes)],
) -> Vec<Bytes> {
    let rows = &parity[..missing.len()];
    let mut sums: Vec<Vec<u8>> = rows.iter().map(|(_, unit)| unit.to_vec()).collect();
    for (index, unit) in data {
        for ((parity, _), sum) in rows.iter().zip(&mut sums) {
            let factor = coefficient(*parity, index);
            galois::mul_slice_xor(factor, unit, &mut sum[..unit.len()]);
        }
    }
    let matrix = rows
        .iter()
        .map(|(parity, _)| missing.iter().map(|data| coefficient(*parity, *data)).collect())
        .collect();
    let unit = |row: &Vec<u8>| {
        let mut out = vec![0; rows[0].1.len()];
        for (factor, sum) in row.iter().zip(&sums) {
            galois::mul_slice_xor(*factor, sum, &mut out);
        }
        Bytes::from(out)
    };
    inverse(matrix).iter().map(unit).collect()
}

/// A block that is being sent.
#[derive(Debug)]
pub(super) struct Encoder {
    /// The block's number.
    pub(super) id: u16,
    units: Vec<Vec<u8>>,
    longest: usize,
}

impl Encoder {
    pub(super) fn new(id: u16) -> Self {
        Self { id, units: Vec::new(), longest: 0 }
    }

    /// Data packets so far.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Length of the parity units if a packet of `payload` bytes is added, in bytes.
    pub(super) fn longest_with(&self, payload: usize) -> usize {
        self.longest.max(UNIT_HEAD_BYTES + payload)
    }

    /// Adds a packet.
    pub(super) fn push(&mut self, head: &UnitHead, payload: &[u8]) {
        assert!(self.units.len() < MAX_DATA, "a block that is too long");
        self.longest = self.longest_with(payload.len());
        self.units.push(encode_unit(head, payload));
    }

    /// `count` parity units over all packets.
    pub(super) fn parity(&self, count: usize) -> Vec<Bytes> {
        assert!(count <= MAX_PARITY, "more parity than the matrix has");
        let units = || self.units.iter().map(Vec::as_slice);
        (0..count).map(|parity| parity_of(units(), parity, self.longest).into()).collect()
    }
}

/// A block that is being received.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The block's number.
    pub(super) id: u16,
    data: Vec<Option<(UnitHead, Bytes)>>,
    parity: Vec<(usize, Bytes)>,
    k: Option<usize>,
    is_complete: bool,
}

impl Decoder {
    pub(super) fn new(id: u16) -> Self {
        Self { id, data: Vec::new(), parity: Vec::new(), k: None, is_complete: false }
    }

    /// Whether the block was recovered or had nothing missing, so that it needs nothing more.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Adds a data packet to the block.
    pub(super) fn on_data(&mut self, index: u8, head: UnitHead, payload: Bytes) {
        let index = usize::from(index);
        if self.is_complete || index >= MAX_DATA {
            return;
        }
        if self.data.len() <= index {
            self.data.resize(index + 1, None);
        }
        self.data[index] = Some((head, payload));
    }

    /// Adds a parity packet, with `k` and `index` from its header.
    pub(super) fn on_parity(&mut self, k: u8, index: u8, unit: Bytes) {
        let (k, parity) = (usize::from(k), usize::from(index - k));
        let is_known = self.parity.iter().any(|(known, _)| *known == parity);
        let is_alike = self.parity.first().is_none_or(|(_, first)| first.len() == unit.len());
        let fits = k <= MAX_DATA && parity < MAX_PARITY && self.k.is_none_or(|known| known == k);
        if self.is_complete || is_known || !is_alike || !fits || unit.len() < UNIT_HEAD_BYTES {
            return;
        }
        self.k = Some(k);
        self.parity.push((parity, unit));
    }

    /// The missing units, once enough units have arrived; empty before that, and on later calls.
    pub(super) fn recover(&mut self) -> Vec<Bytes> {
        let Some(k) = self.k.filter(|_| !self.is_complete) else { return Vec::new() };
        let missing: Vec<usize> =
            (0..k).filter(|index| self.data.get(*index).is_none_or(Option::is_none)).collect();
        if missing.len() > self.parity.len() || self.data.len() > k {
            return Vec::new();
        }
        self.is_complete = true;
        self.solve(&missing).unwrap_or_default()
    }

    /// `None` if nothing is missing, or if a packet is longer than the parity, which no sender of
    /// ours produces.
    fn solve(&self, missing: &[usize]) -> Option<Vec<Bytes>> {
        if missing.is_empty() {
            return None;
        }
        let unit = |(head, payload): &(UnitHead, Bytes)| encode_unit(head, payload);
        let come = self.data.iter().enumerate();
        let data: Vec<(usize, Vec<u8>)> =
            come.filter_map(|(index, one)| Some((index, unit(one.as_ref()?)))).collect();
        if data.iter().any(|(_, unit)| unit.len() > self.parity[0].1.len()) {
            return None;
        }
        let data = data.iter().map(|(index, unit)| (*index, &unit[..]));
        Some(recover(missing, data, &self.parity))
    }
}

/// Gauss-Jordan elimination over the field. Panics if the matrix is singular, which no square
/// submatrix of a Cauchy matrix is.
fn inverse(mut matrix: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let size = matrix.len();
    for (row, cells) in matrix.iter_mut().enumerate() {
        cells.extend((0..size).map(|column| u8::from(column == row)));
    }
    for pivot in 0..size {
        let row = (pivot..size).find(|row| matrix[*row][pivot] != 0).expect("a regular matrix");
        matrix.swap(pivot, row);
        let scale = galois::div(1, matrix[pivot][pivot]);
        let cells: Vec<u8> = matrix[pivot].iter().map(|cell| galois::mul(*cell, scale)).collect();
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            galois::mul_slice_xor(factor, &cells, &mut matrix[row]);
        }
        matrix[pivot] = cells;
    }
    matrix.into_iter().map(|row| row[size..].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{EtherType, FlowId, Rng, Seed, Seq};
    use crate::wire::wild::decode_unit;

    fn packet(index: usize, rng: &mut Rng) -> (UnitHead, Bytes) {
        let length = 1 + rng.below(60) as usize;
        let payload: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
        let head = UnitHead {
            seq: Seq(index as u32),
            flow: FlowId(7),
            flow_seq: index as u16,
            protocol: EtherType::IPV4,
        };
        (head, payload.into())
    }

    /// Sends `k + m` units, loses all but a random `k` of them, and decodes.
    fn check(k: usize, m: usize, rng: &mut Rng) {
        let packets: Vec<_> = (0..k).map(|index| packet(index, rng)).collect();
        let mut encoder = Encoder::new(1);
        packets.iter().for_each(|(head, payload)| encoder.push(head, payload));
        let parity = encoder.parity(m);
        let mut order: Vec<usize> = (0..k + m).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let mut decoder = Decoder::new(1);
        let mut got = vec![false; k];
        let mut recovered = Vec::new();
        for index in &order[..k] {
            assert!(recovered.is_empty(), "decoded from too little");
            match packets.get(*index) {
                Some((head, payload)) => {
                    got[*index] = true;
                    decoder.on_data(*index as u8, *head, payload.clone());
                }
                None => decoder.on_parity(k as u8, *index as u8, parity[index - k].clone()),
            }
            recovered = decoder.recover();
        }
        for unit in recovered {
            let (head, payload) = decode_unit(&unit).expect("a whole unit");
            let index = head.seq.0 as usize;
            assert_eq!((head, payload), packets[index]);
            assert!(!std::mem::replace(&mut got[index], true), "decoded what was there");
        }
        assert!(got.iter().all(|got| *got), "K = {k}, M = {m}");
    }

    #[test]
    fn any_k_of_n_recover_the_block_for_all_n_up_to_64() {
        let mut rng = Seed(3).stream("code");
        for n in 2..=64 {
            for k in 1..n {
                check(k, n - k, &mut rng);
            }
        }
        for _ in 0..50 {
            check(64, 128, &mut rng);
        }
    }

    #[test]
    fn parity_is_the_sum_of_the_units_times_the_cauchy_matrix() {
        let mut encoder = Encoder::new(1);
        let head =
            UnitHead { seq: Seq(1), flow: FlowId(2), flow_seq: 3, protocol: EtherType::IPV4 };
        encoder.push(&head, b"ab");
        encoder.push(&UnitHead { seq: Seq(2), ..head }, b"c");
        // Computed by another program, bit by bit.
        let golden: [&[u8]; 2] = [
            &[0, 0, 0, 0x01, 0, 0x1b, 0, 0x98, 0x6c, 0, 0, 0x99, 0x95, 0x80],
            &[0, 0, 0, 0x99, 0, 0x1b, 0, 0x98, 0x6c, 0, 0, 0x01, 0x8e, 0x71],
        ];
        assert_eq!(encoder.parity(2), golden);
    }

    #[test]
    fn parity_that_contradicts_the_block_is_ignored() {
        let mut decoder = Decoder::new(1);
        let mut rng = Seed(4).stream("code");
        let (head, payload) = packet(0, &mut rng);
        decoder.on_data(0, head, payload);
        decoder.on_parity(2, 2, Bytes::from_static(&[1; 12]));
        decoder.on_parity(3, 3, Bytes::from_static(&[1; 12]));
        decoder.on_parity(2, 3, Bytes::from_static(&[1; 13]));
        assert_eq!(decoder.parity.len(), 1);
        assert!(decoder.recover().is_empty(), "its packet is longer than its parity");
    }
}
