//! Long calls: calls that may take long run on a thread of their own, and values are limited in
//! size.
//!
//! ```text
//! evaluate ──► an immutable call with long arguments ──► Evaluated::Long ──► LongCall::run
//!     ▲                                                                   on another thread
//!     │                                                                              │
//!     └───────────── evaluate again, with the results of the long calls so far ◄─────┘
//! ```
//! An executor has one thread. A call that parses megabytes would block every session of the
//! executor.
//!
//! Repeated work has no effect before its last long call. But a volatile function in the same
//! expression is called again, so a sequence may skip values.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ScalarFunction, cast};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::settings::Settings;
use crate::types::{LONG_BYTES, Type, TypeKind, reads_long, text_in};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

/// The minimum size of the shorter of two arguments, such as a pattern, in bytes. Above it, the
/// work may be proportional to the product of both sizes.
const PATTERN_BYTES: usize = 256;
/// The minimum of that product for a long call.
const LONG_STEPS: usize = 16 << 20;
/// The maximum size of a value that an expression creates, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = match cfg!(test) {
    true => 1 << 20,
    false => 256 << 20,
};

/// A call to run on another thread.
#[derive(Debug)]
pub struct LongCall {
    work: Work,
    args: Vec<Value>,
    settings: Arc<Settings>,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Call(&'static ScalarFunction),
    Cast {
        from: Type,
        to: Type,
        explicit: bool,
    },
    /// Reads a value of the type from its text.
    Read(Type),
}

/// The result of work that evaluates expressions, some of which may contain long calls.
#[derive(Debug)]
pub enum EvaluationOutcome<T> {
    /// The result of the work.
    Done(Result<T, SqlError>),
    /// The work must be repeated. The caller first appends the result of `call` to `known`.
    Long {
        /// The call to run on another thread.
        call: LongCall,
        /// The results of the earlier calls.
        known: LongCallResults,
    },
}

/// The results of long calls, in the order of evaluation.
#[derive(Debug, Default)]
pub struct LongCallResults {
    calls: Vec<Work>,
    results: Vec<Outcome>,
}

impl LongCallResults {
    /// Adds the result of the call that was returned together with these results.
    pub fn push(&mut self, result: Outcome) {
        self.results.push(result);
    }

    /// Returns the result at `place`, if it is that of `work`. In a repetition, a volatile function
    /// may lead to other calls.
    fn result(&mut self, place: usize, work: Work) -> Option<Outcome> {
        if !self.calls.get(place)?.is_same(work) {
            self.calls.truncate(place);
            self.results.truncate(place);
        }
        self.results.get(place).cloned()
    }
}

impl Work {
    fn is_same(self, other: Work) -> bool {
        match (self, other) {
            (Work::Call(one), Work::Call(other)) => std::ptr::eq(one, other),
            (Work::Cast { from, to, .. }, Work::Cast { from: f, to: t, .. }) => {
                (from, to) == (f, t)
            }
            (Work::Read(one), Work::Read(other)) => one == other,
            (Work::Call(_) | Work::Cast { .. } | Work::Read(_), _) => false,
        }
    }
}

/// The long calls of one evaluation.
#[derive(Default)]
struct Deferral {
    known: LongCallResults,
    next: usize,
    pending: Option<LongCall>,
}

thread_local! {
    static DEFERRAL: RefCell<Deferral> = RefCell::default();
    /// The stop flag of the long call that this thread runs.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`, which evaluates expressions with `cx`, up to its first long call.
#[inline(always)]
pub fn in_parts<T>(
    cx: &EvalContext,
    work: impl FnOnce() -> Result<T, SqlError>,
) -> EvaluationOutcome<T> {
    let giving = DeferGuard::begin(cx);
    let outcome = work();
    match giving.0.long_calls.were_met() {
        true => ended(outcome),
        false => EvaluationOutcome::Done(outcome),
    }
}

/// Runs `work` again with the results of its earlier long calls, up to the next one.
pub fn next_part<T>(
    cx: &EvalContext,
    known: LongCallResults,
    work: impl FnOnce() -> Result<T, SqlError>,
) -> EvaluationOutcome<T> {
    DEFERRAL.with_borrow_mut(|deferral| deferral.known = known);
    let part = in_parts(cx, work);
    // This run may have met no call.
    drop(DEFERRAL.take());
    part
}

/// Returns the next step of work that has met long calls.
#[cold]
fn ended<T>(outcome: Result<T, SqlError>) -> EvaluationOutcome<T> {
    let mut ended = DEFERRAL.take();
    match ended.pending {
        None => EvaluationOutcome::Done(outcome),
        Some(call) => {
            ended.known.calls.push(call.work);
            EvaluationOutcome::Long {
                call,
                known: ended.known,
            }
        }
    }
}

/// A guard: long calls are deferred until it is dropped.
struct DeferGuard<'a>(&'a EvalContext);

impl<'a> DeferGuard<'a> {
    #[inline(always)]
    fn begin(cx: &'a EvalContext) -> DeferGuard<'a> {
        cx.long_calls.give_away();
        DeferGuard(cx)
    }
}

impl Drop for DeferGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.long_calls.run();
    }
}

