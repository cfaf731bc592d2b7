//! `cargo xtask validate`: compares the simulator with theory, an independent simulator and the
//! kernel.
//!
//! | group | compared with |
//! |---|---|
//! | [`airtime`] | figures that practitioners know |
//! | [`bianchi`] | Bianchi's model of saturated stations |
//! | [`ns3`] | ns-3 3.37: saturation, chains, long links |
//! | [`distance`] | stop-and-wait over kilometres, in closed form |
//! | [`edca`] | a fixed point with contention zones (Robinson and Randhawa 2004) |
//! | [`ht`] | air time of 802.11n and ac, worked out by hand |
//! | [`hop`] | `farhop send` with `curl` over TCP of the kernel, over the same air |
//! | [`harq`] | Table I of the LL-HARQ paper; LL-ARQ in closed form |
//! | [`kernel`] | TCP of the kernel, over the lab's emulated air |
//! | [`security`] | the same without keys, the same with noise in place of an attack |
//! | [`determinism`] | itself |
//! | [`growth`] | itself with fewer nodes |
//! | [`speed`] | ns-3 on the same machine |
//!
//! Each group is a module with one function `rows`; a row judges itself. Nothing here is tuned: a
//! row that fails stays red.

mod airtime;
mod bianchi;
mod cell;
mod chain;
mod determinism;
mod distance;
mod document;
mod edca;
mod grid;
mod growth;
mod harq;
mod hop;
mod ht;
mod kernel;
mod ns3;
mod points;
mod program;
mod row;
mod security;
mod speed;
mod table;
pub(crate) mod workers;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

pub(crate) use row::{Row, Tolerance};

/// Options of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Make shorter runs at fewer points, against committed references only, as in CI.
    #[arg(long)]
    quick: bool,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Only this group. May be given several times.
    #[arg(long, value_enum, value_name = "GROUP")]
    only: Vec<Group>,
    /// Run ns-3 alongside, instead of comparing with its recorded results.
    #[arg(long)]
    ns3: bool,
    /// First measure the kernel's TCP again at the N points with the oldest measurements: a few
    /// minutes each, on an otherwise idle machine.
    #[arg(long, value_name = "N", default_value_t = 0)]
    labs: usize,
    /// Write the tables to docs/validation.md, replacing those of the same groups.
    #[arg(long)]
    write: bool,
}

/// A group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Air time of frames.
    Airtime,
    /// Saturated stations against Bianchi's model.
    Bianchi,
    /// Saturation, chains and long links against ns-3.
    Ns3,
    /// Stop-and-wait over kilometres, in closed form.
    Distance,
    /// Shares of two access categories under EDCA.
    Edca,
    /// A single link of 802.11n or ac.
    Ht,
    /// LL-HARQ and LL-ARQ on the abstract link of their paper.
    Harq,
    /// Files in blocks compared with TCP of the kernel, in the lab.
    Hop,
    /// The simulator's TCP compared with the kernel's in the lab.
    Kernel,
    /// The cost of sealing, and attacks by strangers.
    Security,
    /// The same trace hash for the same file and seed.
    Determinism,
    /// The cost of a reception and of a node as the network grows.
    Growth,
    /// Simulated time per wall time, compared with ns-3.
    Speed,
}

impl Group {
    /// The heading of the group.
    fn title(self) -> &'static str {
        match self {
            Self::Airtime => "Air time against figures that practitioners know",
            Self::Bianchi => "Saturated stations against Bianchi's model",
            Self::Ns3 => "Saturation, chains and long links against ns-3 3.37",
            Self::Distance => "Stop-and-wait over kilometres against the closed form",
            Self::Edca => "Shares of access categories against Robinson and Randhawa",
            Self::Ht => "802.11n and ac: one link against the closed form",
            Self::Harq => "LL-HARQ beside Table I of its paper, LL-ARQ beside the closed form",
            Self::Hop => "Blocks hop by hop beside TCP of the kernel, in the lab",
            Self::Kernel => "TCP against the kernel's, in the lab",
            Self::Security => "What sealing costs, and what strangers achieve",
            Self::Determinism => "The same file and seed: the same trace",
            Self::Growth => "What growth costs",
            Self::Speed => "Simulated seconds per wall second beside Debian's ns-3",
        }
    }

    fn rows(self, options: &Options, root: &Path) -> Result<Vec<Row>> {
        let quick = options.quick;
        match self {
            Self::Airtime => airtime::rows(quick),
            Self::Bianchi => bianchi::rows(quick),
            Self::Ns3 => ns3::rows(quick, options.ns3, root),
            Self::Distance => distance::rows(quick),
            Self::Edca => edca::rows(quick),
            Self::Ht => ht::rows(quick),
            Self::Harq => harq::rows(quick, root),
            Self::Hop => hop::rows(quick),
            Self::Kernel => kernel::rows(options.labs, root),
            Self::Security => security::rows(quick, root),
            Self::Determinism => determinism::rows(root),
            Self::Growth => growth::rows(quick, root),
            Self::Speed => speed::rows(root),
        }
    }

    /// Whether the group is part of `--quick`.
    fn is_quick(self) -> bool {
        match self {
            Self::Airtime | Self::Bianchi | Self::Ns3 | Self::Distance => true,
            Self::Edca | Self::Ht | Self::Harq | Self::Determinism => true,
            // It measures time, which other work on the machine disturbs.
            Self::Growth => false,
            // They need the rights of a lab, and a machine that keeps up with real time.
            Self::Hop | Self::Kernel | Self::Security => false,
            // It needs ns-3 on this machine.
            Self::Speed => false,
        }
    }
}

/// The rows of a group, or why it could not be measured.
pub(crate) struct Section {
    group: Group,
    rows: Result<Vec<Row>>,
}

impl Section {
    fn is_ok(&self) -> bool {
        self.rows.as_ref().is_ok_and(|rows| rows.iter().all(|row| row.ok))
    }
}

/// Measures the selected groups; the exit status is 1 if a row fails or a group could not be
/// measured.
pub(crate) fn run(options: &Options, root: &Path) -> Result<ExitCode> {
    let mut sections = Vec::new();
    for &group in Group::value_variants() {
        let is_wanted = match options.only.as_slice() {
            [] => !options.quick || group.is_quick(),
            only => only.contains(&group),
        };
        if !is_wanted {
            continue;
        }
        let section = Section { group, rows: group.rows(options, root) };
        if !options.json {
            print!("{}", table::section(&section));
        }
        sections.push(section);
    }
    if options.json {
        println!("{}", table::json(&sections)?);
    } else {
        print!("{}", table::summary(&sections));
    }
    if options.write {
        let path = root.join("docs/validation.md");
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, document::updated(&old, &sections, options.quick))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if sections.iter().all(Section::is_ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
