//! A-MPDU arithmetic (802.11-2012 8.6.1 and 9.12, 802.11ac-2013 8.6.1): delimiters, padding,
//! limits, and when each byte is on the air.

use super::{GuardInterval, Phy, PhyKind, SERVICE_BITS};
use crate::base::time::Duration;
use crate::base::units::Bitrate;

/// Length of the delimiter before each MPDU of an A-MPDU, in bytes.
pub const DELIMITER_BYTES: usize = 4;

/// Limits of an A-MPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmpduLimits {
    /// Number of MPDUs: the window of a block acknowledgement.
    pub mpdus: usize,
    /// Length in bytes, including delimiters and padding.
    pub bytes: usize,
    /// Air time of the whole frame.
    pub air_time: Duration,
}

/// The length of an A-MPDU to which MPDUs are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmpduSize {
    bytes: usize,
    mpdus: usize,
    /// VHT pads the last MPDU too, because the frame continues to the end of its symbol.
    pads_last: bool,
}

impl AmpduSize {
    /// Length in bytes: delimiters, MPDUs, and padding to four bytes.
    pub const fn bytes(&self) -> usize {
        if self.pads_last { self.bytes.next_multiple_of(4) } else { self.bytes }
    }

    /// Number of MPDUs so far.
    pub const fn mpdus(&self) -> usize {
        self.mpdus
    }

    /// Adds an MPDU of `bytes` bytes, check sequence included. Returns the position of its first
    /// byte in the A-MPDU, after its delimiter.
    pub const fn push(&mut self, bytes: usize) -> usize {
        let start = self.bytes.next_multiple_of(4) + DELIMITER_BYTES;
        self.bytes = start + bytes;
        self.mpdus += 1;
        start
    }
}

impl Phy {
    /// The limits of an A-MPDU; `None` if the PHY has none. The length is that of the largest
    /// receive buffer that can be announced (length exponents 3 and 7), the time is aPPDUMaxTime.
    pub const fn ampdu_limits(&self) -> Option<AmpduLimits> {
        let bytes = match self.kind {
            PhyKind::N => 65_535,
            PhyKind::Ac => 1_048_575,
            _ => return None,
        };
        Some(AmpduLimits { mpdus: 64, bytes, air_time: Duration::from_micros(5_484) })
    }

    /// An empty A-MPDU at `rate`.
    pub fn ampdu(&self, rate: Bitrate) -> AmpduSize {
        let (sent, _) = self.sent(rate);
        AmpduSize { bytes: 0, mpdus: 0, pads_last: sent.kind == PhyKind::Ac }
    }

    /// The longest A-MPDU at `rate` of MPDUs of `bytes` bytes each: at least one, at most `most`.
    pub fn longest_ampdu(&self, bytes: usize, rate: Bitrate, most: usize) -> AmpduSize {
        let before = bytes.next_multiple_of(4) + DELIMITER_BYTES;
        let of = |mpdus: usize| AmpduSize {
            bytes: (mpdus - 1) * before + DELIMITER_BYTES + bytes,
            mpdus,
            ..self.ampdu(rate)
        };
        let (mut fits, mut beyond) = (1, most.max(1) + 1);
        while beyond - fits > 1 {
            let middle = usize::midpoint(fits, beyond);
            if self.has_room(of(middle - 1), bytes, rate) { fits = middle } else { beyond = middle }
        }
        of(fits)
    }

    /// Whether an A-MPDU at `rate` stays within the limits with one more MPDU of `bytes` bytes. The
    /// first one always fits.
    pub fn has_room(&self, ampdu: AmpduSize, bytes: usize, rate: Bitrate) -> bool {
        let limits = self.sent(rate).0.ampdu_limits();
        let Some(limits) = limits else { return ampdu.mpdus == 0 };
        let mut larger = ampdu;
        larger.push(bytes);
        ampdu.mpdus == 0
            || (larger.mpdus <= limits.mpdus
                && larger.bytes() <= limits.bytes
                && self.air_time(larger.bytes(), rate) <= limits.air_time)
    }

    /// Length of the PSDU of a single MPDU, in bytes: VHT sends it as an A-MPDU of one.
    pub fn psdu_bytes(&self, mpdu: usize, rate: Bitrate) -> usize {
        if self.sent(rate).0.kind != PhyKind::Ac || self.mcs(rate).is_none() {
            return mpdu;
        }
        let mut ampdu = self.ampdu(rate);
        ampdu.push(mpdu);
        ampdu.bytes()
    }

    /// From the start of a frame at `rate` to the start of the symbol with the first bit of a byte
    /// of its PSDU.
    pub fn byte_time(&self, byte: usize, rate: Bitrate) -> Duration {
        self.symbols_time(byte, rate, |bits, per_symbol| bits / per_symbol)
    }

    /// From the start of a frame at `rate` to the end of the symbol with the last bit of the first
    /// `bytes` bytes of its PSDU.
    pub fn byte_end(&self, bytes: usize, rate: Bitrate) -> Duration {
        self.symbols_time(bytes, rate, u64::div_ceil)
    }

    fn symbols_time(
        &self,
        bytes: usize,
        rate: Bitrate,
        count: impl Fn(u64, u64) -> u64,
    ) -> Duration {
        let Some(per_symbol) = self.mcs_bits_of(rate) else {
            return self.plcp(rate) + rate.time(bytes as u64);
        };
        let symbols = count(SERVICE_BITS + bytes as u64 * 8, per_symbol);
        let symbol = match self.sent(rate).0.guard_interval {
            GuardInterval::Long => 4_000,
            GuardInterval::Short => 3_600,
        };
        self.plcp(rate) + Duration::from_nanos(symbol * symbols)
    }
}
