//! The statements of the compatibility files, and their parts, from which new statements are built.

use std::path::Path;

use super::token::{self, Node, is_name, is_word};

/// The keywords with which a clause of a statement begins.
pub const CLAUSES: [&str; 24] = [
    "select",
    "from",
    "where",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "intersect",
    "except",
    "returning",
    "set",
    "values",
    "on",
    "using",
    "with",
    "when",
    "check",
    "default",
    "join",
    "for",
];

/// The keywords with which a query begins.
const QUERIES: [&str; 4] = ["select", "values", "with", "table"];

/// A compatibility file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its statements, in order.
    pub statements: Vec<String>,
    /// The names and keywords in its statements.
    pub words: Vec<String>,
}

/// All files, and the parts of their statements.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// The files, sorted by name.
    pub files: Vec<File>,
    /// The expressions of all statements.
    pub expressions: Vec<Vec<Node>>,
    /// The queries of all statements.
    pub queries: Vec<Vec<Node>>,
    /// The clauses of all statements, each with its first keyword.
    pub clauses: Vec<Vec<Node>>,
}

/// A kind of part of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// An expression, or an item of FROM.
    Expression,
    /// A clause with its keyword.
    Clause,
}

impl Corpus {
    /// Reads the files of a folder.
    ///
    /// # Errors
    /// Failure to read the folder or a file.
    pub fn read(folder: &Path) -> Result<Corpus, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|end| end == "slt"));
        paths.sort();
        let mut corpus = Corpus::default();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            corpus.add(statements(&text));
        }
        Ok(corpus)
    }

    fn add(&mut self, statements: Vec<String>) {
        let mut words = Vec::new();
        for sql in &statements {
            let nodes = token::read(sql);
            self.add_parts(&nodes);
            add_words(&nodes, &mut words);
        }
        words.sort();
        words.dedup();
        self.files.push(File { statements, words });
    }

    fn add_parts(&mut self, nodes: &[Node]) {
        if is_query(nodes) {
            self.queries.push(nodes.to_vec());
        }
        for (start, end, part) in parts(nodes) {
            let nodes = nodes[start..end].to_vec();
            match part {
                FragmentKind::Expression => self.expressions.push(nodes),
                FragmentKind::Clause => self.clauses.push(nodes),
            }
        }
        for node in nodes {
            match node {
                Node::Group(_, inner) => self.add_parts(inner),
                Node::Quoted(_, body) => {
                    for statement in token::read(body).split(|node| is_word(node, ";")) {
                        self.add_parts(statement);
                    }
                }
                Node::Token(_) => {}
            }
        }
    }
}

/// Returns whether nodes are a query.
pub fn is_query(nodes: &[Node]) -> bool {
    let begins = |first: &Node| QUERIES.iter().any(|word| is_word(first, word));
    nodes.first().is_some_and(begins)
}

/// Returns the ranges of siblings that are expressions or clauses.
pub fn parts(nodes: &[Node]) -> Vec<(usize, usize, FragmentKind)> {
    let is_clause = |node: &Node| CLAUSES.iter().any(|word| is_word(node, word));
    let mut found = Vec::new();
    let (mut clause, mut expression) = (None, 0);
    for at in 0..=nodes.len() {
        let node = nodes.get(at);
        let begins = node.is_none_or(is_clause);
        let separates = node.is_some_and(|node| {
            [",", ";", "by", "and", "or", "as", "distinct"]
                .iter()
                .any(|word| is_word(node, word))
        });
        if !begins && !separates {
            continue;
        }
        if expression < at {
            found.push((expression, at, FragmentKind::Expression));
        }
        expression = at + 1;
        if begins {
            if let Some(start) = clause {
                found.push((start, at, FragmentKind::Clause));
            }
            clause = Some(at);
        }
    }
    found
}

/// Returns the statements of a compatibility file.
pub fn statements(text: &str) -> Vec<String> {
    let (mut found, mut sql) = (Vec::new(), None);
    for line in text.lines().chain([""]) {
        let is_end = line.is_empty() || line == "----";
        match &mut sql {
            None if line.starts_with("statement ") || line.starts_with("query ") => {
                sql = Some(String::new());
            }
            None => {}
            Some(_) if is_end => found.extend(sql.take()),
            Some(sql) => {
                sql.push_str(line);
                sql.push('\n');
            }
        }
    }
    let mut found: Vec<String> = found.iter().map(|sql| sql.trim().to_owned()).collect();
    found.retain(|sql| !sql.is_empty() && !sql.starts_with('\\'));
    found
}

fn add_words(nodes: &[Node], words: &mut Vec<String>) {
    for node in nodes {
        match node {
            Node::Token(word) if is_name(node) => words.push(word.clone()),
            Node::Group(_, inner) => add_words(inner, words),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read_without_results() {
        let text = "# x\nstatement ok\nA\nB\n\nquery I\nC\n----\n1\n\nstatement ok\n\\c d\n";
        assert_eq!(statements(text), ["A\nB", "C"]);
    }

    #[test]
    fn parts_are_items_and_clauses() {
        let nodes = token::read("SELECT a, f(b) FROM t WHERE c = 1 AND d");
        let text =
            |(start, end, _): &(usize, usize, FragmentKind)| token::write(&nodes[*start..*end]);
        let found: Vec<String> = parts(&nodes).iter().map(text).collect();
        let expected = [
            "a",
            "f (b)",
            "SELECT a, f (b)",
            "t",
            "FROM t",
            "c = 1",
            "d",
            "WHERE c = 1 AND d",
        ];
        assert_eq!(found, expected);
    }
}
