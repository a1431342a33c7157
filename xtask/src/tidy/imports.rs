//! Paths from one module to another: `use` items, and qualified paths in code and in macros.
//!
//! Names are not resolved here: a path is kept as written, with the inline modules around it.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A path to another module or crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The line in the file, from 1.
    pub line: usize,
    /// Names of the inline modules around the path.
    pub scope: Vec<String>,
    /// The segments as written, without the `*` of a glob.
    pub path: Vec<String>,
    /// The name that a `use` item declares; `None` for globs and for paths in code.
    pub name: Option<String>,
    /// The builds that compile the path.
    pub reach: Reach,
}

/// The builds that compile a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every build.
    Always,
    /// Builds of tests.
    Tests,
}

/// Collects the paths of a file.
pub fn imports(file: &syn::File) -> Vec<Import> {
    let mut collector = Collector {
        scope: Vec::new(),
        reach: Reach::Always,
        imports: Vec::new(),
    };
    collector.visit_file(file);
    collector.imports
}

struct Collector {
    scope: Vec<String>,
    reach: Reach,
    imports: Vec<Import>,
}

impl Collector {
    fn push(&mut self, line: usize, path: Vec<String>, name: Option<String>) {
        let (scope, reach) = (self.scope.clone(), self.reach);
        self.imports.push(Import {
            line,
            scope,
            path,
            name,
            reach,
        });
    }

    fn push_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let joined = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.push_tree(&joined(&path.ident), &path.tree),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.push_tree(prefix, tree);
                }
            }
            syn::UseTree::Name(leaf) => {
                let line = leaf.ident.span().start().line;
                let path = target(prefix, &leaf.ident);
                let name = path.last().cloned();
                self.push(line, path, name);
            }
            syn::UseTree::Rename(leaf) => {
                let line = leaf.ident.span().start().line;
                let path = target(prefix, &leaf.ident);
                self.push(line, path, Some(leaf.rename.to_string()));
            }
            syn::UseTree::Glob(glob) => {
                self.push(glob.star_token.spans[0].start().line, prefix.to_vec(), None);
            }
        }
    }

    fn push_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        while index < tokens.len() {
            if let TokenTree::Group(group) = &tokens[index] {
                self.push_tokens(group.stream());
            }
            let segments = path_at(&tokens[index..]);
            if is_qualified(&segments) {
                let line = tokens[index].span().start().line;
                self.push(line, segments.clone(), None);
            }
            // A segment is followed by two colons, but for the last.
            index += (segments.len() * 3).saturating_sub(2).max(1);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let outer = self.reach;
        if attributes(item).iter().any(is_test_condition) {
            self.reach = Reach::Tests;
        }
        visit::visit_item(self, item);
        self.reach = outer;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.scope.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.scope.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.push_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if is_qualified(&segments) {
            self.push(path.segments[0].ident.span().start().line, segments, None);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.push_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

/// Returns the path of a leaf of a `use` tree; `self` names the prefix.
fn target(prefix: &[String], leaf: &syn::Ident) -> Vec<String> {
    if leaf == "self" && !prefix.is_empty() {
        return prefix.to_vec();
    }
    [prefix, &[leaf.to_string()]].concat()
}

/// Tells whether a path begins with a module or a crate, which are in lower case.
fn is_qualified(segments: &[String]) -> bool {
    segments.len() > 1 && segments[0].starts_with(|first: char| first.is_lowercase())
}

/// Returns the segments of the path at the beginning of tokens; none if there is no path.
fn path_at(tokens: &[TokenTree]) -> Vec<String> {
    let mut segments = Vec::new();
    let mut rest = tokens;
    while let Some(TokenTree::Ident(ident)) = rest.first() {
        segments.push(ident.to_string());
        match &rest[1..] {
            [
                TokenTree::Punct(first),
                TokenTree::Punct(second),
                after @ ..,
            ] if first.as_char() == ':' && second.as_char() == ':' => {
                rest = after;
            }
            _ => break,
        }
    }
    segments
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test_condition(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<(usize, String, Option<String>)> {
        let file = syn::parse_file(text).unwrap();
        let imports = imports(&file).into_iter();
        imports
            .map(|import| (import.line, import.path.join("::"), import.name))
            .collect()
    }

    fn named(line: usize, path: &str, name: &str) -> (usize, String, Option<String>) {
        (line, path.to_owned(), Some(name.to_owned()))
    }

    #[test]
    fn use_tree_has_one_import_for_each_leaf() {
        let text = "use crate::a::{self, b::C,\n    D as E, f::*};\n";
        let expected = [
            named(1, "crate::a", "a"),
            named(1, "crate::a::b::C", "C"),
            named(2, "crate::a::D", "E"),
            (2, "crate::a::f".to_owned(), None),
        ];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn paths_in_code_and_macros_are_imports() {
        let text =
            "fn f(a: crate::A) {\n    g!(x, [super::b::c(1), D::e()]);\n    h::<i::J>();\n}\n";
        let expected = [(1, "crate::A"), (2, "super::b::c"), (3, "i::J")]
            .map(|(line, path)| (line, path.to_owned(), None));
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn inline_test_module_is_a_scope_of_tests() {
        let text = "#[cfg(test)]\nmod tests {\n    use super::A;\n}\nuse crate::B;\n";
        let imports = imports(&syn::parse_file(text).unwrap());
        let scopes: Vec<_> = imports
            .iter()
            .map(|import| (import.reach, import.scope.join("::")))
            .collect();
        assert_eq!(
            scopes,
            [
                (Reach::Tests, "tests".to_owned()),
                (Reach::Always, String::new())
            ]
        );
    }

    #[test]
    fn restricted_visibility_is_no_import() {
        assert_eq!(paths("pub(in crate::a) fn f() {}\n"), []);
    }
}
