//! `docs/validation.md`: the tables of results, each with the machine that it was measured on.
//!
//! All of them take hours, so a run replaces only the sections that it has measured.

use std::fmt::Write as _;
use std::process::Command;

use clap::ValueEnum as _;
use farhop_proto::base::counted;

use super::{Group, Section, table};

const HEAD: &str = "# Validation\n\n\
    The simulator beside theory, an independent simulator and the kernel. Written by\n\
    `cargo xtask validate --write`, each section by the last run that had it (`--only NAME`,\n\
    `--quick`); do not edit. A row that is outside what is allowed says NO and stays here.\n";

/// The document, with these sections in place of the old ones of their groups. A section that could
/// not be measured replaces nothing.
pub(crate) fn updated(old: &str, sections: &[Section], quick: bool) -> String {
    let kept = old.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'));
    let kept: Vec<_> = kept.collect();
    let mut out = HEAD.to_owned();
    for group in Group::value_variants() {
        let new = sections.iter().find(|section| section.group == *group);
        let old = kept.iter().find(|(title, _)| *title == group.title());
        let body = match (new, old) {
            (Some(section), _) if section.rows.is_ok() => body(section, quick),
            (_, Some((_, body))) => body.trim().to_owned(),
            (Some(section), None) => body(section, quick),
            (None, None) => continue,
        };
        let _ = write!(out, "\n## {}\n\n{}\n", group.title(), body.trim_end());
    }
    out
}

fn body(section: &Section, quick: bool) -> String {
    let form = if quick { "The quick form" } else { "In full" };
    let mut out = format!("{form}, {}\n\n", run_line());
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
    out
}

/// A line with version, day and machine.
fn run_line() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (commit, day, processor) = (commit(), day(), processor());
    format!("farhop {version} ({commit}), {day}, on {processor} ({}).", counted(cores, "core"))
}

/// The commit that is checked out.
pub(super) fn commit() -> String {
    said(Command::new("git").args(["describe", "--always", "--dirty"]))
}

/// Today's date.
pub(super) fn day() -> String {
    said(Command::new("date").args(["--utc", "+%Y-%m-%d"]))
}

fn said(command: &mut Command) -> String {
    let out = command.output().ok().filter(|out| out.status.success());
    out.map_or("unknown".into(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The model of this machine's processor.
pub(super) fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("an unknown processor".into(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{Row, Tolerance};
    use super::*;

    #[test]
    fn a_section_takes_the_place_of_its_group_and_leaves_the_others() {
        let section = |group, name: &str| {
            let row = Row::new("group", name, "times", (1.0, 1.0), Tolerance::AtLeast);
            Section { group, rows: Ok(vec![row]) }
        };
        let first = [section(Group::Speed, "one"), section(Group::Airtime, "two")];
        let text = updated("", &first, true);
        let text = updated(&text, &[section(Group::Speed, "three")], false);
        let failed = Section { group: Group::Airtime, rows: Err(anyhow::anyhow!("no")) };
        assert_eq!(text, updated(&text, &[failed], false));
        assert_eq!(text.matches("\n## ").count(), 2);
        let has = |name: &str| text.contains(&format!("| {name} |"));
        assert!(!has("one") && has("two") && has("three"), "{text}");
        let title = |group: Group| text.find(group.title()).expect("a title");
        assert!(title(Group::Airtime) < title(Group::Speed));
    }
}
