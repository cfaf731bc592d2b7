//! Programs that take connections, one for each service.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;

use super::channel::{Channel, Kind};
use super::is_service;

/// The programs, by their services.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: BTreeMap<String, Channel>,
    is_called: bool,
    refused: Vec<u16>,
}

impl Listeners {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn services(&self) -> Vec<String> {
        self.all.keys().cloned().collect()
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.all.values().map(|channel| channel.source(true))
    }

    pub(super) fn set_ready(&mut self, ready: &mut dyn Iterator<Item = bool>) {
        for channel in self.all.values_mut() {
            if !channel.source(true).1.is_empty() {
                let is_ready = ready.next().unwrap_or(false);
                channel.set_ready(is_ready);
                self.is_called |= is_ready;
            }
        }
    }

    pub(super) fn is_called(&self) -> bool {
        self.is_called
    }

    /// Hears of what comes for a service from now on.
    ///
    /// Fails if another program does, or there can be no such service.
    pub(super) fn add(
        &mut self,
        mut channel: Channel,
        service: &str,
    ) -> Result<&mut Channel, (Channel, String)> {
        if !is_service(service) {
            return Err((channel, format!("'{service}' is no name for a service")));
        }
        // One whose program has ended is not there any more.
        self.turn();
        if self.all.contains_key(service) {
            return Err((channel, format!("another program here listens for '{service}'")));
        }
        channel.say(Kind::Opened, "{}");
        self.is_called = true;
        Ok(self.all.entry(service.into()).or_insert(channel))
    }

    /// The program that listens for a service.
    pub(super) fn find(&mut self, service: &str) -> Option<&mut Channel> {
        self.is_called = true;
        self.all.get_mut(service)
    }

    /// The connections that programs have refused since this was last asked.
    pub(super) fn take_refused(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.refused)
    }

    /// Gives programs what they are to hear, and takes what they say.
    pub(super) fn turn(&mut self) {
        self.is_called = false;
        for channel in self.all.values_mut() {
            channel.write();
            channel.set_ready(true);
            while let Some((kind, payload)) = channel.poll_record() {
                let text = std::str::from_utf8(&payload).ok();
                let id: Option<u16> = text.and_then(|text| text.parse().ok());
                self.refused.extend(id.filter(|_| kind == Kind::Refuse));
            }
        }
        self.all.retain(|_, channel| !channel.has_ended());
    }
}
