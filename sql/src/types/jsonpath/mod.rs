//! jsonpath: a language that selects elements of jsonb documents.
//!
//! ```text
//! text ──lexer──▶ tokens ──parser──▶ Path ──writer──▶ the canonical text that PostgreSQL shows
//!                                      └──functions/jsonpath──▶ items of a document
//! ```
//! Values of the type are stored as the canonical text and parsed when they are used.
//!
//! Failure: no text makes the parser panic; expressions nest at most `DEPTH_MAX` deep (54001).

mod lexer;
mod parser;
mod writer;

use crate::error::SqlError;

pub use parser::parse;

/// The maximum nesting depth of expressions.
const DEPTH_MAX: usize = 300;

/// A parsed jsonpath.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Lax mode: structural errors are ignored, arrays are unwrapped, and missing elements select
    /// nothing.
    pub lax: bool,
    /// The expression.
    pub root: Chain,
}

/// A primary expression and the steps applied to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The primary expression.
    pub head: Head,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A primary expression, at which a chain begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// `$name`
    Variable(String),
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A number, as jsonb writes it.
    Number(String),
    /// A string.
    Text(String),
    /// `a + b`
    Binary(Operator, Box<Chain>, Box<Chain>),
    /// `+a` or `-a`; true for `-`.
    Sign(bool, Box<Chain>),
    /// A predicate in parentheses, used as a value.
    Truth(Box<Predicate>),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
}

/// An accessor, filter or method of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `.key`
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyElement,
    /// `[a, b to c]`
    Elements(Vec<(Chain, Option<Chain>)>),
    /// `.**{a to b}`; `u32::MAX` is `last`.
    Deep(u32, u32),
    /// `?(condition)`
    Filter(Predicate),
    /// `.method()`
    Method(Method),
}

/// An item method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// abs()
    Abs,
    /// ceiling()
    Ceiling,
    /// datetime()
    Datetime,
    /// double()
    Double,
    /// floor()
    Floor,
    /// keyvalue()
    KeyValue,
    /// size()
    Size,
    /// type()
    Type,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// An expression that is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// `a && b`
    And(Box<Predicate>, Box<Predicate>),
    /// `a || b`
    Or(Box<Predicate>, Box<Predicate>),
    /// `!(a)`
    Not(Box<Predicate>),
    /// `(a) is unknown`
    IsUnknown(Box<Predicate>),
    /// `exists(a)`
    Exists(Chain),
    /// `a == b`
    Compare(Comparison, Chain, Chain),
    /// `a starts with "b"`
    StartsWith(Chain, Chain),
    /// `a like_regex "b" flag "c"`
    LikeRegex(Chain, String, String),
}

impl Operator {
    /// Returns the operator's text.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Sub => "-",
            Operator::Mul => "*",
            Operator::Div => "/",
            Operator::Mod => "%",
        }
    }
}

impl Comparison {
    /// Returns the operator's text.
    pub fn name(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl Method {
    /// All methods and their names.
    const NAMES: [(&'static str, Method); 8] = [
        ("abs", Method::Abs),
        ("ceiling", Method::Ceiling),
        ("datetime", Method::Datetime),
        ("double", Method::Double),
        ("floor", Method::Floor),
        ("keyvalue", Method::KeyValue),
        ("size", Method::Size),
        ("type", Method::Type),
    ];

    /// Returns the name of the method.
    pub fn name(self) -> &'static str {
        let found = Method::NAMES.iter().find(|(_, method)| *method == self);
        found.map_or("", |(name, _)| name)
    }
}

/// Converts a text to the canonical form of the type.
pub fn normal(text: &str) -> Result<String, SqlError> {
    Ok(writer::written(&parse(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_form() {
        for (text, wanted) in [
            ("$", "$"),
            ("strict $", "strict $"),
            ("lax $.a.b[*].*", "$.\"a\".\"b\"[*].*"),
            ("$.a[1, 2 to last - 1]", "$.\"a\"[1,2 to last - 1]"),
            ("$.**.a", "$.**.\"a\""),
            ("$.**{2}.a", "$.**{2}.\"a\""),
            ("$.**{0 to last}", "$.**"),
            (
                "$.a ? (@.b > 1 && @ starts with \"x\")",
                "$.\"a\"?(@.\"b\" > 1 && @ starts with \"x\")",
            ),
            ("1 + 2 * $", "(1 + 2 * $)"),
            ("(1 + 2) * $", "((1 + 2) * $)"),
            ("-$.a", "(-$.\"a\")"),
            ("-1.50", "-1.50"),
            (
                "$ ? (!(@ == 1) || (@ > 2) is unknown)",
                "$?(!(@ == 1) || (@ > 2) is unknown)",
            ),
            ("$.type().size()", "$.type().size()"),
            ("$.type", "$.\"type\""),
            ("$x.a", "$\"x\".\"a\""),
            (
                "$ ? (@ like_regex \"^a\" flag \"mi\")",
                "$?(@ like_regex \"^a\" flag \"im\")",
            ),
            ("(1).type()", "(1).type()"),
            ("exists($.a)", "exists ($.\"a\")"),
        ] {
            assert_eq!(normal(text).expect(text), wanted);
            assert_eq!(normal(wanted).expect(wanted), wanted);
        }
        for text in [
            "",
            "$.",
            "$[",
            "@",
            "last",
            "$ ? (1)",
            "$.a b",
            "1 == 1 == 1",
            "\"a",
            "1a",
        ] {
            assert!(normal(text).is_err(), "{text}");
        }
    }
}
