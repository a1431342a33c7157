//! Rule `circles`: the modules of a crate do not import each other in a circle.
//!
//! Nodes are the files under `src`, edges their paths that begin with `crate`, `self` or `super`.
//! A name that a module only re-exports leads to the module that defines it, where the re-export
//! names it. Code of tests and `mod` items are no edges. The size is that of the largest strongly
//! connected component; the finding and its ratchet stand at the crate's `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::tidy::finding::Finding;
use crate::tidy::imports::{Import, Reach};
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::tree::{Summary, Tree};

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Largest,
    check: Check::Tree(check),
};

const NAME: &str = "circles";
/// Steps from one re-export to the next.
const REEXPORTS_LIMIT: usize = 16;
/// Members of a circle that a finding names.
const SHOWN_LIMIT: usize = 5;

fn check(tree: &Tree<'_>, findings: &mut Vec<Finding>) {
    for folder in tree.manifests().keys() {
        let modules = Modules::of_crate(tree, folder);
        let mut members = modules.largest_circle();
        if members.len() < 2 {
            continue;
        }
        members.sort();
        let names: Vec<String> = members
            .iter()
            .take(SHOWN_LIMIT)
            .map(|path| format!("`{}`", path.join("::")))
            .collect();
        let problem = format!(
            "{} modules import each other in a circle, such as {}",
            members.len(),
            names.join(", ")
        );
        let (path, advice) = (
            format!("{folder}/Cargo.toml"),
            "remove an import that closes it",
        );
        findings.push(Finding::new(NAME, &path, 1, problem, advice).with_size(members.len()));
    }
}

type ModulePath = Vec<String>;

/// The modules of one crate that are files.
struct Modules<'a> {
    files: BTreeMap<ModulePath, &'a Summary>,
    /// Names that `use` items declare, by module, with the paths that they stand for.
    exports: BTreeMap<(ModulePath, String), ModulePath>,
}

impl<'a> Modules<'a> {
    fn of_crate(tree: &'a Tree<'_>, folder: &str) -> Modules<'a> {
        let prefix = format!("{folder}/src/");
        let files = tree.files.values().filter_map(|file| {
            let path = file.path.strip_prefix(&prefix)?;
            Some((module_path(path)?, file))
        });
        let mut modules = Modules {
            files: files.collect(),
            exports: BTreeMap::new(),
        };
        modules.exports = modules.collect_exports();
        modules
    }

    fn collect_exports(&self) -> BTreeMap<(ModulePath, String), ModulePath> {
        let mut exports = BTreeMap::new();
        for (module, file) in &self.files {
            for import in file.imports.iter().filter(|import| import.scope.is_empty()) {
                if let (Some(name), Some(path)) = (&import.name, self.absolute(module, import)) {
                    exports.insert((module.clone(), name.clone()), path);
                }
            }
        }
        exports
    }

    /// Returns the path of an import from the root of the crate; `None` if it leads elsewhere.
    fn absolute(&self, module: &[String], import: &Import) -> Option<ModulePath> {
        let mut base = [module, &import.scope].concat();
        let mut rest = import.path.as_slice();
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()?),
                _ => break,
            }
            rest = after;
        }
        let is_relative = rest.len() < import.path.len();
        let path = [base.as_slice(), rest].concat();
        let is_child = || self.files.contains_key(&path[..=base.len()]);
        (is_relative || is_child()).then_some(path)
    }

    /// Returns the file that defines the item at a path from the root of the crate.
    fn definition(&self, path: &[String]) -> Option<&ModulePath> {
        let mut path = path.to_vec();
        let mut module = None;
        for _ in 0..REEXPORTS_LIMIT {
            let depth = (0..=path.len())
                .rev()
                .find(|end| self.files.contains_key(&path[..*end]))?;
            module = self
                .files
                .get_key_value(&path[..depth])
                .map(|(module, _)| module);
            let Some(name) = path.get(depth) else { break };
            let key = (path[..depth].to_vec(), name.clone());
            let Some(target) = self.exports.get(&key) else {
                break;
            };
            path = [target.as_slice(), &path[depth + 1..]].concat();
        }
        module
    }

    fn edges(&self) -> BTreeSet<(&ModulePath, &ModulePath)> {
        let mut edges = BTreeSet::new();
        for (module, file) in &self.files {
            for import in file
                .imports
                .iter()
                .filter(|import| import.reach == Reach::Always)
            {
                let path = self.absolute(module, import);
                if let Some(target) = path.and_then(|path| self.definition(&path)) {
                    edges.insert((module, target));
                }
            }
        }
        edges
    }

    fn largest_circle(&self) -> Vec<&ModulePath> {
        let mut graph = DiGraph::new();
        let nodes: BTreeMap<_, _> = self
            .files
            .keys()
            .map(|module| (module, graph.add_node(module)))
            .collect();
        for (from, to) in self.edges() {
            graph.add_edge(nodes[from], nodes[to], ());
        }
        let largest = tarjan_scc(&graph)
            .into_iter()
            .max_by_key(Vec::len)
            .unwrap_or_default();
        largest.into_iter().map(|node| graph[node]).collect()
    }
}

