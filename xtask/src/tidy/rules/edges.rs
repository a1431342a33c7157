//! Rule `edges`: a crate imports only crates of lower layers.
//!
//! Layers stand in `xtask/tree.toml`. Dependencies of manifests and paths in code are checked,
//! those of tests, too. Crates of one layer do not import each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::settings::TREE_PATH;
use crate::tidy::tree::{Tree, folder_of};

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Tree(check),
};

const NAME: &str = "edges";

fn check(tree: &Tree<'_>, findings: &mut Vec<Finding>) {
    let graph = Graph::new(tree);
    graph.check_layers(tree, findings);
    for (folder, manifest) in tree.manifests() {
        let path = format!("{folder}/Cargo.toml");
        for dependency in &manifest.dependencies {
            let library = dependency.package.replace('-', "_");
            findings.extend(graph.edge(&path, dependency.line, &library));
        }
    }
    for file in tree.files.values() {
        let paths = file.imports.iter();
        let edges: BTreeSet<(usize, &str)> = paths
            .map(|import| (import.line, import.path[0].as_str()))
            .collect();
        for (line, library) in edges {
            findings.extend(graph.edge(&file.path, line, library));
        }
    }
}

/// The crates and their layers.
struct Graph<'a> {
    /// Folders of crates by the name of their library.
    folders: BTreeMap<String, &'a str>,
    /// Numbers of layers by folder; 0 is the lowest.
    layers: BTreeMap<&'a str, usize>,
}

impl<'a> Graph<'a> {
    fn new(tree: &'a Tree<'_>) -> Graph<'a> {
        let manifests = tree.manifests().into_iter();
        let folders = manifests.map(|(folder, manifest)| (manifest.library(), folder));
        let numbered = tree.settings.tree.layers.iter().enumerate();
        let layers = numbered
            .flat_map(|(number, layer)| layer.iter().map(move |folder| (folder.as_str(), number)));
        Graph {
            folders: folders.collect(),
            layers: layers.collect(),
        }
    }

    /// Checks that each crate has a layer and that each entry of a layer is a crate.
    fn check_layers(&self, tree: &Tree<'_>, findings: &mut Vec<Finding>) {
        for folder in self
            .folders
            .values()
            .filter(|folder| !self.layers.contains_key(**folder))
        {
            let (path, problem) = (format!("{folder}/Cargo.toml"), "the crate has no layer");
            let advice = format!("add it to {TREE_PATH}");
            findings.push(Finding::new(NAME, &path, 1, problem, advice));
        }
        let manifests = tree.manifests();
        for folder in self
            .layers
            .keys()
            .filter(|folder| !manifests.contains_key(*folder))
        {
            let problem = format!("the layer's `{folder}` is no crate");
            findings.push(Finding::new(NAME, TREE_PATH, 1, problem, "remove it"));
        }
    }

    /// Returns a finding if the file of a crate imports a crate that is not lower.
    fn edge(&self, path: &str, line: usize, library: &str) -> Option<Finding> {
        let (from, to) = (folder_of(path)?, *self.folders.get(library)?);
        let (from_layer, to_layer) = (self.layers.get(from)?, self.layers.get(to)?);
        if from == to || to_layer < from_layer {
            return None;
        }
        let problem = format!("`{from}` imports `{to}`, which is not below it");
        Some(Finding::new(
            NAME,
            path,
            line,
            problem,
            "move the code to the lower crate",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::repository::History;
    use crate::tidy::rules::testing::tree_findings;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let manifests = [
            ("low/Cargo.toml", "package.name = \"f-low\"\n"),
            ("left/Cargo.toml", "package.name = \"f-left\"\n"),
            ("right/Cargo.toml", "package.name = \"f-right\"\n"),
            ("high/Cargo.toml", "package.name = \"f-high\"\n"),
        ];
        let present = |path| files.iter().any(|(other, _)| *other == path);
        let others = manifests.into_iter().filter(|(path, _)| !present(*path));
        let files: Vec<_> = files.iter().copied().chain(others).collect();
        tree_findings(NAME, &files, History::BaseMissing)
    }

    const ADVICE: &str = "move the code to the lower crate";

    #[test]
    fn import_of_higher_crate_is_found() {
        let expected = [format!(
            "low/src/a.rs:2: edges: `low` imports `high`, which is not below it; {ADVICE}"
        )];
        assert_eq!(
            check(&[("low/src/a.rs", "fn f() {\n    f_high::g();\n}\n")]),
            expected
        );
        assert_eq!(
            check(&[("low/src/a.rs", "\nuse f_high::{A, B};\n")]),
            expected
        );
    }

    #[test]
    fn dependency_on_crate_of_same_layer_is_found() {
        let manifest = "[package]\nname = \"f-left\"\n[dev-dependencies]\nf-right = \"1\"\n";
        let problem = "`left` imports `right`, which is not below it";
        let expected = [format!("left/Cargo.toml:4: edges: {problem}; {ADVICE}")];
        assert_eq!(check(&[("left/Cargo.toml", manifest)]), expected);
    }

    #[test]
    fn import_of_lower_crate_itself_and_library_passes() {
        let text = "use f_low::A;\nuse f_high::B;\nuse std::fmt;\n";
        assert_eq!(check(&[("high/src/a.rs", text)]), [""; 0]);
    }

    #[test]
    fn crate_without_layer_is_found() {
        let expected =
            ["new/Cargo.toml:1: edges: the crate has no layer; add it to xtask/tree.toml"];
        assert_eq!(
            check(&[("new/Cargo.toml", "package.name = \"f-new\"\n")]),
            expected
        );
    }

    #[test]
    fn layer_without_crate_is_found() {
        let expected = ["xtask/tree.toml:1: edges: the layer's `low` is no crate; remove it"];
        assert_eq!(check(&[("low/Cargo.toml", "")]), expected);
    }
}
