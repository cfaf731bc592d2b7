//! Building the program that the measurements run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

/// What `cargo run` tells xtask of itself. Build scripts of dependencies (ring's) look at the same
/// names, and would build again what `make build` has built without them. What `make` tells of
/// itself is for those that it starts itself.
const OWN: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "MAKE"];

/// Builds farhop in release form, and says where it is. How that is done stands in the Makefile.
pub(crate) fn farhop() -> Result<PathBuf> {
    let mut make = command("make");
    make.args(["--silent", "--no-print-directory", "build"]).current_dir(crate::workspace()?);
    ensure!(make.status()?.success(), "farhop does not build");
    Ok(target().join("release").join("farhop"))
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
    let flag = format!("-Cprofile-generate={}", built.display());
    let flags = format!("build.rustflags=[{flag:?}]");
    build(&["--release", "--config", &flags], &folder, "release")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from)
}

fn build(profile: &[&str], target: &Path, folder: &str) -> Result<PathBuf> {
    let mut cargo = command(env!("CARGO"));
    cargo.args(["build", "--bin", "farhop", "--target-dir"]).arg(target).args(profile);
    ensure!(cargo.status()?.success(), "farhop does not build");
    Ok(target.join(folder).join("farhop"))
}

/// A program that builds as if a person had typed it.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            command.env_remove(name);
        }
    }
    command
}
