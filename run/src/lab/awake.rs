//! Keeps the processors of a virtual machine awake while a lab measures.
//!
//! An idle virtual processor returns to the host, and comes back when the host has room for it: on
//! a busy host some milliseconds after the timer that should wake a daemon. A processor that is
//! never idle stays. The threads that keep it busy yield to everything else (`SCHED_IDLE`).

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::{fs, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::device::os;

/// Busy threads, one for each processor, until this is dropped.
pub(super) struct Awake {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps all processors awake, if this is a virtual machine without a limit on processor time.
    pub(super) fn keep() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let allowed = match is_virtual() && !is_limited(&groups, Path::new("/sys/fs/cgroup")) {
            true => sched_getaffinity(None).unwrap_or_default(),
            false => CpuSet::new(),
        };
        let processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
        let threads = processors.filter_map(|processor| {
            let is_over = Arc::clone(&is_over);
            let spin = move || spin_on(processor, &is_over);
            thread::Builder::new().name("awake".into()).spawn(spin).ok()
        });
        Self { threads: threads.collect(), is_over }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spin_on(processor: usize, is_over: &AtomicBool) {
    let mut only = CpuSet::new();
    only.set(processor);
    if sched_setaffinity(None, &only).is_err() || !os::yield_to_all() {
        return;
    }
    // Divisions leave most of the core to its other hardware thread, as pause instructions would;
    // but hypervisors take many pauses for waiting on a lock.
    let mut value = u64::MAX;
    while !is_over.load(Ordering::Relaxed) {
        value = u64::MAX / black_box(value | 1);
    }
}

/// Whether this is a virtual machine, as x86 processors tell.
fn is_virtual() -> bool {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processors.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// Whether busy threads would use up processor time that others need: in a container or a service
/// with a quota. `groups` is what the kernel tells of this process's groups, `root` where groups
/// are mounted.
fn is_limited(groups: &str, root: &Path) -> bool {
    groups.lines().any(|line| {
        // Each line is `number:controllers:path`; the second version has no controllers there.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return false };
        let (mount, file) = match controllers {
            "" => (root.to_path_buf(), "cpu.max"),
            _ if controllers.split(',').any(|one| one == "cpu") => {
                (root.join(controllers), "cpu.cfs_quota_us")
            }
            _ => return false,
        };
        // A quota of any group around it binds too.
        Path::new(path.trim_start_matches('/')).ancestors().any(|group| {
            let quota = fs::read_to_string(mount.join(group).join(file)).unwrap_or_default();
            let most = quota.split_ascii_whitespace().next().map(str::parse::<i64>);
            matches!(most, Some(Ok(micros)) if micros > 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_any_group_around_this_program_is_a_limit() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().expect("a file in a folder")).expect("a folder");
            fs::write(file, text).expect("it is ours");
        };
        write("lab.slice/cpu.max", "150000 100000\n");
        write("lab.slice/run.service/cpu.max", "max 100000\n");
        write("free.slice/cpu.max", "max 100000\n");
        write("cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n");
        write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        for (groups, limited) in [
            ("0::/lab.slice/run.service\n", true),
            ("0::/free.slice\n", false),
            ("0::/\n", false),
            ("9:pids:/box\n4:cpu,cpuacct:/box\n0::/\n", true),
            ("4:cpu,cpuacct:/\n2:cpuset:/lab.slice\n", false),
            ("", false),
        ] {
            assert_eq!(is_limited(groups, root.path()), limited, "{groups}");
        }
    }

    #[test]
    fn who_spins_ends_at_once_when_it_is_dropped() {
        let awake = Awake::keep();
        let threads = awake.threads.len();
        assert!(threads == 0 || is_virtual());
        let is_over = Arc::clone(&awake.is_over);
        drop(awake);
        assert!(is_over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&is_over), 1, "no thread of {threads} is left");
    }
}
