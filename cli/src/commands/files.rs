//! `farhop send`, `farhop push` and `farhop cache`: files over block transport.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use farhop_proto::base::counted;
use farhop_run::daemon::control::Request;
use farhop_run::daemon::{BlockStatus, CacheStatus};
use farhop_run::files::{
    FilesStatus, IncomingStatus, OutgoingStatus, Push, SendFile, State, modified_ns, open_file,
    sum_file, wrong_name,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::carrier::{Daemon, DaemonOptions};
use super::{print_json, print_text};
use crate::progress::{Bar, tell};
use crate::{Failure, interrupt};

/// How often a daemon is asked for the state of files.
pub(super) const TICK: Duration = Duration::from_millis(200);
/// First wait before the daemon is asked again for something that is soon done; it doubles up to
/// `TICK`.
pub(super) const SOON: Duration = Duration::from_millis(5);

/// Sends a file to a node, over any number of hops, through losses and partitions.
///
/// The daemon of this host carries it, also after this command has ended, and resumes after this
/// host or any other restarts. The file must not change until it has arrived.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop send map.png valley\n  \
    farhop send map.png valley:map-2.png    under another name there\n  \
    farhop send map.png valley --no-wait    and look with farhop cache\n  \
    farhop send --cancel 17")]
pub(crate) struct SendOptions {
    /// The file to send.
    #[arg(required_unless_present = "cancel")]
    file: Option<PathBuf>,
    /// The destination node; add :NAME to give the file another name there.
    #[arg(value_name = "NODE[:NAME]", required_unless_present = "cancel")]
    to: Option<String>,
    /// Give up the file with this number instead of sending one. A file that is over is removed
    /// from the list with `farhop cache drop NUMBER`.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["file", "to"])]
    #[arg(value_parser = super::whole::<u32>(0..=u32::MAX.into()), allow_negative_numbers = true)]
    cancel: Option<u32>,
    /// Do not wait until the file has arrived.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

/// Sends standard input to a node, as a file there.
///
/// The length need not be known. What was read survives a restart of any daemon or host, and this
/// command waits for its daemon to come back. Only if the command itself ends early is the file
/// given up.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    tar c . | farhop push --stdin valley:site.tar\n  \
    farhop receive --count 1                       on valley: fetches it")]
pub(crate) struct PushOptions {
    /// Read standard input; required, as there is no other source yet.
    #[arg(long, required = true)]
    stdin: bool,
    /// The destination node; add :NAME to name the file there, by default `stdin`.
    #[arg(value_name = "NODE[:NAME]")]
    to: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

/// Shows the blocks and files that a daemon holds, or removes some of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop cache\n  \
    farhop cache --json | jq '.cache.waiting | length'\n  \
    farhop cache clear                   lets go of what the next node has as well\n  \
    farhop cache drop 3-17-5f1c2a90      lets go of a file that nobody will fetch or finish\n  \
    farhop cache drop 17                 takes a file that was sent, or failed, out of the list")]
pub(crate) struct CacheOptions {
    #[command(subcommand)]
    command: Option<CacheCommand>,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(clap::Subcommand)]
enum CacheCommand {
    /// Discards blocks in transit that the next node already has. Blocks still to be passed on
    /// stay.
    #[command(after_help = "Examples:\n  \
        farhop cache clear\n  \
        farhop cache clear --all             also what is for nodes that will not be back")]
    Clear {
        /// Discard all blocks in transit, also those still to be passed on. Their sources still
        /// have them, and send them again as long as they want them to arrive.
        #[arg(long)]
        all: bool,
    },
    /// Discards a file that was, or is being, received here, for example because its sender will
    /// not return. If the sender tries again, it is told that the file is refused. Also removes a
    /// file from the list that failed, or that was sent from here and is over.
    #[command(after_help = "Examples:\n  \
        farhop cache                         lists them\n  \
        farhop cache drop 3-17-5f1c2a90\n  \
        farhop cache drop 17                 one that was sent from here\n  \
        farhop cache drop --failed           all that failed, sent or received")]
    Drop {
        /// The id of the file in the list of `farhop cache`; for a file sent from here, its number.
        #[arg(required_unless_present = "failed")]
        id: Option<String>,
        /// Remove all files that failed, sent or received.
        #[arg(long, conflicts_with = "id")]
        failed: bool,
    },
}

/// Refuses a name that a file cannot have at its destination.
fn check_name(name: &str, to: &str) -> Result<(), Failure> {
    let refused = |wrong| Failure::input(format!("{wrong}; give another one behind {to}:"));
    wrong_name(name).map_or(Ok(()), |wrong| Err(refused(wrong)))
}

/// A daemon's answer that is just the number of a file.
#[derive(serde::Deserialize)]
struct Taken {
    id: u32,
}

pub(crate) fn send(options: &SendOptions) -> Result<(), Failure> {
    interrupt::watch();
    let daemon = Daemon::find(&options.daemon)?;
    if let Some(id) = options.cancel {
        let Taken { id } = daemon.ask_of_file(Request::Cancel { id }, &id.to_string())?;
        print_text(&format!("cancelled: {id}"))?;
        return Ok(());
    }
    let (Some(file), Some(to)) = (&options.file, &options.to) else {
        return Err(Failure::Failed("no file and no node".into()));
    };
    daemon.check_node(to.split_once(':').map_or(to, |(node, _)| node))?;
    let wanted = describe(file, to)?;
    let label = format!("{} to {}", file.display(), wanted.to);
    let Taken { id } = ask_to_send(&daemon, wanted)?;
    if options.no_wait {
        wait_until(&daemon, id, (&label, &tell), |file| file.is_kept.then_some(()))?;
        print_text(&format!("on its way as number {id}: {label}"))?;
        return Ok(());
    }
    let bar = Bar::start(&label);
    let outcome = wait_until_sent(&daemon, id, &label, &bar);
    // Before anything else is printed: redrawing the bar would erase what is in its line.
    bar.end();
    if let Err(Failure::Interrupted) = outcome {
        tell(&format!("farhop: it goes on as number {id}; `farhop send --cancel {id}` ends it"));
    }
    outcome.and_then(|text| print_text(&text))
}

/// Asks a daemon to send a file. An older daemon refuses the field with the file's modification
/// time, and is asked again without it.
fn ask_to_send(daemon: &Daemon, wanted: SendFile) -> Result<Taken, Failure> {
    match daemon.ask(Request::Send(wanted.clone())) {
        Err(Failure::Failed(why)) if why.contains("unknown field `modified_ns`") => {
            daemon.ask(Request::Send(SendFile { modified_ns: None, ..wanted }))
        }
        answer => answer,
    }
}

/// The request to send a file, with its checksum.
fn describe(file: &Path, to: &str) -> Result<SendFile, Failure> {
    let told = |error: io::Error| Failure::input(format!("{}: {error}", file.display()));
    let path = fs::canonicalize(file).map_err(told)?;
    let (open, metadata) = open_file(&path).map_err(told)?;
    if path.to_str().is_none() {
        let why = "its path is not UTF-8, which a daemon cannot be told";
        return Err(Failure::input(format!("{}: {why}", file.display())));
    }
    // The name as given: the target of a symbolic link may have another.
    let own = || file.file_name().and_then(|name| name.to_str());
    let both = to.split_once(':').or_else(|| Some((to, own()?)));
    let (to, name) = both.ok_or_else(|| {
        let why = "its name is not UTF-8: give it another one there, as NODE:NAME";
        Failure::input(format!("{}: {why}", file.display()))
    })?;
    check_name(name, to)?;
    // From before the sum: if the file changes meanwhile, or before the daemon opens it, it no
    // longer matches.
    let modified_ns = Some(modified_ns(&metadata));
    let sum = sum_file(&open, &mut |_| !interrupt::has_come());
    // After an interruption the error would read like that of an unreadable file.
    let (sha256, size) = sum.map_err(|error| match interrupt::has_come() {
        true => Failure::Interrupted,
        false => error.into(),
    })?;
    let length = metadata.len();
    // If the file grew or shrank meanwhile, its length differs now, and the daemon notices that.
    if size != length && open.metadata().map_err(told)?.len() == length {
        return Err(Failure::input(format!(
            "{}: no ordinary file: its length is given as {length}, and {} can be read: send a \
             copy of it",
            file.display(),
            counted(size, "byte")
        )));
    }
    let (to, name) = (to.into(), name.into());
    Ok(SendFile { to, name, size, sha256, modified_ns, path: path.clone() })
}

pub(crate) fn push(options: &PushOptions) -> Result<(), Failure> {
    interrupt::watch();
    let daemon = Daemon::find(&options.daemon)?;
    let (to, file) = options.to.split_once(':').unwrap_or((&options.to, "stdin"));
    daemon.check_node(to)?;
    check_name(file, to)?;
    let label = format!("{file} to {to}");
    let bar = Bar::start(&label);
    let mut watcher = |bytes: u64| {
        bar.count(&format!("{label}, {}", counted(bytes, "byte")), bytes);
        !interrupt::has_come()
    };
    let push = Push { daemon: daemon.for_sockets(), to: to.into(), file: file.into() };
    let outcome = push.run(&mut Input::of_stdin()?, &mut watcher);
    bar.end();
    let size = match outcome {
        Err(_) if interrupt::has_come() => {
            tell("farhop: it is given up; what came of it goes once the other end hears that");
            return Err(Failure::Interrupted);
        }
        Err(error) => return Err(Failure::Failed(format!("{label}: {error:#}"))),
        Ok(size) => size,
    };
    print_text(&format!("arrived: {label}, {}", counted(size, "byte")))?;
    Ok(())
}

/// Standard input that fails once an interruption is requested, and with `WouldBlock` while it has
/// nothing; a plain read would block until the writer sends something.
struct Input(File);

impl Input {
    fn of_stdin() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        if interrupt::has_come() {
            return Err(io::Error::other("interrupted"));
        }
        // A file that does not support poll is always ready.
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&tick)) {
            Ok(0) | Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
            _ => self.0.read(buffer),
        }
    }
}

