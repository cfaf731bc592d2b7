//! Processor time that was taken beside a lab, by programs that are none of it.
//!
//! A lab can be in time and not be still: what computes beside it makes every host react some tens
//! of microseconds later, which no counter of late wake-ups notices, but a link on which both sides
//! wait for each other does.

use std::collections::BTreeSet;
use std::fs;

use rustix::param::clock_ticks_per_second;

use super::programs::{own_processes, processes, programs};
use super::state::LabState;

/// Flag of the threads of the kernel, in field 9 of `/proc/PID/stat` (`PF_KTHREAD`). They work for
/// the lab too.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Processor seconds that all that is not of this lab has used so far, as far as it can be seen: of
/// other programs, and of other machines on the same hardware, where the hypervisor tells.
///
/// With those of processes that have ended, for which their parents answer: only the difference
/// of two values means something.
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

/// What a process and its children that have ended used, from its `/proc/PID/stat`.
fn ticks_of(stat: &str) -> Option<u64> {
    // The name, in parentheses, may hold anything; field 9 is the 7th behind it.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace().skip(6);
    let flags: u64 = fields.next()?.parse().ok()?;
    if flags & KERNEL_THREAD != 0 {
        return Some(0);
    }
    // Fields 14 to 17: own time in user and kernel mode, and that of the children.
    fields.skip(4).take(4).map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// What other machines on the same hardware took: the eighth time of `/proc/stat`.
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
            failed: None,
        };
        let outside = outside(&lab);
        for child in [&mut node, &mut other] {
            child.kill().and_then(|()| child.wait()).expect("an end");
        }
        let counts = |pid: u32| outside.contains(&pid);
        assert_eq!([node.id(), std::process::id(), other.id()].map(counts), [false, false, true]);
    }
}
