//! Evaluation of a jsonpath.
//!
//! All items are found before the caller sees them. Items that were found before an error stay
//! available. An error is *soft* if a filter treats it as unknown and a silent function ignores it;
//! otherwise it is hard.

use std::borrow::Cow;
use std::cell::Cell;

use super::compare::{compared, like_regex, starts_with};
use super::item::Item;
use crate::error::{SqlError, SqlState};
use crate::functions::decimal;
use crate::types::json::{Json, parse};
use crate::types::jsonpath::{Chain, Head, Method, Operator, Path, Predicate, Step};
use crate::types::{Type, numeric, text_in};

const MEMBER_NOT_FOUND: SqlState = SqlState::new(b"2203A");
const ARRAY_NOT_FOUND: SqlState = SqlState::new(b"22039");
const OBJECT_NOT_FOUND: SqlState = SqlState::new(b"2203C");
const NUMBER_NOT_FOUND: SqlState = SqlState::new(b"2203B");
const INVALID_SUBSCRIPT: SqlState = SqlState::new(b"22033");
const NON_NUMERIC: SqlState = SqlState::new(b"22036");
const SINGLETON_REQUIRED: SqlState = SqlState::new(b"22038");

/// An error of the evaluation.
pub(super) enum Fault {
    Soft(SqlError),
    Hard(SqlError),
}

impl Fault {
    pub(super) fn into_error(self) -> SqlError {
        let (Fault::Soft(error) | Fault::Hard(error)) = self;
        error
    }
}

fn soft<T>(state: SqlState, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Soft(SqlError::new(state, what.into())))
}

/// The evaluation of a path over a document.
pub(super) struct Run<'j> {
    path: &'j Path,
    root: &'j Json<'j>,
    vars: Option<&'j Json<'j>>,
    /// The number of objects besides the document on which keyvalue() was called.
    objects: Cell<usize>,
}

/// The context of an expression.
#[derive(Clone)]
struct PathContext<'j> {
    /// The current item, `@`.
    current: Item<'j>,
    /// The size of the innermost array, for `last`.
    size: usize,
    /// Whether structural errors are ignored.
    passes: bool,
}

type Matches<'j> = Vec<Item<'j>>;

