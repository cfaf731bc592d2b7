//! Reads the recordings of losses that a scenario names.

use std::sync::Arc;

use farhop_proto::stack::{LossTrace, Problem, Scenario, TraceError};

use super::files::Files;

/// Reads the recordings into a scenario. Returns a problem for each that cannot be read.
pub(super) fn read(scenario: &mut Scenario, files: &Files) -> Vec<Problem> {
    let mut problems = Vec::new();
    let traces = scenario.losses_mut().flat_map(|(place, loss)| {
        loss.recordings_mut().into_iter().map(move |trace| (place.clone(), trace))
    });
    for (place, trace) in traces {
        let other = || "a file that `farhop sim --losses FILE` wrote".to_owned();
        let told = |error: TraceError| match &error {
            TraceError::Link { known } => {
                (error.to_string(), format!("link = \"{}\"", known.join("\", or \"")))
            }
            _ => (error.to_string(), other()),
        };
        let recording = files
            .text(&trace.file)
            .map_err(|error| (error, other()))
            .and_then(|text| LossTrace::parse(&text, trace.link.as_deref()).map_err(told));
        match recording {
            Ok(recording) => trace.recording = Some(Arc::new(recording)),
            Err((error, help)) => problems.push(Problem {
                path: place,
                message: format!("the recording {}: {error}", files.path(&trace.file).display()),
                help,
            }),
        }
    }
    problems
}
