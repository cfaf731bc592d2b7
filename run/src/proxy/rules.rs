//! Parts of the address space: whom an exit connects to, and which exit a target has.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::num::NonZero;
use std::str::FromStr;

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// Text that is no prefix, no target or no rule, and what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotUnderstood(pub(super) String);

impl Prefix {
    /// Whether an address begins with it; an IPv4 address in IPv6 is what it stands for.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }

    /// Whether this host has a route to where it begins.
    pub fn has_route(&self) -> bool {
        let any: IpAddr = match self.address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Nothing is sent by that. Any port will do.
        let connected = UdpSocket::bind((any, 0)).and_then(|it| it.connect((self.address, 9)));
        let is_refused = |error: &Error| error.kind() == ErrorKind::NetworkUnreachable;
        !connected.is_err_and(|error| is_refused(&error))
    }

    /// How many bits are the same.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether it is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }
}

impl FromStr for Prefix {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let wrong = || {
            let examples = "10.0.0.0/8, 192.0.2.1 and fd00::/8 are prefixes";
            NotUnderstood(format!("'{text}' is no prefix of addresses; {examples}"))
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

/// Targets that an exit connects to: a prefix, or all addresses, and a port if it is one only.
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
            (prefix, rest.strip_prefix(':'))
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

/// Whom an exit connects to.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// What is allowed; if it is empty, all but what concerns the exit alone.
    pub allowed: Vec<Allowed>,
}

impl Rules {
    /// Whether a target may be connected to.
    pub fn allow(&self, address: IpAddr, port: u16) -> bool {
        if self.allowed.is_empty() {
            return !is_private_to_host(address);
        }
        let is_in = |rule: &Allowed| rule.prefix.is_none_or(|prefix| prefix.contains(address));
        let fits = |rule: &&Allowed| rule.port.is_none_or(|wanted| wanted == port) && is_in(rule);
        // "any" does not open what concerns the exit alone: that wants to be named.
        let mut fitting = self.allowed.iter().filter(fits);
        fitting.any(|rule| rule.prefix.is_some() || !is_private_to_host(address))
    }
}

/// Whether an address means something at its host, or its wire, alone: loopback, link-local,
/// unspecified, multicast and broadcast.
fn is_private_to_host(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let is_this = address.octets()[0] == 0;
            let is_all = address.is_multicast() || address == Ipv4Addr::BROADCAST;
            address.is_loopback() || address.is_link_local() || is_this || is_all
        }
        IpAddr::V6(address) => {
            let is_this = address == Ipv6Addr::UNSPECIFIED || address.is_multicast();
            address.is_loopback() || address.is_unicast_link_local() || is_this
        }
    }
}

/// Which node is the exit of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    default: Option<String>,
    routes: Vec<(Prefix, String)>,
}

impl Exits {
    /// Reads `NODE`, the exit of all that has no other, and `PREFIX=NODE`.
    ///
    /// Fails if a prefix is none, or there are two exits for all.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, NotUnderstood> {
        let mut exits = Self::default();
        for text in texts {
            match text.split_once('=') {
                Some((prefix, node)) => exits.routes.push((prefix.parse()?, node.into())),
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

    /// The exit for names, which are looked up there.
    pub fn of_names(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// The nodes that are exits, some perhaps several times.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.default.iter().chain(self.routes.iter().map(|(_, node)| node)).map(String::as_str)
    }

    /// What has an exit of its own; nothing if all has one.
    pub fn prefixes(&self) -> Option<Vec<Prefix>> {
        let all = self.routes.iter().map(|(prefix, _)| *prefix).collect();
        if self.default.is_some() { None } else { Some(all) }
    }

    /// Whether there is none at all.
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
    fn what_is_no_rule_is_told_with_examples() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/8:x", "any:0", "[fd00::/8", "name:22"] {
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
        assert!(exits.prefixes().is_none());
        assert_eq!(exits.nodes().collect::<Vec<_>>(), ["far", "near", "gw"]);
        let some = Exits::read(["10.0.0.0/8=gw"]).expect("exits");
        assert_eq!(some.of_address("192.0.2.1".parse().expect("an address")), None);
        assert_eq!(some.prefixes().map(|all| all.len()), Some(1));
        assert!(Exits::read(["a", "b"]).is_err());
    }
}
