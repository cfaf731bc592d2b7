//! `farhop top`: the state of running daemons, live.

use std::io::{self, IsTerminal as _, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue, terminal};
use farhop_proto::base::counted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::daemons::{Wanted, statuses, statuses_and_silent};
use super::status::describe_all;
use super::{Terminal, has_reader, print_text, terminal};
use crate::{Failure, interrupt};

/// Time between two updates.
const EVERY: Duration = Duration::from_secs(1);
/// Longest wait for a key, after which interruptions and the size of the terminal are checked.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The help in the last line: in full, and short for when the number of lines below does not fit
/// beside it.
const HELP: [&str; 2] = ["q: quit   up, down: scroll", "q: quit"];

/// Shows the state of running daemons every second: all on this host, labs included.
///
/// Within `farhop lab exec` it shows the daemon of that node; with --lab or --runtime-dir those
/// selected by them. In a terminal it fills the screen until `q` is pressed; elsewhere it prints
/// the state once, or --count times, and ends. A terminal without a screen (TERM=dumb) is refused.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop top\n  \
    farhop top hill\n  \
    farhop top --lab demo\n  \
    farhop top --count 10 > log.txt")]
pub(crate) struct Options {
    /// Show only this node.
    node: Option<String>,
    /// The same as an option, like in other commands.
    #[arg(long = "node", value_name = "NODE", hide = true, conflicts_with = "node")]
    named: Option<String>,
    /// Show only the nodes of this lab, given by its id or its scenario's name.
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// End after this many updates; by default at `q`, or after one where there is no terminal.
    #[arg(long, value_name = "N", value_parser = super::how_many, allow_negative_numbers = true)]
    count: Option<NonZeroUsize>,
    /// Look for control sockets in this folder only.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

impl Options {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            node: self.node.as_deref().or(self.named.as_deref()),
            lab: self.lab.as_deref(),
            runtime_dir: self.runtime_dir.as_deref(),
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    interrupt::watch();
    match terminal() {
        Terminal::Screen if io::stdin().is_terminal() => run_live(options),
        Terminal::Dumb if io::stdin().is_terminal() => Err(Failure::Failed(
            "this terminal has no screen to fill (TERM=dumb): `farhop status --watch` prints the \
             same line by line"
                .into(),
        )),
        _ => print_blocks(options),
    }
}

fn print_blocks(options: &Options) -> Result<(), Failure> {
    let mut before: Vec<Value> = Vec::new();
    for look in 0..options.count.map_or(1, NonZeroUsize::get) {
        if look > 0 {
            print_text("")?;
            let next = Instant::now() + EVERY;
            while Instant::now() < next {
                if interrupt::has_come() || !has_reader() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let now = statuses(options.wanted());
        let now = if look > 0 { now.map_err(Failure::into_failed) } else { now }?;
        print_text(describe_all(&now, &before).trim_end())?;
        before = now;
    }
    Ok(())
}

fn run_live(options: &Options) -> Result<(), Failure> {
    // Before the screen is taken over, so that an error is printed where the user sees it.
    let mut before = statuses(options.wanted())?;
    let mut text = describe_all(&before, &[]);
    let mut screen = Screen::open()?;
    let mut looks = 1;
    let mut next = Instant::now() + EVERY;
    loop {
        screen.draw(&text)?;
        match screen.read_key()? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Scroll(lines)) => screen.first = screen.first.saturating_add_signed(lines),
            None => {}
        }
        if interrupt::has_come() {
            return Ok(());
        }
        if Instant::now() < next {
            continue;
        }
        next += EVERY;
        if options.count.is_some_and(|count| looks >= count.get()) {
            return Ok(());
        }
        looks += 1;
        text = match statuses_and_silent(options.wanted()).map_err(Failure::into_failed) {
            Ok((now, silent)) => {
                let text = [vec![describe_all(&now, &before)], silent].concat().join("\n");
                before = now;
                text
            }
            // A daemon that restarts is soon back.
            Err(Failure::Failed(what)) => what,
            Err(other) => return Err(other),
        };
    }
}

/// What the user asks for with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    /// Scroll down by this many lines.
    Scroll(isize),
}

impl Key {
    /// The key that sends these bytes. Ctrl-C and Ctrl-D arrive as bytes, because the terminal is
    /// in raw mode.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'q' | b'Q' | 0x03 | 0x04, ..] => Some(Self::Quit),
            [b'j', ..] | [0x1b, b'[' | b'O', b'B', ..] => Some(Self::Scroll(1)),
            [b'k', ..] | [0x1b, b'[' | b'O', b'A', ..] => Some(Self::Scroll(-1)),
            [b' ', ..] | [0x1b, b'[', b'6', ..] => Some(Self::Scroll(20)),
            [0x1b, b'[', b'5', ..] => Some(Self::Scroll(-20)),
            _ => None,
        }
    }
}

