//! The lab as an ordinary user.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use farhop_run::lab::has_report;

use crate::place::{Place, stderr};

const TUN: &str = "/dev/net/tun";
/// The user `nobody`.
const NOBODY: u32 = 65534;
/// Open to everybody, as most distributions have it.
const FOR_ALL: u32 = 0o666;

/// Opens `/dev/net/tun` to everybody until it is dropped.
struct OpenTun(std::fs::Permissions);

impl OpenTun {
    fn new() -> Self {
        let before = std::fs::metadata(TUN).expect("there is a TUN device").permissions();
        let open = std::fs::Permissions::from_mode(FOR_ALL);
        std::fs::set_permissions(TUN, open).expect("root may");
        Self(before)
    }
}

impl Drop for OpenTun {
    fn drop(&mut self) {
        let _ = std::fs::set_permissions(TUN, self.0.clone());
    }
}

/// Runs a program as nobody, in the runtime directory of the place as ordinary users have it.
fn as_nobody(place: &Place, words: &[&str]) -> Output {
    Command::new("setpriv")
        .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")])
        .arg("--clear-groups")
        .args(words)
        .env_remove("FARHOP_RUNTIME_DIR")
        .env("XDG_RUNTIME_DIR", place.runtime().parent().expect("it has one"))
        .output()
        .expect("setpriv is missing: run scripts/setup.sh")
}

#[test]
#[ignore = "system: namespaces of an ordinary user"]
fn an_ordinary_user_has_labs_too() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user; the other tests run as this one");
        return;
    }
    let place = Place::new("user");
    if !as_nobody(&place, &["unshare", "--user", "--net", "true"]).status.success() {
        println!("skipped: ordinary users may not make namespaces here");
        return;
    }
    let farhop = place.path("farhop");
    std::fs::copy(env!("CARGO_BIN_EXE_farhop"), &farhop).expect("a copy that all can read");
    std::fs::create_dir_all(place.runtime()).expect("a runtime directory");
    chown(place.runtime(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let short = place.scenario("short", 0.0, Some(1.0));

    let mode = std::fs::metadata(TUN).expect("there is a TUN device").permissions().mode();
    if mode & FOR_ALL != FOR_ALL {
        let out = as_nobody(&place, &[&farhop, "lab", &short]);
        let said = stderr(&out);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("may not open /dev/net/tun"), "{said}");
        assert!(said.contains("run farhop as root"), "what to do: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        place.assert_empty();
    }

    let _open = OpenTun::new();
    let out = as_nobody(&place, &[&farhop, "lab", &short, "--json"]);
    assert!(has_report(out.status), "{}", stderr(&out));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("a report");
    assert!(report["flows"][0]["delivered_bytes"].as_u64() > Some(0), "{report:#}");
    place.assert_empty();

    let quiet = place.scenario("quiet", 0.0, None);
    let out = as_nobody(&place, &[&farhop, "lab", &quiet, "--keep"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let ping = ["lab", "exec", "hill", "--", "ping", "-n", "-c", "5", "-W", "5", "valley"];
    let out = as_nobody(&place, &[&[farhop.as_str()], &ping[..]].concat());
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains(" 0% packet loss"), "{said}{}", stderr(&out));
    let cache = ["lab", "exec", "hill", "--", farhop.as_str(), "cache", "--json"];
    let out = as_nobody(&place, &[&[farhop.as_str()], &cache[..]].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    // Root does not touch it, and says whose it is.
    for words in [&["list"][..], &["down"], &["exec", "hill", "--", "true"], &["down", "quiet-1"]] {
        let out = place.farhop(&[&["lab"], words].concat());
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &stderr(&out);
        let right = "lab quiet-1 is of nobody: `sudo -u nobody env FARHOP_RUNTIME_DIR=";
        assert!(said.contains(right), "{words:?}: {said}");
    }
    let out = as_nobody(&place, &[&farhop, "lab", "down"]);
    assert!(out.status.success(), "{}", stderr(&out));
    place.assert_empty();
    assert!(Path::new(&farhop).exists());
}
