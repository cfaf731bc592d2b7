//! Ranks of the crates: `proto < sim < {run, papers} < cli`, and `testkit` beside them for tests.
//!
//! The dependencies are read from `cargo metadata`, whatever their spelling in a manifest.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Finding;

const RULE: &str = "crate-rank";

/// The crates that each crate may depend on.
const RANKS: &[(&str, &[&str])] = &[
    ("farhop-proto", &[]),
    ("farhop-sim", &["farhop-proto"]),
    ("farhop-run", &["farhop-proto", "farhop-sim"]),
    ("farhop-papers", &["farhop-proto", "farhop-sim"]),
    ("farhop", &["farhop-proto", "farhop-sim", "farhop-run", "farhop-papers"]),
    ("farhop-testkit", &["farhop-proto", "farhop-sim"]),
    ("xtask", &["farhop-proto", "farhop-sim", "farhop-run", "farhop-papers", "farhop"]),
];

const TESTKIT: &str = "farhop-testkit";

/// A dependency of one workspace crate on another.
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    is_dev: bool,
}

/// Checks all dependencies between crates of the workspace.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .context("tidy asks cargo for the crates of the workspace")?;
    let names: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = package.manifest_path.as_std_path();
        let text = std::fs::read_to_string(manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        let path = manifest.strip_prefix(root).unwrap_or(manifest).to_owned();
        for dependency in package.dependencies.iter().filter(|d| names.contains(&&*d.name)) {
            let is_dev = dependency.kind == DependencyKind::Development;
            let edge = Edge { from: &package.name, to: &dependency.name, is_dev };
            findings.extend(complaint(&edge).map(|message| {
                let line = line_of(&text, edge.to);
                Finding { path: path.clone(), line, rule: RULE, message }
            }));
        }
        if !RANKS.iter().any(|(name, _)| *name == package.name.as_str()) {
            findings.push(unknown(path, &package.name));
        }
    }
    Ok(findings)
}

fn unknown(path: PathBuf, name: &str) -> Finding {
    let message = format!(
        "crate {name} has no rank; give it one in xtask/src/tidy/crates.rs, or make it a module"
    );
    Finding { path, line: 1, rule: RULE, message }
}

/// What is wrong with a dependency, if anything.
fn complaint(edge: &Edge<'_>) -> Option<String> {
    let Edge { from, to, is_dev } = *edge;
    if to == TESTKIT {
        return (!is_dev && from != "xtask")
            .then(|| format!("{to} is for tests; put it under [dev-dependencies] of {from}"));
    }
    let (_, allowed) = RANKS.iter().find(|(name, _)| *name == from)?;
    if allowed.contains(&to) {
        return None;
    }
    let allowed = if allowed.is_empty() { "no crate of ours".into() } else { allowed.join(", ") };
    Some(format!("{from} may not depend on {to}; it may depend on {allowed}"))
}

/// The line of a manifest that names a dependency, or the first line.
fn line_of(manifest: &str, name: &str) -> usize {
    let found = manifest.lines().position(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    });
    found.map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str, is_dev: bool) -> bool {
        complaint(&Edge { from, to, is_dev }).is_some()
    }

    #[test]
    fn edges_go_down_the_ranks_only() {
        assert!(!refused("farhop-sim", "farhop-proto", false));
        assert!(!refused("farhop", "farhop-run", false));
        assert!(refused("farhop-proto", "farhop-sim", false));
        assert!(refused("farhop-run", "farhop-papers", false));
        assert!(refused("farhop-papers", "farhop-run", false));
        assert!(refused("farhop-sim", "farhop-run", true), "tests keep the ranks too");
    }

    #[test]
    fn the_test_tools_are_for_tests() {
        assert!(!refused("farhop-proto", "farhop-testkit", true));
        assert!(refused("farhop-proto", "farhop-testkit", false));
        assert!(!refused("farhop-testkit", "farhop-proto", false));
        assert!(!refused("xtask", "farhop-testkit", false), "it checks against the same oracles");
    }

    #[test]
    fn the_line_of_a_dependency_is_found() {
        let manifest = "[dependencies]\nfarhop-proto-x = \"1\"\nfarhop-proto.workspace = true\n";
        assert_eq!(line_of(manifest, "farhop-proto"), 3);
        assert_eq!(line_of(manifest, "farhop-sim"), 1);
    }
}
