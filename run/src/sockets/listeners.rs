//! Programs that listen for streams or blocks, one for each service.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;

use super::channel::{Channel, Kind, RECORDS};
use super::is_service;

/// Most bytes about new streams and flows that a program may leave unread: some thousand.
const UNREAD_BYTES: usize = 1 << 20;

/// What a program listens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Streams,
    Blocks,
}

/// The listening programs, by their services.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: BTreeMap<(Purpose, String), Channel>,
    is_called: bool,
    refused: Vec<(Purpose, String)>,
}

impl Listeners {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn services(&self) -> Vec<String> {
        self.all.keys().map(|(_, service)| service.clone()).collect()
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

    /// Makes a program the listener for a service.
    ///
    /// Fails if another program is, or the name of the service is not valid.
    pub(super) fn add(
        &mut self,
        mut channel: Channel,
        purpose: Purpose,
        service: &str,
    ) -> Result<&mut Channel, (Channel, String)> {
        if !is_service(service) {
            return Err((channel, format!("'{service}' is no name for a service")));
        }
        // A listener that has ended must not count.
        self.turn();
        let key = (purpose, service.to_owned());
        if self.all.contains_key(&key) {
            let who = match service {
                "proxy" => "another `farhop exit` is running at this node".into(),
                _ => format!("another program here listens for '{service}'"),
            };
            return Err((channel, who));
        }
        channel.say(Kind::Opened, "{}");
        self.is_called = true;
        Ok(self.all.entry(key).or_insert(channel))
    }

    /// Whether the program that listens for a service has left so much unread that it is told of
    /// nothing more.
    pub(super) fn is_full(&self, purpose: Purpose, service: &str) -> bool {
        let listener = self.all.get(&(purpose, service.to_owned()));
        listener.is_some_and(|channel| channel.unwritten() >= UNREAD_BYTES)
    }

    /// The program that listens for a service.
    pub(super) fn find(&mut self, purpose: Purpose, service: &str) -> Option<&mut Channel> {
        self.is_called = true;
        self.all.get_mut(&(purpose, service.to_owned()))
    }

    /// The streams and flows that listeners refused since this was last asked.
    pub(super) fn take_refused(&mut self) -> Vec<(Purpose, String)> {
        std::mem::take(&mut self.refused)
    }

    /// Writes waiting records to the listeners, and reads theirs.
    pub(super) fn turn(&mut self) {
        self.is_called = false;
        for ((purpose, _), channel) in &mut self.all {
            channel.write();
            channel.set_ready(true);
            let records = std::iter::from_fn(|| channel.poll_record()).take(RECORDS);
            let mut count = 0;
            for (kind, payload) in records {
                count += 1;
                let id = String::from_utf8(payload.to_vec()).ok();
                let id = id.filter(|_| kind == Kind::Refuse);
                self.refused.extend(id.map(|id| (*purpose, id)));
            }
            self.is_called |= count == RECORDS;
        }
        self.all.retain(|_, channel| !channel.has_ended());
    }
}
