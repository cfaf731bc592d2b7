//! A proxy, so that unchanged TCP programs ride on streams over blocks.
//!
//! At one node an [`Entry`] takes connections: of SOCKS clients, at fixed ports, or whatever
//! nftables redirects to it. It asks the [`Exit`] of another node over a stream for a connection to
//! the target, and then copies bytes both ways. Each end of a connection is TCP of its own, so
//! nothing of TCP crosses the radio; that the target has bytes which TCP acknowledged here is not
//! sure until it says so. A connection whose other half breaks off is reset, not closed.

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
pub use redirect::{Redirect, RedirectError};
pub use rules::{Allowed, Exits, NotUnderstood, Prefix, Rules};
pub use target::{SERVICE, Target};

/// Mark of connections that an exit makes: those are never redirected.
const MARK: u32 = 0x6661;
