//! What is impossible in a loss process.

use super::Found;
use crate::stack::scenario::LossConfig;

pub(super) fn check_loss(found: &mut Found, path: &str, loss: &LossConfig) {
    match *loss {
        LossConfig::Bernoulli { p } => found.number(path.into(), p, 0.0..=1.0, "a loss"),
        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
            found.number(
                format!("{path}.good_ms"),
                good_ms,
                1e-3..=1e9,
                "a mean stay in milliseconds",
            );
            found.number(
                format!("{path}.bad_ms"),
                bad_ms,
                1e-3..=1e9,
                "a mean stay in milliseconds",
            );
            found.number(format!("{path}.good_loss"), good_loss, 0.0..=1.0, "a loss");
            found.number(format!("{path}.bad_loss"), bad_loss, 0.0..=1.0, "a loss");
        }
    }
}
