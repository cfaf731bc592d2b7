//! Numbers in sentences.

use std::fmt::Display;

/// A count of something that is given in the singular: `1 retry`, `2 retries`, `0 labs`.
pub fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let sounds = ["s", "x", "ch", "sh"];
    match what.strip_suffix('y') {
        _ if count == "1" => format!("{count} {what}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if sounds.iter().any(|sound| what.ends_with(sound)) => format!("{count} {what}es"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let said = [(0, "retry"), (1, "retry"), (2, "retry"), (1, "loss"), (3, "loss"), (5, "way")]
            .map(|(count, what)| counted(count, what));
        assert_eq!(said, ["0 retries", "1 retry", "2 retries", "1 loss", "3 losses", "5 ways"]);
        assert_eq!(counted(format_args!("{:.0}", 1.2), "time"), "1 time");
    }
}
