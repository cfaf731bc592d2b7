//! What an interface takes in one frame, and what is told where that is too little.

use super::PacketSocket;

/// An MTU that is enough for the frames of all links, unless they are set to longer ones: the
/// longest data of 802.11.
const ENOUGH: usize = 2_304;

/// Warns if the frames of a link may have more bytes than an interface takes.
pub(super) fn check(socket: &PacketSocket, interface: &str, longest: usize) {
    if let Some(mtu) = socket.mtu(interface).ok().filter(|mtu| *mtu < longest) {
        tracing::warn!(
            "{interface} has an MTU of {mtu}, and frames of this link may have {longest} bytes: \
             those that are longer are lost; {}",
            advice(interface, longest)
        );
    }
}

/// Tells of a frame of so many bytes that an interface did not take.
pub(super) fn tell(socket: &PacketSocket, interface: &str, bytes: usize) {
    let mtu = socket.mtu(interface).map_or("shorter".into(), |mtu| mtu.to_string());
    tracing::warn!(
        "a frame of {bytes} bytes was not sent, for the MTU of {interface} is {mtu}; {}",
        advice(interface, bytes)
    );
}

/// The MTU to set for frames of so many bytes.
pub fn enough_for(bytes: usize) -> usize {
    bytes.max(ENOUGH)
}

fn advice(interface: &str, bytes: usize) -> String {
    let mtu = enough_for(bytes);
    format!("`ip link set dev {interface} mtu {mtu}`, or send shorter packets")
}
