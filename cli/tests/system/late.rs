//! A lab that cannot keep up.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

#[test]
#[ignore = "system: a lab of two seconds, whose air is stopped again and again"]
fn a_lab_that_was_late_has_an_exit_status_of_its_own() {
    let place = Place::new("late");
    let mut lab = place.start(&["lab", &place.scenario("late", 0.0, Some(2.0))]);
    let air = place.wait_until_ready()["air"]["pid"].as_i64().expect("a process");
    let air = Pid::from_raw(i32::try_from(air).expect("a process number")).expect("no zero");
    while !lab.has_ended() {
        for signal in [Signal::STOP, Signal::CONT] {
            // It ends between two looks.
            let _ = kill_process(air, signal);
            sleep(Duration::from_millis(5));
        }
    }
    let (status, said) = lab.end();
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("this lab was late"), "{said}");
}
