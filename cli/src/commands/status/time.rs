//! Whether a daemon stood still or the time of day was set, as text.

use farhop_proto::base::counted;
use serde_json::Value;

/// Interruptions of a daemon's time, if there were any.
pub(super) fn describe_upsets(status: &Value) -> String {
    let told = |key: &str, what: &str, by: &str, why: &str| {
        let upset = &status[key];
        let Some(times) = upset["times"].as_u64() else { return String::new() };
        let seconds = |key: &str| upset[key].as_f64().unwrap_or(0.0);
        let (longest, ago) = (seconds("longest_s"), seconds("last_ago_s"));
        let times = counted(times, "time");
        format!("  {what} {times}, {by} {longest:.1} s at most, last {ago:.0} s ago{why}\n")
    };
    let why = ": stopped, suspended, or without processor time";
    told("stood_still", "STOOD STILL", "for", why)
        + &told("time_set", "the time of day was set", "by", "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_upset_a_daemon_in_time_is_told_if_something_did() {
        let none = json!({ "stood_still": null, "time_set": null });
        assert_eq!(describe_upsets(&none), "");
        let both = json!({
            "stood_still": { "times": 2, "longest_s": 12.34, "last_ago_s": 40.2 },
            "time_set": { "times": 1, "longest_s": 3_600.0, "last_ago_s": 5.0 }
        });
        let lines = describe_upsets(&both);
        assert_eq!(
            lines,
            "  STOOD STILL 2 times, for 12.3 s at most, last 40 s ago: stopped, suspended, or \
             without processor time\n  the time of day was set 1 time, by 3600.0 s at most, last \
             5 s ago\n"
        );
        assert!(super::super::describe(&both, None).contains(&lines));
    }
}