/// Returns the module of a file under `src`; `None` if it is not Rust.
fn module_path(file: &str) -> Option<ModulePath> {
    let stem = file.strip_suffix(".rs")?;
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" => Some(Vec::new()),
        // The root of a program; `crate` in it leads to the library's root, if there is one.
        _ => Some(stem.split('/').map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::repository::History;
    use crate::tidy::rules::testing::tree_findings;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = ("low/Cargo.toml", "package.name = \"low\"\n");
        let files: Vec<_> = files.iter().copied().chain([manifest]).collect();
        tree_findings(NAME, &files, History::BaseMissing)
    }

    fn message(members: &str) -> Vec<String> {
        let count = members.split(", ").count();
        let problem = format!("{count} modules import each other in a circle, such as {members}");
        vec![format!(
            "low/Cargo.toml:1: circles: {problem}; remove an import that closes it"
        )]
    }

    #[test]
    fn circle_of_imports_is_found() {
        let files = [
            ("low/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("low/src/a.rs", "use crate::b::B;\n"),
            ("low/src/b/mod.rs", "fn f() { g!(super::c::f()) }\n"),
            (
                "low/src/c.rs",
                "use super::a::{self, A};\nuse crate::d::D;\n",
            ),
            ("low/src/d.rs", ""),
        ];
        assert_eq!(check(&files), message("`a`, `b`, `c`"));
    }

    #[test]
    fn circle_through_child_modules_is_found() {
        let parent = ("low/src/a.rs", "mod b;\nfn f() { b::g() }\n");
        let files = [parent, ("low/src/a/b.rs", "use super::f;\n")];
        assert_eq!(check(&files), message("`a`, `a::b`"));
    }

    #[test]
    fn reexport_leads_to_the_defining_module() {
        let root = (
            "low/src/lib.rs",
            "mod a;\nmod b;\npub use a::A;\npub use b::B as C;\n",
        );
        let (a, b) = (
            ("low/src/a.rs", "use crate::C;\n"),
            ("low/src/b.rs", "use crate::A;\n"),
        );
        assert_eq!(check(&[root, a, b]), message("`a`, `b`"));
        assert_eq!(check(&[root, a, ("low/src/b.rs", "")]), [""; 0]);
    }

    #[test]
    fn imports_of_tests_and_other_crates_pass() {
        let test = "use crate::b::B;\n#[cfg(test)]\nmod tests {\n    use super::super::c::C;\n}\n";
        let files = [
            ("low/src/a.rs", test),
            ("low/src/b.rs", "use high::a::A;\n"),
            ("low/src/c.rs", "use crate::a::A;\n"),
            ("low/tests/d.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(check(&files), [""; 0]);
    }
}
