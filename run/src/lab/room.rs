//! How large a lab can be on this machine.
//!
//! A lab runs in real time: all its processes start at the same time, and each has deadlines to
//! keep. A lab that is too large would fail somewhere on the way, after minutes of overload.

use std::thread::available_parallelism;

use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;

use super::LabError;

/// Most nodes for each core. This many were seen to work: on two cores that do other things too, 64
/// nodes come up within half a minute, and their daemons are punctual.
const NODES_PER_CORE: usize = 32;
/// Memory for each node: its daemon needs 12 MiB, the kernel as much for its namespace, interfaces
/// and sockets, and flows have buffers.
const NODE_MIB: usize = 32;

/// The resources of a machine.
#[derive(Clone, Copy, Debug)]
struct Machine {
    cores: usize,
    /// Memory that is available for programs, if the kernel tells.
    free_mib: Option<usize>,
}

impl Machine {
    /// Resources of this machine.
    fn find() -> Self {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = free.and_then(|free| free.split_whitespace().next()?.parse::<usize>().ok());
        Self {
            cores: available_parallelism().map_or(1, std::num::NonZero::get),
            free_mib: kib.map(|kib| kib / 1024),
        }
    }

    /// Most nodes that a lab can have.
    fn most_nodes(&self) -> usize {
        let by_memory = self.free_mib.map_or(usize::MAX, |free| free / NODE_MIB);
        by_memory.min(self.cores * NODES_PER_CORE)
    }

    fn check(&self, nodes: usize) -> Result<(), LabError> {
        let most = self.most_nodes();
        if nodes <= most {
            return Ok(());
        }
        let memory = self.free_mib.map_or(String::new(), |free| {
            format!(" and {NODE_MIB} MiB of memory for each, of which {free} are free")
        });
        Err(LabError::Refused(format!(
            "a lab of {nodes} nodes is too large for this machine: it takes {most}, with \
             {NODES_PER_CORE} for each of {}{memory}; `farhop sim` takes this scenario as it \
             is",
            counted(self.cores, "core")
        )))
    }
}

/// Refuses a lab with more nodes than this machine can run in real time.
pub(super) fn check(scenario: &Scenario) -> Result<(), LabError> {
    Machine::find().check(scenario.node.len())
}

#[cfg(test)]
mod tests {
    use farhop_proto::stack::NodeConfig;

    use super::*;
    use crate::lab::{Lab, LabOptions};

    #[test]
    fn a_lab_that_is_too_large_is_refused_before_anything_is_built() {
        let node = |number| NodeConfig { name: format!("n{number}"), ..NodeConfig::default() };
        let most = Machine::find().cores * NODES_PER_CORE;
        let scenario = Scenario { node: (0..=most).map(node).collect(), ..Scenario::default() };
        let options = LabOptions { seed: None, program: "/no/such/program".into() };
        let refusal = Lab::start(&scenario, &options, &mut |_| panic!("something is built"));
        let Err(LabError::Refused(said)) = refusal else { panic!("{refusal:?}") };
        assert!(said.contains(&format!("{} nodes", most + 1)) && !said.contains('\n'), "{said}");
        assert!(said.contains("`farhop sim`"), "{said}");
    }

    #[test]
    fn cores_and_memory_both_set_a_limit() {
        let most = |cores, free_mib| Machine { cores, free_mib }.most_nodes();
        assert_eq!(most(2, Some(24_000)), 64);
        assert_eq!(most(2, None), 64);
        assert_eq!(most(64, Some(1_000)), 31);
        let small = Machine { cores: 2, free_mib: Some(1_000) };
        assert!(small.check(31).is_ok() && small.check(32).is_err());
    }
}
