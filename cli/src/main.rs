//! farhop: makes long, lossy and multi-hop wireless links carry traffic well.

#![forbid(unsafe_code)]

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use farhop_run::device::signals::Signals;
use tracing_appender::non_blocking::WorkerGuard;

mod commands;
mod interrupt;
mod load;
mod locked;
mod progress;
mod report;
mod sweep;
mod whole;

use progress::tell;

/// Makes long, lossy and multi-hop wireless links carry traffic well.
///
/// One scenario file describes a network. It runs in virtual time (`sim`), as real daemons over an
/// emulated air (`lab`), or on real radios (`up`).
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  \
    farhop demo                       real TCP over 80 km, with farhop and without\n  \
    farhop check scenarios/demo.toml  what a scenario would do\n  \
    farhop sim scenarios/demo.toml    the same in virtual time\n  \
    farhop lab scenarios/demo.toml    the same with real daemons and kernel TCP\n  \
    farhop keys                       the key of this node, for its neighbours\n\n\
    Exit status:\n  \
    0    done; up, top and status --watch also if a signal ends them\n  \
    1    it went wrong\n  \
     2    an argument, an option or a scenario is wrong, and nothing was done\n  \
     3    a lab was late: there is a report, but it is not valid\n  \
    127  there is no such program to run in a lab; 126 if it cannot be run\n  \
    130  interrupted by Ctrl-C, as proxy and exit always are, and receive without\n       \
    --count while somebody reads what it prints; 143 by SIGTERM, 129 by SIGHUP"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Options),
    Lab(commands::lab::Options),
    Sim(commands::sim::Options),
    Paper(commands::paper::Options),
    Up(commands::up::Options),
    Status(commands::status::Options),
    Top(commands::top::Options),
    Keys(commands::keys::Options),
    Send(commands::files::SendOptions),
    Push(commands::files::PushOptions),
    Receive(commands::receive::ReceiveOptions),
    Cache(commands::files::CacheOptions),
    Proxy(commands::proxy::ProxyOptions),
    Exit(commands::proxy::ExitOptions),
    Check(commands::check::Options),
    Schema(commands::schema::Options),
    #[command(hide = true)]
    LabNode(commands::lab::ChildOptions),
    #[command(hide = true)]
    LabAir(commands::lab::ChildOptions),
    #[command(hide = true)]
    LabStranger(commands::lab::ChildOptions),
    #[command(hide = true)]
    LabHold(commands::lab::HoldOptions),
    #[command(hide = true)]
    LabNoise(commands::noise::Options),
}

/// Why a command failed, which decides its exit status.
pub(crate) enum Failure {
    /// The input is wrong, and nothing was done: exit status 2.
    Input(miette::Report),
    /// The command failed: exit status 1.
    Failed(String),
    /// A lab could not keep up with real time, but all else was done: exit status 3.
    Late,
    /// A program could not be run in a lab. The exit status is that of shells: 127 if the program
    /// does not exist, else 126.
    NotRun(String, u8),
    /// A signal ended the command: exit status 128 plus the number of the signal.
    Interrupted,
}

impl Failure {
    /// A failure because of wrong input, without a place in a file.
    pub(crate) fn input(what: String) -> Self {
        Self::Input(miette::miette!("{what}"))
    }

    /// Turns wrong input into a plain failure, for errors after something was already done.
    pub(crate) fn into_failed(self) -> Self {
        match self {
            Self::Input(report) => Self::Failed(report.to_string()),
            other => other,
        }
    }
}

