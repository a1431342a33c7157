//! The package name and the dependencies of a `Cargo.toml`.

use toml::{Table, Value};

/// The parts of a `Cargo.toml` that say how crates depend on each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The name of the package.
    pub package: String,
    /// Dependencies of every kind and target.
    pub dependencies: Vec<Dependency>,
}

/// A dependency and the line that names it.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the package.
    pub package: String,
    /// The line in the file, from 1.
    pub line: usize,
}

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

impl Manifest {
    /// Parses a manifest; `None` if it is malformed or has no package. Cargo reports the cause.
    pub fn parse(text: &str) -> Option<Manifest> {
        let manifest: Table = text.parse().ok()?;
        let package = manifest.get("package")?.get("name")?.as_str()?.to_owned();
        let targets = manifest.get("target").and_then(Value::as_table);
        let targets = targets
            .into_iter()
            .flatten()
            .filter_map(|(_, target)| target.as_table());
        let mut dependencies = Vec::new();
        for table in std::iter::once(&manifest).chain(targets) {
            let tables = TABLES
                .iter()
                .filter_map(|name| table.get(*name)?.as_table());
            for (name, _) in tables.flatten() {
                dependencies.push(Dependency {
                    package: name.clone(),
                    line: line_of(text, name),
                });
            }
        }
        Some(Manifest {
            package,
            dependencies,
        })
    }

    /// Returns the name of the library in paths of Rust.
    pub fn library(&self) -> String {
        self.package.replace('-', "_")
    }
}

/// Returns the first line that begins with a key; 1 if there is none.
fn line_of(text: &str, key: &str) -> usize {
    let is_key = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
    };
    text.lines().position(is_key).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_all_kinds_have_lines() {
        let text = "[package]\nname = \"a-b\"\n[dependencies]\nc.workspace = true\n\
                    [dev-dependencies]\nd = \"1\"\n[target.'cfg(loom)'.dependencies]\ne = \"1\"\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.library(), "a_b");
        let dependencies: Vec<_> = manifest
            .dependencies
            .iter()
            .map(|item| (item.package.as_str(), item.line))
            .collect();
        assert_eq!(dependencies, [("c", 4), ("d", 6), ("e", 8)]);
    }

    #[test]
    fn workspace_without_package_has_no_manifest() {
        assert_eq!(Manifest::parse("[workspace]\nmembers = []\n"), None);
    }
}
