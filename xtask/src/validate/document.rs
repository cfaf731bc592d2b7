//! `docs/validation.md`: the tables as they came out, with the machine that they came out on.

use std::fmt::Write as _;
use std::process::Command;

use super::{Section, table};

/// The whole document.
pub(crate) fn text(sections: &[Section], quick: bool) -> String {
    let form = if quick { "cargo xtask validate --quick --write" } else { "make validate" };
    let mut out = format!(
        "# Validation\n\n\
         The simulator beside theory, an independent simulator and the kernel. Written by\n\
         `{form}`; do not edit. A row that is outside what is allowed says NO and stays here.\n\n\
         {}\n",
        run_line()
    );
    for section in sections {
        let _ = write!(out, "\n## {}\n\n", section.group.title());
        match &section.rows {
            Ok(rows) => {
                let _ = writeln!(out, "| {} |", table::HEAD.join(" | "));
                let _ = writeln!(out, "|---|---|--:|--:|--:|--:|---|");
                for row in rows {
                    let _ = writeln!(out, "| {} |", table::cells(row).join(" | "));
                }
                for (note, names) in table::notes(rows) {
                    let _ = writeln!(out, "\n{}: {note}", names.join("; "));
                }
            }
            Err(error) => {
                let _ = writeln!(out, "Not measured: {error:#}");
            }
        }
    }
    out
}

/// Version, day and machine.
fn run_line() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = said(Command::new("git").args(["describe", "--always", "--dirty"]));
    let day = said(Command::new("date").args(["--utc", "+%Y-%m-%d"]));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("farhop {version} ({commit}), {day}, on {} ({cores} cores).", processor())
}

fn said(command: &mut Command) -> String {
    let out = command.output().ok().filter(|out| out.status.success());
    out.map_or("unknown".into(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("an unknown processor".into(), |(_, name)| name.to_owned())
}
