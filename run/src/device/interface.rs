//! Properties of the host's interfaces, and warnings if they will not do.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

/// An MTU, in bytes, that suffices for the frames of all links by default: the longest data of
/// 802.11.
const ENOUGH_MTU: usize = 2_304;
/// Link type of a Wi-Fi card in monitor mode (`ARPHRD_IEEE80211_RADIOTAP`).
const RADIOTAP: u16 = 803;

/// The MTU of an interface, in bytes.
///
/// Fails if there is no such interface.
pub fn mtu(interface: &str) -> io::Result<usize> {
    let answer = ask(interface, libc::SIOCGIFMTU as _)?;
    // SAFETY: this call writes this member.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu } as usize)
}

/// Whether an interface is up.
///
/// Fails if there is no such interface.
pub fn is_up(interface: &str) -> io::Result<bool> {
    let answer = ask(interface, libc::SIOCGIFFLAGS as _)?;
    // SAFETY: this call writes this member.
    Ok(libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0)
}

/// The link type of an interface (`ARPHRD_*`).
fn link_type(interface: &str) -> io::Result<u16> {
    let answer = ask(interface, libc::SIOCGIFHWADDR as _)?;
    // SAFETY: this call writes this member.
    Ok(unsafe { answer.ifr_ifru.ifru_hwaddr }.sa_family)
}

/// Asks the kernel about an interface (netdevice(7)).
fn ask(interface: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let any = UnixDatagram::unbound()?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // The last byte stays zero.
    let name = interface.bytes().take(libc::IFNAMSIZ - 1);
    request.ifr_name.iter_mut().zip(name).for_each(|(to, byte)| *to = byte as libc::c_char);
    // SAFETY: the pointer is to a live `ifreq`, which is what these calls read and write.
    let done = unsafe { libc::ioctl(any.as_raw_fd(), what, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

/// The MTU to set for frames of this length.
pub fn enough_mtu(bytes: usize) -> usize {
    bytes.max(ENOUGH_MTU)
}

/// Warns if frames of a link may be longer than the interface's MTU.
pub(super) fn check_mtu(interface: &str, longest: usize) {
    if let Some(mtu) = mtu(interface).ok().filter(|mtu| *mtu < longest) {
        tracing::warn!(
            "{interface} has an MTU of {mtu}, and frames of this link may have {longest} bytes: \
             those that are longer are lost; {}",
            longer(interface, longest)
        );
    }
}

/// Warns that an interface did not accept a frame of this length.
pub(super) fn tell_too_long(interface: &str, bytes: usize) {
    let mtu = mtu(interface).map_or("shorter".into(), |mtu| mtu.to_string());
    tracing::warn!(
        "a frame of {bytes} bytes was not sent, for the MTU of {interface} is {mtu}; {}",
        longer(interface, bytes)
    );
}

fn longer(interface: &str, bytes: usize) -> String {
    let mtu = enough_mtu(bytes);
    format!("`ip link set dev {interface} mtu {mtu}`, or send shorter packets")
}

/// Warns if an interface is down, or should be a card in monitor mode and is none.
pub(crate) fn check_state(interface: &str, is_monitor: bool) {
    if is_monitor && link_type(interface).is_ok_and(|kind| kind != RADIOTAP) {
        tracing::warn!(
            "{interface} is NOT a Wi-Fi card in monitor mode, so nothing will be heard: \
             `iw dev {interface} set monitor none` while it is down, or `kind = \"ethernet\"` in \
             the scenario if it is a wire"
        );
    }
    if is_up(interface).is_ok_and(|is_up| !is_up) {
        tracing::warn!("{}", down(interface));
    }
}

/// The warning about an interface that is down, and what to do.
pub(crate) fn down(interface: &str) -> String {
    format!("{interface} is down: nothing is sent or heard until `ip link set dev {interface} up`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_the_loopback_and_knows_no_other_name() {
        assert!(mtu("lo").expect("each host has it") >= 1_500);
        assert_ne!(link_type("lo").expect("the same"), RADIOTAP);
        assert!(mtu("no-such-thing").is_err() && is_up("no-such-thing").is_err());
    }
}
