//! Rules by prefixes of addresses: where an exit connects to, and which exit a target has.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::num::NonZero;
use std::str::FromStr;

use farhop_proto::base::{NoPrefix, Prefix};
use rustix::io::Errno;

/// Text that is no valid prefix, target or rule, with an explanation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotUnderstood(pub(super) String);

impl NotUnderstood {
    fn of(error: NoPrefix) -> Self {
        Self(error.to_string())
    }
}

/// Whether this host has a route to the first address of a prefix.
pub fn has_route(prefix: &Prefix) -> bool {
    let any: IpAddr = match prefix.address() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // This sends nothing, and the port does not matter.
    let connected = UdpSocket::bind((any, 0)).and_then(|it| it.connect((prefix.address(), 9)));
    // Without IPv6 there is no such address, or no such socket.
    let has_none = |error: &Error| {
        let kinds = [ErrorKind::NetworkUnreachable, ErrorKind::AddrNotAvailable];
        kinds.contains(&error.kind())
            || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
    };
    !connected.is_err_and(|error| has_none(&error))
}

/// Targets that an exit may connect to: those of a prefix or all, with one port or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    prefix: Option<Prefix>,
    port: Option<u16>,
}

impl FromStr for Allowed {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let wrong = |why: &dyn fmt::Display| {
            let examples = "10.0.0.0/8, 10.1.2.3:22, [fd00::/8]:443 and any:443";
            NotUnderstood(format!("{why}; rules look like {examples}"))
        };
        let (prefix, port) = if let Some(rest) = text.strip_prefix('[') {
            let (prefix, rest) = rest.split_once(']').ok_or_else(|| wrong(&"no ] behind ["))?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err(wrong(&format!("no : between ] and '{rest}'")));
            }
            (prefix, port)
        } else {
            match text.rsplit_once(':') {
                Some((prefix, port)) if !prefix.contains(':') => (prefix, Some(port)),
                _ => (text, None),
            }
        };
        let port = port.map(str::parse::<NonZero<u16>>).transpose();
        let port = port.map_err(|_| wrong(&format!("'{text}' has no port from 1 to 65535")))?;
        let port = port.map(NonZero::get);
        if prefix == "any" {
            return Ok(Self { prefix: None, port });
        }
        let prefix: Prefix = prefix.parse().map_err(|error| wrong(&error))?;
        Ok(Self { prefix: Some(prefix), port })
    }
}

/// Where an exit may connect to.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Allowed targets; if empty, all but addresses that only have a meaning at the exit's host.
    pub allowed: Vec<Allowed>,
}

impl Rules {
    /// Whether a connection to this target is allowed.
    pub fn allow(&self, address: IpAddr, port: u16) -> bool {
        if self.allowed.is_empty() {
            return private_to_host(address).is_none();
        }
        // Host-local addresses need a rule of their own: wider prefixes do not include them.
        let of_host = private_to_host(address);
        let is_in = |rule: &Allowed| match (&rule.prefix, &of_host) {
            (Some(prefix), Some(of_host)) => prefix.lies_in(of_host) && prefix.contains(address),
            (Some(prefix), None) => prefix.contains(address),
            (None, of_host) => of_host.is_none(),
        };
        let mut of_port = self.allowed.iter().filter(|rule| rule.port.is_none_or(|it| it == port));
        of_port.any(is_in)
    }
}

/// Addresses that only have a meaning at one host or link: unspecified, loopback, link-local,
/// multicast and broadcast.
const PRIVATE_TO_HOST: [Prefix; 9] = [
    Prefix::v4(Ipv4Addr::new(0, 0, 0, 0), 8),
    Prefix::v4(Ipv4Addr::new(127, 0, 0, 0), 8),
    Prefix::v4(Ipv4Addr::new(169, 254, 0, 0), 16),
    Prefix::v4(Ipv4Addr::new(224, 0, 0, 0), 4),
    Prefix::v4(Ipv4Addr::new(255, 255, 255, 255), 32),
    Prefix::v6(Ipv6Addr::UNSPECIFIED, 128),
    Prefix::v6(Ipv6Addr::LOCALHOST, 128),
    Prefix::v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    Prefix::v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// The prefix in [`PRIVATE_TO_HOST`] that an address has.
fn private_to_host(address: IpAddr) -> Option<Prefix> {
    PRIVATE_TO_HOST.into_iter().find(|prefix| prefix.contains(address))
}

/// Which node is the exit for a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    default: Option<String>,
    routes: Vec<(Prefix, String)>,
}