/// The terminal while this command uses it; dropping it restores the terminal.
struct Screen {
    /// The first line that is shown.
    first: usize,
    shown: String,
    size: (u16, u16),
}

impl Screen {
    fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on dropping it restores the terminal.
        let screen = Self { first: 0, shown: String::new(), size: (0, 0) };
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Shows the part of a text that fits, if it differs from what is on the screen.
    fn draw(&mut self, text: &str) -> io::Result<()> {
        let size = terminal::size()?;
        let (width, height) = (usize::from(size.0), usize::from(size.1));
        let view = View::build(text, width, height, self.first);
        self.first = view.first;
        let shown = view.lines.join("\n");
        if shown == self.shown && size == self.size {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if size != self.size {
            queue!(out, Clear(ClearType::All))?;
        }
        for (row, line) in view.lines.iter().enumerate() {
            queue!(out, cursor::MoveTo(0, row as u16))?;
            write!(out, "{line}")?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        (self.shown, self.size) = (shown, size);
        out.flush()
    }

    /// Waits up to `PATIENCE` for a key.
    fn read_key(&self) -> io::Result<Option<Key>> {
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut ready, Some(&PATIENCE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 16];
        match rustix::io::read(stdin.as_fd(), &mut bytes)? {
            // The terminal is gone.
            0 => Ok(Some(Key::Quit)),
            count => Ok(Key::from_bytes(&bytes[..count])),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone: then there is nobody to tell.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// The lines of a text that fit into a terminal, padded with empty ones, and a line of help.
struct View {
    lines: Vec<String>,
    /// The first line that is shown.
    first: usize,
}

impl View {
    fn build(text: &str, width: usize, height: usize, first: usize) -> Self {
        let all: Vec<String> =
            text.trim_end().lines().flat_map(|line| wrapped(line, width)).collect();
        let rows = height.saturating_sub(1);
        let first = first.min(all.len().saturating_sub(rows));
        let mut lines: Vec<String> = all.iter().skip(first).take(rows).cloned().collect();
        lines.resize(rows, String::new());
        let below = all.len().saturating_sub(first + rows);
        let rest = HELP.map(|help| match below {
            0 => help.to_owned(),
            below => format!("{help}   {}", counted(below, "more line")),
        });
        let [rest, short] = rest;
        let rest = if rest.chars().count() > width { short } else { rest };
        if height > 0 {
            lines.push(rest.chars().take(width).collect());
        }
        Self { lines, first }
    }
}

/// A line wrapped between words to fit a terminal, with continuation lines indented further. A
/// single word that does not fit is cut.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let own = line.len() - line.trim_start().len();
    let indent = |columns: usize| " ".repeat(columns.min(width / 2));
    let mut pieces = vec![indent(own)];
    for word in line.split_whitespace() {
        let piece = pieces.last_mut().expect("there is one");
        let is_first = piece.trim_start().is_empty();
        if !is_first && piece.chars().count() + 1 + word.chars().count() > width {
            pieces.push(indent(own + 4) + word);
        } else {
            piece.push_str(if is_first { "" } else { " " });
            piece.push_str(word);
        }
    }
    pieces.into_iter().map(|piece| piece.chars().take(width).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_to_fit_the_terminal_and_says_what_is_missing() {
        let text = "one\ntwo is long\nthree\nfour\n";
        let view = View::build(text, 60, 4, 0);
        assert_eq!(view.lines[..3], ["one", "two is long", "three"]);
        assert!(view.lines[3].ends_with("1 more line"), "{:?}", view.lines);
        let end = View::build(text, 7, 4, 90);
        assert_eq!(
            (end.first, &end.lines[..3]),
            (2, &["   long", "three", "four"].map(String::from)[..])
        );
        assert_eq!(wrapped("  neighbour barn: up", 16), ["  neighbour", "      barn: up"]);
        assert_eq!(wrapped("unbroken", 3), ["unb"]);
        assert_eq!(wrapped("", 9), [""]);
        let small = View::build(&"line\n".repeat(21), 40, 10, 0);
        assert_eq!(small.lines[9], "q: quit   12 more lines");
        let tall = View::build(text, 40, 9, 3);
        assert_eq!((tall.first, tall.lines.len(), tall.lines[7].as_str()), (0, 9, ""));
        assert!(View::build(text, 0, 0, 5).lines.is_empty());
    }

    #[test]
    fn keys_are_known_by_their_bytes() {
        for quit in [&b"q"[..], b"\x03", b"\x04"] {
            assert_eq!(Key::from_bytes(quit), Some(Key::Quit));
        }
        assert_eq!(Key::from_bytes(b"\x1b[B"), Some(Key::Scroll(1)));
        assert_eq!(Key::from_bytes(b"\x1bOA"), Some(Key::Scroll(-1)));
        assert_eq!(Key::from_bytes(b"\x1b"), None);
        assert_eq!(Key::from_bytes(b"x"), None);
    }
}
