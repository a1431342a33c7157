//! The passes of an ALTER TABLE with several actions. PostgreSQL runs all actions that drop before
//! all actions that add.
//!
//! ```text
//! drop ─► type ─► column ─► attribute ─► key ─► other constraint or default ─► rest
//! ```
//! The actions of one pass form one statement, in the order of the text. An action that sqlparser
//! does not read is a statement of its own. Each statement keeps its position in the text.

use std::ops::Range;

use super::lexer::{Kind, Token};
use super::partition::only;

/// A pass, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    Type,
    AddColumn,
    Attribute,
    AddKey,
    AddOther,
    Rest,
}

/// An action: its tokens and its pass.
struct Action<'t> {
    tokens: &'t [Token],
    pass: Pass,
    /// Whether it must be the only action of a statement.
    alone: bool,
}

/// Returns the texts of the statements that replace an ALTER TABLE, in their order; none if it
/// needs no split.
pub(super) fn steps(text: &str, tokens: &[Token]) -> Vec<String> {
    let Some(first) = first_action(text, tokens) else {
        return Vec::new();
    };
    let mut actions: Vec<Action<'_>> = split(&tokens[first..])
        .into_iter()
        .map(|tokens| Action {
            pass: pass_of(text, tokens),
            alone: is_alone(text, tokens),
            tokens,
        })
        .collect();
    if actions.iter().any(|action| action.tokens.is_empty()) {
        return Vec::new();
    }
    // The sort is stable: actions of one pass keep their order.
    actions.sort_by_key(|action| action.pass);
    let mut groups: Vec<Vec<&Action<'_>>> = Vec::new();
    for action in &actions {
        let joins = groups.last().and_then(|group| group.last());
        match joins {
            Some(last) if last.pass == action.pass && !last.alone && !action.alone => {
                groups.last_mut().into_iter().for_each(|g| g.push(action));
            }
            _ => groups.push(vec![action]),
        }
    }
    if groups.len() < 2 {
        return Vec::new();
    }
    let groups = groups.iter();
    groups
        .map(|group| step(text, &tokens[first..], group))
        .collect()
}

/// Returns the index of the first action's first token.
fn first_action(text: &str, tokens: &[Token]) -> Option<usize> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(text, word));
    let of_kind = |at: usize, kind: Kind| tokens.get(at).is_some_and(|of| of.kind == kind);
    if !is(0, "alter") || !is(1, "table") {
        return None;
    }
    let mut at = 2;
    if is(at, "if") && is(at + 1, "exists") {
        at += 2;
    }
    if is(at, "only") {
        at += 1;
    }
    while of_kind(at + 1, Kind::Dot) {
        at += 2;
    }
    at += 1;
    let star = tokens.get(at).is_some_and(|token| token.text(text) == "*");
    Some(at + usize::from(star)).filter(|at| *at < tokens.len())
}

/// Splits tokens at the commas outside parentheses.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Comma if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

fn pass_of(text: &str, tokens: &[Token]) -> Pass {
    let words = ActionWords { text, tokens };
    if words.begin(&["drop"]) {
        return Pass::Drop;
    }
    if words.begin(&["add"]) {
        let column = words.begin(&["add", "column"]);
        let constraint = ["constraint", "check", "foreign", "exclude"];
        let key = words.has(&["primary", "key"]) || words.has(&["unique"]);
        let named = words.begin(&["add", "constraint"]);
        return match tokens.get(1) {
            _ if column => Pass::AddColumn,
            _ if named && key => Pass::AddKey,
            Some(next) if next.is_one_of(text, &["primary", "unique"]) => Pass::AddKey,
            Some(next) if next.is_one_of(text, &constraint) => Pass::AddOther,
            _ => Pass::AddColumn,
        };
    }
    let altered = words.begin(&["alter"]) && !words.begin(&["alter", "constraint"]);
    match words.after_column() {
        Some(["drop", _]) if altered => Pass::Drop,
        Some(["type", _] | ["set", "data"]) if altered => Pass::Type,
        Some(["set", "default"] | ["add", _]) if altered => Pass::AddOther,
        Some(["set", "not" | "generated" | "increment" | "start"]) if altered => Pass::Attribute,
        Some(["restart", _]) if altered => Pass::Attribute,
        _ => Pass::Rest,
    }
}

/// Returns whether the parser of an action accepts only a single action.
fn is_alone(text: &str, tokens: &[Token]) -> bool {
    let words = ActionWords { text, tokens };
    let column = words.after_column();
    let of_identity = matches!(
        column,
        Some(["set" | "add", "generated"] | ["drop", "identity" | "expression"])
    ) || matches!(
        column,
        Some(["restart", _] | ["set", "increment" | "start"])
    );
    words.begin(&["alter", "constraint"])
        || words.has(&["using", "index"])
        || words.begin(&["alter"]) && of_identity
        || pass_of(text, tokens) == Pass::Rest
}

/// The words of an action.
struct ActionWords<'a> {
    text: &'a str,
    tokens: &'a [Token],
}

impl<'a> ActionWords<'a> {
    fn begin(&self, words: &[&str]) -> bool {
        let pairs = words.iter().zip(self.tokens);
        self.tokens.len() >= words.len()
            && pairs.fold(true, |all, (w, t)| all && t.is(self.text, w))
    }

    /// Returns whether these words occur in the action in a row, outside parentheses.
    fn has(&self, words: &[&str]) -> bool {
        let mut depth = 0usize;
        for (at, token) in self.tokens.iter().enumerate() {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            let rest = ActionWords {
                tokens: &self.tokens[at..],
                ..*self
            };
            if depth == 0 && rest.begin(words) {
                return true;
            }
        }
        false
    }

    /// Returns the two words after ALTER [COLUMN] and the column, in lower case.
    fn after_column(&self) -> Option<[&'static str; 2]> {
        const KNOWN: [&str; 16] = [
            "drop",
            "type",
            "set",
            "data",
            "default",
            "add",
            "not",
            "generated",
            "increment",
            "start",
            "restart",
            "identity",
            "expression",
            "null",
            "statistics",
            "storage",
        ];
        let named = 1 + usize::from(self.begin(&["alter", "column"]) && self.tokens.len() > 3);
        let word = |at: usize| {
            let token = self.tokens.get(at)?;
            let mut known = KNOWN.iter();
            known.find(|word| token.is(self.text, word)).copied()
        };
        Some([word(named + 1)?, word(named + 2).unwrap_or("")])
    }
}

/// Returns the statement that runs the actions of a group.
fn step(text: &str, actions: &[Token], group: &[&Action<'_>]) -> String {
    let span = |tokens: &[Token]| -> Option<Range<usize>> {
        Some(tokens.first()?.start..tokens.last()?.end)
    };
    let mut from = actions.first().map_or(text.len(), |token| token.start);
    let mut step = text[..from].to_owned();
    for (nth, range) in group.iter().filter_map(|of| span(of.tokens)).enumerate() {
        let mut before = only(&text[from..range.start], 0..0);
        if nth > 0 {
            // The comma before the action is part of the removed text.
            before.pop();
            before.push(',');
        }
        step += &before;
        step += &text[range.clone()];
        from = range.end;
    }
    step + &only(&text[from..], 0..0)
}