fn wait_until_sent(daemon: &Daemon, id: u32, label: &str, bar: &Bar) -> Result<String, Failure> {
    // Units in flight may be lost and sent again: the bar does not go back then.
    let most = Cell::new(0);
    let say = |why: &str| bar.line(why);
    wait_until(
        daemon,
        id,
        (label, &say),
        |OutgoingStatus { state, arrived, under_way, size, .. }| {
            most.set(most.get().max(arrived + under_way));
            bar.fill(most.get() as f64 / (*size).max(1) as f64);
            let is_there = matches!(state, State::Done | State::Fetched);
            is_there.then(|| format!("arrived: {label}, {}", counted(size, "byte")))
        },
    )
}

/// Waits until `is_so` accepts the state of a file, across restarts of the daemon. If the daemon
/// cannot say anything about files, `say` passes on why, once.
fn wait_until<T>(
    daemon: &Daemon,
    id: u32,
    (label, say): (&str, &dyn Fn(&str)),
    is_so: impl Fn(&OutgoingStatus) -> Option<T>,
) -> Result<T, Failure> {
    let (mut patience, mut trouble) = (SOON, None);
    loop {
        let files = daemon.files();
        if let Err(why) = &files
            && trouble.as_ref() != Some(why)
        {
            say(&format!("{label} waits: {why}"));
            trouble = Some(why.clone());
        }
        if let Ok(Some(files)) = files {
            let Some(file) = files.outgoing.into_iter().find(|file| file.id == id) else {
                let why = "the daemon knows nothing of it any more: it ended before it had \
                           written it down, or very many files are over since";
                return Err(Failure::Failed(format!("{label}: {why}")));
            };
            if let State::Failed(why) = file.state {
                return Err(Failure::Failed(format!("{label}: {why}")));
            }
            if let Some(found) = is_so(&file) {
                return Ok(found);
            }
        }
        if interrupt::has_come() {
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(patience);
        patience = (patience * 2).min(TICK);
    }
}

pub(crate) fn cache(options: &CacheOptions) -> Result<(), Failure> {
    let daemon = Daemon::find(&options.daemon)?;
    if let Some(command) = &options.command {
        let answer: serde_json::Value = match command {
            CacheCommand::Clear { all } => daemon.ask(Request::ClearCache { all: *all })?,
            CacheCommand::Drop { id: Some(id), .. } => {
                daemon.ask_of_file(Request::Drop { id: id.clone() }, id)?
            }
            CacheCommand::Drop { id: None, .. } => drop_failed(&daemon)?,
        };
        if options.json {
            return print_json(&answer);
        }
        let text = match command {
            CacheCommand::Clear { .. } => {
                format!("cleared: {}", counted(&answer["cleared"], "block"))
            }
            CacheCommand::Drop { id: Some(id), .. } => format!("dropped: {id}"),
            CacheCommand::Drop { id: None, .. } => {
                format!("dropped: {}", counted(&answer["dropped"], "file"))
            }
        };
        print_text(&text)?;
        return Ok(());
    }
    let cache: CacheStatus = daemon.ask(Request::Cache {})?;
    let files: FilesStatus = daemon.ask(Request::Files {})?;
    if options.json {
        return print_json(&as_json(&cache, &files));
    }
    print_text(describe_cache(&cache, &files).trim_end())?;
    Ok(())
}

/// Removes all failed files from the list.
fn drop_failed(daemon: &Daemon) -> Result<serde_json::Value, Failure> {
    let files: FilesStatus = daemon.ask(Request::Files {})?;
    let has_failed = |state: &State| matches!(state, State::Failed(_));
    let sent = files.outgoing.iter().filter(|file| has_failed(&file.state));
    let come = files.incoming.iter().filter(|file| has_failed(&file.state));
    let ids = sent.map(|file| file.id.to_string()).chain(come.map(|file| file.id.clone()));
    let ids: Vec<String> = ids.collect();
    for id in &ids {
        let _: serde_json::Value = daemon.ask_of_file(Request::Drop { id: id.clone() }, id)?;
    }
    Ok(serde_json::json!({ "dropped": ids.len() }))
}

/// Both as JSON. Nonces become strings: they have 64 bits, and many readers round to 53.
fn as_json(cache: &CacheStatus, files: &FilesStatus) -> serde_json::Value {
    let mut value = serde_json::json!({ "cache": cache, "files": files });
    for (file, IncomingStatus { info, .. }) in files.incoming.iter().enumerate() {
        value["files"]["incoming"][file]["info"]["nonce"] = info.nonce.to_string().into();
    }
    value
}

/// The disk space that files for this node take, besides the blocks.
fn describe_inbox(cache: &CacheStatus, incoming: &[IncomingStatus]) -> String {
    let files = |wanted: State| {
        let found = || incoming.iter().filter(|file| file.state == wanted);
        let bytes: u64 = found().map(|file| file.received).sum();
        format!("{} ({})", counted(found().count(), "file"), counted(bytes, "byte"))
    };
    format!(
        "{}/inbox: not fetched {}, under way {}, of {} MiB on disk
",
        cache.folder,
        files(State::Done),
        files(State::Moving),
        cache.disk_limit >> 20
    )
}

fn describe_cache(cache: &CacheStatus, files: &FilesStatus) -> String {
    let blocks = |blocks: &[BlockStatus]| {
        let bytes: u64 = blocks.iter().map(|block| u64::from(block.bytes)).sum();
        format!("{} ({})", counted(blocks.len(), "block"), counted(bytes, "byte"))
    };
    let mut text = format!(
        "{}: waiting {}, cached {}, of {} MiB; on disk {} MiB, for at most {} MiB of blocks of \
         other nodes\n",
        cache.folder,
        blocks(&cache.waiting),
        blocks(&cache.cached),
        cache.memory_limit >> 20,
        cache.file_bytes.div_ceil(1 << 20),
        cache.disk_limit >> 20
    );
    text += &describe_inbox(cache, &files.incoming);
    let word = |state: &State| match state {
        State::Moving => "under way".to_owned(),
        State::Done => "arrived".to_owned(),
        State::Fetched => "fetched".to_owned(),
        State::Failed(why) => format!("failed: {why}"),
    };
    for file in &files.outgoing {
        let OutgoingStatus { id, to, name, size, arrived, state, .. } = file;
        let bytes = match file.streamed {
            true => format!("{} so far", counted(arrived, "byte")),
            false => format!("{arrived} of {}", counted(size, "byte")),
        };
        let _ = writeln!(text, "  {id}: {name} to {to}, {bytes}, {}", word(state));
    }
    for IncomingStatus { id, from, info, received, state, .. } in &files.incoming {
        let bytes = match state {
            // The length of a stream is known only at its end.
            State::Moving | State::Failed(_) if info.streamed => {
                format!("{} so far", counted(received, "byte"))
            }
            _ => format!("{received} of {}", counted(info.size, "byte")),
        };
        let _ = writeln!(text, "  {id}: {} from {from}, {bytes}, {}", info.name, word(state));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use farhop_run::files::FileInfo;

    use super::super::carrier::is_listed;

    use super::*;

    #[test]
    fn a_link_is_sent_under_its_own_name() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let [map, link] = ["map.png", "latest.png"].map(|name| dir.path().join(name));
        fs::write(&map, "map").expect("a file");
        symlink("map.png", &link).expect("a link");
        let wanted = describe(&link, "barn").ok().expect("a file");
        assert_eq!((&*wanted.name, wanted.size), ("latest.png", 3));
        assert_eq!(wanted.path, fs::canonicalize(&map).expect("it is there"));
        let wanted = describe(&link, "barn:other.png").ok().expect("a file");
        assert_eq!((&*wanted.to, &*wanted.name), ("barn", "other.png"));
    }

    #[test]
    fn what_is_no_name_for_a_file_is_refused_before_it_is_read() {
        for to in ["barn:.map", "barn:", "barn:a/b"] {
            let Err(Failure::Input(why)) = describe(Path::new("/proc/version"), to) else {
                panic!("it is sent, or refused as something else: {to}");
            };
            let why = why.to_string();
            assert!(why.contains("is no name for a file") && why.ends_with("barn:"), "{why}");
        }
    }

    #[test]
    fn what_has_more_bytes_than_its_length_says_is_no_ordinary_file() {
        let Err(Failure::Input(why)) = describe(Path::new("/proc/version"), "barn") else {
            panic!("it is sent, or refused as something else");
        };
        let why = why.to_string();
        let right = "/proc/version: no ordinary file: its length is given as 0, and ";
        assert!(why.starts_with(right), "{why}");
    }

    #[test]
    fn a_cache_is_shown_with_the_files_that_nobody_has_fetched() {
        let cache = CacheStatus {
            folder: "/state/valley".into(),
            memory_limit: 64 << 20,
            disk_limit: 1 << 30,
            file_bytes: 1 << 20,
            waiting: Vec::new(),
            cached: Vec::new(),
        };
        let file = |received, state| IncomingStatus {
            id: "1-2-00000003".into(),
            from: "hill".into(),
            info: FileInfo {
                name: "map.png".into(),
                size: 5_000,
                sha256: "ab".into(),
                nonce: u64::MAX,
                streamed: false,
            },
            received,
            state,
            path: "/state/valley/inbox/1-2-00000003.whole".into(),
        };
        let failed = State::Failed("its sender gave it up".into());
        let incoming = [(5_000, State::Done), (3_000, State::Moving), (7, failed)];
        let incoming = incoming.map(|(received, state)| file(received, state));
        let pushed = OutgoingStatus {
            id: 9,
            path: PathBuf::new(),
            to: "hill".into(),
            name: "p30".into(),
            size: 0,
            streamed: true,
            arrived: 3_000,
            under_way: 0,
            is_kept: true,
            state: State::Moving,
        };
        let files = FilesStatus { node: 7, outgoing: vec![pushed], incoming: incoming.into() };
        assert!(is_listed(&files, "9") && is_listed(&files, "1-2-00000003"));
        assert!(!is_listed(&files, "17"));
        let json = as_json(&cache, &files);
        assert_eq!(json["files"]["incoming"][2]["info"]["nonce"], "18446744073709551615");
        let text = describe_cache(&cache, &files);
        let inbox = "/state/valley/inbox: not fetched 1 file (5000 bytes), \
                     under way 1 file (3000 bytes), of 1024 MiB on disk\n";
        assert!(text.contains(inbox), "{text}");
        let blocks = "cached 0 blocks (0 bytes), of 64 MiB; on disk 1 MiB, for at most 1024 MiB of";
        assert!(text.contains(blocks), "{text}");
        assert!(text.contains("  9: p30 to hill, 3000 bytes so far, under way\n"), "{text}");
    }
}