/// Calls a function or defers the call.
#[inline]
pub(super) fn call(function: &'static ScalarFunction, args: &[Value], cx: &EvalContext) -> Outcome {
    if is_long(args)
        && function.volatility == Volatility::Immutable
        && cx.long_calls.are_given_away()
    {
        return defer(args, cx, Work::Call(function));
    }
    limited((function.eval)(args, cx)?)
}

/// Casts a value or defers the cast.
#[inline]
pub(super) fn cast_value(
    value: Value,
    (from, to): (&Type, &Type),
    explicit: bool,
    cx: &EvalContext,
) -> Outcome {
    let parses = matches!(to.kind, TypeKind::Json | TypeKind::Jsonb);
    if parses && cx.long_calls.are_given_away() && is_long(std::slice::from_ref(&value)) {
        let (from, to) = (*from, *to);
        return defer(&[value], cx, Work::Cast { from, to, explicit });
    }
    limited(cast(value, from, to, explicit, cx)?)
}

/// Reads a value from its text or defers the work.
///
/// # Errors
/// Those of the type's input function.
#[inline]
pub fn read_text(text: &str, ty: &Type, cx: &EvalContext) -> Outcome {
    if reads_long(ty, text.len()) && cx.long_calls.are_given_away() {
        return defer(&[Value::text(text)], cx, Work::Read(*ty));
    }
    text_in(ty, text, &cx.settings)
}

/// Returns whether a call with these arguments may take long.
#[inline]
fn is_long(args: &[Value]) -> bool {
    args.iter().any(has_bytes) && are_long(args)
}

/// Returns whether the value's type has no bound on its length.
#[inline]
fn has_bytes(value: &Value) -> bool {
    matches!(
        value,
        Value::Text(_)
            | Value::Citext(_)
            | Value::Json(_)
            | Value::Jsonb(_)
            | Value::Bytea(_)
            | Value::Array(_)
    )
}

fn are_long(args: &[Value]) -> bool {
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
fn defer(args: &[Value], cx: &EvalContext, work: Work) -> Outcome {
    cx.long_calls.note();
    DEFERRAL.with_borrow_mut(|deferral| {
        let place = deferral.next;
        deferral.next += 1;
        if let Some(known) = deferral.known.result(place, work) {
            return known;
        }
        deferral.pending = Some(LongCall {
            work,
            args: args.to_vec(),
            settings: Arc::clone(&cx.settings),
        });
        Err(SqlError::internal("a long call was not run"))
    })
}

impl LongCall {
    /// Runs the call on this thread until it ends or `stop` is set.
    ///
    /// # Errors
    /// Those of the call, and 57014 if `stop` is set.
    pub fn run(self, stop: Arc<AtomicBool>) -> Result<Value, SqlError> {
        STOP.set(Some(stop));
        let cx = EvalContext::new(self.settings, 0, 0);
        let outcome = match self.work {
            Work::Call(function) => (function.eval)(&self.args, &cx),
            Work::Cast { from, to, explicit } => {
                let value = self.args.into_iter().next().unwrap_or_default();
                cast(value, &from, &to, explicit, &cx)
            }
            Work::Read(ty) => match self.args.first() {
                Some(Value::Text(text)) => text_in(&ty, text, &cx.settings),
                _ => Err(SqlError::internal("no text to be read")),
            },
        };
        STOP.set(None);
        limited(outcome?)
    }
}

/// Checks whether the long call of this thread must stop. Its loops call this regularly.
///
/// # Errors
/// 57014 if it must stop.
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

/// Checks the size of a value.
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

/// Returns error 54000, as PostgreSQL does for a buffer that cannot grow.
#[cold]
pub(crate) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(format!(
        "Cannot enlarge a value beyond {VALUE_BYTES_MAX} bytes."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Expr, Node};
    use crate::functions::{candidates, eval};

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
    fn call_is_long_by_sum_or_product_of_argument_sizes() {
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
        let work = || eval(&expr, &[], &[], &cx);
        let mut part = in_parts(&cx, work);
        let mut calls = 0;
        let value = loop {
            match part {
                EvaluationOutcome::Done(outcome) => break outcome,
                EvaluationOutcome::Long { call, mut known } => {
                    calls += 1;
                    known.push(call.run(Arc::default()));
                    part = next_part(&cx, known, work);
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
        let first = in_parts(&cx, || eval(&expr, &[], &[], &cx));
        assert!(matches!(first, EvaluationOutcome::Done(Ok(Value::Text(t))) if t == "A"));
    }

    #[test]
    fn value_beyond_the_limit_is_refused() {
        let value = Value::text("a".repeat(VALUE_BYTES_MAX + 1));
        let error = limited(value).expect_err("too long");
        assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
