//! Sizes: a file has at most 500 lines without tests, a function 60 lines, a line 100 columns.

use syn::visit::{self, Visit};

use super::Finding;
use super::source::{Source, line};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;
const COLUMNS: usize = 100;

/// Checks the sizes in a file.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(file_size(source));
    let mut finder = FunctionFinder(Vec::new());
    finder.visit_file(&source.tree);
    for (name, first, lines) in finder.0 {
        if lines > FUNCTION_LINES {
            let message = format!(
                "fn {name} has {lines} lines; at most {FUNCTION_LINES}: give its parts names"
            );
            findings.push(source.finding(first, "function-size", message));
        }
    }
    for (index, text) in source.text.lines().enumerate() {
        let columns = text.chars().count();
        if columns > COLUMNS && !may_be_wide(text) {
            let message = format!("{columns} columns; at most {COLUMNS}: break the line");
            findings.push(source.finding(index + 1, "columns", message));
        }
    }
    findings
}

fn file_size(source: &Source<'_>) -> Option<Finding> {
    if source.is_test_file() {
        return None;
    }
    let all = source.text.lines().count();
    let lines = (1..=all).filter(|line| !source.is_test_line(*line)).count();
    (lines > FILE_LINES).then(|| {
        let message =
            format!("{lines} lines without tests; at most {FILE_LINES}: make two modules of it");
        source.finding(all, "file-size", message)
    })
}

/// Whether a line of a comment cannot be broken: a URL, or a row of a table.
fn may_be_wide(text: &str) -> bool {
    let text = text.trim_start();
    let Some(comment) = text.strip_prefix("//") else { return false };
    let comment = comment.trim_start_matches(['/', '!']).trim_start();
    comment.starts_with('|') || comment.contains("://")
}

/// The name, first line and length of each function, with its signature but without attributes.
struct FunctionFinder(Vec<(String, usize, usize)>);

impl FunctionFinder {
    fn take(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = line(signature.fn_token.span);
        let last = block.brace_token.span.close().end().line;
        self.0.push((signature.ident.to_string(), first, last - first + 1));
    }
}

impl<'ast> Visit<'ast> for FunctionFinder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.take(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.take(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.take(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn found(path: &str, text: &str) -> Vec<Finding> {
        check(&Source::parse(Path::new(path), text).expect("well formed"))
    }

    fn lines(count: usize) -> String {
        "const _: u8 = 0;\n".repeat(count)
    }

    #[test]
    fn a_file_of_500_lines_is_right_and_one_more_is_not() {
        assert!(found("a.rs", &lines(500)).is_empty());
        let found = found("a.rs", &lines(501));
        assert_eq!((found[0].line, found[0].rule), (501, "file-size"));
    }

    #[test]
    fn tests_do_not_count_in_the_size_of_a_file() {
        let text = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(500), lines(300));
        assert!(found("a.rs", &text).is_empty());
        assert!(found("run/tests/a.rs", &lines(900)).is_empty());
        assert!(found("proto/src/link/tests.rs", &lines(900)).is_empty());
    }

    #[test]
    fn a_function_of_61_lines_is_found_in_traits_and_impls_too() {
        let body = |count| format!("{{\n{}}}\n", "    let _ = 0;\n".repeat(count));
        assert!(found("a.rs", &format!("fn f() {}", body(58))).is_empty());
        for (before, after) in
            [("fn f() ", ""), ("impl X { fn f() ", "}"), ("trait X { fn f() ", "}")]
        {
            let found = found("a.rs", &format!("/// F.\n{before}{}{after}", body(59)));
            assert_eq!((found[0].line, found[0].rule), (2, "function-size"));
            assert!(found[0].message.contains("fn f has 61 lines"));
        }
    }

    #[test]
    fn columns_are_characters_and_not_bytes() {
        assert!(found("a.rs", &format!("// {}\n", "ä".repeat(97))).is_empty());
        assert_eq!(found("a.rs", &format!("// {}\n", "ä".repeat(98)))[0].rule, "columns");
    }

    #[test]
    fn addresses_and_tables_in_comments_may_be_wide() {
        let wide = "x".repeat(120);
        assert!(found("a.rs", &format!("/// | {wide} |\nfn f() {{}}\n")).is_empty());
        assert!(found("a.rs", &format!("//! <https://{wide}>\n")).is_empty());
        assert_eq!(found("a.rs", &format!("const A: &str = \"| {wide}\";\n")).len(), 1);
    }
}
