//! Loading a scenario file: everything that is wrong with it, with the place and what would be
//! right.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use farhop_proto::stack::{Problem, Scenario};
use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};
use strsim::levenshtein;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Failure;

/// A scenario with the text that it was read from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) scenario: Scenario,
    pub(crate) text: String,
}

/// One wrong thing in a file.
#[derive(Debug)]
struct Wrong {
    source: Arc<NamedSource<String>>,
    message: String,
    help: String,
    label: LabeledSpan,
    others: Vec<Self>,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl Diagnostic for Wrong {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(&self.help) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&*self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(self.label.clone())))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.others.iter().map(|other| other as &dyn Diagnostic)))
    }
}

/// Reads a scenario.
///
/// Fails with all that is wrong: what cannot be parsed, else everything that is impossible.
pub(crate) fn load(file: &Path) -> Result<Loaded, Failure> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Input(miette::miette!("cannot read {name}: {error}")))?;
    let source = Arc::new(NamedSource::new(&name, text.clone()).with_language("TOML"));
    match toml::from_str::<Scenario>(&text) {
        Err(error) => {
            let wrong = Wrong {
                message: for_people(error.message()),
                help: help(error.message()),
                label: label(error.span().unwrap_or(0..0), "here"),
                source,
                others: Vec::new(),
            };
            Err(Failure::Input(wrong.into()))
        }
        Ok(scenario) => {
            let problems = scenario.problems();
            if problems.is_empty() {
                return Ok(Loaded { scenario, text });
            }
            Err(Failure::Input(all_wrong(&source, &text, problems).into()))
        }
    }
}

/// An error of the parser without the names of Rust's types.
fn for_people(message: &str) -> String {
    let mut plain = message.to_owned();
    for (name, people) in [
        ("expected f64", "expected a number"),
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u64", "expected a whole number from 0"),
        ("expected usize", "expected a whole number from 0"),
    ] {
        plain = plain.replace(name, people);
    }
    plain
}

/// What may help with an error of the parser.
fn help(message: &str) -> String {
    if !message.starts_with("unknown field") {
        return "`farhop schema` prints all that a scenario may say".into();
    }
    // serde names the field and then every accepted one, each in backquotes.
    let mut words = message.split('`').skip(1).step_by(2);
    let unknown = words.next().unwrap_or_default();
    let nearest = words.min_by_key(|known| levenshtein(unknown, known));
    match nearest {
        Some(known) if levenshtein(unknown, known) <= 3 => format!("did you mean `{known}`?"),
        _ => "remove it, or take one of those".into(),
    }
}

fn label(span: Range<usize>, text: &str) -> LabeledSpan {
    LabeledSpan::new_primary_with_span(Some(text.to_owned()), span)
}

fn all_wrong(source: &Arc<NamedSource<String>>, text: &str, problems: Vec<Problem>) -> Wrong {
    let document = DeTable::parse(text).ok();
    let mut wrong: Vec<Wrong> = problems
        .into_iter()
        .map(|problem| {
            let span = document.as_ref().map_or(0..0, |root| span(root, &problem.path));
            Wrong {
                source: source.clone(),
                message: problem.message,
                help: format!("right would be: {}", problem.help),
                label: label(span, &problem.path),
                others: Vec::new(),
            }
        })
        .collect();
    let mut first = wrong.remove(0);
    first.others = wrong;
    first
}

/// The place of `path` (`link[1].between[0]`) in a document: of the longest part of it that the
/// document has, since what is wrong may be that a key is missing.
fn span(root: &Spanned<DeTable<'_>>, path: &str) -> Range<usize> {
    let mut found: Option<Range<usize>> = None;
    let mut table = Some(root.get_ref());
    for step in path.split('.') {
        let (key, indices) = step.split_once('[').unwrap_or((step, ""));
        let Some(mut value) = table.and_then(|table| table.get(key)) else { break };
        found = Some(value.span());
        for index in indices.split(['[', ']']).filter_map(|index| index.parse::<usize>().ok()) {
            let DeValue::Array(array) = value.get_ref() else { break };
            let Some(element) = array.get(index) else { break };
            value = element;
            found = Some(value.span());
        }
        table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
    }
    found.unwrap_or(0..0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_place_or_the_nearest_part_of_it() {
        let text = "name = \"x\"\n[[link]]\nbetween = [\"a\", \"bee\"]\n";
        let root = DeTable::parse(text).expect("well-formed");
        assert_eq!(&text[span(&root, "link[0].between[1]")], "\"bee\"");
        assert_eq!(&text[span(&root, "name")], "\"x\"");
        assert!(text[span(&root, "link[0].distance_km")].contains("[[link]]"));
        assert_eq!(span(&root, "flow[0].to"), 0..0);
    }

    #[test]
    fn the_nearest_key_is_proposed() {
        let message = "unknown field `distanc_km`, expected one of `between`, `distance_km`";
        assert_eq!(help(message), "did you mean `distance_km`?");
    }
}
