//! Processor time that programs outside of a lab use during a run.
//!
//! A lab can be in time without being undisturbed: if something else computes, every host reacts
//! some tens of microseconds later. Counters of late wake-ups do not show that, but a link on which
//! both sides wait for each other is slower.

use std::collections::BTreeSet;
use std::fs;

use rustix::param::clock_ticks_per_second;

use super::programs::{own_processes, processes, programs};
use super::state::LabState;

/// Flag of kernel threads, in field 9 of `/proc/PID/stat` (`PF_KTHREAD`). They are not counted, as
/// they work for the lab too.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Processor time, in seconds, that everything outside of this lab has used so far, as far as it
/// can be seen: other programs, and other virtual machines on the same hardware, if the hypervisor
/// tells.
///
/// It includes the time of ended processes, which is in that of their parents. Only the difference
/// between two values has a meaning.
pub(super) fn cpu_s(lab: &LabState) -> f64 {
    let ticks: u64 = outside(lab)
        .into_iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter_map(|stat| ticks_of(&stat))
        .sum();
    (ticks + stolen_ticks()) as f64 / clock_ticks_per_second() as f64
}

fn outside(lab: &LabState) -> Vec<u32> {
    let inside = programs(lab).into_iter().map(|process| process.pid);
    let own: BTreeSet<u32> = own_processes(lab).chain(inside).collect();
    processes().filter(|pid| !own.contains(pid)).collect()
}

/// Ticks that a process and its ended children have used, from its `/proc/PID/stat`.
fn ticks_of(stat: &str) -> Option<u64> {
    // The name in parentheses may have any characters; field 9 is the 7th after it.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace().skip(6);
    let flags: u64 = fields.next()?.parse().ok()?;
    if flags & KERNEL_THREAD != 0 {
        return Some(0);
    }
    // Fields 14 to 17: user and kernel time of the process, and of its ended children.
    fields.skip(4).take(4).map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Ticks that other machines on the same hardware took: the eighth time in `/proc/stat` (steal).
fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = stat.lines().next().and_then(|line| line.split_ascii_whitespace().nth(8));
    all.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::lab::state::Process;

    #[test]
    fn whoever_started_programs_answers_for_those_that_ended() {
        let stat = "77 (a ) b) S 1 77 77 0 -1 4194304 5 6 7 8 100 20 3 4 20 0 1 0 999";
        assert_eq!(ticks_of(stat), Some(127));
        let of_the_kernel = stat.replace("4194304", "2097216");
        assert_eq!(ticks_of(&of_the_kernel), Some(0));
        assert_eq!(ticks_of("77 (a"), None);
    }

    #[test]
    fn programs_that_are_none_of_the_lab_count() {
        let start = || Command::new("sleep").arg("100").spawn().expect("a program");
        let (mut node, mut other) = (start(), start());
        let lab = LabState {
            id: "no-such-lab".into(),
            scenario: "none".into(),
            holder: Process::find(std::process::id()).expect("this process runs"),
            air: None,
            nodes: Process::find(node.id())
                .map(|process| ("a".into(), process))
                .into_iter()
                .collect(),
            namespaces: Vec::new(),
            ready: true,
            kept: false,
        };
        let outside = outside(&lab);
        for child in [&mut node, &mut other] {
            child.kill().and_then(|()| child.wait()).expect("an end");
        }
        let counts = |pid: u32| outside.contains(&pid);
        assert_eq!([node.id(), std::process::id(), other.id()].map(counts), [false, false, true]);
    }
}
