//! Radiotap headers as Linux writes and interprets them (radiotap.org; the kernel's
//! `Documentation/networking/mac80211-injection.rst`).
//!
//! Three headers are written: for injection, for a received frame, and for a status echo (which
//! only the emulated air writes). One parser reads them all, and those of real drivers: it uses the
//! size and alignment of a field to skip the fields that it does not need.

mod mcs;

pub use self::mcs::Mcs;
use crate::base::phy::{Format, Mode};
use crate::base::{Band, Bitrate, Dbm, Phy, PhyKind, Width};

const TSFT: u32 = 0;
const FLAGS: u32 = 1;
const RATE: u32 = 2;
const CHANNEL: u32 = 3;
const DBM_SIGNAL: u32 = 5;
const ANTENNA: u32 = 11;
const TX_FLAGS: u32 = 15;
const DATA_RETRIES: u32 = 17;
const MCS: u32 = 19;
const AMPDU: u32 = 20;
const VHT: u32 = 21;
const EXTENSION: u32 = 31;

/// Unit of the rate field, in bits per second.
const RATE_STEP_BPS: u64 = 500_000;
const FLAG_FCS_AT_END: u8 = 0x10;
const FLAG_BAD_FCS: u8 = 0x40;
/// Position of the flags in what [`put_reception`] writes: after the time.
const FLAGS_AT: usize = 16;
const FLAG_SHORT_PREAMBLE: u8 = 0x02;
const TX_FLAG_FAILED: u16 = 0x0001;
const TX_FLAG_NO_ACK: u16 = 0x0008;
/// Channel flags: CCK at 2.4 GHz, OFDM at 5 GHz.
const CHANNEL_CCK_2GHZ: u16 = 0x00a0;
const CHANNEL_OFDM_5GHZ: u16 = 0x0140;

/// Alignment and size of each field, by its bit (radiotap.org, defined fields).
const FIELDS: [(u8, u8); 29] = [
    (8, 8),  // TSFT
    (1, 1),  // flags
    (1, 1),  // rate
    (2, 4),  // channel
    (2, 2),  // FHSS
    (1, 1),  // signal, dBm
    (1, 1),  // noise, dBm
    (2, 2),  // lock quality
    (2, 2),  // TX attenuation
    (2, 2),  // TX attenuation, dB
    (1, 1),  // TX power
    (1, 1),  // antenna
    (1, 1),  // signal, dB
    (1, 1),  // noise, dB
    (2, 2),  // RX flags
    (2, 2),  // TX flags
    (1, 1),  // RTS retries
    (1, 1),  // data retries
    (4, 8),  // XChannel
    (1, 3),  // MCS
    (4, 8),  // A-MPDU
    (2, 12), // VHT
    (8, 12), // timestamp
    (2, 12), // HE
    (2, 12), // HE-MU
    (2, 6),  // HE-MU, other user
    (1, 1),  // zero-length PSDU
    (2, 4),  // L-SIG
    (2, 4),  // TLV: never reached, see `parse`
];
const TLV: u32 = 28;

/// The fields of a radiotap header that farhop uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Radiotap {
    /// Length of the header, in bytes.
    pub length: usize,
    /// The radio's time (TSF) at the first bit of the frame after the PLCP header, in microseconds.
    pub tsft_us: Option<u64>,
    /// Whether the frame ends with its check sequence.
    pub has_fcs: bool,
    /// Whether the check sequence was wrong.
    pub bad_fcs: bool,
    /// Bit-rate of frames that are not HT or VHT.
    pub rate: Option<Bitrate>,
    /// Modulation and coding of HT and VHT frames.
    pub mcs: Option<Mcs>,
    /// Channel frequency, in MHz.
    pub frequency_mhz: Option<u16>,
    /// Received power.
    pub signal: Option<Dbm>,
    /// Receiving antenna.
    pub antenna: Option<u8>,
    /// Flags of an injected frame or an echo.
    pub tx_flags: Option<TxFlags>,
    /// In an injected frame the retries requested; in an echo the retries made.
    pub data_retries: Option<u8>,
}

/// Flags of an injected frame or an echo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxFlags {
    /// Echo: not acknowledged in any attempt.
    pub failed: bool,
    /// Injection: no acknowledgement is expected.
    pub no_ack: bool,
}

/// Why bytes are not a radiotap header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeError {
    /// Shorter than its fields, or than its length field says.
    Truncated,
    /// Not version 0.
    Version,
}

