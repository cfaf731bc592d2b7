//! The nftables table that sends TCP connections to the proxy.
//!
//! The name of the table has the id and start time of its process, and its PID namespace. So the
//! next proxy in that namespace recognises tables of dead processes, and removes them.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output, Stdio};

use farhop_proto::base::Prefix;

use super::MARK;

/// Prefix of the names of all tables.
const TABLE: &str = "farhop_proxy_";
/// Addresses that are local to a host or link: connections to them are never redirected.
const LOCAL_4: &str = "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3";
const LOCAL_6: &str = "::1, fe80::/10, ff00::/8";

/// Why connections cannot be redirected.
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    /// `nft` cannot be run.
    #[error("nft cannot be run ({0}); it is in the package nftables")]
    NoProgram(io::Error),
    /// `nft` reported an error.
    #[error("nft refuses: {0}; redirecting needs the right to change the network (root)")]
    Refused(String),
}

/// The addresses to which connections are redirected, as far as they are not local.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Never.
    pub never: Vec<Prefix>,
    /// Apart from those.
    pub named: Vec<Prefix>,
    /// Everything else except these prefixes; `None` for nothing else.
    pub others_except: Option<Vec<Prefix>>,
}

/// The redirection, which is removed when this is dropped.
#[derive(Debug)]
pub struct Redirect {
    table: String,
}

impl Redirect {
    /// Redirects TCP connections of this host, and those that it forwards, to a local port.
    ///
    /// Fails if `nft` is missing or not permitted.
    pub fn install(port: u16, targets: &Targets) -> Result<Self, RedirectError> {
        let own = u64::from(std::process::id());
        let table = format!("{TABLE}{own}_{}_{}", began(own).unwrap_or(0), namespace());
        run(&["-f", "-"], &script(&table, port, targets))?;
        Ok(Self { table })
    }

    /// Other running processes whose tables redirect connections of this host.
    ///
    /// Fails if `nft` is missing or not permitted.
    pub fn others() -> Result<Vec<u32>, RedirectError> {
        let listed = tables()?;
        let alive = listed.split_whitespace().filter(|name| !is_dead(name));
        let process = |name: &str| name.strip_prefix(TABLE)?.split_once('_')?.0.parse().ok();
        Ok(alive.filter_map(process).filter(|pid| *pid != std::process::id()).collect())
    }

    /// Removes the tables of dead processes. Returns how many there were.
    ///
    /// Fails if `nft` is missing or not permitted.
    pub fn clean() -> Result<usize, RedirectError> {
        let listed = tables()?;
        let mut removed = 0;
        for name in listed.split_whitespace().filter(|name| is_dead(name)) {
            // Another proxy may be removing it at the same time; this way a missing table is no
            // error.
            run(&["-f", "-"], &format!("add table inet {name}\ndelete table inet {name}\n"))?;
            removed += 1;
        }
        Ok(removed)
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        if let Err(error) = run(&["delete", "table", "inet", &self.table], "") {
            tracing::warn!("connections are still redirected: {error}");
        }
    }
}

/// The output of `nft` about existing tables; each name is a word of it.
fn tables() -> Result<String, RedirectError> {
    let listed = run(&["list", "tables", "inet"], "")?;
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// The table as a script for `nft`.
fn script(table: &str, port: u16, targets: &Targets) -> String {
    let mut rules = format!("meta mark {MARK:#x} return\nmeta l4proto != tcp return\n");
    rules += "fib daddr type local return\n";
    rules += &format!("ip daddr {{ {LOCAL_4} }} return\nip6 daddr {{ {LOCAL_6} }} return\n");
    let family = |prefix: &Prefix| if prefix.is_ipv4() { "ip" } else { "ip6" };
    let of_each = |prefixes: &[Prefix], verdict: &str| {
        let rule = |it: &Prefix| format!("meta l4proto tcp {} daddr {it} {verdict}\n", family(it));
        prefixes.iter().map(rule).collect::<String>()
    };
    let redirect = format!("redirect to :{port}");
    rules += &of_each(&targets.never, "return");
    rules += &of_each(&targets.named, &redirect);
    if let Some(except) = &targets.others_except {
        rules += &of_each(except, "return");
        rules += &format!("meta l4proto tcp {redirect}\n");
    }
    // If two tables redirect, the first decides; a table of our own does not disturb others.
    format!(
        "table inet {table} {{\n\
         chain out {{\ntype nat hook output priority -100; policy accept;\n{rules}}}\n\
         chain through {{\ntype nat hook prerouting priority -100; policy accept;\n\
         {rules}}}\n}}\n"
    )
}

/// Whether a table belongs to a proxy that does not run any more.
fn is_dead(table: &str) -> bool {
    let Some(numbers) = table.strip_prefix(TABLE) else { return false };
    let numbers: Result<Vec<u64>, _> = numbers.split('_').map(str::parse).collect();
    let (pid, at) = match numbers.as_deref() {
        // Processes of other namespaces are not visible here.
        Ok([pid, at, of]) if *of == namespace() => (*pid, *at),
        // Earlier versions left out the namespace.
        Ok([pid, at]) => (*pid, *at),
        _ => return false,
    };
    began(pid) != Some(at)
}

/// The inode of the PID namespace of this process; 0 if it is unknown.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// When a process began, in the kernel's ticks; nothing if it does not run.
fn began(pid: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have spaces; after it come the state, and 18 fields to the start
    // time.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    // A killed process stays in this state until its parent waits for it.
    let is_dead = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !is_dead)
}

