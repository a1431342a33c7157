//! Statements as tokens and trees of brackets, which can be changed and written as text again.

/// A node of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A name, a keyword, a literal, an operator or a separator.
    Token(String),
    /// A dollar-quoted text: the quote and the text.
    Quoted(String, String),
    /// Nodes in brackets, `(` or `[`.
    Group(char, Vec<Node>),
}

/// The characters of operators.
const OPERATORS: &str = "+-*/<>=~!@#%^&|`?:";

/// The maximal depth of brackets that is read as a tree.
const DEPTH_MAX: usize = 200;

/// Reads a statement as a tree. Accepts any text: brackets without a partner are tokens.
pub fn read(sql: &str) -> Vec<Node> {
    let mut stack = vec![(' ', Vec::new())];
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest, first);
        let (token, after) = rest.split_at(length);
        rest = after;
        match first {
            _ if first.is_whitespace() || is_comment(token) => {}
            '(' | '[' if stack.len() < DEPTH_MAX => stack.push((first, Vec::new())),
            ')' | ']' if stack.len() > 1 => close(&mut stack),
            '$' if token.len() > 2 && token.ends_with('$') => push(&mut stack, quoted(token)),
            _ => push(&mut stack, Node::Token(token.to_owned())),
        }
    }
    while stack.len() > 1 {
        close(&mut stack);
    }
    stack.pop().map(|(_, nodes)| nodes).unwrap_or_default()
}

/// Writes nodes as text.
pub fn write(nodes: &[Node]) -> String {
    let mut text = String::new();
    write_to(nodes, &mut text);
    text
}

/// Returns whether a node is this keyword, in any case.
pub fn is_word(node: &Node, word: &str) -> bool {
    matches!(node, Node::Token(token) if token.eq_ignore_ascii_case(word))
}

/// Returns whether a node is a name or a keyword.
pub fn is_name(node: &Node) -> bool {
    let begins = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    matches!(node, Node::Token(token) if begins(token) && !token.ends_with('\''))
}

fn write_to(nodes: &[Node], text: &mut String) {
    for node in nodes {
        if !text.is_empty() && !text.ends_with(['(', '[', '.']) {
            text.push(' ');
        }
        match node {
            Node::Token(token) if token == "." || token == "," => {
                text.truncate(text.trim_end().len());
                text.push_str(token);
            }
            Node::Token(token) => text.push_str(token),
            Node::Quoted(quote, body) => text.push_str(&format!("{quote}{body}{quote}")),
            Node::Group(open, inner) => {
                text.push(*open);
                write_to(inner, text);
                text.push(if *open == '(' { ')' } else { ']' });
            }
        }
    }
}

fn push(stack: &mut [(char, Vec<Node>)], node: Node) {
    if let Some((_, nodes)) = stack.last_mut() {
        nodes.push(node);
    }
}

fn close(stack: &mut Vec<(char, Vec<Node>)>) {
    if let Some((open, nodes)) = stack.pop() {
        push(stack, Node::Group(open, nodes));
    }
}

fn is_comment(token: &str) -> bool {
    token.starts_with("--") || token.starts_with("/*")
}

fn quoted(token: &str) -> Node {
    let end = token[1..].find('$').map_or(token.len(), |at| at + 2);
    let body = token.get(end..token.len() - end).unwrap_or("");
    Node::Quoted(token[..end].to_owned(), body.to_owned())
}

/// Returns the length in bytes of the token at the beginning of `rest`, whose first character is
/// `first`.
fn token_length(rest: &str, first: char) -> usize {
    let until = |is_end: &dyn Fn(char) -> bool| {
        let end = rest.char_indices().skip(1).find(|(_, c)| is_end(*c));
        end.map_or(rest.len(), |(at, _)| at)
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    match first {
        _ if first.is_whitespace() => until(&|c| !c.is_whitespace()),
        '\'' | '"' => quote_length(rest, first, false),
        '$' => dollar_length(rest).unwrap_or_else(|| until(&|c| !c.is_ascii_digit())),
        '0'..='9' => until(&|c| !(is_part(c) || c == '.')),
        _ if first.is_alphabetic() || first == '_' => {
            let word = until(&|c| !is_part(c));
            let is_escaped = matches!(&rest[..word], "e" | "E");
            match rest[word..].chars().next() {
                Some(quote @ '\'') if word == 1 => {
                    word + quote_length(&rest[word..], quote, is_escaped)
                }
                _ => word,
            }
        }
        '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
        '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
        _ if OPERATORS.contains(first) => until(&|c| !OPERATORS.contains(c)),
        _ => first.len_utf8(),
    }
}

fn quote_length(rest: &str, quote: char, is_escaped: bool) -> usize {
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if is_escaped && c == '\\' {
            characters.next();
        } else if c == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    rest.len()
}

fn dollar_length(rest: &str) -> Option<usize> {
    let tag_end = rest[1..].find(|c: char| !(c.is_alphanumeric() || c == '_'))? + 1;
    let is_quote = rest[tag_end..].starts_with('$') && !rest[1..].starts_with(char::is_numeric);
    let quote = is_quote.then(|| &rest[..=tag_end])?;
    let end = rest[quote.len()..].find(quote)?;
    Some(end + 2 * quote.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_tokens_round_trip() {
        let sql = "SELECT a.b, E'it\\'s' || 'x''y', ARRAY[1, 2] :: int[] FROM f($1, $$ a ' $$)";
        let nodes = read(sql);
        assert_eq!(read(&write(&nodes)), nodes);
        assert!(write(&nodes).contains("ARRAY [1, 2]"), "{}", write(&nodes));
    }

    #[test]
    fn brackets_without_partner_are_closed() {
        assert_eq!(write(&read("f((1")), "f ((1))");
        assert_eq!(write(&read(") a")), ") a");
    }
}
