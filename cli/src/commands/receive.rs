//! `farhop receive`: files that came for this node, into a folder.
//!
//! A file is told of and counted once, as soon as it is in the folder, by whoever put it there.
//! Until the daemon has written down that it was fetched no other command takes it; what is left to
//! do where one is killed the next one does, and does not tell of it (`fetch`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use farhop_proto::base::counted;
use farhop_run::daemon::control::Request;
use farhop_run::files::{FilesStatus, IncomingStatus, State};

use super::fetch::{Placed, fetch, remove_strays};
use super::files::{Daemon, DaemonOptions, SOON, TICK};
use super::{has_reader, is_printed};
use crate::progress::Bar;
use crate::{Failure, interrupt};

/// After so long it is tried again to put a file into the folder.
const AGAIN: Duration = Duration::from_secs(10);
/// And so many times as long as that took: most of the time is for files that can be fetched.
const SHARE: u32 = 4;
/// After so long its user is told what it waits for.
const LONG: Duration = Duration::from_secs(5);

/// Fetches the files that came for this node into a folder, until it is interrupted or nobody
/// reads any more what it prints.
///
/// A file that is there under the same name with other bytes is kept: the new one gets a number.
/// What cannot be put into the folder, because that is full for example, is tried again.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop receive                       into this folder\n  \
    farhop receive /srv/maps --count 1   ends after one file")]
pub(crate) struct ReceiveOptions {
    /// The folder; made if it is not there.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Ends after so many files, or with an error if one cannot be put into the folder.
    #[arg(long, value_name = "N", value_parser = super::how_many, allow_negative_numbers = true)]
    count: Option<NonZeroUsize>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

pub(crate) fn receive(options: &ReceiveOptions) -> Result<(), Failure> {
    interrupt::watch();
    let daemon = Daemon::find(&options.daemon)?;
    if options.dir.exists() && !options.dir.is_dir() {
        let what = format!("{} is a file; files go into a folder", options.dir.display());
        return Err(Failure::input(what));
    }
    fs::create_dir_all(&options.dir).map_err(|error| {
        Failure::Failed(format!("cannot make the folder {}: {error}", options.dir.display()))
    })?;
    let bar = Bar::start("waiting for files");
    let left = options.count.map_or(usize::MAX, NonZeroUsize::get);
    let (dir, unplaced) = (options.dir.as_path(), BTreeMap::new());
    let mut receiving =
        Receiving { daemon, dir, bar: &bar, left, is_read: true, unplaced, is_clean: false };
    let outcome = receiving.run(options.count.is_some());
    bar.end();
    outcome
}

/// A command at work.
struct Receiving<'a> {
    daemon: Daemon,
    dir: &'a Path,
    bar: &'a Bar,
    /// How many files more it fetches.
    left: usize,
    /// Whether what it tells is read.
    is_read: bool,
    /// Files that could not be put into the folder.
    unplaced: BTreeMap<String, Unplaced>,
    /// Whether what killed commands left there is removed.
    is_clean: bool,
}

/// A file that could not be put into the folder.
struct Unplaced {
    /// What was told of it.
    why: String,
    /// When it is tried again.
    due: Instant,
}

