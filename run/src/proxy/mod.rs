//! A proxy that carries TCP connections of unmodified programs over streams of block transport.
//!
//! At one node an [`Entry`] accepts connections: from SOCKS clients, at forwarded ports, or
//! redirected by nftables. Over a stream it asks the [`Exit`] at another node to connect to the
//! target, and then copies bytes in both directions. TCP ends at each of the two, so that nothing
//! of TCP crosses the radio. That TCP acknowledged bytes at the entry does not mean that the target
//! has them: only the target can say so. If one half of a connection breaks off, the other is
//! reset, not closed.

mod entry;
mod exit;
mod redirect;
mod relay;
mod rules;
mod socks;
mod target;
#[cfg(test)]
mod tests;

pub use entry::{Entry, Forward, Place};
pub use exit::Exit;
pub use redirect::{Redirect, RedirectError, Targets};
pub use rules::{Allowed, Exits, NotUnderstood, Rules, has_route};
pub use target::{SERVICE, Target};

/// Mark of connections that an exit makes: they are never redirected.
const MARK: u32 = 0x6661;
