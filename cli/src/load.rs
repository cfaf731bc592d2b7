//! Loads a scenario file, and reports everything that is wrong with it: the place, and what would
//! be right.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use farhop_proto::base::{PhyKind, counted};
use farhop_proto::stack::{LayoutConfig, LinkConfig, NodeConfig, Problem, Scenario};
use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Failure;

mod files;
mod read;
mod recordings;

pub(crate) use files::Files;
use read::{COMPLAINTS, Complaint};

/// Most syntax errors that are reported: the others follow from these, or the file is no TOML.
const SYNTAX: usize = 3;

/// A scenario with the text that it was read from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The scenario, with its layouts and random flows expanded.
    pub(crate) scenario: Scenario,
    pub(crate) text: String,
    /// The path of the file, as it was given.
    pub(crate) name: String,
    /// The folder that relative paths in the file start from.
    pub(crate) folder: PathBuf,
}

impl Loaded {
    /// These problems of the file as a failure, each at its place, with its `help` unchanged.
    pub(crate) fn refuse(&self, problems: Vec<Problem>) -> Failure {
        let document = DeTable::parse(&self.text).expect("the text was read before");
        let complaint = |Problem { path, message, help }| Complaint {
            span: span(&document, &path),
            message,
            help,
        };
        let complaints = problems.into_iter().map(complaint).collect();
        Failure::Input(all_wrong(&self.name, self.text.clone(), complaints))
    }

    /// The scenario without expansion, so that flows have the numbers that they have in the file.
    pub(crate) fn written(&self) -> Scenario {
        toml::from_str(&self.text).expect("the text was read before")
    }

    /// A failure about the whole file, for one command that cannot run what others can.
    pub(crate) fn refuse_whole(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Input(miette::miette!("{}: {why}", self.name))
    }
}

/// One error in a file.
#[derive(Debug)]
struct Wrong {
    /// The text of the file, if the place in it is shown.
    source: Option<Arc<NamedSource<String>>>,
    message: String,
    help: String,
    label: LabeledSpan,
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
        self.source.as_ref().map(|source| &**source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(self.label.clone())))
    }
}

/// Several errors in a file.
#[derive(Debug)]
struct AllWrong {
    file: String,
    count: usize,
    /// The first errors, up to `COMPLAINTS`.
    wrong: Vec<Wrong>,
}

impl std::fmt::Display for AllWrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, count, wrong } = self;
        write!(f, "{file}: {count} things are wrong")?;
        match wrong.len() {
            told if told < *count => write!(f, "; the first {told}:"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for AllWrong {}

impl Diagnostic for AllWrong {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.wrong.iter().map(|wrong| wrong as &dyn Diagnostic)))
    }
}

/// Loads a scenario.
///
/// Fails with all errors: those of syntax, or if there are none, keys and values that cannot be
/// read and values that are impossible.
pub(crate) fn load(file: &Path) -> Result<Loaded, Failure> {
    let name = file.display().to_string();
    let text = files::read_text(file).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::InvalidData => "it is no text; a scenario is a text in TOML".into(),
            _ => error.to_string(),
        };
        Failure::Input(miette::miette!("cannot read {name}: {why}"))
    })?;
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    match scenario(&text, &Files::of(&folder)) {
        Ok(scenario) => {
            let scenario = scenario.expanded().into_owned();
            Ok(Loaded { scenario, text, name, folder })
        }
        Err(complaints) => Err(Failure::Input(all_wrong(&name, text, complaints))),
    }
}

/// Loads a scenario for real daemons: unless it says otherwise, their frames are encrypted.
///
/// Fails as [`load`] does.
pub(crate) fn load_to_run(file: &Path) -> Result<Loaded, Failure> {
    let mut loaded = load(file)?;
    loaded.scenario.security.get_or_insert_default();
    // Sealed frames are longer, so the scenario may be impossible with them.
    match loaded.scenario.problems().first() {
        None => Ok(loaded),
        Some(Problem { message, help, .. }) => Err(Failure::Input(miette::miette!(
            help = format!("right would be: {help}"),
            "{}: with sealed frames, {message}",
            file.display()
        ))),
    }
}

