//! `cargo xtask profile`: a profile of farhop's branches for the compiler (PGO).
//!
//! Builds farhop with counters, simulates every file of `scenarios` with it, and writes the counts
//! to `profile/farhop.profdata`, which release builds read (Makefile). With another version of the
//! compiler, and for functions changed since, the profile has no effect.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::build;
use crate::scratch::Scratch;

/// The file of the profile, relative to the workspace.
const COUNTED: &str = "profile/farhop.profdata";

/// Measures the profile, and writes its file.
pub(crate) fn run(root: &Path) -> Result<()> {
    let merge = profdata()?;
    let farhop = build::farhop_counting()?;
    let folder = Scratch::new()?;
    let files = scenarios(&root.join("scenarios"))?;
    for (index, file) in files.iter().enumerate() {
        eprintln!("{} of {}: {}", index + 1, files.len(), file.display());
        let mut sim = Command::new(&farhop);
        sim.arg("sim").arg(file).arg("--json").stdout(Stdio::null()).stderr(Stdio::null());
        sim.env("LLVM_PROFILE_FILE", folder.path().join("%p.profraw"));
        ensure!(sim.status()?.success(), "farhop sim {} fails", file.display());
    }
    let merged = Command::new(&merge)
        .args(["merge", "--sparse", "--output"])
        .arg(root.join(COUNTED))
        .arg(folder.path())
        .status()?;
    ensure!(merged.success(), "{} fails", merge.display());
    println!("{COUNTED} is written; commit it");
    Ok(())
}

/// All scenarios in a folder and its subfolders.
fn scenarios(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(scenarios(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// `llvm-profdata` of the compiler in use: that of another version does not know its format.
fn profdata() -> Result<PathBuf> {
    let ask = |what: &[&str]| -> Result<String> {
        let said = Command::new("rustc").args(what).output().context("rustc does not start")?;
        Ok(String::from_utf8(said.stdout)?)
    };
    let sysroot = ask(&["--print", "sysroot"])?;
    let version = ask(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV does not say its host")?;
    let tool = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/llvm-profdata");
    ensure!(tool.exists(), "there is no llvm-profdata: rustup component add llvm-tools");
    Ok(tool)
}
