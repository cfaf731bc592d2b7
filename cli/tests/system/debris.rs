//! A lab leaves nothing behind, however it ends, and stays out of the way of others.

use farhop_run::lab::has_report;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::place::{Place, interfaces, pid_of, stderr, wait_for};

/// Seconds of a run that the test ends before its time.
const LONG: Option<f64> = Some(120.0);

#[test]
#[ignore = "system: namespaces and processes"]
fn after_a_run_nothing_is_left() {
    let place = Place::new("run");
    let before = interfaces();
    let out = place.farhop(&["lab", &place.scenario("short", 0.0, Some(1.0)), "--json"]);
    assert!(has_report(out.status), "{}", stderr(&out));
    let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
    assert!(report["flows"][0]["delivered_bytes"].as_u64() > Some(0), "{report:#}");
    place.assert_empty();
    assert_eq!(interfaces(), before);
}

#[test]
#[ignore = "system: namespaces and processes"]
fn ctrl_c_takes_the_lab_down() {
    for words in [&[][..], &["--keep"]] {
        let place = Place::new("interrupted");
        let file = place.scenario("long", 0.0, LONG);
        let lab = place.start(&[&["lab", &file], words].concat());
        place.wait_until_ready();
        assert!(place.insiders().len() >= 3);
        lab.signal(Signal::INT);
        let (status, said) = lab.end();
        assert_eq!(status, Some(130), "{words:?}: {said}");
        place.assert_empty();
    }
}

#[test]
#[ignore = "system: namespaces and processes"]
fn a_lab_that_was_killed_takes_its_processes_along_and_down_removes_the_rest() {
    let place = Place::new("killed");
    let before = interfaces();
    let lab = place.start(&["lab", &place.scenario("long", 0.0, LONG)]);
    place.wait_until_ready();
    lab.signal(Signal::KILL);
    lab.end();
    wait_for("the processes of the lab to die", || place.insiders().is_empty());
    let list = place.farhop(&["lab", "list"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("dead"));
    assert!(place.farhop(&["lab", "down"]).status.success());
    place.assert_empty();
    assert_eq!(interfaces(), before);
}

#[test]
#[ignore = "system: namespaces and processes"]
fn a_daemon_that_was_killed_is_named() {
    let place = Place::new("daemon");
    let lab = place.start(&["lab", &place.scenario("long", 0.0, LONG)]);
    let state = place.wait_until_ready();
    kill_process(pid_of(&state, 1), Signal::KILL).expect("it runs");
    let (status, said) = lab.end();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("'valley' ended") && said.contains("signal: 9"), "{said}");
    place.assert_empty();
}

#[test]
#[ignore = "system: namespaces and processes"]
fn a_kept_lab_is_listed_entered_and_taken_down_with_what_runs_in_it() {
    let place = Place::new("kept");
    let before = interfaces();
    if !place.keep(&place.scenario("quiet", 0.0, None)) {
        return;
    }
    let list = place.farhop(&["lab", "list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.contains("quiet-1: up; nodes hill, valley"), "{list}");
    let seen = place.exec("hill", &["ls", "/proc/self/fd/../net/dev_snmp6"]);
    assert!(String::from_utf8_lossy(&seen.stdout).contains("farhop0"), "{}", stderr(&seen));
    assert_eq!(place.exec("hill", &["false"]).status.code(), Some(1), "its own exit status");
    let named = place.exec("hill", &["getent", "ahostsv4", "valley"]);
    assert!(String::from_utf8_lossy(&named.stdout).contains("10.66.0.2"), "{named:?}");
    let wrong = place.exec("moon", &["true"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("it has hill, valley"), "{}", stderr(&wrong));
    let none = place.exec("hill", &["no-such-program"]);
    let right = "cannot run 'no-such-program' in 'hill': no folder of PATH has a program";
    assert!(stderr(&none).contains(right), "{}", stderr(&none));
    assert_eq!(none.status.code(), Some(127), "as of shells");
    assert_eq!(place.exec("hill", &["/etc/passwd"]).status.code(), Some(126));
    let own = place.exec("hill", &[env!("CARGO_BIN_EXE_farhop"), "status", "--json"]);
    let own: Value = serde_json::from_slice(&own.stdout).expect("a status");
    assert_eq!(own["name"], "hill", "{own:#}");
    let mut program = place.spawn("hill", &["sleep", "1000"]);
    wait_for("the program inside", || place.insiders().len() >= 4);
    assert!(!program.has_ended());
    assert!(place.farhop(&["lab", "down"]).status.success());
    wait_for("the program's end", || program.has_ended());
    place.assert_empty();
    assert_eq!(interfaces(), before);
}

#[test]
#[ignore = "system: namespaces and processes"]
fn two_labs_run_side_by_side() {
    let place = Place::new("two");
    let quiet = place.scenario("quiet", 0.0, None);
    if !place.keep(&quiet) {
        return;
    }
    let out = place.farhop(&["lab", &place.scenario("other", 0.0, Some(2.0)), "--json"]);
    let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
    assert!(report["flows"][0]["delivered_bytes"].as_u64() > Some(0), "{report:#}");
    assert!(place.keep(&quiet));
    let which = place.exec("hill", &["true"]);
    assert_eq!(which.status.code(), Some(2));
    let said = stderr(&which);
    assert!(said.contains("--lab") && said.contains("quiet-1, quiet-2"), "{said}");
    let unknown = stderr(&place.farhop(&["top", "--lab", "third"]));
    let right = "no lab 'third' is running; running: quiet-1, quiet-2";
    assert!(unknown.contains(right), "{unknown}");
    let named = place.farhop(&["lab", "exec", "--lab", "quiet-2", "hill", "--", "true"]);
    assert!(named.status.success(), "{}", stderr(&named));
    let several = place.farhop(&["lab", "down", "quiet"]);
    assert!(stderr(&several).contains("quiet-1, quiet-2; `farhop lab down ID`"), "by scenario");
    assert!(place.farhop(&["lab", "down", "quiet-1"]).status.success());
    assert_eq!(place.labs().len(), 1);
    place.assert_ping("10.66.0.2", "3");
    assert!(place.farhop(&["lab", "down", "quiet"]).status.success());
    place.assert_empty();
}

#[test]
#[ignore = "system: namespaces and processes"]
fn labs_of_the_same_name_in_two_runtime_directories_do_not_end_each_other() {
    let (one, two) = (Place::new("one"), Place::new("other"));
    if !one.keep(&one.scenario("same", 0.0, None)) {
        return;
    }
    assert!(two.keep(&two.scenario("same", 0.0, None)));
    assert_eq!(one.labs()[0]["id"], two.labs()[0]["id"]);
    assert!(two.farhop(&["lab", "down"]).status.success());
    two.assert_empty();
    one.assert_ping("10.66.0.2", "3");
}
