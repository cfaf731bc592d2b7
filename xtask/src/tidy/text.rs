//! Text that no tracked file may contain: reminders, and places of one machine (a home, the folder
//! of the checkout, a package registry).

use std::path::Path;

use super::Finding;

/// Reminders: what they stand for is either done, or belongs in an issue.
const REMINDERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Folders that belong to one person or one machine.
const FOLDERS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];
/// Parts of the names of package registries and their mirrors.
const REGISTRIES: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi.", "org"),
    concat!("files.python", "hosted.org"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("deb.", "debian.org"),
    concat!("artifact", "ory"),
    concat!("/simple", "/\""),
];

/// Places of the machine that the check runs on.
pub(super) struct Places(Vec<String>);

impl Places {
    /// The checkout, and the home of the user who runs the check.
    pub(super) fn of_this_machine(root: &Path) -> Self {
        let home = std::env::var("HOME").unwrap_or_default();
        let places = [root.display().to_string(), home];
        Self(places.into_iter().filter(|place| place.matches('/').count() > 1).collect())
    }
}

/// Checks the text of a tracked file.
pub(super) fn check(path: &Path, content: &str, places: &Places) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, text) in content.lines().enumerate() {
        let mut add = |rule, message| {
            findings.push(Finding { path: path.to_owned(), line: index + 1, rule, message });
        };
        if let Some(word) = REMINDERS.iter().find(|word| has_word(text, word)) {
            add("reminder", format!("{word}: do it now, or open an issue and say nothing here"));
        }
        let folder = FOLDERS.iter().find(|folder| has_absolute(text, folder));
        let place = places.0.iter().find(|place| text.contains(place.as_str()));
        if let Some(place) = folder.copied().or(place.map(String::as_str)) {
            add("absolute-path", format!("{place} is a place of one machine; use a relative path"));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| text.contains(**host)) {
            add("registry", format!("{host}: which registry is used is a setting of the machine"));
        }
    }
    findings
}

/// Whether a text contains a word by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

/// Whether a text contains a folder at the start of a path, not in the middle of one.
fn has_absolute(text: &str, folder: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-.~}$)*".contains(c);
    text.match_indices(folder).any(|(at, _)| !text[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<&'static str> {
        let places = Places(vec!["/data/checkout".into()]);
        check(Path::new("a.md"), text, &places).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn reminders_are_found_as_whole_words() {
        for word in REMINDERS {
            assert_eq!(rules(&format!("// {word}: later")), ["reminder"]);
            assert!(rules(&format!("mktemp a{word}X")).is_empty());
        }
    }

    #[test]
    fn absolute_paths_of_a_machine_are_found() {
        for folder in FOLDERS {
            assert_eq!(rules(&format!("see {folder}a")), ["absolute-path"]);
            assert_eq!(rules(&format!("(file://{folder}a)")), ["absolute-path"]);
            assert!(rules(&format!("$tree{folder}a and docs{folder}a")).is_empty());
        }
        assert_eq!(rules("cd /data/checkout"), ["absolute-path"]);
    }

    #[test]
    fn names_of_registries_are_found() {
        for host in REGISTRIES {
            assert_eq!(rules(&format!("url = \"https://{host}")), ["registry"]);
        }
        let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert!(rules(lock).is_empty());
    }

    #[test]
    fn the_line_is_told() {
        let text = format!("a\nb\n{}\n", REMINDERS[0]);
        assert_eq!(check(Path::new("a"), &text, &Places(Vec::new()))[0].line, 3);
    }
}