impl Exits {
    /// Parses `NODE`, the default exit, and `PREFIX=NODE`.
    ///
    /// Fails if a prefix is invalid, or has two exits, or there are two default exits.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, NotUnderstood> {
        let mut exits = Self::default();
        for text in texts {
            match text.split_once('=') {
                Some((prefix, node)) => {
                    let prefix: Prefix = prefix.parse().map_err(NotUnderstood::of)?;
                    let is_same = |other: &Prefix| prefix.lies_in(other) && other.lies_in(&prefix);
                    if let Some((_, other)) = exits.routes.iter().find(|(it, _)| is_same(it)) {
                        let what = format!("two exits for {prefix}, {other} and {node}");
                        return Err(NotUnderstood(what));
                    }
                    exits.routes.push((prefix, node.into()));
                }
                None if exits.default.is_some() => {
                    let what = "two exits for all targets; give one of them a prefix";
                    return Err(NotUnderstood(format!("{what}: --exit 10.0.0.0/8={text}")));
                }
                None => exits.default = Some(text.into()),
            }
        }
        exits.routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.bits()));
        Ok(exits)
    }

    /// The exit for an address.
    pub fn of_address(&self, address: IpAddr) -> Option<&str> {
        let route = self.routes.iter().find(|(prefix, _)| prefix.contains(address));
        route.map(|(_, node)| node.as_str()).or(self.default.as_deref())
    }

    /// The exit for host names, which are resolved there.
    pub fn of_names(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// The nodes that are exits; a node may occur several times.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.default.iter().chain(self.routes.iter().map(|(_, node)| node)).map(String::as_str)
    }

    /// The prefixes that have an exit of their own.
    pub fn prefixes(&self) -> Vec<Prefix> {
        self.routes.iter().map(|(prefix, _)| *prefix).collect()
    }

    /// Whether there is a default exit, for all other addresses.
    pub fn has_default(&self) -> bool {
        self.default.is_some()
    }

    /// Whether there is no exit at all.
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.routes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules { allowed: texts.iter().map(|text| text.parse().expect("a rule")).collect() }
    }

    fn allows(rules: &Rules, address: &str, port: u16) -> bool {
        rules.allow(address.parse().expect("an address"), port)
    }

    #[test]
    fn without_rules_all_is_allowed_but_what_concerns_the_exit_alone() {
        let none = Rules::default();
        for address in ["192.0.2.1", "10.66.0.2", "2001:db8::1", "fd00::1"] {
            assert!(allows(&none, address, 80), "{address}");
        }
        let own = ["127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "255.255.255.255", "::1"];
        for address in own.into_iter().chain(["fe80::1", "::", "::ffff:127.0.0.1", "ff02::1"]) {
            assert!(!allows(&none, address, 80), "{address}");
        }
    }

    #[test]
    fn with_rules_nothing_else_is_allowed() {
        let some = rules(&["10.0.0.0/8", "192.0.2.1:22", "[fd00::/8]:443", "127.0.0.1:8080"]);
        assert!(allows(&some, "10.9.9.9", 1) && !allows(&some, "11.0.0.1", 1));
        assert!(allows(&some, "192.0.2.1", 22) && !allows(&some, "192.0.2.1", 23));
        assert!(allows(&some, "fd12::1", 443) && !allows(&some, "fd12::1", 80));
        assert!(allows(&some, "127.0.0.1", 8080) && !allows(&some, "127.0.0.1", 80));
        let any = rules(&["any:443"]);
        assert!(allows(&any, "192.0.2.1", 443) && !allows(&any, "127.0.0.1", 443));
    }

    #[test]
    fn what_concerns_the_exit_alone_is_opened_by_a_rule_that_lies_within() {
        let wide = rules(&["0.0.0.0/0:443", "126.0.0.0/7", "[::/0]:443", "fe00::/8"]);
        assert!(allows(&wide, "192.0.2.1", 443) && allows(&wide, "2001:db8::1", 443));
        assert!(allows(&wide, "126.0.0.1", 80));
        for address in ["127.0.0.1", "169.254.1.1", "::1", "fe80::1", "::ffff:127.0.0.1"] {
            assert!(!allows(&wide, address, 443), "{address}");
            let own = rules(&["0.0.0.0/0", "127.0.0.0/8", "169.254.1.0/24", "::1", "fe80::/10"]);
            assert!(allows(&own, address, 443), "{address}");
        }
    }

    #[test]
    fn what_is_no_rule_is_told_with_examples() {
        for text in
            ["", "10.0.0.0/33", "10.0.0.0/8:x", "any:0", "[fd00::/8", "[fd00::1]22", "name:22"]
        {
            let error = text.parse::<Allowed>().expect_err("no rule");
            assert!(error.to_string().contains("10.1.2.3:22"), "{error}");
        }
    }

    #[test]
    fn the_longest_prefix_tells_the_exit() {
        let exits = Exits::read(["far", "10.0.0.0/8=gw", "10.1.0.0/16=near"]).expect("exits");
        let of = |address: &str| exits.of_address(address.parse().expect("an address"));
        assert_eq!((of("10.1.2.3"), of("10.2.0.1")), (Some("near"), Some("gw")));
        assert_eq!((of("192.0.2.1"), exits.of_names()), (Some("far"), Some("far")));
        assert!(exits.has_default());
        assert_eq!(exits.nodes().collect::<Vec<_>>(), ["far", "near", "gw"]);
        let said = Exits::read(["10.0.0.0/8=gw", "10.9.0.0/8=near"]).expect_err("the same");
        assert_eq!(said.to_string(), "two exits for 10.9.0.0/8, gw and near");
        let mapped = Exits::read(["::ffff:10.0.0.0/104=gw"]).expect("exits");
        assert_eq!(mapped.of_address("10.9.9.9".parse().expect("an address")), Some("gw"));
        let some = Exits::read(["10.0.0.0/8=gw"]).expect("exits");
        assert_eq!(some.of_address("192.0.2.1".parse().expect("an address")), None);
        assert_eq!((some.prefixes().len(), some.has_default()), (1, false));
        assert!(Exits::read(["a", "b"]).is_err());
    }
}
