//! Calls that take long: they run on a thread of their own, and values are limited in size.
//!
//! ```text
//! evaluate ──► an immutable call with long arguments ──► Evaluated::Long ──► LongCall::run on another thread
//!     ▲                                                                              │
//!     └───────────── evaluate again, with the results of the long calls so far ◄─────┘
//! ```
//! An executor has one thread. A call that parses megabytes would stop every session of it.
//!
//! A volatile function of the same expression is called again with it: a sequence may skip values.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ScalarFunction, cast, eval};
use crate::bound::{Expr, Volatility};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::settings::Settings;
use crate::types::{Type, TypeKind};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

/// Bytes of arguments from which on a call counts as long.
const LONG_BYTES: usize = 256 << 10;
/// Bytes of the shorter of two arguments, say of a pattern, from which on the work may be as long as the product of both.
const PATTERN_BYTES: usize = 256;
/// Such a product from which on a call counts as long.
const LONG_STEPS: usize = 16 << 20;
/// The longest value that an expression makes.
pub(crate) const VALUE_BYTES_MAX: usize = match cfg!(test) {
    true => 1 << 20,
    false => 256 << 20,
};

/// A call that is to run on a thread of its own.
#[derive(Debug)]
pub struct LongCall {
    work: Work,
    args: Vec<Value>,
    settings: Arc<Settings>,
}

#[derive(Debug)]
enum Work {
    Call(&'static ScalarFunction),
    Cast {
        from: Type,
        to: Type,
        explicit: bool,
    },
}

/// The result of evaluating an expression that may have long calls.
#[derive(Debug)]
pub enum Evaluated {
    /// The value, or an error of the expression.
    Done(Outcome),
    /// The expression is to be evaluated again with the result of this call.
    Long(LongCall),
}

/// The long calls of one evaluation.
#[derive(Default)]
struct Deferral {
    /// The results that are known, in the order of evaluation.
    known: Vec<Outcome>,
    next: usize,
    pending: Option<LongCall>,
}

thread_local! {
    /// An evaluation of this thread gives its long calls away.
    static DEFERS: Cell<bool> = const { Cell::new(false) };
    static DEFERRAL: RefCell<Deferral> = RefCell::default();
    /// The request to stop the long call that this thread runs.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Evaluates `expr`, given the results of its long calls so far. `known` is empty when this is the first time.
pub fn eval_in_parts(
    expr: &Expr,
    row: &[Value],
    params: &[Value],
    cx: &EvalContext,
    known: &mut Vec<Outcome>,
) -> Evaluated {
    if !known.is_empty() {
        DEFERRAL.with_borrow_mut(|deferral| {
            deferral.known = std::mem::take(known);
            deferral.next = 0;
        });
    }
    let outcome = {
        let _deferring = Deferring::begin();
        eval(expr, row, params, cx)
    };
    if !has_run() {
        return Evaluated::Done(outcome);
    }
    let ended = DEFERRAL.take();
    match ended.pending {
        None => Evaluated::Done(outcome),
        Some(call) => {
            *known = ended.known;
            Evaluated::Long(call)
        }
    }
}

/// Has long calls given away until it is dropped.
struct Deferring;

impl Deferring {
    fn begin() -> Deferring {
        DEFERS.set(true);
        Deferring
    }
}

impl Drop for Deferring {
    fn drop(&mut self) {
        DEFERS.set(false);
    }
}

/// Whether the evaluation has met a long call.
fn has_run() -> bool {
    DEFERRAL.with_borrow(|deferral| deferral.next > 0)
}

/// Calls a function, or gives the call away.
#[inline]
pub(super) fn call(function: &'static ScalarFunction, args: &[Value], cx: &EvalContext) -> Outcome {
    if DEFERS.get() && function.volatility == Volatility::Immutable && is_long(args) {
        return defer(args, cx, || Work::Call(function));
    }
    limited((function.eval)(args, cx)?)
}

/// Casts a value, or gives the cast away.
#[inline]
pub(super) fn cast_value(
    value: Value,
    (from, to): (&Type, &Type),
    explicit: bool,
    cx: &EvalContext,
) -> Outcome {
    let parses = matches!(to.kind, TypeKind::Json | TypeKind::Jsonb);
    if parses && DEFERS.get() && is_long(std::slice::from_ref(&value)) {
        let (from, to) = (*from, *to);
        return defer(&[value], cx, || Work::Cast { from, to, explicit });
    }
    limited(cast(value, from, to, explicit, cx)?)
}

fn is_long(args: &[Value]) -> bool {
    let bytes = |value: &Value| match value {
        Value::Text(text) | Value::Citext(text) | Value::Json(text) | Value::Jsonb(text) => {
            text.len()
        }
        Value::Bytea(bytes) => bytes.len(),
        Value::Array(array) => size_of_val(array.values.as_slice()),
        _ => 0,
    };
    let (mut all, mut longest, mut second) = (0, 0, 0);
    for bytes in args.iter().map(bytes) {
        all += bytes;
        second = second.max(bytes.min(longest));
        longest = longest.max(bytes);
    }
    all >= LONG_BYTES || second >= PATTERN_BYTES && longest * second >= LONG_STEPS
}

#[cold]
fn defer(args: &[Value], cx: &EvalContext, work: impl FnOnce() -> Work) -> Outcome {
    DEFERRAL.with_borrow_mut(|deferral| {
        let place = deferral.next;
        deferral.next += 1;
        if let Some(known) = deferral.known.get(place) {
            return known.clone();
        }
        deferral.pending = Some(LongCall {
            work: work(),
            args: args.to_vec(),
            settings: Arc::clone(&cx.settings),
        });
        Err(SqlError::internal("a long call was not run"))
    })
}

impl LongCall {
    /// Runs the call on this thread until it ends, or `stop` is set.
    ///
    /// # Errors
    /// Those of the call, and 57014 where `stop` is set.
    pub fn run(self, stop: Arc<AtomicBool>) -> Result<Value, SqlError> {
        STOP.set(Some(stop));
        let cx = EvalContext::new(self.settings, 0, 0);
        let outcome = match self.work {
            Work::Call(function) => (function.eval)(&self.args, &cx),
            Work::Cast { from, to, explicit } => {
                let value = self.args.into_iter().next().unwrap_or_default();
                cast(value, &from, &to, explicit, &cx)
            }
        };
        STOP.set(None);
        limited(outcome?)
    }
}

/// Ends a long call that is to stop; its loops call this now and then.
///
/// # Errors
/// 57014.
pub(crate) fn check_stop() -> Result<(), SqlError> {
    let stops = STOP.with_borrow(|stop| {
        let stop = stop.as_ref();
        stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    });
    match stops {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::QUERY_CANCELED,
            "canceling statement due to user request",
        )),
    }
}