fn run(words: &[&str], input: &str) -> Result<Output, RedirectError> {
    let mut command = Command::new("nft");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Folders that are in root's path only.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let mut child = command.spawn().map_err(RedirectError::NoProgram)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If `nft` does not read it, its error says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let out = child.wait_with_output().map_err(RedirectError::NoProgram)?;
    if out.status.success() {
        return Ok(out);
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let first = said.lines().next().unwrap_or("it does not say why");
    Err(RedirectError::Refused(first.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_table_is_dead_once_whoever_began_then_is_gone() {
        let (own, space) = (u64::from(std::process::id()), namespace());
        let at = began(own).expect("it runs");
        assert!(!is_dead(&format!("{TABLE}{own}_{at}_{space}")));
        assert!(is_dead(&format!("{TABLE}{own}_{}_{space}", at + 1)));
        let elsewhere = format!("{TABLE}{own}_{}_{}", at + 1, space + 1);
        assert!(!is_dead(&elsewhere), "a process of another namespace");
        assert!(is_dead(&format!("{TABLE}{own}_{}", at + 1)), "of an earlier version");
        for of_others in ["filter", &format!("{TABLE}notes"), &format!("{TABLE}my_notes")] {
            assert!(!is_dead(of_others), "{of_others}");
        }
    }

    #[test]
    fn a_table_is_dead_once_its_proxy_was_killed_though_nobody_asked_how_it_ended() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("it starts");
        let began = began(child.id().into()).expect("it runs");
        let table = format!("{TABLE}{}_{began}_{}", child.id(), namespace());
        let lived = !is_dead(&table);
        child.kill().expect("it runs");
        let limit = Instant::now() + Duration::from_secs(10);
        while !is_dead(&table) && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        let died = is_dead(&table);
        child.wait().expect("it was started");
        assert!(lived && died, "{lived} {died}");
    }

    #[test]
    fn what_is_local_or_of_the_exit_returns_before_anything_is_redirected() {
        let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
        let own = || vec![prefix("10.66.0.0/16")];
        let never_own = Targets { never: own(), ..Targets::default() };
        let others_except = Some(Vec::new());
        let all = script("t", 1234, &Targets { others_except, ..never_own.clone() });
        let redirect = all.find("redirect to :1234").expect("it is there");
        assert_eq!(all.matches("fib daddr type local return").count(), 2, "in each chain: {all}");
        for before in ["fib daddr", "127.0.0.0/8", "mark 0x6661 return", "10.66.0.0/16 return"] {
            assert!(all.find(before).is_some_and(|at| at < redirect), "{before}: {all}");
        }
        let named = vec![prefix("192.0.2.0/24")];
        let some = script("t", 1234, &Targets { named, ..never_own });
        assert!(some.contains("ip daddr 192.0.2.0/24 redirect to :1234"), "{some}");
        assert_eq!(some.matches("redirect").count(), 2, "nothing else, in each chain: {some}");
    }

    #[test]
    fn an_exit_of_its_own_goes_before_the_route_to_a_network_behind_a_node() {
        let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
        let targets = Targets {
            never: vec![prefix("10.66.0.0/16")],
            named: vec![prefix("10.0.0.0/8")],
            others_except: Some(vec![prefix("10.0.0.0/8"), prefix("192.168.7.0/24")]),
        };
        let script = script("t", 1234, &targets);
        let rules = [
            "ip daddr 10.66.0.0/16 return",
            "ip daddr 10.0.0.0/8 redirect to :1234",
            "ip daddr 10.0.0.0/8 return",
            "ip daddr 192.168.7.0/24 return",
            "meta l4proto tcp redirect to :1234",
        ];
        let places = rules.map(|rule| script.find(rule).unwrap_or_else(|| panic!("{rule}")));
        assert!(places.is_sorted(), "{places:?}: {script}");
    }
}
