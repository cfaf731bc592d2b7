//! Reads the recordings of losses that a scenario names, which stand beside it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use farhop_proto::stack::{LossTrace, Problem, Scenario};

/// Puts the recordings into a scenario. Says what is wrong with those that cannot be read.
pub(super) fn read(scenario: &mut Scenario, folder: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, loss) in scenario.losses_mut() {
        let Some(trace) = loss.recording_mut() else { continue };
        let file = folder.join(&trace.file);
        let text = fs::read_to_string(&file).map_err(|error| error.to_string());
        let recording = text.and_then(|text| {
            LossTrace::parse(&text, trace.link.as_deref()).map_err(|error| error.to_string())
        });
        match recording {
            Ok(recording) => trace.recording = Some(Arc::new(recording)),
            Err(error) => problems.push(Problem {
                path: place,
                message: format!("the recording {}: {error}", file.display()),
                help: "a file that `farhop sim --losses FILE` wrote".into(),
            }),
        }
    }
    problems
}
