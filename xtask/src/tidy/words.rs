//! Words: meaningful function names, a `//!` in every module, `unsafe` in one place, and no
//! unfinished code.

use proc_macro2::{Ident, TokenTree};
use syn::AttrStyle;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::{Source, flatten, line};

/// Words that would fit into the name of any function.
const BANNED: &[&str] = &["process", "manage", "util", "utils"];
/// The only place where `unsafe` is allowed.
const UNSAFE_PLACE: &str = "run/src/device";
/// Macros that mark unfinished code.
const UNFINISHED: &[&str] =
    &[concat!("to", "do"), concat!("unimple", "mented"), concat!("db", "g")];

/// Checks the words in a file.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut finder =
        WordFinder { found: Vec::new(), may_be_unsafe: source.path.starts_with(UNSAFE_PLACE) };
    finder.visit_file(&source.tree);
    let mut findings: Vec<Finding> = finder
        .found
        .into_iter()
        .map(|(line, rule, message)| source.finding(line, rule, message))
        .collect();
    findings.extend(document(source));
    findings
}

/// A finding if a file has no `//!`; files of unit tests need none, as their module has one.
fn document(source: &Source<'_>) -> Option<Finding> {
    let is_unit_tests = source.path.file_name().is_some_and(|name| name == "tests.rs");
    let has_document = source.tree.attrs.iter().any(|attribute| {
        matches!(attribute.style, AttrStyle::Inner(_)) && attribute.path().is_ident("doc")
    });
    (!has_document && !is_unit_tests).then(|| {
        let message = "no `//!`; say in one sentence what the module is, and what it follows";
        source.finding(1, "module-document", message.into())
    })
}

struct WordFinder {
    found: Vec<(usize, &'static str, String)>,
    may_be_unsafe: bool,
}

impl WordFinder {
    fn take_name(&mut self, name: &Ident) {
        let text = name.to_string();
        let banned = text.split('_').find(|word| BANNED.contains(word));
        let banned = banned.or(text.starts_with("do_").then_some("do_"));
        if let Some(word) = banned {
            let message = format!("fn {text}: `{word}` says nothing; name what it does");
            self.found.push((line(name.span()), "function-name", message));
        }
    }

    fn take_unsafe(&mut self, at: usize) {
        if !self.may_be_unsafe {
            let message = format!("`unsafe` outside of {UNSAFE_PLACE}; use what stands there");
            self.found.push((at, "unsafe", message));
        }
    }
}

impl<'ast> Visit<'ast> for WordFinder {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.take_name(&signature.ident);
        if let Some(word) = &signature.unsafety {
            self.take_unsafe(line(word.span));
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.take_unsafe(line(block.unsafe_token.span));
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(word) = &item.unsafety {
            self.take_unsafe(line(word.span));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if let Some(word) = &item.unsafety {
            self.take_unsafe(line(word.span));
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        self.take_unsafe(line(item.abi.extern_token.span));
        visit::visit_item_foreign_mod(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        for token in flatten(call.tokens.clone()) {
            match &token {
                TokenTree::Ident(word) if *word == "unsafe" => self.take_unsafe(line(word.span())),
                _ => {}
            }
        }
        let Some(name) = call.path.segments.last() else { return };
        if UNFINISHED.iter().any(|word| name.ident == word) {
            let message = format!("{}! is for code that is not finished; finish it", name.ident);
            self.found.push((line(name.ident.span()), "unfinished", message));
        }
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let text = format!("//! A.\n{text}");
        let source = Source::parse(Path::new(path), &text).expect("well formed");
        check(&source).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn empty_words_in_function_names_are_found() {
        for name in ["process_frame", "manage", "frame_util", "do_send"] {
            assert_eq!(rules("a.rs", &format!("fn {name}() {{}}")), [(2, "function-name")]);
        }
        for name in ["handle_rx", "processor", "undo_send", "domain"] {
            assert!(rules("a.rs", &format!("fn {name}() {{}}")).is_empty(), "{name}");
        }
        assert_eq!(rules("a.rs", "trait T { fn do_it(); }"), [(2, "function-name")]);
    }

    #[test]
    fn every_module_has_a_document() {
        let found =
            |path| check(&Source::parse(Path::new(path), "fn f() {}").expect("well formed"));
        assert_eq!(found("a.rs")[0].rule, "module-document");
        assert!(found("proto/src/link/tests.rs").is_empty());
    }

    #[test]
    fn unsafe_stands_in_one_place_only() {
        for text in [
            "fn f() { unsafe { g() } }",
            "unsafe fn f() {}",
            "unsafe impl Send for X {}",
            "unsafe extern \"C\" { fn f(); }",
            "fn f() { assert!(unsafe { g() }) }",
        ] {
            assert_eq!(rules("run/src/lab/a.rs", text), [(2, "unsafe")], "{text}");
            assert!(rules("run/src/device/a.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn code_that_is_not_finished_is_found() {
        for word in UNFINISHED {
            assert_eq!(rules("a.rs", &format!("fn f() {{ {word}!() }}")), [(2, "unfinished")]);
        }
    }
}
