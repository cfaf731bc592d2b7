//! Building the program that the measurements run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

/// Builds farhop in release form and says where it is.
pub(crate) fn farhop() -> Result<PathBuf> {
    let status =
        Command::new(env!("CARGO")).args(["build", "--release", "-p", "farhop"]).status()?;
    ensure!(status.success(), "farhop does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(target.join("release/farhop"))
}