/// The scenario that a text and the files named in it describe, or all errors in the order of the
/// text.
fn scenario(text: &str, files: &Files) -> Result<Scenario, Vec<Complaint>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let begin = text.len() - text.trim_start().len();
        let other = [('{', "JSON"), ('<', "XML")]
            .into_iter()
            .find(|(first, _)| text[begin..].starts_with(*first));
        if let Some((_, other)) = other {
            let message = format!("it looks like {other}; a scenario is a text in TOML");
            let help = "scenarios of farhop begin like this: name = \"...\"".into();
            return Err(vec![Complaint { span: begin..begin + 1, message, help }]);
        }
        let place = |error: &toml::de::Error| error.span().unwrap_or(0..0);
        let complaint = |error| read::complaint(error, place(error));
        let mut complaints: Vec<Complaint> = errors.iter().map(complaint).collect();
        complaints.sort_by_key(|complaint| complaint.span.start);
        // Several errors at one place may follow from the first.
        complaints.dedup_by_key(|complaint| complaint.span.start);
        let more = complaints.len().saturating_sub(SYNTAX);
        complaints.truncate(SYNTAX);
        if let Some(last) = complaints.last_mut().filter(|_| more > 0) {
            let more = counted(more as u64, "more place");
            last.help = format!("{more} cannot be read, perhaps for these: is it a file in TOML?");
        }
        return Err(complaints);
    }
    let reading = read::read(&document);
    let mut complaints = reading.complaints;
    if let Some(mut scenario) = reading.scenario {
        let problems = read_files(&mut scenario, files);
        if complaints.is_empty() && problems.is_empty() {
            return Ok(scenario);
        }
        // A default in the place of a mistyped key may cause problems that are not real.
        let is_sure = |problem: &Problem| {
            let parent = problem.path.rsplit_once('.').map_or("", |(parent, _)| parent);
            !reading.touched.iter().any(|touched| touched == parent)
        };
        complaints.extend(problems.into_iter().filter(is_sure).map(|problem| Complaint {
            span: span(&document, &problem.path),
            message: problem.message,
            help: format!("right would be: {}", problem.help),
        }));
    }
    complaints.sort_by_key(|complaint| complaint.span.start);
    Err(complaints)
}

/// The scenario that a text describes, which is in no file.
///
/// Fails with the first error and a hint.
pub(crate) fn put_together(text: &str, files: &Files) -> Result<Scenario, (String, String)> {
    scenario(text, files).map_err(|complaints| {
        let first = complaints.into_iter().next().expect("something is wrong");
        (first.message, first.help)
    })
}

/// Reads the files that a scenario names into it. Returns all problems of the scenario, among them
/// the files that cannot be read.
fn read_files(scenario: &mut Scenario, files: &Files) -> Vec<Problem> {
    let mut unreadable = recordings::read(scenario, files);
    for (index, layout) in scenario.layout.iter_mut().enumerate() {
        let LayoutConfig::File(layout) = layout else { continue };
        match files.text(&layout.file) {
            Ok(text) => layout.text = Some(text),
            Err(error) => unreadable.push(Problem {
                path: format!("layout[{index}].file"),
                message: format!("cannot read {}: {error}", layout.file),
                help: "a file, named from the folder of the scenario".into(),
            }),
        }
    }
    // For an unreadable file, that its content is missing is no problem of its own.
    let is_new =
        |problem: &Problem| unreadable.iter().all(|other| !problem.path.starts_with(&other.path));
    let others: Vec<Problem> = scenario.problems().into_iter().filter(is_new).collect();
    unreadable.extend(others);
    unreadable
}

