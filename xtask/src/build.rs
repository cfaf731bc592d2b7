//! Building the program that the measurements run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

/// What `cargo run` tells xtask of itself. Build scripts of dependencies (ring's) look at the same
/// names, and would build again what `make build` has built without them.
const OWN: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// Builds farhop in release form and says where it is.
pub(crate) fn farhop() -> Result<PathBuf> {
    build(&["--release"], "release")
}

/// The same with debug assertions, as tests are built.
pub(crate) fn farhop_debug() -> Result<PathBuf> {
    build(&[], "debug")
}

fn build(profile: &[&str], folder: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.args(["build", "--bin", "farhop"]).args(profile).status()?;
    ensure!(status.success(), "farhop does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(target.join(folder).join("farhop"))
}
