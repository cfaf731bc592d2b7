//! Labs of other users on this host. Their folders are not accessible to us, but the command lines
//! of their processes show where they are.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::programs::processes;

/// First argument of an air's process, of which each lab has one.
const AIR_COMMAND: &str = "lab-air";
/// Default runtime folder of root.
const ROOTS: &str = "/run/farhop";

/// A lab of another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its id.
    pub id: String,
    /// Name of its user, or `#` and the number of a user without a name here.
    pub user: String,
    /// Its runtime folder.
    pub runtime: PathBuf,
}

impl fmt::Display for Foreign {
    /// Says whose lab it is, and how to reach it. The path of its folder comes from another user:
    /// if a shell could take it for more than a path, it is left out of the command to be copied.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, user, runtime } = self;
        write!(f, "lab {id} is of {user}")?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let runtime = runtime.to_str().filter(|runtime| runtime.chars().all(is_plain));
        let Some(runtime) = runtime else { return Ok(()) };
        write!(f, ": `sudo ")?;
        match user.as_str() {
            "root" => {}
            // Unquoted it would begin a comment.
            number if number.starts_with('#') => write!(f, "-u '{number}' ")?,
            name => write!(f, "-u {name} ")?,
        }
        if user != "root" || runtime != ROOTS {
            write!(f, "env FARHOP_RUNTIME_DIR={runtime} ")?;
        }
        write!(f, "farhop lab ...`")
    }
}

/// The labs of other users, as far as the system shows their processes.
pub fn foreign() -> Vec<Foreign> {
    let us = rustix::process::geteuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let lab = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let uid: u32 = uid.split_ascii_whitespace().next()?.parse().ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let (id, runtime) = (uid != us).then(|| place_of(&command))??;
        Some(Foreign { id, user: name_of(uid, &users), runtime })
    };
    let mut found: Vec<Foreign> = processes().filter_map(lab).collect();
    found.sort_by(|a, b| (&a.user, &a.id).cmp(&(&b.user, &b.id)));
    found
}

/// An addition to messages that no lab was found: the labs of other users.
pub fn but_foreign() -> String {
    foreign().iter().map(|lab| format!("; {lab}")).collect()
}

/// Id and runtime folder of a lab, from the command line of its air. These come from another user:
/// `None` if a lab of ours could not have them.
fn place_of(command: &[u8]) -> Option<(String, PathBuf)> {
    let mut words = command.split(|byte| *byte == 0).map(|word| str::from_utf8(word).ok());
    words.nth(1)?.filter(|word| *word == AIR_COMMAND)?;
    let mut words = words.skip_while(|word| *word != Some("--state"));
    let dir = Path::new(words.nth(1)??);
    let is_plain = |text: &str| !text.contains(|c: char| c.is_control() || c.is_whitespace());
    let id = dir.file_name()?.to_str()?;
    let runtime = dir.parent().filter(|labs| labs.ends_with("labs"))?.parent()?;
    is_plain(dir.to_str()?).then(|| (id.into(), runtime.into()))
}

/// The name of a user.
fn name_of(uid: u32, users: &str) -> String {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    users.lines().find_map(name).unwrap_or_else(|| format!("#{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_of_somebody_else_is_known_by_the_command_line_of_its_air() {
        let of = |words: &[&str]| place_of(words.join("\0").as_bytes());
        let air = ["/usr/bin/farhop", "lab-air", "--state", "/run/farhop/labs/a-1", "--parent"];
        assert_eq!(of(&air), Some(("a-1".into(), "/run/farhop".into())));
        for (at, word) in [(1, "lab-node"), (3, "/run/farhop/a-1"), (3, "/x/labs/a\u{1b}[2J-1")] {
            let mut other = air;
            other[at] = word;
            assert_eq!(of(&other), None, "{other:?}");
        }
        assert_eq!(of(&air[..3]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn it_is_said_whose_a_lab_is_and_how_to_get_at_it() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbob:x:1001:1001:::/bin/sh\n";
        assert_eq!([0, 1001, 7].map(|uid| name_of(uid, users)), ["root", "bob", "#7"]);
        let lab = |user: &str, runtime: &str| {
            let (user, runtime) = (user.into(), runtime.into());
            Foreign { id: "a-1".into(), user, runtime }.to_string()
        };
        assert_eq!(lab("root", "/run/farhop"), "lab a-1 is of root: `sudo farhop lab ...`");
        let bobs = "lab a-1 is of bob: `sudo -u bob env FARHOP_RUNTIME_DIR=/tmp/b farhop lab ...`";
        assert_eq!(lab("bob", "/tmp/b"), bobs);
        let nobodys =
            "lab a-1 is of #7: `sudo -u '#7' env FARHOP_RUNTIME_DIR=/tmp/b farhop lab ...`";
        assert_eq!(lab("#7", "/tmp/b"), nobodys);
        for trap in ["/tmp/;reboot;", "/tmp/$(reboot)", "/tmp/`reboot`", "/tmp/a&b", "/tmp/é"] {
            assert_eq!(lab("bob", trap), "lab a-1 is of bob");
            assert_eq!(lab("root", trap), "lab a-1 is of root");
        }
    }
}
