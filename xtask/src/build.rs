//! Builds the program that the measurements run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

/// Prefixes of environment variables that `cargo run` and `make` set for their children. Build
/// scripts of dependencies (ring's) watch the same names, and would rebuild what `make build` built
/// without them.
const OWN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "MAKE"];

/// Builds farhop as a release, as the Makefile says, and returns its path.
pub(crate) fn farhop() -> Result<PathBuf> {
    let mut make = command("make");
    make.args(["--silent", "--no-print-directory", "build"]).current_dir(crate::workspace()?);
    ensure!(make.status()?.success(), "farhop does not build");
    Ok(target().join("release").join("farhop"))
}

/// Builds farhop with debug assertions, like tests.
pub(crate) fn farhop_debug() -> Result<PathBuf> {
    build(&[], &target(), "debug")
}

/// Builds a release of farhop with counters. Programs that run during the build write counts too,
/// which are of no use and stay in its folder.
pub(crate) fn farhop_counting() -> Result<PathBuf> {
    let folder = target().join("counting");
    let built = crate::workspace()?.join(&folder).join("built");
    let flag = format!("-Cprofile-generate={}", built.display());
    let flags = format!("build.rustflags=[{flag:?}]");
    build(&["--release", "--config", &flags], &folder, "release")
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from)
}

fn build(profile: &[&str], target: &Path, folder: &str) -> Result<PathBuf> {
    let mut cargo = command(env!("CARGO"));
    cargo.args(["build", "--bin", "farhop", "--target-dir"]).arg(target).args(profile);
    ensure!(cargo.status()?.success(), "farhop does not build");
    Ok(target.join(folder).join("farhop"))
}

/// A command without these variables, as if a person had typed it.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            command.env_remove(name);
        }
    }
    command
}
