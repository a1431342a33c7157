//! The text output of jsonpath, as PostgreSQL shows it.

use super::{Chain, Head, Operator, Path, Predicate, Step};
use crate::types::json::quote;

/// Operator precedence: an operand is put in parentheses unless its precedence is higher.
const OR: u8 = 0;
const AND: u8 = 1;
const COMPARISON: u8 = 2;
const SUM: u8 = 3;
const PRODUCT: u8 = 4;
const SIGN: u8 = 5;
const ALONE: u8 = 6;

/// Returns the canonical text of a path.
pub(super) fn written(path: &Path) -> String {
    let mut out = String::new();
    if !path.lax {
        out.push_str("strict ");
    }
    chain(&path.root, true, &mut out);
    out
}

fn of_operator(operator: Operator) -> u8 {
    match operator {
        Operator::Add | Operator::Sub => SUM,
        Operator::Mul | Operator::Div | Operator::Mod => PRODUCT,
    }
}

fn of_predicate(predicate: &Predicate) -> u8 {
    match predicate {
        Predicate::Or(..) => OR,
        Predicate::And(..) => AND,
        Predicate::Compare(..) | Predicate::StartsWith(..) => COMPARISON,
        _ => ALONE,
    }
}

fn of_chain(chain: &Chain) -> u8 {
    match &chain.head {
        Head::Binary(operator, ..) => of_operator(*operator),
        Head::Sign(..) => SIGN,
        Head::Truth(predicate) => of_predicate(predicate),
        _ => ALONE,
    }
}

fn opened(parentheses: bool, out: &mut String, inside: impl FnOnce(&mut String)) {
    if parentheses {
        out.push('(');
    }
    inside(out);
    if parentheses {
        out.push(')');
    }
}

fn chain(of: &Chain, parentheses: bool, out: &mut String) {
    match &of.head {
        Head::Root => out.push('$'),
        Head::Current => out.push('@'),
        Head::Last => out.push_str("last"),
        Head::Variable(name) => {
            out.push('$');
            quote(name, out);
        }
        Head::Null => out.push_str("null"),
        Head::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Head::Number(text) => opened(!of.steps.is_empty(), out, |out| out.push_str(text)),
        Head::Text(text) => quote(text, out),
        Head::Binary(operator, left, right) => opened(parentheses, out, |out| {
            let own = of_operator(*operator);
            chain(left, of_chain(left) <= own, out);
            out.push_str(&format!(" {} ", operator.name()));
            chain(right, of_chain(right) <= own, out);
        }),
        Head::Sign(negative, arg) => opened(parentheses, out, |out| {
            out.push(if *negative { '-' } else { '+' });
            chain(arg, of_chain(arg) <= SIGN, out);
        }),
        Head::Truth(truth) => predicate(truth, parentheses, out),
    }
    for step in &of.steps {
        write_step(step, out);
    }
}

fn write_step(step: &Step, out: &mut String) {
    match step {
        Step::Key(key) => {
            out.push('.');
            quote(key, out);
        }
        Step::AnyKey => out.push_str(".*"),
        Step::AnyElement => out.push_str("[*]"),
        Step::Elements(list) => {
            out.push('[');
            for (i, (from, to)) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                chain(from, false, out);
                if let Some(to) = to {
                    out.push_str(" to ");
                    chain(to, false, out);
                }
            }
            out.push(']');
        }
        Step::Deep(from, to) => {
            let level = |level: u32| match level {
                u32::MAX => "last".to_owned(),
                level => level.to_string(),
            };
            out.push_str(&match (*from, *to) {
                (0, u32::MAX) => ".**".to_owned(),
                (from, to) if from == to => format!(".**{{{}}}", level(from)),
                (from, to) => format!(".**{{{} to {}}}", level(from), level(to)),
            });
        }
        Step::Filter(condition) => {
            out.push_str("?(");
            predicate(condition, false, out);
            out.push(')');
        }
        Step::Method(method) => out.push_str(&format!(".{}()", method.name())),
    }
}

fn predicate(of: &Predicate, parentheses: bool, out: &mut String) {
    let two = |word: &str, left: &Predicate, right: &Predicate, own: u8, out: &mut String| {
        opened(parentheses, out, |out| {
            predicate(left, of_predicate(left) <= own, out);
            out.push_str(word);
            predicate(right, of_predicate(right) <= own, out);
        });
    };
    match of {
        Predicate::And(left, right) => two(" && ", left, right, AND, out),
        Predicate::Or(left, right) => two(" || ", left, right, OR, out),
        Predicate::Not(inner) => {
            out.push_str("!(");
            predicate(inner, false, out);
            out.push(')');
        }
        Predicate::IsUnknown(inner) => {
            out.push('(');
            predicate(inner, false, out);
            out.push_str(") is unknown");
        }
        Predicate::Exists(inner) => {
            out.push_str("exists (");
            chain(inner, false, out);
            out.push(')');
        }
        Predicate::Compare(comparison, left, right) => opened(parentheses, out, |out| {
            chain(left, of_chain(left) <= COMPARISON, out);
            out.push_str(&format!(" {} ", comparison.name()));
            chain(right, of_chain(right) <= COMPARISON, out);
        }),
        Predicate::StartsWith(left, right) => opened(parentheses, out, |out| {
            chain(left, of_chain(left) <= COMPARISON, out);
            out.push_str(" starts with ");
            chain(right, of_chain(right) <= COMPARISON, out);
        }),
        Predicate::LikeRegex(text, pattern, flags) => opened(parentheses, out, |out| {
            chain(text, of_chain(text) <= ALONE, out);
            out.push_str(" like_regex ");
            quote(pattern, out);
            if !flags.is_empty() {
                out.push_str(&format!(" flag \"{flags}\""));
            }
        }),
    }
}
