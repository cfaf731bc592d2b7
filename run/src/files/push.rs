//! Files whose length is not known when they begin, as `farhop push` sends them.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use ring::digest::{Context as Digest, SHA256};

use crate::blocks::random;
use crate::sockets::client::{BlockSender, Daemon, LOOK, SocketError};

/// Time between attempts to reach a daemon again.
const AGAIN: Duration = Duration::from_millis(200);

/// A file to push, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The daemon on this host.
    pub daemon: Daemon,
    /// Name of the destination.
    pub to: String,
    /// Name of the file there.
    pub file: String,
}

/// A push in progress.
struct Pushing<'a> {
    push: &'a Push,
    /// The daemon's name for the flow.
    name: String,
    sender: BlockSender,
    /// Length of each block except the last.
    block_bytes: usize,
    watcher: &'a mut dyn FnMut(u64) -> bool,
    done: u64,
}

impl Push {
    /// Sends all bytes of `input` as one file, and waits until the file has arrived and its
    /// checksum was right. An `input` that has nothing for a moment should say so by failing with
    /// `WouldBlock`: then the daemon is heard, and the input is read again. `watcher` is given the
    /// bytes that were taken, and stops the push by returning false. If the daemon is restarted
    /// meanwhile, the push waits for it and continues. Returns the length in bytes.
    ///
    /// Fails if `input` cannot be read, the file is refused, or the watcher stops it.
    pub fn run(&self, input: &mut dyn Read, watcher: &mut dyn FnMut(u64) -> bool) -> Result<u64> {
        let name = format!("push-{:016x}", random()?);
        let wanted = (&*self.to, &*self.file, &*name);
        let sender = BlockSender::push(&self.daemon, wanted, &mut || watcher(0))?;
        let block_bytes = sender.block_bytes();
        let mut pushing = Pushing { push: self, name, sender, block_bytes, watcher, done: 0 };
        let outcome = pushing.send_all(input);
        if outcome.is_err() {
            // If the daemon does not know the flow any more, there is nothing to give up.
            let _ = pushing.sender.cancel();
            return outcome.map(|()| 0);
        }
        Ok(pushing.done)
    }
}

impl Pushing<'_> {
    fn send_all(&mut self, input: &mut dyn Read) -> Result<()> {
        let mut digest = Digest::new(&SHA256);
        let mut block = vec![0; self.block_bytes];
        loop {
            let length = self.fill(input, &mut block)?;
            digest.update(&block[..length]);
            if length > 0 {
                self.send(&block[..length])?;
            }
            if length < block.len() {
                break;
            }
        }
        let trailer = [&self.done.to_be_bytes(), digest.finish().as_ref()].concat();
        self.finish(&trailer)
    }

    /// Reads until the block is full or the input ends; returns the number of bytes.
    fn fill(&mut self, input: &mut dyn Read, block: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < block.len() {
            match input.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stay()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// Stays with the daemon while the input has nothing: a daemon that was restarted gives the
    /// file up if nobody comes back.
    fn stay(&mut self) -> Result<()> {
        if let Err(error) = self.sender.hear_within(Duration::ZERO) {
            self.open_again(error, self.sender.next())?;
        }
        self.watch()
    }

    fn send(&mut self, block: &[u8]) -> Result<()> {
        let number = self.sender.next();
        let mut outcome = self.sender.begin(block);
        while self.sender.next() == number {
            outcome = match outcome {
                Ok(()) => self.hear(),
                Err(error) => {
                    self.open_again(error, number)?;
                    // A daemon that ended may have taken the block without saying so.
                    let is_taken = self.sender.next() != number;
                    if is_taken { Ok(()) } else { self.sender.begin(block) }
                }
            };
            self.watch()?;
        }
        self.done += block.len() as u64;
        self.watch()
    }

    fn finish(&mut self, trailer: &[u8]) -> Result<()> {
        let number = self.sender.next();
        let mut outcome = self.sender.finish_with(trailer);
        while !self.sender.has_arrived() {
            outcome = match outcome {
                Ok(()) => self.hear(),
                Err(error) => {
                    self.open_again(error, number)?;
                    self.sender.finish_with(trailer)
                }
            };
            self.watch()?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), SocketError> {
        self.sender.hear_within(LOOK)
    }

    fn watch(&mut self) -> Result<()> {
        if (self.watcher)(self.done) { Ok(()) } else { bail!("interrupted") }
    }

    /// Continues with a daemon that was restarted, and that had taken `taken` blocks.
    ///
    /// Fails if it has lost some of them: the rest would make another file.
    fn open_again(&mut self, error: SocketError, taken: u32) -> Result<()> {
        if let SocketError::Refused(_) = error {
            return Err(error.into());
        }
        let Push { daemon, to, file } = self.push;
        loop {
            self.watch()?;
            thread::sleep(AGAIN);
            let (done, watcher) = (self.done, &mut self.watcher);
            match BlockSender::push(daemon, (to, file, &self.name), &mut || watcher(done)) {
                Ok(sender) => {
                    self.sender = sender;
                    let has_all = self.sender.next() >= taken;
                    ensure!(has_all, "the daemon here has lost what was pushed: push it again");
                    ensure!(
                        self.sender.block_bytes() >= self.block_bytes,
                        "the daemon here has shorter blocks now (`block_bytes`): push it again"
                    );
                    return Ok(());
                }
                Err(error @ SocketError::Refused(_)) => return Err(error.into()),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_push_can_be_stopped_while_its_daemon_does_not_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("hill.sock");
        let _daemon = UnixListener::bind(&socket).expect("a socket");
        let push = Push { daemon: Daemon::at(&socket), to: "valley".into(), file: "map".into() };
        let mut left = 3;
        let outcome = push.run(&mut io::empty(), &mut |_| {
            left -= 1;
            left > 0
        });
        assert!(outcome.is_err_and(|error| error.to_string() == "interrupted") && left == 0);
    }
}
