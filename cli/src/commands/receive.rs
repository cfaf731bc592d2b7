//! `farhop receive`: fetches files that arrived for this node into a folder.
//!
//! Each file is reported and counted once, as soon as it is in the folder, by the command that put
//! it there. Until the daemon has recorded on disk that the file was fetched, no other command
//! takes it. If a command is killed, the next one finishes its work without reporting the file
//! again (see `fetch`).

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

use super::carrier::{Daemon, DaemonOptions};
use super::fetch::{Placed, fetch, remove_strays};
use super::files::{SOON, TICK};
use super::{has_reader, is_printed};
use crate::progress::Bar;
use crate::{Failure, interrupt};

/// Least time before another attempt to put a file into the folder.
const AGAIN: Duration = Duration::from_secs(10);
/// That time as a multiple of how long the last attempt took, if this is longer: most of the time
/// is for files that can be fetched.
const SHARE: u32 = 4;
/// After this time the user is told what the command waits for.
const LONG: Duration = Duration::from_secs(5);

/// Fetches the files that arrived for this node into a folder, until it is interrupted or nobody
/// reads its output any more.
///
/// An existing file with the same name and other contents is kept, and the new file gets a number.
/// A file that cannot be put into the folder, for example because the disk is full, is tried again.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop receive                       into this folder\n  \
    farhop receive /srv/maps --count 1   ends after one file")]
pub(crate) struct ReceiveOptions {
    /// The folder; it is created if it does not exist.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// End after this many files, or with an error if one cannot be put into the folder.
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
    let mut receiving = Receiving {
        daemon,
        dir: &options.dir,
        bar: &bar,
        left,
        is_read: true,
        unplaced: BTreeMap::new(),
        trouble: None,
        is_clean: false,
    };
    let outcome = receiving.run(options.count.is_some());
    bar.end();
    outcome
}

/// A running command.
struct Receiving<'a> {
    daemon: Daemon,
    dir: &'a Path,
    bar: &'a Bar,
    /// How many files are still to be fetched.
    left: usize,
    /// Whether somebody still reads the output.
    is_read: bool,
    /// Files that could not be put into the folder, by id.
    unplaced: BTreeMap<String, Unplaced>,
    /// Why the daemon has no files, as it was reported.
    trouble: Option<String>,
    /// Whether the leftovers of killed commands were removed from the folder.
    is_clean: bool,
}

/// A file that could not be put into the folder.
struct Unplaced {
    /// The reason, as it was reported.
    why: String,
    /// When to try again.
    due: Instant,
}

impl Receiving<'_> {
    /// Fetches the files that are there and those that arrive. With `--count`, a file that cannot
    /// be fetched ends the command.
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

    /// Whether more files are wanted, and somebody still reads the output.
    fn goes_on(&self) -> bool {
        self.left > 0 && self.is_read && has_reader()
    }

    /// Fetches the files that are there now. Returns the problem to report if one cannot be
    /// fetched.
    fn look(&mut self) -> Result<Option<String>, Failure> {
        let FilesStatus { node, incoming, .. } = match self.daemon.files() {
            Ok(Some(files)) => files,
            Ok(None) => return Ok(None),
            Err(why) => {
                if self.trouble.replace(why.clone()).as_ref() != Some(&why) {
                    self.bar.line(&format!("nothing can be fetched: {why}"));
                }
                return Ok(Some(why));
            }
        };
        self.trouble = None;
        if !self.is_clean {
            self.is_clean = true;
            // Leftovers that cannot be removed do no harm.
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
                // The length of a stream is known only at its end.
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

    /// Fetches one file for a node. Returns the problem if that fails and it was not reported
    /// before; the file stays with the daemon and is tried again later, and other files do not wait
    /// for it.
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

    /// Reports a file that is in the folder: first to the user, then to the daemon. If the user
    /// cannot be told, the file stays to be fetched.
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

    /// Tells the daemon that a file was fetched, until the daemon has recorded that on disk: if it
    /// restarts before, it has forgotten it.
    ///
    /// Fails if interrupted while the daemon does not answer, or takes longer than `LONG`; the next
    /// command then finishes the work.
    fn confirm(&self, id: &str) -> Result<(), Failure> {
        let mut patience = SOON;
        let begun = Instant::now();
        loop {
            if begun.elapsed() > LONG {
                self.bar.say("waits until the daemon has written down that a file was fetched");
            }
            match self.daemon.ask(Request::Fetched { id: id.to_owned() }) {
                Ok(Told { is_kept: true }) => return Ok(()),
                // Somebody has dropped the file.
                Err(_) if self.waits(id) == Some(false) => return Ok(()),
                // The daemon is writing, which does not take long.
                Ok(_) if begun.elapsed() < LONG => thread::sleep(patience),
                _ if interrupt::has_come() => return Err(Failure::Interrupted),
                _ => thread::sleep(patience),
            }
            patience = (patience * 2).min(TICK);
        }
    }

    /// Whether the daemon still has the file, or has not written down yet that it was fetched;
    /// `None` while the daemon does not answer.
    fn waits(&self, id: &str) -> Option<bool> {
        let is_here = |state: &State| matches!(state, State::Done | State::Fetched);
        let is_it = |file: &IncomingStatus| file.id == id && is_here(&file.state);
        Some(self.daemon.files().ok()??.incoming.iter().any(is_it))
    }
}

/// A daemon's answer to `Request::Fetched`.
#[derive(serde::Deserialize)]
struct Told {
    /// Whether this is recorded on disk. Older daemons did not say.
    #[serde(default = "said_nothing")]
    is_kept: bool,
}

fn said_nothing() -> bool {
    true
}
