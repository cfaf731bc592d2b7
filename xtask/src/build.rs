//! Building the program that the measurements run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::profile;

/// What `cargo run` tells xtask of itself. Build scripts of dependencies (ring's) look at the same
/// names, and would build again what `make build` has built without them.
const OWN: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// Builds farhop in release form, as `make build` does, and says where it is.
pub(crate) fn farhop() -> Result<PathBuf> {
    let counted = crate::workspace()?.join(profile::COUNTED);
    let flags = flags(&format!("-Cprofile-use={}", counted.display()));
    build(&["--release", "--config", &flags], &target(), "release")
}

/// The same with debug assertions, as tests are built.
pub(crate) fn farhop_debug() -> Result<PathBuf> {
    build(&[], &target(), "debug")
}

/// The same in release form, with counters. What programs leave that run while it is built is of
/// no use, and stays in its folder.
pub(crate) fn farhop_counting() -> Result<PathBuf> {
    let folder = target().join("counting");
    let built = crate::workspace()?.join(&folder).join("built");
    let flags = flags(&format!("-Cprofile-generate={}", built.display()));
    build(&["--release", "--config", &flags], &folder, "release")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from)
}

/// A flag for the compiler, as cargo takes it.
fn flags(flag: &str) -> String {
    format!("build.rustflags=[{flag:?}]")
}

fn build(profile: &[&str], target: &Path, folder: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            cargo.env_remove(name);
        }
    }
    let cargo = cargo.args(["build", "--bin", "farhop", "--target-dir"]).arg(target).args(profile);
    ensure!(cargo.status()?.success(), "farhop does not build");
    Ok(target.join(folder).join("farhop"))
}