impl<'j> Run<'j> {
    pub(super) fn new(path: &'j Path, root: &'j Json<'j>, vars: Option<&'j Json<'j>>) -> Run<'j> {
        let objects = Cell::new(0);
        Run {
            path,
            root,
            vars,
            objects,
        }
    }

    /// Finds all items.
    pub(super) fn all(&self, out: &mut Matches<'j>) -> Result<(), Fault> {
        let place = PathContext {
            current: Item::of(self.root),
            size: 0,
            passes: self.path.lax,
        };
        self.chain(&self.path.root, &place, out)
    }

    /// Finds the items of an expression.
    fn chain(
        &self,
        chain: &'j Chain,
        place: &PathContext<'j>,
        out: &mut Matches<'j>,
    ) -> Result<(), Fault> {
        let steps = &chain.steps[..];
        let item = match &chain.head {
            Head::Root => Item::of(self.root),
            Head::Current => place.current.clone(),
            Head::Last => Item::Number(Cow::Owned((place.size as i64 - 1).to_string())),
            Head::Variable(name) => self.variable(name)?,
            Head::Null => Item::Null,
            Head::Bool(value) => Item::Bool(*value),
            Head::Number(text) => Item::Number(Cow::Borrowed(text)),
            Head::Text(text) => Item::Text(Cow::Borrowed(text)),
            Head::Binary(operator, left, right) => self.binary(*operator, (left, right), place)?,
            Head::Sign(negative, arg) => {
                let mut found = Vec::new();
                let ended = self.taken_apart(arg, place, &mut found);
                for item in found {
                    let Item::Number(text) = &item else {
                        let sign = if *negative { "-" } else { "+" };
                        return soft(
                            NUMBER_NOT_FOUND,
                            format!(
                                "operand of unary jsonpath operator {sign} is not a numeric value"
                            ),
                        );
                    };
                    let item = match negative {
                        true => negated(text),
                        false => item.clone(),
                    };
                    self.steps(steps, item, place, true, out)?;
                }
                return ended;
            }
            Head::Truth(truth) => match self.truth(truth, place)? {
                Some(value) => Item::Bool(value),
                None => Item::Null,
            },
        };
        self.steps(steps, item, place, true, out)
    }

    fn variable(&self, name: &str) -> Result<Item<'j>, Fault> {
        let found = self.vars.and_then(|vars| vars.get(name));
        found.map(Item::of).ok_or_else(|| {
            Fault::Hard(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find jsonpath variable \"{name}\""),
            ))
        })
    }

    /// Finds items like [`Run::chain`], and replaces arrays by their elements in lax mode.
    fn taken_apart(
        &self,
        chain: &'j Chain,
        place: &PathContext<'j>,
        out: &mut Matches<'j>,
    ) -> Result<(), Fault> {
        if !self.path.lax {
            return self.chain(chain, place, out);
        }
        let mut found = Vec::new();
        self.chain(chain, place, &mut found)?;
        for item in found {
            match item {
                Item::Array(_) => out.extend(item.parts().unwrap_or_default()),
                item => out.push(item),
            }
        }
        Ok(())
    }

    /// Finds the items to which `steps` lead from an item. `unwraps` tells whether the first step
    /// can unwrap an array.
    fn steps(
        &self,
        steps: &'j [Step],
        item: Item<'j>,
        place: &PathContext<'j>,
        unwraps: bool,
        out: &mut Matches<'j>,
    ) -> Result<(), Fault> {
        let Some((step, rest)) = steps.split_first() else {
            out.push(item);
            return Ok(());
        };
        let unwraps = unwraps && self.path.lax;
        let takes_apart = match step {
            Step::Key(_) | Step::AnyKey | Step::Filter(_) => true,
            Step::Method(method) => !matches!(method, Method::Type | Method::Size),
            _ => false,
        };
        if takes_apart && unwraps && matches!(item, Item::Array(_)) {
            for part in item.parts().unwrap_or_default() {
                self.steps(steps, part, place, false, out)?;
            }
            return Ok(());
        }
        match step {
            Step::Key(key) => match item.pairs() {
                Some(pairs) => match pairs.into_iter().rev().find(|(k, _)| k == key) {
                    Some((_, value)) => self.steps(rest, value, place, true, out),
                    None if place.passes => Ok(()),
                    None => soft(
                        MEMBER_NOT_FOUND,
                        format!("JSON object does not contain key \"{key}\""),
                    ),
                },
                None if place.passes => Ok(()),
                None => soft(
                    MEMBER_NOT_FOUND,
                    "jsonpath member accessor can only be applied to an object",
                ),
            },
            Step::AnyKey => match item.pairs() {
                Some(pairs) => pairs
                    .into_iter()
                    .try_for_each(|(_, value)| self.steps(rest, value, place, true, out)),
                None if place.passes => Ok(()),
                None => soft(
                    OBJECT_NOT_FOUND,
                    "jsonpath wildcard member accessor can only be applied to an object",
                ),
            },
            Step::AnyElement => match &item {
                Item::Array(_) => item
                    .parts()
                    .unwrap_or_default()
                    .into_iter()
                    .try_for_each(|part| self.steps(rest, part, place, true, out)),
                _ if self.path.lax => self.steps(rest, item, place, true, out),
                _ if place.passes => Ok(()),
                _ => soft(
                    ARRAY_NOT_FOUND,
                    "jsonpath wildcard array accessor can only be applied to an array",
                ),
            },
            Step::Elements(list) => self.elements(list, rest, item, place, out),
            Step::Deep(from, to) => {
                let passing = PathContext {
                    passes: true,
                    ..place.clone()
                };
                if *from == 0 {
                    self.steps(rest, item.clone(), &passing, true, out)?;
                }
                self.deep((1, *from, *to), rest, &item, &passing, out)
            }
            Step::Filter(truth) => {
                let within = PathContext {
                    current: item.clone(),
                    ..place.clone()
                };
                match self.truth(truth, &within)? {
                    Some(true) => self.steps(rest, item, place, true, out),
                    _ => Ok(()),
                }
            }
            Step::Method(method) => self.method(*method, rest, item, place, out),
        }
    }

    /// Finds the descendants of an item between two levels.
    fn deep(
        &self,
        (level, from, to): (u32, u32, u32),
        rest: &'j [Step],
        item: &Item<'j>,
        place: &PathContext<'j>,
        out: &mut Matches<'j>,
    ) -> Result<(), Fault> {
        if level > to {
            return Ok(());
        }
        for part in item.parts().unwrap_or_default() {
            let leaf = part.parts().is_none();
            if level >= from || (from == u32::MAX && to == u32::MAX && leaf) {
                self.steps(rest, part.clone(), place, true, out)?;
            }
            if level < to && !leaf {
                self.deep((level + 1, from, to), rest, &part, place, out)?;
            }
        }
        Ok(())
    }

    fn elements(
        &self,
        list: &'j [(Chain, Option<Chain>)],
        rest: &'j [Step],
        item: Item<'j>,
        place: &PathContext<'j>,
        out: &mut Matches<'j>,
    ) -> Result<(), Fault> {
        let parts = match &item {
            Item::Array(_) => item.parts().unwrap_or_default(),
            _ if self.path.lax => vec![item],
            _ if place.passes => return Ok(()),
            _ => {
                return soft(
                    ARRAY_NOT_FOUND,
                    "jsonpath array accessor can only be applied to an array",
                );
            }
        };
        let within = PathContext {
            size: parts.len(),
            ..place.clone()
        };
        let size = parts.len() as i64;
        for (from, to) in list {
            let from = self.subscript(from, &within)?;
            let to = match to {
                Some(to) => self.subscript(to, &within)?,
                None => from,
            };
            if !place.passes && (from < 0 || from > to || to >= size) {
                return soft(
                    INVALID_SUBSCRIPT,
                    "jsonpath array subscript is out of bounds",
                );
            }
            for at in from.max(0)..=to.min(size - 1) {
                self.steps(rest, parts[at as usize].clone(), place, true, out)?;
            }
        }
        Ok(())
    }

    fn subscript(&self, chain: &'j Chain, place: &PathContext<'j>) -> Result<i64, Fault> {
        let mut found = Vec::new();
        self.chain(chain, place, &mut found)?;
        let [Item::Number(text)] = found.as_slice() else {
            return soft(
                INVALID_SUBSCRIPT,
                "jsonpath array subscript is not a single numeric value",
            );
        };
        let whole = text.split('.').next().unwrap_or_default();
        match whole.parse::<i32>() {
            Ok(at) => Ok(i64::from(at)),
            Err(_) => soft(
                INVALID_SUBSCRIPT,
                "jsonpath array subscript is out of integer range",
            ),
        }
    }

    fn binary(
        &self,
        operator: Operator,
        (left, right): (&'j Chain, &'j Chain),
        place: &PathContext<'j>,
    ) -> Result<Item<'j>, Fault> {
        let mut sides = Vec::with_capacity(2);
        for chain in [left, right] {
            let mut found = Vec::new();
            self.taken_apart(chain, place, &mut found)?;
            sides.push(found);
        }
        let mut numbers = Vec::with_capacity(2);
        for (side, found) in ["left", "right"].iter().zip(&sides) {
            let [Item::Number(text)] = found.as_slice() else {
                return soft(
                    SINGLETON_REQUIRED,
                    format!(
                        "{side} operand of jsonpath operator {} is not a single numeric value",
                        operator.name()
                    ),
                );
            };
            numbers.push(numeric::parse(text).map_err(Fault::Soft)?);
        }
        let (a, b) = (&numbers[0], &numbers[1]);
        let made = match operator {
            Operator::Add => decimal::add(a, b),
            Operator::Sub => decimal::sub(a, b),
            Operator::Mul => decimal::mul(a, b),
            Operator::Div => decimal::div(a, b),
            Operator::Mod => decimal::modulo(a, b),
        };
        Ok(number(&made.map_err(Fault::Soft)?))
    }

    fn method(
        &self,
        method: Method,
        rest: &'j [Step],
        item: Item<'j>,
        place: &PathContext<'j>,
        out: &mut Matches<'j>,
    ) -> Result<(), Fault> {
        let name = method.name();
        let only = |state, what: &str| {
            soft(
                state,
                format!("jsonpath item method .{name}() can only be applied to {what}"),
            )
        };
        let made = match (method, &item) {
            (Method::Type, item) => Item::Text(Cow::Borrowed(item.type_name())),
            (Method::Size, Item::Array(json)) => {
                Item::Number(Cow::Owned(super::elements(json).len().to_string()))
            }
            (Method::Size, _) if place.passes || self.path.lax => Item::Number(Cow::Borrowed("1")),
            (Method::Size, _) => return only(ARRAY_NOT_FOUND, "an array"),
            (Method::Datetime, _) => {
                return Err(Fault::Hard(SqlError::unsupported(
                    "the jsonpath item method .datetime()",
                )));
            }
            (Method::KeyValue, Item::Object(json)) => {
                let mut id = 0;
                if !std::ptr::eq(*json, self.root) {
                    self.objects.set(self.objects.get() + 1);
                    id = self.objects.get();
                }
                let crate::types::json::Kind::Object(pairs) = &json.is else {
                    return Ok(());
                };
                return pairs.iter().try_for_each(|(key, value)| {
                    self.steps(rest, Item::Pair { id, key, value }, place, true, out)
                });
            }
            (Method::KeyValue, _) => return only(OBJECT_NOT_FOUND, "an object"),
            (Method::Double, Item::Number(text)) => double(text)?,
            (Method::Double, Item::Text(text)) => double(text)?,
            (Method::Double, _) => return only(NON_NUMERIC, "a string or numeric value"),
            (_, Item::Number(text)) => {
                let value = numeric::parse(text).map_err(Fault::Soft)?;
                number(&match method {
                    Method::Abs => value.abs(),
                    Method::Ceiling => value.ceil(),
                    _ => value.floor(),
                })
            }
            _ => return only(NON_NUMERIC, "a numeric value"),
        };
        self.steps(rest, made, place, true, out)
    }

    /// Evaluates a condition; `None` is unknown. It fails only with hard errors.
    fn truth(&self, of: &'j Predicate, place: &PathContext<'j>) -> Result<Option<bool>, Fault> {
        Ok(match of {
            Predicate::And(left, right) => match self.truth(left, place)? {
                Some(false) => Some(false),
                left => match self.truth(right, place)? {
                    Some(true) => left,
                    right => right,
                },
            },
            Predicate::Or(left, right) => match self.truth(left, place)? {
                Some(true) => Some(true),
                left => match self.truth(right, place)? {
                    Some(false) => left,
                    right => right,
                },
            },
            Predicate::Not(inner) => self.truth(inner, place)?.map(|value| !value),
            Predicate::IsUnknown(inner) => Some(self.truth(inner, place)?.is_none()),
            Predicate::Exists(inner) => {
                let mut found = Vec::new();
                match self.chain(inner, place, &mut found) {
                    Err(Fault::Hard(error)) => return Err(Fault::Hard(error)),
                    // In lax mode, one item is enough.
                    _ if self.path.lax && !found.is_empty() => Some(true),
                    Err(Fault::Soft(_)) => None,
                    Ok(()) => Some(!found.is_empty()),
                }
            }
            Predicate::Compare(how, left, right) => {
                let test = |a: &Item<'j>, b: &Item<'j>| compared(*how, a, b);
                self.tested((left, Some(right)), place, &test)?
            }
            Predicate::StartsWith(left, right) => {
                self.tested((left, Some(right)), place, &starts_with)?
            }
            Predicate::LikeRegex(left, pattern, flags) => {
                let test = |a: &Item<'j>, _: &Item<'j>| like_regex(a, pattern, flags);
                self.tested((left, None), place, &test)?
            }
        })
    }

    /// Returns whether a test holds for any pair of items.
    fn tested(
        &self,
        (left, right): (&'j Chain, Option<&'j Chain>),
        place: &PathContext<'j>,
        test: &dyn Fn(&Item<'j>, &Item<'j>) -> Option<bool>,
    ) -> Result<Option<bool>, Fault> {
        let mut sides = [Vec::new(), vec![Item::Null]];
        for (side, chain) in sides.iter_mut().zip([Some(left), right]) {
            let Some(chain) = chain else {
                continue;
            };
            side.clear();
            match self.taken_apart(chain, place, side) {
                Ok(()) => {}
                Err(Fault::Soft(_)) => return Ok(None),
                Err(hard) => return Err(hard),
            }
        }
        let (mut holds, mut unknown) = (false, false);
        for left in &sides[0] {
            for right in &sides[1] {
                match test(left, right) {
                    None if !self.path.lax => return Ok(None),
                    None => unknown = true,
                    Some(true) if self.path.lax => return Ok(Some(true)),
                    Some(value) => holds |= value,
                }
            }
        }
        Ok(match holds {
            true => Some(true),
            false if unknown => None,
            false => Some(false),
        })
    }
}

