//! Ranks inside `proto`: `base < wire < {link, routing, transport} < stack`; the three in braces
//! must not use each other.
//!
//! Paths are found everywhere: in `use`, in code, in types, and in arguments of macros. Links in
//! documentation do not count.

use std::path::Path;

use proc_macro2::{Span, TokenTree};
use syn::visit::{self, Visit};

use super::Finding;
use super::source::{Source, flatten, line};

const RULE: &str = "rank";

/// The parts of `proto`, each with the other parts that it may use.
const PARTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("wire", &["base"]),
    ("link", &["base", "wire"]),
    ("routing", &["base", "wire"]),
    ("transport", &["base", "wire"]),
    ("stack", &["base", "wire", "link", "routing", "transport"]),
];

/// Checks the paths in a file of `proto`; other files have no ranks.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let Some(module) = module(source.path) else { return Vec::new() };
    let Some(part) = module.first().cloned() else { return Vec::new() };
    let Some((_, allowed)) = PARTS.iter().find(|(name, _)| *name == part) else {
        let message = format!("proto has no part {part}; it has {}", part_names());
        return vec![source.finding(1, RULE, message)];
    };
    let mut finder = PathFinder { module, named: Vec::new() };
    finder.visit_file(&source.tree);
    let mut findings = Vec::new();
    for (to, at) in finder.named {
        let is_part = PARTS.iter().any(|(name, _)| *name == to);
        if !is_part || to == part || allowed.contains(&to.as_str()) {
            continue;
        }
        let allowed = if allowed.is_empty() { "no other part".into() } else { allowed.join(", ") };
        let message = format!("{part} may not name {to}; it may name {allowed}");
        findings.push(source.finding(at, RULE, message));
    }
    findings.dedup();
    findings
}

fn part_names() -> String {
    PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The module path of a file of `proto` below the crate; `lib.rs` is the empty path.
fn module(path: &Path) -> Option<Vec<String>> {
    let inside = path.strip_prefix("proto/src").ok()?;
    let mut parts: Vec<String> =
        inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    Some(parts)
}

/// Collects the first name below the crate of each path, with its line.
struct PathFinder {
    module: Vec<String>,
    named: Vec<(String, usize)>,
}

impl PathFinder {
    /// Takes the names of a path. Only `crate::` and enough `super::` lead to another part.
    fn take(&mut self, names: &[String], span: Span) {
        let below = match names.first().map(String::as_str) {
            Some("crate") => names.get(1),
            Some("super") => {
                let ups = names.iter().take_while(|name| *name == "super").count();
                if ups == self.module.len() { names.get(ups) } else { None }
            }
            _ => None,
        };
        self.named.extend(below.map(|name| (name.clone(), line(span))));
    }

    fn take_use(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.take_use(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.take(&with(&name.ident), name.ident.span()),
            syn::UseTree::Rename(name) => self.take(&with(&name.ident), name.ident.span()),
            syn::UseTree::Glob(glob) => self.take(prefix, glob.star_token.spans[0]),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.take_use(prefix, item));
            }
        }
    }
}

impl<'ast> Visit<'ast> for PathFinder {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.take_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.take(&names, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        let tokens = flatten(call.tokens.clone());
        for (index, token) in tokens.iter().enumerate() {
            let TokenTree::Ident(first) = token else { continue };
            let names = path_at(&tokens[index..]);
            self.take(&names, first.span());
        }
    }
}

/// The names of the path that starts at the first token.
fn path_at(tokens: &[TokenTree]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = tokens;
    while let [TokenTree::Ident(name), after @ ..] = rest {
        names.push(name.to_string());
        match after {
            [TokenTree::Punct(a), TokenTree::Punct(b), after @ ..]
                if a.as_char() == ':' && b.as_char() == ':' =>
            {
                rest = after;
            }
            _ => break,
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(Path::new(path), text).expect("well formed");
        check(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_may_use_base_and_wire() {
        let text = "use crate::base::Cx;\nuse crate::{base::Lane, wire};\nuse super::Link;\n";
        assert!(found("proto/src/link/plain.rs", text).is_empty());
    }

    #[test]
    fn a_link_that_names_routing_is_found_in_every_spelling() {
        for text in [
            "\nuse crate::routing::Fixed;",
            "\nuse crate::{base::Cx, routing::Fixed as F};",
            "\nuse super::super::routing;",
            "\nfn f() { crate::routing::build() }",
            "\nfn f(x: crate::routing::Fixed) {}",
            "\nfn f() { assert_eq!(1, [crate::routing::ONE][0]) }",
            "\nmod tests { use super::super::super::routing::Fixed; }",
        ] {
            let found = found("proto/src/link/plain.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("proto/src/link/plain.rs:2: rank: link may not name"));
        }
    }

    #[test]
    fn base_names_nothing_and_the_stack_all() {
        assert_eq!(found("proto/src/base/time.rs", "use crate::wire::ip;").len(), 1);
        let all = "use crate::{base, link, routing, transport, wire};";
        assert!(found("proto/src/stack/mod.rs", all).is_empty());
    }

    #[test]
    fn a_part_of_no_rank_is_refused() {
        assert_eq!(found("proto/src/helpers/mod.rs", "").len(), 1);
        assert!(found("proto/src/lib.rs", "pub use crate::stack::Stack;").is_empty());
        assert!(found("run/src/lab/mod.rs", "use crate::air::Air;").is_empty());
    }

    #[test]
    fn links_in_documents_are_free() {
        assert!(found("proto/src/base/id.rs", "//! See [`crate::wire::ip`].\n").is_empty());
    }
}
