//! SOCKS version 5 (RFC 1928), as far as a TCP proxy needs it: CONNECT, without authentication.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use super::target::{Failed, Target};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// "Request rejected or failed" of SOCKS 4.
const SOCKS_4_REJECTED: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// The answer to an HTTP client.
const HTTP_REFUSED: &[u8] = b"HTTP/1.1 400 This is a SOCKS5 port\r\nConnection: close\r\n\
    Content-Type: text/plain\r\nContent-Length: 39\r\n\r\n\
    This is a SOCKS5 port, no HTTP proxy.\r\n";

/// Reply codes.
const SUCCEEDED: u8 = 0;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Reads which target a client wants. If the request is invalid the client has been told so.
///
/// Fails with `Unsupported` if the client does not speak SOCKS 5, and with another error if its
/// request cannot be met.
pub(super) fn read_request(client: &mut (impl Read + Write)) -> io::Result<Target> {
    let [version, methods] = read(client)?;
    if version != VERSION {
        let (language, answer) = foreign([version, methods]);
        client.write_all(answer)?;
        let why = format!("the client speaks {language}, and this port only SOCKS 5");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered)?;
    if !offered.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD])?;
        return Err(wrong("the client wants to authenticate, which is not asked for here"));
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION])?;
    let [version, command, _, kind] = read(client)?;
    if version != VERSION {
        tell_failed(client, Failed::Other)?;
        return Err(wrong("a request that is none of SOCKS 5 behind a greeting that is"));
    }
    let host = match kind {
        IPV4 => Ok(IpAddr::from(read::<4>(client)?)),
        IPV6 => Ok(IpAddr::from(read::<16>(client)?)),
        NAME => {
            let [length] = read(client)?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name)?;
            Err(name)
        }
        _ => {
            reply(client, ADDRESS_NOT_SUPPORTED, None)?;
            return Err(wrong("an address of a kind that does not exist"));
        }
    };
    let port = u16::from_be_bytes(read(client)?);
    if command != CONNECT {
        reply(client, COMMAND_NOT_SUPPORTED, None)?;
        return Err(wrong("only CONNECT is there, no BIND and no UDP"));
    }
    let target = match host {
        Ok(address) => Some(Target::Address(SocketAddr::new(address, port))),
        Err(name) => String::from_utf8(name).ok().and_then(|name| Target::of_name(&name, port)),
    };
    match target {
        Some(target) => Ok(target),
        None => {
            tell_failed(client, Failed::NoSuchName)?;
            Err(wrong("what the client asks for is no name of a host"))
        }
    }
}

/// The protocol that a client with these first bytes speaks, and a refusal that it understands.
fn foreign(begin: [u8; 2]) -> (&'static str, &'static [u8]) {
    match begin {
        [4, _] => ("SOCKS 4", &SOCKS_4_REJECTED),
        [first, second] if first.is_ascii_uppercase() && second.is_ascii_uppercase() => {
            ("HTTP", HTTP_REFUSED)
        }
        _ => ("something else", &[]),
    }
}

/// Tells the client that it is connected; `bound` is the target's address as the exit sees it.
///
/// Fails if the client is gone.
pub(super) fn tell_connected(client: &mut impl Write, bound: Option<SocketAddr>) -> io::Result<()> {
    reply(client, SUCCEEDED, bound)
}

/// Tells the client why it is not connected.
///
/// Fails if the client is gone.
pub(super) fn tell_failed(client: &mut impl Write, failed: Failed) -> io::Result<()> {
    let code = match failed {
        Failed::Other => 1,
        Failed::NotAllowed => 2,
        Failed::NoExit => 3,
        Failed::Unreachable | Failed::NoSuchName => 4,
        Failed::Refused => 5,
        Failed::TimedOut => 6,
    };
    reply(client, code, None)
}

fn reply(client: &mut impl Write, code: u8, bound: Option<SocketAddr>) -> io::Result<()> {
    let bound = bound.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
    let mut out = vec![VERSION, code, 0];
    match bound.ip() {
        IpAddr::V4(address) => {
            out.push(IPV4);
            out.extend(address.octets());
        }
        IpAddr::V6(address) => {
            out.push(IPV6);
            out.extend(address.octets());
        }
    }
    out.extend(bound.port().to_be_bytes());
    client.write_all(&out)
}

fn read<const BYTES: usize>(client: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that sends everything at once, and what it was answered.
    struct Client(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Client {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Client {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(said: &[&[u8]]) -> (io::Result<Target>, Vec<u8>) {
        let mut client = Client(io::Cursor::new(said.concat()), Vec::new());
        (read_request(&mut client), client.1)
    }

    #[test]
    fn a_request_names_an_address_or_a_host() {
        let hello: &[u8] = &[5, 2, 2, 0];
        let (target, told) = ask(&[hello, &[5, 1, 0, 1, 192, 0, 2, 1, 0, 80]]);
        assert_eq!(target.expect("a target").to_string(), "192.0.2.1:80");
        assert_eq!(told, [5, 0]);
        let (target, _) = ask(&[hello, &[5, 1, 0, 3, 11], b"example.org", &[1, 187]]);
        assert_eq!(target.expect("a target").to_string(), "example.org:443");
        let (target, _) = ask(&[hello, &[5, 1, 0, 4], &[0; 15], &[1, 0, 22]]);
        assert_eq!(target.expect("a target").to_string(), "[::1]:22");
    }

    #[test]
    fn what_is_not_there_is_told_so() {
        let hello: &[u8] = &[5, 1, 0];
        let (bind, told) = ask(&[hello, &[5, 2, 0, 1, 192, 0, 2, 1, 0, 80]]);
        assert!(bind.is_err() && told[2..4] == [5, 7]);
        let (kind, told) = ask(&[hello, &[5, 1, 0, 9]]);
        assert!(kind.is_err() && told[2..4] == [5, 8]);
        let (name, told) = ask(&[hello, &[5, 1, 0, 3, 4], b"a b\n", &[0, 80]]);
        assert!(name.is_err() && told[2..4] == [5, 4]);
        let (version, told) = ask(&[hello, &[4, 1, 0, 1, 192, 0, 2, 1, 0, 80]]);
        assert!(version.is_err() && told[2..4] == [5, 1]);
        let (password, told) = ask(&[&[5, 1, 2]]);
        assert!(password.is_err() && told == [5, 0xff]);
    }

    #[test]
    fn who_speaks_something_else_is_refused_in_its_own_language() {
        let told = |said: &[u8]| {
            let (asked, told) = ask(&[said]);
            let error = asked.expect_err("no SOCKS 5");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            (error.to_string(), told)
        };
        let (why, answer) = told(&[4, 1, 0, 80, 192, 0, 2, 1, 0]);
        assert_eq!(answer, [0, 0x5b, 0, 0, 0, 0, 0, 0]);
        assert!(why.contains("SOCKS 4"), "{why}");
        let (why, answer) = told(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("its end");
        assert!(head.starts_with("HTTP/1.1 400 This is a SOCKS5 port\r\n"), "{head}");
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(why.contains("HTTP"), "{why}");
        // As TLS begins.
        assert!(told(&[22, 3, 1, 2]).1.is_empty());
    }

    #[test]
    fn a_reply_says_why_with_the_number_of_the_standard() {
        for (failed, code) in [(Failed::NotAllowed, 2), (Failed::Refused, 5), (Failed::TimedOut, 6)]
        {
            let mut told = Vec::new();
            tell_failed(&mut told, failed).expect("memory");
            assert_eq!(told, [5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
    }
}