fn number(value: &rust_decimal::Decimal) -> Item<'static> {
    let mut text = Vec::new();
    numeric::format(value, &mut text);
    Item::Number(Cow::Owned(String::from_utf8(text).unwrap_or_default()))
}

fn negated<'j>(text: &str) -> Item<'j> {
    let zero = text.bytes().all(|b| matches!(b, b'0' | b'.' | b'-'));
    Item::Number(Cow::Owned(match text.strip_prefix('-') {
        Some(text) => text.to_owned(),
        None if zero => text.to_owned(),
        None => format!("-{text}"),
    }))
}

/// Converts a number, or a text that contains one.
fn double<'j>(text: &str) -> Result<Item<'j>, Fault> {
    let settings = crate::settings::Settings::default();
    let value = text_in(&Type::FLOAT8, text, &settings).ok();
    let value = value.and_then(|value| match value {
        crate::value::Value::Float8(value) if value.is_finite() => Some(value),
        _ => None,
    });
    let decimal = value.and_then(|value| numeric::from_f64(value, 15).ok());
    match decimal {
        Some(decimal) => Ok(number(&decimal)),
        // The number is out of the type's range, or the text is not a number.
        None => {
            let what = match parse(text).is_ok() {
                true => "numeric argument",
                false => "string argument",
            };
            soft(
                NON_NUMERIC,
                format!(
                    "{what} of jsonpath item method .double() is not a valid representation of a \
                     double precision number"
                ),
            )
        }
    }
}