/// Decodes the header in front of a frame.
pub fn parse(packet: &[u8]) -> Result<Radiotap, DecodeError> {
    let head = packet.get(..8).ok_or(DecodeError::Truncated)?;
    if head[0] != 0 {
        return Err(DecodeError::Version);
    }
    let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let header = packet.get(..length).filter(|_| length >= 8).ok_or(DecodeError::Truncated)?;
    let present = word(header, 4).ok_or(DecodeError::Truncated)?;
    let mut at = 8;
    let mut last = present;
    while last & (1 << EXTENSION) != 0 {
        last = word(header, at).ok_or(DecodeError::Truncated)?;
        at += 4;
    }
    let mut found = Radiotap { length, ..Radiotap::default() };
    for field in 0..TLV {
        if present & (1 << field) == 0 {
            continue;
        }
        let (align, size) = FIELDS[field as usize];
        at = at.next_multiple_of(align.into());
        let value = header.get(at..at + usize::from(size)).ok_or(DecodeError::Truncated)?;
        at += usize::from(size);
        found.take(field, value);
    }
    Ok(found)
}

fn word(header: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?))
}

impl Radiotap {
    fn take(&mut self, field: u32, value: &[u8]) {
        match field {
            TSFT => self.tsft_us = value.try_into().ok().map(u64::from_le_bytes),
            FLAGS => {
                self.has_fcs = value[0] & FLAG_FCS_AT_END != 0;
                self.bad_fcs = value[0] & FLAG_BAD_FCS != 0;
            }
            // Some drivers write 0 if the rate is unknown.
            RATE if value[0] != 0 => {
                self.rate = Some(Bitrate::from_bps(u64::from(value[0]) * RATE_STEP_BPS))
            }
            CHANNEL => self.frequency_mhz = Some(u16::from_le_bytes([value[0], value[1]])),
            DBM_SIGNAL => self.signal = Some(Dbm::new(i32::from(value[0] as i8))),
            ANTENNA => self.antenna = Some(value[0]),
            TX_FLAGS => {
                let flags = u16::from_le_bytes([value[0], value[1]]);
                self.tx_flags = Some(TxFlags {
                    failed: flags & TX_FLAG_FAILED != 0,
                    no_ack: flags & TX_FLAG_NO_ACK != 0,
                });
            }
            DATA_RETRIES => self.data_retries = Some(value[0]),
            MCS => self.mcs = Mcs::of_ht(value),
            VHT => self.mcs = Mcs::of_vht(value),
            _ => {}
        }
    }

    /// Whether the packet is the status echo of a frame that was injected here: it has transmit
    /// flags, and none of the fields that only received frames have.
    pub fn is_echo(&self) -> bool {
        self.tx_flags.is_some() && self.tsft_us.is_none() && self.signal.is_none()
    }

    /// The rate of a PHY that the header describes, if there is one.
    pub fn rate_of(&self, phy: &Phy) -> Option<Bitrate> {
        if let Some(mcs) = self.mcs {
            return mcs.rate_of(phy);
        }
        let step = |rate: Bitrate| Bitrate::from_bps(u64::from(rate_field(rate)) * RATE_STEP_BPS);
        phy.legacy_rates().iter().copied().find(|rate| Some(step(*rate)) == self.rate)
    }
}

/// How a frame is to be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// PHY: a bit-rate of 802.11n or ac is written as its MCS.
    pub phy: Phy,
    /// Bit-rate; without one, mac80211 sends at the lowest of the band.
    pub rate: Bitrate,
    /// Retries after the first transmission, or `None` for a frame without acknowledgement: if both
    /// are requested, mac80211 retries even that.
    pub retries: Option<u8>,
}

/// Length of the longest header of an injected frame of a PHY, in bytes.
pub const fn injection_bytes(phy: &Phy) -> usize {
    match phy.kind {
        PhyKind::N => 14,
        PhyKind::Ac => 24,
        _ => 13,
    }
}

/// Appends the header of a frame that is to be injected.
pub fn put_injection(out: &mut Vec<u8>, injection: &Injection) {
    let Injection { phy, rate, retries } = injection;
    let flags = if retries.is_none() { TX_FLAG_NO_ACK } else { 0 };
    put_sent(out, phy, *rate, flags, *retries);
}

/// How a frame was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The radio's time (TSF) at the first bit of the frame after the PLCP header, in microseconds.
    pub tsft_us: u64,
    /// PHY.
    pub phy: Phy,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Channel number.
    pub channel: u16,
    /// Received power.
    pub signal: Option<Dbm>,
    /// Receiving antenna, if there are several.
    pub antenna: Option<u8>,
    /// For a frame in an A-MPDU: the number of the A-MPDU, and whether the frame is its last.
    pub ampdu: Option<(u32, bool)>,
}