impl Receiving<'_> {
    /// Fetches what is there and what comes. Where so many files are wanted, one that cannot be
    /// fetched ends it.
    fn run(&mut self, is_counted: bool) -> Result<(), Failure> {
        while self.goes_on() {
            let problem = self.look()?;
            if interrupt::has_come() {
                return Err(Failure::Interrupted);
            }
            if self.goes_on() {
                match problem {
                    Some(problem) if is_counted => return Err(Failure::Failed(problem)),
                    _ => thread::sleep(TICK),
                }
            }
        }
        Ok(())
    }

    /// Whether more is wanted, and somebody is there to be told of it.
    fn goes_on(&self) -> bool {
        self.left > 0 && self.is_read && has_reader()
    }

    /// Fetches what is there now. Returns what could not be fetched, and why.
    fn look(&mut self) -> Result<Option<String>, Failure> {
        let Some(FilesStatus { node, incoming, .. }) = self.daemon.files() else {
            return Ok(None);
        };
        if !self.is_clean {
            self.is_clean = true;
            // What cannot be removed is in nobody's way.
            if let Err(error) = remove_strays(self.dir, node, &incoming) {
                self.bar.line(&format!("parts may be left in {}: {error}", self.dir.display()));
            }
        }
        let mut problem = None;
        for file in incoming {
            let IncomingStatus { info, from, received, state, .. } = &file;
            match state {
                State::Done if self.goes_on() => {
                    if let Some(new) = self.take(node, &file)? {
                        self.bar.line(&new);
                        problem = Some(new);
                    }
                }
                // Its length comes at its end.
                State::Moving if info.streamed => {
                    let received = counted(received, "byte");
                    self.bar.say(&format!("{} from {from}, {received}", info.name));
                }
                State::Moving => {
                    self.bar.say(&format!("{} from {from}", info.name));
                    self.bar.fill(*received as f64 / info.size.max(1) as f64);
                }
                _ => {}
            }
        }
        Ok(problem)
    }

    /// Fetches a file of a node. Returns what is to be told if that cannot be: others need not wait
    /// for it, it stays with the daemon and is tried again later. Nothing is told twice.
    fn take(&mut self, node: u16, file: &IncomingStatus) -> Result<Option<String>, Failure> {
        let id = &file.id;
        let begun = Instant::now();
        if self.unplaced.get(id).is_some_and(|unplaced| begun < unplaced.due) {
            return Ok(None);
        }
        let told = match fetch(node, file, self.dir) {
            Ok(Some(placed)) => self.tell(file, placed)?,
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        match told {
            Ok(()) => _ = self.unplaced.remove(id),
            // Another command may have fetched it since it was listed.
            Err(_) if self.waits(id) != Some(true) => {}
            Err(error) => {
                let why = format!("not fetched: {}: {error}", file.info.name);
                let now = Instant::now();
                let due = now + AGAIN.max((now - begun) * SHARE);
                let new = Unplaced { why: why.clone(), due };
                let old = self.unplaced.insert(id.clone(), new);
                let is_told = old.is_some_and(|old| old.why == why);
                return Ok((!is_told).then_some(why));
            }
        }
        Ok(None)
    }

    /// Tells of a file that is in the folder, first its user and then the daemon: one that no user
    /// is told of is still to be fetched.
    fn tell(&mut self, file: &IncomingStatus, placed: Placed) -> Result<io::Result<()>, Failure> {
        if let Err(error) = placed.sync() {
            return Ok(Err(error));
        }
        if let Some(place) = &placed.place {
            let (place, size) = (place.display(), counted(file.info.size, "byte"));
            let text = format!("{place}: {size} from {}", file.from);
            self.is_read = self.bar.beside(|| is_printed(&text))?;
            if !self.is_read {
                return Ok(Ok(()));
            }
            placed.mark();
            self.left -= 1;
        }
        self.confirm(&file.id)?;
        placed.end();
        Ok(Ok(()))
    }

    /// Tells the daemon that a file was fetched, until it has written that down: if it begins anew
    /// before, it knows nothing of it.
    ///
    /// Fails if it is interrupted and that takes long, or the daemon does not answer: then the next
    /// command does what is left.
    fn confirm(&self, id: &str) -> Result<(), Failure> {
        let mut patience = SOON;
        let begun = Instant::now();
        loop {
            if begun.elapsed() > LONG {
                self.bar.say("waits until the daemon has written down that a file was fetched");
            }
            match self.daemon.ask(Request::Fetched { id: id.to_owned() }) {
                Ok(Told { is_kept: true }) => return Ok(()),
                // Somebody has dropped it.
                Err(_) if self.waits(id) == Some(false) => return Ok(()),
                // It writes: that is soon done.
                Ok(_) if begun.elapsed() < LONG => thread::sleep(patience),
                _ if interrupt::has_come() => return Err(Failure::Interrupted),
                _ => thread::sleep(patience),
            }
            patience = (patience * 2).min(TICK);
        }
    }

    /// Whether the daemon still has the file; nothing while it is not there.
    fn waits(&self, id: &str) -> Option<bool> {
        let is_it = |file: &IncomingStatus| file.id == id && file.state == State::Done;
        Some(self.daemon.files()?.incoming.iter().any(is_it))
    }
}

/// What a daemon answers to that.
#[derive(serde::Deserialize)]
struct Told {
    /// Whether it is written down. Daemons before did not say.
    #[serde(default = "said_nothing")]
    is_kept: bool,
}

fn said_nothing() -> bool {
    true
}
