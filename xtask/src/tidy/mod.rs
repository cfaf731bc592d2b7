//! `cargo xtask tidy`: the rules of this workspace that the compiler does not check.
//!
//! | module | rules |
//! |---|---|
//! | [`crates`] | which crate may depend on which |
//! | [`ranks`] | which part of `proto` may name which |
//! | [`sizes`] | lines of a file, of a function, columns of a line |
//! | [`words`] | function names, module documents, `unsafe`, leftovers in code |
//! | [`text`] | paths of one machine and reminders in any tracked file |

mod crates;
mod ranks;
mod sizes;
mod source;
mod text;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use farhop_proto::base::counted;

use source::Source;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root of the workspace.
    path: PathBuf,
    /// Line, from 1.
    line: usize,
    /// The rule's name.
    rule: &'static str,
    /// What is wrong, and what would be right.
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.rule, self.message)
    }
}

/// Checks the whole workspace and prints what is wrong.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let files = files(root)?;
    let mut findings = crates::check(root)?;
    let places = text::Places::of_this_machine(root);
    for path in &files {
        // A tracked file may be deleted or a link; other bytes than text have no lines.
        let Ok(content) = std::fs::read_to_string(root.join(path)) else { continue };
        findings.extend(text::check(path, &content, &places));
        if path.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(check_source(path, &content));
        }
    }
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {}, nothing found", counted(files.len(), "file"));
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} found in {}", findings.len(), counted(files.len(), "file"));
    Ok(ExitCode::FAILURE)
}

fn check_source(path: &Path, content: &str) -> Vec<Finding> {
    let source = match Source::parse(path, content) {
        Ok(source) => source,
        Err(finding) => return vec![finding],
    };
    let mut findings = ranks::check(&source);
    findings.extend(sizes::check(&source));
    findings.extend(words::check(&source));
    findings
}

/// The files that git tracks or would track.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("tidy asks git for the list of files, and git cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tidy asks git for the list of files: {}", said.trim());
    let list = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<PathBuf> = list.split_terminator('\0').map(PathBuf::from).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_rule_and_remedy() {
        let finding = Finding {
            path: "proto/src/link/x.rs".into(),
            line: 7,
            rule: "rank",
            message: "link may not name routing".into(),
        };
        assert_eq!(finding.to_string(), "proto/src/link/x.rs:7: rank: link may not name routing");
    }

    #[test]
    fn a_source_that_does_not_parse_is_found_with_its_place() {
        let findings = check_source(Path::new("a.rs"), "//! A.\nfn 7() {}\n");
        assert_eq!((findings.len(), findings[0].line, findings[0].rule), (1, 2, "syntax"));
    }
}
