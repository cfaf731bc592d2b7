//! Requests to the kernel's network configuration over netlink.

use std::io;
use std::net::UdpSocket;

use rtnetlink::Handle;

/// Runs requests on this thread, and waits for their answers.
pub(crate) fn ask<T>(
    requests: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error>,
) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _guard = runtime.enter();
    let (connection, handle, _) = rtnetlink::new_connection()?;
    runtime.spawn(connection);
    runtime.block_on(requests(handle)).map_err(io::Error::other)
}

/// The index of an interface.
pub(crate) fn index(interface: &str) -> io::Result<u32> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    Ok(rustix::net::netdevice::name_to_index(&socket, interface)?)
}