/// Appends the header of a received frame: its rate or MCS, and its place in an A-MPDU.
pub fn put_reception(out: &mut Vec<u8>, reception: &Reception) {
    let signal = if reception.signal.is_some() { 1 << DBM_SIGNAL } else { 0 };
    let antenna = if reception.antenna.is_some() { 1 << ANTENNA } else { 0 };
    let Reception { phy, rate, .. } = reception;
    let mode = mode_field(phy, *rate);
    let ampdu = if reception.ampdu.is_some() { 1 << AMPDU } else { 0 };
    let fields = 1 << TSFT | 1 << FLAGS | 1 << mode | 1 << CHANNEL | signal | antenna | ampdu;
    let start = put_start(out, fields);
    out.extend_from_slice(&reception.tsft_us.to_le_bytes());
    out.push(if phy.has_short_preamble(*rate) { FLAG_SHORT_PREAMBLE } else { 0 });
    if mode == RATE {
        out.push(rate_field(*rate));
    }
    put_aligned(out, start, CHANNEL);
    let (frequency, flags) = channel_of(phy, *rate, reception.channel);
    out.extend_from_slice(&frequency.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend(reception.signal.map(|signal| signal.as_f64().round() as i8 as u8));
    out.extend(reception.antenna);
    if mode == MCS {
        mcs::put_ht(out, phy, *rate);
    }
    if let Some((number, is_last)) = reception.ampdu {
        put_aligned(out, start, AMPDU);
        out.extend_from_slice(&number.to_le_bytes());
        // The flag "last frame is known", and the flag itself.
        let flags: u16 = 0x0004 | if is_last { 0x0008 } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
    }
    if mode == VHT {
        put_aligned(out, start, VHT);
        mcs::put_vht(out, phy, *rate);
    }
    put_length(out, start);
}

/// Marks a frame with a header of [`put_reception`] as one with a wrong check sequence.
pub fn mark_failed(packet: &mut [u8]) {
    packet[FLAGS_AT] |= FLAG_BAD_FCS;
}

/// The field that describes a bit-rate of a PHY.
fn mode_field(phy: &Phy, rate: Bitrate) -> u32 {
    match phy.mode(rate) {
        Mode::Ofdm(ofdm) if ofdm.format == Format::Ht => MCS,
        Mode::Ofdm(ofdm) if ofdm.format == Format::Vht => VHT,
        _ => RATE,
    }
}

/// Pads up to where a field may begin.
fn put_aligned(out: &mut Vec<u8>, start: usize, field: u32) {
    let (align, _) = FIELDS[field as usize];
    let length = (out.len() - start).next_multiple_of(align.into());
    out.resize(start + length, 0);
}

/// Frequency and flags of the channel of a frame (802.11-2007, 17.3.8.3.2 and 18.4.6.2).
fn channel_of(phy: &Phy, rate: Bitrate, channel: u16) -> (u16, u16) {
    const HALF: u16 = 0x4000;
    const QUARTER: u16 = 0x8000;
    const OFDM_2GHZ: u16 = 0x00c0;
    let width = match phy.width {
        Width::Mhz10 => HALF,
        Width::Mhz5 => QUARTER,
        _ => 0,
    };
    let is_cck = matches!(phy.mode(rate), Mode::Dbpsk | Mode::Dqpsk | Mode::Cck5 | Mode::Cck11);
    let mode = if is_cck { CHANNEL_CCK_2GHZ } else { OFDM_2GHZ };
    match (phy.band(), channel) {
        (Band::Ghz2, 14) => (2484, mode | width),
        (Band::Ghz2, 1..14) => (2407 + 5 * channel, mode | width),
        _ => (5000 + 5 * channel, CHANNEL_OFDM_5GHZ | width),
    }
}

/// The status of an injected frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// PHY.
    pub phy: Phy,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Not acknowledged in any attempt; also set for every unicast frame that requested no
    /// acknowledgement.
    pub failed: bool,
    /// Retries made.
    pub retries: u8,
}

/// Appends the header of a status echo.
pub fn put_echo(out: &mut Vec<u8>, echo: &Echo) {
    let Echo { phy, rate, failed, retries } = echo;
    let flags = if *failed { TX_FLAG_FAILED } else { 0 };
    put_sent(out, phy, *rate, flags, Some(*retries));
}

/// Appends the header of a frame that is to be sent, or was sent.
fn put_sent(out: &mut Vec<u8>, phy: &Phy, rate: Bitrate, flags: u16, retries: Option<u8>) {
    let mode = mode_field(phy, rate);
    let counted = if retries.is_some() { 1 << DATA_RETRIES } else { 0 };
    let start = put_start(out, 1 << mode | 1 << TX_FLAGS | counted);
    if mode == RATE {
        out.push(rate_field(rate));
    }
    put_aligned(out, start, TX_FLAGS);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend(retries);
    if mode == MCS {
        mcs::put_ht(out, phy, rate);
    } else if mode == VHT {
        put_aligned(out, start, VHT);
        mcs::put_vht(out, phy, rate);
    }
    put_length(out, start);
}

fn put_start(out: &mut Vec<u8>, fields: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0]);
    out.extend_from_slice(&fields.to_le_bytes());
    start
}

fn put_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u16;
    out[start + 2..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// A rate in steps of 500 kb/s, rounded up as in Linux: channels of 5 MHz have a rate of 2.25 Mb/s.
fn rate_field(rate: Bitrate) -> u8 {
    u8::try_from(rate.bps().div_ceil(RATE_STEP_BPS)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
