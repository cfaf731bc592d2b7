//! TCP settings of a flow: the congestion control, and what differs from its preset.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Duration;
use crate::transport::tcp::{self, Recovery, TcpConfig};

/// TCP congestion control.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// NewReno with SACK and RACK-TLP, as in today's Linux kernel.
    #[default]
    Reno,
    /// NewReno without SACK, as in today's Linux kernel; with an older preset, as in RFC 6582.
    Newreno,
    /// NewReno with SACK as in RFC 6675, the TCP of the time when the systems were published.
    RenoRfc6675,
    /// CUBIC (RFC 9438), the default of today's Linux kernel.
    Cubic,
    /// Westwood+; simulator only.
    Westwood,
    /// The kernel's BBR; lab only.
    Bbr,
}

impl Congestion {
    /// The name, as files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Newreno => "newreno",
            Self::RenoRfc6675 => "reno-rfc6675",
            Self::Cubic => "cubic",
            Self::Westwood => "westwood",
            Self::Bbr => "bbr",
        }
    }
}

/// A named set of TCP settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TcpPreset {
    /// Linux 6 with an MTU of 1,500 bytes.
    Linux,
    /// TCP of about 2007: SACK as in RFC 6675, a window of 64 KB, an initial window of 3.
    Classic,
    /// Settings of common ns-3 studies: 1,000-byte segments, no options, a window of 65,535 bytes,
    /// every segment acknowledged, an initial window of 2, a minimum time-out of 1 s.
    Ns3,
}

/// TCP settings of a flow. Each setting that is not given comes from the preset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpSettings {
    /// Preset of all other settings. Default: `classic` for `reno-rfc6675`, else `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<TcpPreset>,
    /// Payload of a full segment, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_bytes: Option<usize>,
    /// SACK option (RFC 2018); without it losses are detected as in RFC 6582.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// Timestamps option (RFC 7323).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<bool>,
    /// Explicit congestion notification (RFC 3168).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// In-order segments per acknowledgement. If it differs from the preset, acknowledgements of
    /// pushed segments are delayed too, which Linux would send at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<u32>,
    /// How long the acknowledgement of fewer segments than that is delayed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack_ms: Option<f64>,
    /// Whether segments that arrive together are acknowledged one by one, as by kernels that do not
    /// merge segments on receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks_singly: Option<bool>,
    /// Initial congestion window, in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Largest congestion window, in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_window: Option<u32>,
    /// Minimum retransmission time-out, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto_ms: Option<f64>,
    /// Receive window, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window_bytes: Option<u64>,
    /// Size of the send buffer, in bytes. Default in Linux: it starts small and grows with the
    /// window to 4 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u64>,
}

impl TcpSettings {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The settings of a connection with this congestion control.
    pub fn config(&self, congestion: Congestion) -> TcpConfig {
        let mut config = self.start(congestion);
        config.congestion = match congestion {
            Congestion::Cubic => tcp::Congestion::Cubic,
            Congestion::Westwood => tcp::Congestion::Westwood,
            _ => tcp::Congestion::Reno,
        };
        let millis = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        if let Some(ms) = self.delayed_ack_ms {
            (config.delayed_ack.min, config.delayed_ack.max) = (millis(ms), millis(ms));
        }
        config.delayed_ack.singly = self.acks_singly.unwrap_or(false);
        if let Some(segments) = self.delayed_ack {
            config.delayed_ack.push &= segments == config.delayed_ack.segments;
            config.delayed_ack.segments = segments;
        }
        config.ecn = self.ecn.unwrap_or(config.ecn);
        config.sack = self.sack.unwrap_or(config.sack);
        if self.sack == Some(true) && config.recovery == Recovery::NewReno {
            config.recovery = Recovery::Rfc6675;
        }
        config.initial_window = self.initial_window.unwrap_or(config.initial_window);
        config.max_window = self.max_window.unwrap_or(config.max_window);
        config.min_rto = self.min_rto_ms.map_or(config.min_rto, millis);
        config.window_bytes = self.receive_window_bytes.unwrap_or(config.window_bytes);
        if let Some(bytes) = self.send_buffer_bytes {
            config.send_buffer_bytes = bytes;
            config.send_buffer_grows = false;
            config.unsent_bytes = config.unsent_bytes.min(bytes);
        }
        config
    }

    /// The preset, with segments that fill a packet of 1,500 bytes unless it is `ns3`.
    fn start(&self, congestion: Congestion) -> TcpConfig {
        let preset = self.preset.unwrap_or(match congestion {
            Congestion::RenoRfc6675 => TcpPreset::Classic,
            _ => TcpPreset::Linux,
        });
        let mut config = match preset {
            TcpPreset::Linux => TcpConfig::linux(),
            TcpPreset::Classic => TcpConfig::classic(),
            TcpPreset::Ns3 => TcpConfig::ns3(),
        };
        match congestion {
            Congestion::Newreno => config.sack = false,
            Congestion::RenoRfc6675 => (config.recovery, config.sack) = (Recovery::Rfc6675, true),
            _ => {}
        }
        if let Some(timestamps) = self.timestamps {
            let full = preset != TcpPreset::Ns3;
            config.timestamps = timestamps;
            config.mss = if full { 1_460 - if timestamps { 12 } else { 0 } } else { config.mss };
        }
        config.mss = self.segment_bytes.unwrap_or(config.mss);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_congestion_control_has_its_preset() {
        let settings = TcpSettings::default();
        assert_eq!(settings.config(Congestion::Reno), TcpConfig::linux());
        assert_eq!(settings.config(Congestion::RenoRfc6675), TcpConfig::classic());
        let newreno = settings.config(Congestion::Newreno);
        assert_eq!((newreno.sack, newreno.recovery), (false, Recovery::RackTlp));
        assert_eq!(settings.config(Congestion::Cubic).congestion, tcp::Congestion::Cubic);
    }

    #[test]
    fn what_is_given_replaces_the_preset() {
        let settings = TcpSettings {
            preset: Some(TcpPreset::Ns3),
            delayed_ack: Some(4),
            ecn: Some(true),
            min_rto_ms: Some(200.0),
            ..TcpSettings::default()
        };
        let config = settings.config(Congestion::Reno);
        assert_eq!((config.mss, config.sack, config.timestamps), (1_000, false, false));
        assert_eq!((config.delayed_ack.segments, config.ecn), (4, true));
        assert_eq!(config.min_rto, Duration::from_millis(200));
        let of = |segments: u32| {
            let settings = TcpSettings { delayed_ack: Some(segments), ..TcpSettings::default() };
            settings.config(Congestion::Reno).delayed_ack
        };
        assert_eq!(of(2), TcpConfig::linux().delayed_ack);
        assert!(of(4).segments == 4 && !of(4).push);
        let bare = TcpSettings { timestamps: Some(false), ..TcpSettings::default() };
        assert_eq!(bare.config(Congestion::Reno).mss, 1_460);
    }
}
