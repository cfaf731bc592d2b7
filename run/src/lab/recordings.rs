//! Passes recordings of losses to the air of a lab, which plays them back. The scenario file of a
//! lab names only their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use farhop_proto::base::Duration;
use farhop_proto::stack::{LossTrace, Scenario, TraceConfig};

use super::{Doing as _, LabError};

fn file(dir: &Path) -> PathBuf {
    dir.join("recordings.json")
}

/// The recordings of a scenario, in its order.
fn all(scenario: &mut Scenario) -> impl Iterator<Item = &mut TraceConfig> {
    scenario.losses_mut().flat_map(|(_, loss)| loss.recordings_mut())
}

/// Writes the recordings of a scenario to a file for the air.
pub(super) fn write(dir: &Path, scenario: &mut Scenario) -> Result<(), LabError> {
    let recordings: Vec<Option<&LossTrace>> =
        all(scenario).map(|trace| trace.recording.as_deref()).collect();
    let text = serde_json::to_vec(&recordings).expect("a recording is plain data");
    let file = file(dir);
    fs::write(&file, text).doing(file.display().to_string())
}

/// Puts the recordings into the air's scenario.
pub(super) fn read(dir: &Path, scenario: &mut Scenario) -> Result<()> {
    let file = file(dir);
    let text = fs::read(&file).with_context(|| file.display().to_string())?;
    let recordings: Vec<Option<LossTrace>> =
        serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    for (trace, recording) in all(scenario).zip(recordings) {
        trace.recording = recording.map(Arc::new);
    }
    Ok(())
}

/// Puts lossless recordings in their place. A plan only needs to know that there is a recording,
/// and reading a long one would take each node much time.
pub(super) fn stand_in(scenario: &mut Scenario) {
    // Rounded up, as it must last for the run.
    let length = Duration::from_secs_f64(scenario.duration_s.ceil());
    let lossless = Arc::new(LossTrace::lossless(length));
    all(scenario).for_each(|trace| trace.recording = Some(Arc::clone(&lossless)));
}