/// The first feature of the scenario that only the simulator has, or `None`: nodes with several
/// radios and a link other than `wild` (unless `may_have_several`), wires, and nodes that move.
pub(crate) fn simulated_only(
    scenario: &Scenario,
    may_have_several: impl Fn(&NodeConfig) -> bool,
) -> Option<String> {
    let plan = scenario.plan_for_flows();
    let has_slots = matches!(scenario.stack.link, LinkConfig::Wild(_));
    let several = plan.nodes.iter().zip(&scenario.node);
    let mut several =
        several.filter(|(plan, node)| plan.radios.len() > 1 && !may_have_several(node));
    let several = several.next().filter(|_| !has_slots).map(|(plan, _)| plan);
    let has_wire = plan.nodes.iter().flat_map(|node| &node.radios);
    let mut has_wire = has_wire.filter(|radio| radio.spec.phy.kind == PhyKind::Wire);
    let what = match several {
        Some(node) => {
            format!("node '{}' has {} radios without 'wild'", node.name, node.radios.len())
        }
        None if has_wire.next().is_some() => "some nodes are joined by wires".into(),
        None if scenario.has_movers() => "some nodes move".into(),
        None => return None,
    };
    Some(format!("{what}: `farhop sim` only"))
}

/// Longest line, in bytes, that is shown with an error. (A line of more than 65,535 columns cannot
/// be shown at all.)
const WIDE: usize = 2_000;

/// All errors as one diagnostic.
fn all_wrong(file: &str, text: String, complaints: Vec<Complaint>) -> miette::Report {
    let source = Arc::new(NamedSource::new(file, text).with_language("TOML"));
    let wrong = |complaint: Complaint| {
        let text = source.inner();
        let (line, column) = place(text, complaint.span.start);
        let is_wide = lines_of(text, &complaint.span).lines().any(|line| line.len() > WIDE);
        let message = match is_wide {
            true => format!("{file}:{line}:{column}: {}", complaint.message),
            false => complaint.message,
        };
        Wrong {
            source: (!is_wide).then(|| source.clone()),
            message,
            help: complaint.help,
            label: LabeledSpan::new_primary_with_span(Some("here".into()), complaint.span),
        }
    };
    let count = complaints.len();
    let mut wrong: Vec<Wrong> = complaints.into_iter().take(COMPLAINTS).map(wrong).collect();
    match count {
        1 => wrong.remove(0).into(),
        _ => AllWrong { file: file.into(), count, wrong }.into(),
    }
}

/// The lines that contain a span of a text.
fn lines_of<'a>(text: &'a str, span: &Range<usize>) -> &'a str {
    let [start, end] = [span.start, span.end].map(|at| text.floor_char_boundary(at));
    let before = text[..start].rfind('\n').map_or(0, |end| end + 1);
    let behind = text[end..].find('\n').map_or(text.len(), |length| end + length);
    &text[before..behind]
}

/// The line and column of a byte of a text, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The place of `path` (`link[1].between[0]`) in a document, or of the longest part of the path
/// that exists there, since the problem may be a missing key.
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
    fn a_place_is_told_by_its_line_and_its_column() {
        let text = "name = \"ü\"\nlink = 3";
        let at = text.find('3').expect("it is there");
        assert_eq!((place(text, 0), place(text, at)), ((1, 1), (2, 8)));
        assert_eq!(lines_of(text, &(at..at + 1)), "link = 3");
        assert_eq!(lines_of(text, &(0..at)), text);
    }

    #[test]
    fn of_a_text_that_is_no_toml_only_the_beginning_is_told() {
        let prose = "what it is\n".repeat(9);
        let complaints = scenario(&prose, &Files::of(Path::new(""))).expect_err("it is prose");
        assert_eq!(complaints.len(), SYNTAX);
        assert!(complaints[1].help.contains("schema"), "{complaints:?}");
        let last = &complaints[SYNTAX - 1].help;
        assert!(last.starts_with("6 more places") && last.contains("TOML"), "{last}");
        let json = scenario("\n{\"name\": \"x\"}", &Files::of(Path::new(""))).expect_err("JSON");
        assert!(json.len() == 1 && json[0].message.contains("looks like JSON"), "{json:?}");
    }

    #[test]
    fn a_path_leads_to_its_place_or_the_nearest_part_of_it() {
        let text = "name = \"x\"\n[[link]]\nbetween = [\"a\", \"bee\"]\n";
        let root = DeTable::parse(text).expect("well-formed");
        assert_eq!(&text[span(&root, "link[0].between[1]")], "\"bee\"");
        assert_eq!(&text[span(&root, "name")], "\"x\"");
        assert!(text[span(&root, "link[0].distance_km")].contains("[[link]]"));
        assert_eq!(span(&root, "flow[0].to"), 0..0);
    }
}
