//! What a host sends at once, while its daemon has no time for it.

use std::fs;

use crate::host::{Host, join};
use crate::mtu::SCENARIO;
use crate::place::{Place, stderr, wait_for};

#[test]
#[ignore = "system: namespaces and processes"]
fn a_window_of_packets_waits_for_a_daemon_that_is_busy() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can join namespaces by a wire; labs have no `up`");
        return;
    }
    let place = Place::new("burst");
    let file = place.path("burst.toml");
    fs::write(&file, SCENARIO).expect("the scenario is written");
    let (mut left, right) = (Host::new(&place, "left"), Host::new(&place, "right"));
    join(&left, &right);
    left.up(&file);
    let taken = || left.status()["host"]["from_host"].as_u64().expect("a count");
    let before = taken();
    left.while_it_stands(|| {
        let words = ["ping", "-q", "-n", "-l", "3000", "-c", "3000", "-W", "1", "10.66.0.2"];
        let out = left.run(&words);
        assert_eq!(out.status.code(), Some(1), "nobody answers: {}", stderr(&out));
    });
    wait_for("what was sent meanwhile", || taken() >= before + 3_000);
    left.down();
}
