//! `farhop schema`: the JSON Schema of scenario files, for editors.

use farhop_proto::stack::Scenario;

use super::print_json;
use crate::Failure;

/// Prints the JSON Schema of scenario files: every key, with its type and meaning.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop schema > farhop.schema.json\n  \
    farhop schema | jq '.properties | keys'")]
pub(crate) struct Options {}

pub(crate) fn run(_: &Options) -> Result<(), Failure> {
    print_json(&schemars::schema_for!(Scenario))
}
