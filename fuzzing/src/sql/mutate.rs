//! Mutations of statements.

use super::corpus::{CLAUSES, Corpus, File, FragmentKind, is_query, parts};
use super::token::{self, Node, is_name, is_word};
use super::words::{LITERALS, OPERATORS, QUERY_WRAPPERS, TYPES, WRAPPERS};
use crate::random::Random;

/// The length in bytes beyond which a statement does not grow.
const LENGTH_MAX: usize = 20_000;

/// A generator of statements that mutates those of a corpus.
pub struct Mutator<'a> {
    corpus: &'a Corpus,
    /// The file whose tables exist.
    file: &'a File,
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Creates a mutator for the statements of a file.
    pub fn new(corpus: &'a Corpus, file: &'a File, random: Random) -> Mutator<'a> {
        Mutator {
            corpus,
            file,
            random,
        }
    }

    /// Returns `sql` after several changes.
    pub fn mutate(&mut self, sql: &str) -> String {
        let mut nodes = token::read(sql);
        for _ in 0..[1, 1, 1, 2, 2, 4][self.random.below(6)] {
            self.change(&mut nodes, 0);
        }
        let mut text = token::write(&nodes);
        if self.random.is_one_in(8) && is_query(&nodes) {
            let wrapper = self.random.word(&QUERY_WRAPPERS);
            text = wrapper.replace("?1", &text);
        }
        if self.random.is_one_in(60) {
            text = self.cut(&text);
        }
        if text.len() > LENGTH_MAX {
            sql.to_owned()
        } else {
            text
        }
    }

    /// Changes the nodes, or the nodes in a bracket among them.
    fn change(&mut self, nodes: &mut Vec<Node>, depth: usize) {
        let inner: Vec<usize> = (0..nodes.len())
            .filter(|at| matches!(nodes[*at], Node::Group(..) | Node::Quoted(..)))
            .collect();
        let descends = depth < 12 && self.random.below(5) < 3;
        if descends && let Some(at) = self.random.pick(&inner) {
            match &mut nodes[*at] {
                Node::Group(_, inner) => return self.change(inner, depth + 1),
                Node::Quoted(_, body) => {
                    let mut inner = token::read(body);
                    self.change(&mut inner, depth + 1);
                    *body = token::write(&inner);
                    return;
                }
                Node::Token(_) => {}
            }
        }
        match self.random.below(30) {
            0..=6 => self.change_expression(nodes),
            7..=11 => self.wrap_expression(nodes),
            12 | 13 => self.change_clause(nodes),
            14..=17 => self.change_literal(nodes),
            18 | 19 => self.change_type(nodes),
            20 | 21 => self.change_operator(nodes),
            22..=24 => self.change_name(nodes),
            25 => self.change_query(nodes),
            26 | 27 => self.nest(nodes),
            28 => self.swap(nodes),
            _ => self.change_token(nodes),
        }
    }

    fn part(&mut self, nodes: &[Node], wanted: FragmentKind) -> Option<(usize, usize)> {
        let mut found = parts(nodes);
        found.retain(|(_, _, part)| *part == wanted);
        self.random
            .pick(&found)
            .map(|(start, end, _)| (*start, *end))
    }

    fn expression(&mut self) -> Vec<Node> {
        let random = &mut self.random;
        let found = match random.below(4) {
            0 => token::read(random.word(&LITERALS)),
            // Mostly an expression about the tables of this file.
            1 | 2 => {
                let sql = random.pick(&self.file.statements);
                let nodes = token::read(sql.map_or("1", |sql| sql));
                let found = self.part(&nodes, FragmentKind::Expression);
                found.map_or_else(Vec::new, |(start, end)| nodes[start..end].to_vec())
            }
            _ => self
                .random
                .pick(&self.corpus.expressions)
                .cloned()
                .unwrap_or_default(),
        };
        if found.len() > 60 {
            token::read("NULL")
        } else {
            found
        }
    }

    fn change_expression(&mut self, nodes: &mut Vec<Node>) {
        if let Some((start, end)) = self.part(nodes, FragmentKind::Expression) {
            let other = self.expression();
            match self.random.below(5) {
                0 => drop(nodes.splice(start..end, [])),
                1 => {
                    let comma = Node::Token(",".into());
                    drop(nodes.splice(start..start, other.into_iter().chain([comma])));
                }
                2 => {
                    let operator = token::read(self.random.word(&OPERATORS));
                    drop(nodes.splice(end..end, operator.into_iter().chain(other)));
                }
                _ => drop(nodes.splice(start..end, other)),
            }
        }
    }

    fn wrap_expression(&mut self, nodes: &mut Vec<Node>) {
        if let Some((start, end)) = self.part(nodes, FragmentKind::Expression) {
            let text = token::write(&nodes[start..end]);
            let wrapper = match self.random.below(4) {
                0 => format!("CAST(?1 AS {})", self.random.word(&TYPES)),
                1 => self.call(),
                _ => self.random.word(&WRAPPERS).to_owned(),
            };
            let wrapped = wrapper.replace("?1", &text);
            drop(nodes.splice(start..end, token::read(&wrapped)));
        }
    }

    /// Returns a call of a function that a statement of the corpus calls.
    fn call(&mut self) -> String {
        for _ in 0..20 {
            let Some(expression) = self.random.pick(&self.corpus.expressions) else {
                break;
            };
            for pair in expression.windows(2) {
                if let [Node::Token(name), Node::Group('(', inner)] = pair
                    && is_name(&pair[0])
                {
                    let count = inner.iter().filter(|node| is_word(node, ",")).count();
                    let arguments = vec!["?1"; count.min(4) + 1].join(", ");
                    return format!("{name}({arguments})");
                }
            }
        }
        "abs(?1)".into()
    }

    fn change_clause(&mut self, nodes: &mut Vec<Node>) {
        let other = self.random.pick(&self.corpus.clauses).cloned();
        let other = other.unwrap_or_default();
        if other.len() > 80 {
            return;
        }
        match self.part(nodes, FragmentKind::Clause) {
            Some((start, end)) => match self.random.below(4) {
                0 => drop(nodes.splice(start..end, [])),
                1 => {
                    let clause = nodes[start..end].to_vec();
                    drop(nodes.splice(end..end, clause));
                }
                2 => drop(nodes.splice(end..end, other)),
                _ => drop(nodes.splice(start..end, other)),
            },
            None => nodes.extend(other),
        }
    }

    /// Replaces a node that `is_wanted` accepts by another one.
    fn replace(&mut self, nodes: &mut Vec<Node>, is_wanted: fn(&str) -> bool, others: &[&str]) {
        let wanted = |at: &usize| matches!(&nodes[*at], Node::Token(token) if is_wanted(token));
        let found: Vec<usize> = (0..nodes.len()).filter(wanted).collect();
        if let Some(at) = self.random.pick(&found) {
            let other = token::read(self.random.word(others));
            drop(nodes.splice(*at..at + 1, other));
        }
    }

    fn change_literal(&mut self, nodes: &mut Vec<Node>) {
        let is_literal =
            |token: &str| token.starts_with(|c: char| c.is_ascii_digit()) || token.ends_with('\'');
        if self.random.is_one_in(6) {
            let parameters = ["$1", "$2", "$1::int", "$3"];
            return self.replace(nodes, is_literal, &parameters);
        }
        self.replace(nodes, is_literal, &LITERALS);
    }

    fn change_type(&mut self, nodes: &mut Vec<Node>) {
        let is_type = |token: &str| TYPES.iter().any(|name| name.eq_ignore_ascii_case(token));
        self.replace(nodes, is_type, &TYPES);
    }

    fn change_operator(&mut self, nodes: &mut Vec<Node>) {
        let is_operator = |token: &str| {
            OPERATORS
                .iter()
                .any(|operator| operator.eq_ignore_ascii_case(token))
        };
        self.replace(nodes, is_operator, &OPERATORS);
    }

    fn change_name(&mut self, nodes: &mut Vec<Node>) {
        let words: Vec<&str> = self.file.words.iter().map(|word| &**word).collect();
        let is_other = |token: &str| {
            let is_clause = CLAUSES.iter().any(|word| word.eq_ignore_ascii_case(token));
            token.starts_with(|c: char| c.is_alphabetic()) && !is_clause
        };
        self.replace(nodes, is_other, &words);
    }

    fn change_query(&mut self, nodes: &mut Vec<Node>) {
        let Some(query) = self.random.pick(&self.corpus.queries).cloned() else {
            return;
        };
        if is_query(nodes) && self.random.is_one_in(2) {
            *nodes = query;
        } else if let Some((start, end)) = self.part(nodes, FragmentKind::Expression) {
            drop(nodes.splice(start..end, [Node::Group('(', query)]));
        }
    }

    /// Nests an expression or a query in itself many times.
    fn nest(&mut self, nodes: &mut Vec<Node>) {
        let times = [2, 5, 30, 200][self.random.below(4)];
        let (wrapper, start, end) = if is_query(nodes) && self.random.is_one_in(2) {
            ("SELECT * FROM (?1) AS n", 0, nodes.len())
        } else if let Some((start, end)) = self.part(nodes, FragmentKind::Expression) {
            (self.random.word(&WRAPPERS), start, end)
        } else {
            return;
        };
        if wrapper.matches("?1").count() > 1 {
            return;
        }
        let mut text = token::write(&nodes[start..end]);
        for _ in 0..times {
            text = wrapper.replace("?1", &text);
            if text.len() > LENGTH_MAX / 2 {
                break;
            }
        }
        drop(nodes.splice(start..end, [Node::Token(text)]));
    }

    fn swap(&mut self, nodes: &mut [Node]) {
        if !nodes.is_empty() {
            let (one, other) = (
                self.random.below(nodes.len()),
                self.random.below(nodes.len()),
            );
            nodes.swap(one, other);
        }
    }

    fn change_token(&mut self, nodes: &mut Vec<Node>) {
        let at = self.random.below(nodes.len());
        match self.random.below(4) {
            0 if !nodes.is_empty() => drop(nodes.remove(at)),
            1 if !nodes.is_empty() => nodes.insert(at, nodes[at].clone()),
            _ => {
                let file = self.random.pick(&self.corpus.files);
                let word = file.and_then(|file| self.random.pick(&file.words));
                let word = word.cloned().unwrap_or_default();
                nodes.insert(at, Node::Token(word));
            }
        }
    }

    fn cut(&mut self, text: &str) -> String {
        let count = text.chars().count();
        text.chars().take(self.random.below(count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_depend_on_the_seed_alone() {
        let file = File {
            statements: vec!["SELECT a, b FROM t WHERE a = 1".into()],
            words: vec!["a".into(), "b".into(), "t".into()],
        };
        let corpus = Corpus {
            files: vec![file.clone()],
            ..Corpus::default()
        };
        let made = |seed| {
            let mut mutator = Mutator::new(&corpus, &file, Random::new(seed, 0));
            let made = (0..50).map(|_| mutator.mutate(&file.statements[0]));
            made.collect::<Vec<String>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