/// A value, if it is not too long.
#[inline]
fn limited(value: Value) -> Outcome {
    let bytes = match &value {
        Value::Text(text) | Value::Citext(text) | Value::Json(text) | Value::Jsonb(text) => {
            text.len()
        }
        Value::Bytea(bytes) => bytes.len(),
        _ => 0,
    };
    match bytes > VALUE_BYTES_MAX {
        true => Err(too_long()),
        false => Ok(value),
    }
}

/// Returns 54000, as PostgreSQL does for a buffer that cannot grow.
#[cold]
pub(crate) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(format!(
        "Cannot enlarge a value beyond {VALUE_BYTES_MAX} bytes."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Node;
    use crate::functions::candidates;

    fn text(value: &str) -> Expr {
        Expr {
            ty: Type::TEXT,
            node: Node::Const(Value::text(value)),
        }
    }

    fn upper_of(arg: Expr) -> Expr {
        let mut all = candidates("upper");
        let function = all.find(|function| function.args == [TypeKind::Text]);
        Expr {
            ty: Type::TEXT,
            node: Node::Call {
                function: function.expect("upper(text)"),
                args: vec![arg],
            },
        }
    }

    #[test]
    fn calls_are_long_by_the_sum_or_the_product_of_their_arguments() {
        let text = |bytes| Value::text("a".repeat(bytes));
        assert!(is_long(&[text(LONG_BYTES)]));
        assert!(is_long(&[text(5_000), text(5_000)]));
        assert!(is_long(&[text(300), Value::Int4(1), text(100_000)]));
        assert!(!is_long(&[text(100), text(200_000)]));
        assert!(!is_long(&[text(2_000), text(2_000)]));
    }

    #[test]
    fn nested_long_calls_are_given_away_one_by_one() {
        let cx = EvalContext::new(Arc::new(Settings::new()), 0, 0);
        let expr = upper_of(upper_of(text(&"a".repeat(LONG_BYTES))));
        let mut known = Vec::new();
        let mut calls = 0;
        let value = loop {
            match eval_in_parts(&expr, &[], &[], &cx, &mut known) {
                Evaluated::Done(outcome) => break outcome,
                Evaluated::Long(call) => {
                    calls += 1;
                    known.push(call.run(Arc::default()));
                }
            }
        };
        assert_eq!(calls, 2);
        assert_eq!(value.ok(), Some(Value::text("A".repeat(LONG_BYTES))));
    }

    #[test]
    fn short_calls_are_not_given_away() {
        let cx = EvalContext::new(Arc::new(Settings::new()), 0, 0);
        let expr = upper_of(text("a"));
        let first = eval_in_parts(&expr, &[], &[], &cx, &mut Vec::new());
        assert!(matches!(first, Evaluated::Done(Ok(Value::Text(t))) if t == "A"));
    }

    #[test]
    fn value_beyond_the_limit_is_refused() {
        let value = Value::text("a".repeat(VALUE_BYTES_MAX + 1));
        let error = limited(value).expect_err("too long");
        assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