impl From<farhop_run::lab::LabError> for Failure {
    fn from(error: farhop_run::lab::LabError) -> Self {
        match error {
            farhop_run::lab::LabError::Unknown(what) => Self::input(what),
            farhop_run::lab::LabError::Interrupted => Self::Interrupted,
            farhop_run::lab::LabError::NotRun { said, is_there } => {
                Self::NotRun(said, if is_there { 126 } else { 127 })
            }
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<farhop_run::keys::KeysError> for Failure {
    fn from(error: farhop_run::keys::KeysError) -> Self {
        use farhop_run::keys::KeysError::{Name, Unknown};
        let is_of_command = matches!(error, Name { .. } | Unknown { .. });
        match is_of_command || error.is_of_folder() {
            true => Self::input(error.to_string()),
            false => Self::Failed(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<farhop_run::keys::KeysError>() {
            Ok(of_keys) => of_keys.into(),
            Err(error) => Self::Failed(format!("{error:#}")),
        }
    }
}

/// Prints errors without wrapping their lines: a line break within a path or a command would be
/// copied with it.
fn keep_lines_whole() {
    let options = || miette::MietteHandlerOpts::new().wrap_lines(false);
    // An error means that a hook is set already, which can only be this one.
    let _ = miette::set_hook(Box::new(move |_| Box::new(options().build())));
}

/// Starts the log, on stderr; `FARHOP_LOG` sets its filter, `info` by default. The rest of the log
/// of a daemon is written when what is returned is dropped.
fn start_log(command: &Command) -> Option<WorkerGuard> {
    let wanted = std::env::var("FARHOP_LOG").unwrap_or_else(|_| "info".into());
    let filter = tracing_subscriber::EnvFilter::try_new(&wanted).unwrap_or_else(|error| {
        progress::tell(&format!(
            "farhop: FARHOP_LOG is '{wanted}': {error}; right would be: debug, or \
             farhop_run=debug,warn. It is taken for info"
        ));
        tracing_subscriber::EnvFilter::new("info")
    });
    // In a lab the log of a process is a file, and its last lines may be quoted in a message.
    let colours = std::io::stderr().is_terminal();
    // A log that cannot be written is not worth a panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    let log = log.log_internal_errors(false);
    if !matches!(command, Command::Up(_)) {
        log.with_writer(std::io::stderr).init();
        return None;
    }
    // A terminal that is stopped, or whose connection goes over this daemon, must not stop it: a
    // thread writes, and drops what is too much. Signals are for the daemon, not for that thread.
    let signals = Signals::take();
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    drop(signals);
    log.with_writer(writer).init();
    Some(guard)
}

fn main() -> ExitCode {
    keep_lines_whole();
    let command = Cli::parse().command;
    let log = start_log(&command);
    let outcome = match command {
        Command::Demo(options) => commands::demo::run(&options),
        Command::Lab(options) => commands::lab::run(&options),
        Command::Sim(options) => commands::sim::run(&options),
        Command::Paper(options) => commands::paper::run(&options),
        Command::Up(options) => commands::up::run(&options),
        Command::Status(options) => commands::status::run(&options),
        Command::Top(options) => commands::top::run(&options),
        Command::Keys(options) => commands::keys::run(&options),
        Command::Send(options) => commands::files::send(&options),
        Command::Push(options) => commands::files::push(&options),
        Command::Receive(options) => commands::receive::receive(&options),
        Command::Cache(options) => commands::files::cache(&options),
        Command::Proxy(options) => commands::proxy::proxy(&options),
        Command::Exit(options) => commands::proxy::exit(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Schema(options) => commands::schema::run(&options),
        Command::LabNode(options) => commands::lab::run_node(&options),
        Command::LabStranger(options) => commands::lab::run_stranger(&options),
        Command::LabAir(options) => commands::lab::run_air(&options),
        Command::LabHold(options) => commands::lab::run_holder(&options),
        Command::LabNoise(options) => commands::noise::run(&options),
    };
    drop(log);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(report)) => {
            tell(&format!("{report:?}"));
            ExitCode::from(2)
        }
        Err(Failure::Failed(what)) => {
            tell(&format!("farhop: {what}"));
            ExitCode::FAILURE
        }
        Err(Failure::Late) => {
            tell(
                "farhop: this lab was late: its numbers are not valid; run it again, with less \
                 beside it",
            );
            ExitCode::from(farhop_run::lab::LATE_STATUS)
        }
        Err(Failure::NotRun(what, status)) => {
            tell(&format!("farhop: {what}"));
            ExitCode::from(status)
        }
        Err(Failure::Interrupted) => {
            tell("farhop: interrupted");
            ExitCode::from(interrupt::exit_status())
        }
    }
}
