//! `farhop schema`: what a scenario file may say, for editors.

use farhop_proto::stack::Scenario;

use super::print_json;
use crate::Failure;

/// Prints the JSON Schema of scenario files.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop schema > farhop.schema.json\n  \
    farhop schema | jq '.properties | keys'")]
pub(crate) struct Options {}

pub(crate) fn run(_: &Options) -> Result<(), Failure> {
    print_json(&schemars::schema_for!(Scenario))
}
