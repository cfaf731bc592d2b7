//! A Rust source file for the rules: its text, its syntax tree, and which lines are tests.

use std::ops::RangeInclusive;
use std::path::{Component, Path};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token};

use super::Finding;

/// A source file.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
    pub(crate) tree: syn::File,
    tests: Vec<RangeInclusive<usize>>,
}

impl<'a> Source<'a> {
    /// Parses a file; a syntax error is a finding.
    pub(crate) fn parse(path: &'a Path, text: &'a str) -> Result<Self, Finding> {
        let tree = syn::parse_file(text).map_err(|error| Finding {
            path: path.to_owned(),
            line: line(error.span()),
            rule: "syntax",
            message: format!("{error}; `cargo check` says more"),
        })?;
        let mut finder = TestFinder(Vec::new());
        finder.visit_file(&tree);
        Ok(Self { path, text, tree, tests: finder.0 })
    }

    /// Whether the whole file is tests: `tests.rs`, or in a folder `tests` or `benches`.
    pub(crate) fn is_test_file(&self) -> bool {
        let name = self.path.file_name().is_some_and(|name| name == "tests.rs");
        name || self.path.parent().into_iter().flat_map(Path::components).any(|part| {
            [Component::Normal("tests".as_ref()), Component::Normal("benches".as_ref())]
                .contains(&part)
        })
    }

    /// Whether a line belongs to an item under `#[cfg(test)]`.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// A finding at a place of this file.
    pub(crate) fn finding(&self, line: usize, rule: &'static str, message: String) -> Finding {
        Finding { path: self.path.to_owned(), line, rule, message }
    }
}

/// The line of a span's start, from 1.
pub(crate) fn line(span: Span) -> usize {
    span.start().line
}

/// All tokens of a stream, with those inside brackets: the syntax tree does not parse macros.
pub(crate) fn flatten(tokens: TokenStream) -> Vec<TokenTree> {
    let mut flat = Vec::new();
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            flat.extend(flatten(group.stream()));
        } else {
            flat.push(token);
        }
    }
    flat
}

struct TestFinder(Vec<RangeInclusive<usize>>);

impl<'ast> Visit<'ast> for TestFinder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if attributes.iter().any(is_test_only) {
            // The span of an item starts at its first attribute.
            let span = item.span();
            self.0.push(span.start().line..=span.end().line);
        } else {
            visit::visit_item(self, item);
        }
    }
}

/// Whether an attribute is `#[test]`, or a `#[cfg(..)]` that is true only in tests.
fn is_test_only(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    if !attribute.path().is_ident("cfg") {
        return false;
    }
    attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let Ok(parts) = parts else { return false };
            (list.path.is_ident("all") && parts.iter().any(needs_test))
                || (list.path.is_ident("any") && parts.iter().all(needs_test))
        }
        Meta::NameValue(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Source<'_> {
        Source::parse(Path::new("a.rs"), text).expect("well formed")
    }

    #[test]
    fn lines_under_cfg_test_are_tests_and_their_attributes_too() {
        let source = parse("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        let tests: Vec<bool> = (1..=6).map(|line| source.is_test_line(line)).collect();
        assert_eq!(tests, [false, true, true, true, true, false]);
    }

    #[test]
    fn code_that_also_holds_outside_of_tests_is_no_test() {
        let source = parse(
            "#[cfg(not(test))]\nfn a() {}\n#[cfg(any(test, unix))]\nfn b() {}\n\
             #[cfg(all(test, unix))]\nfn c() {}\n",
        );
        assert!(!source.is_test_line(2));
        assert!(!source.is_test_line(4));
        assert!(source.is_test_line(6));
    }

    #[test]
    fn a_file_of_tests_is_known_by_its_place() {
        for (path, is_test) in [
            ("proto/src/link/wild/tests.rs", true),
            ("run/tests/real_programs.rs", true),
            ("proto/src/link/wild/mod.rs", false),
            ("proto/src/link/tests_of_time.rs", false),
        ] {
            let source = Source::parse(Path::new(path), "").expect("well formed");
            assert_eq!(source.is_test_file(), is_test, "{path}");
        }
    }
}
