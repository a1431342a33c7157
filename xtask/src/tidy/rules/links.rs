//! Rule `links`: relative links and anchors in documents lead to tracked files and headings.
//!
//! Links with a scheme are not followed. A path from `/` begins at the root of the repository.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::document::Hyperlink;
use crate::tidy::tree::{Summary, Tree};

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Tree(check),
};

const NAME: &str = "links";

fn check(tree: &Tree<'_>, findings: &mut Vec<Finding>) {
    for file in tree.files.values() {
        let links = file.document.iter().flat_map(|document| &document.links);
        for link in links {
            if let Some(problem) = problem(tree, file, link) {
                let advice = "correct the link or remove it";
                findings.push(Finding::new(NAME, &file.path, link.line, problem, advice));
            }
        }
    }
}

fn problem(tree: &Tree<'_>, file: &Summary, link: &Hyperlink) -> Option<String> {
    let destination = &link.destination;
    if has_scheme(destination) {
        return None;
    }
    let (path, anchor) = match destination.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (destination.as_str(), None),
    };
    let missing = || Some(format!("the link `{destination}` leads to no tracked file"));
    let Some(path) = resolve(&file.path, &path.replace("%20", " ")) else {
        return missing();
    };
    if path.is_empty() || tree.folders.contains(&path) {
        return None;
    }
    let Some(target) = tree.files.get(&path) else {
        return missing();
    };
    match (&target.document, anchor) {
        (Some(document), Some(anchor)) if !document.anchors.contains(anchor) => {
            Some(format!("the link `{destination}` leads to no heading"))
        }
        _ => None,
    }
}

/// Tells whether a destination is a URL, such as `https:` or `mailto:`.
fn has_scheme(destination: &str) -> bool {
    let scheme = destination.split_once(':').map_or("", |(scheme, _)| scheme);
    !scheme.is_empty()
        && scheme
            .chars()
            .all(|character| character.is_ascii_alphanumeric())
}

/// Returns the path from the root to which a link leads; `None` if it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut segments: Vec<&str> = from.split('/').collect();
    segments.pop();
    if link.starts_with('/') {
        segments.clear();
    }
    for segment in link.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::repository::History;
    use crate::tidy::rules::testing::tree_findings;

    fn check(text: &str) -> Vec<String> {
        let other = ("docs/guide/other.md", "# Some heading\n");
        let files = [
            ("docs/a.md", text),
            other,
            ("src/lib.rs", ""),
            ("docs/two words.svg", ""),
        ];
        tree_findings(NAME, &files, History::BaseMissing)
    }

    fn message(problem: &str) -> String {
        format!("docs/a.md:1: links: {problem}; correct the link or remove it")
    }

    #[test]
    fn link_to_missing_file_is_found() {
        for link in ["missing.md", "../../outside.md", "guide/other", "/a.md"] {
            let problem = format!("the link `{link}` leads to no tracked file");
            assert_eq!(
                check(&format!("[a]({link})\n")),
                [message(&problem)],
                "{link}"
            );
        }
    }

    #[test]
    fn link_to_missing_heading_is_found() {
        for link in ["#none", "guide/other.md#none"] {
            let problem = format!("the link `{link}` leads to no heading");
            assert_eq!(
                check(&format!("[a]({link})\n")),
                [message(&problem)],
                "{link}"
            );
        }
    }

    #[test]
    fn link_to_file_folder_heading_and_url_passes() {
        for link in [
            "guide/other.md#some-heading",
            "two%20words.svg",
            "guide",
            "guide/",
            "../src/lib.rs#L1",
            "/src/lib.rs",
            "..",
            "#own",
            "https://example.org/missing.md",
            "mailto:a@example.org",
        ] {
            assert_eq!(check(&format!("[a]({link})\n\n# Own\n")), [""; 0], "{link}");
        }
    }
}
