//! The function library: operators, functions, casts and aggregates by PostgreSQL's rules.
//!
//! `eval` evaluates a bound expression. Each group of operators and casts has its own file. The
//! named functions are rows of tables (`library`), each with its signature and a plain function.
//! The functions keep no state: they see only their arguments and the `EvalContext`.

mod advisory;
mod aggregate;
mod arith;
mod array;
mod array_assign;
mod array_search;
mod bits;
mod blocking;
mod cast;
mod catalog;
mod catalog_rows;
mod compare;
mod cursors;
mod datetime;
mod decimal;
mod domain;
mod elsewhere;
mod enums;
mod errors;
mod eval;
mod extract;
mod format;
mod interval;
mod json;
mod json_assign;
mod json_edit;
mod json_make;
mod json_rows;
mod jsonpath;
mod library;
mod like;
mod like_matcher;
mod long;
mod make_time;
mod math;
mod math_degrees;
mod math_more;
mod md5;
mod network;
mod normal_forms;
mod notify;
mod objects;
mod privileges;
mod record;
mod regex;
mod row_version;
mod rows;
mod sample;
mod sequence;
mod series;
mod server;
mod session;
mod signal;
mod signatures;
mod sizes;
mod span_fields;
mod statistics;
mod string;
mod string_more;
mod texts_and_bytes;
mod variadic_call;

use std::future::Future;
use std::pin::Pin;

use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind;
use crate::value::Value;

pub use aggregate::{Accumulator, partial_sum};
pub use array::{ARRAY_OF, ARRAY_OF_ARRAYS, PADDED_ELEMENTS, SLICE, SUBSCRIPT};
pub use array_assign::{WITH_ELEMENT, WITH_SLICE, set_element};
pub(crate) use cast::no_cast;
pub use cast::{CastContext, assign, cast, cast_context, cast_volatility};
pub use compare::{SortDirection, compare, hash_value, same, sort_compare, sort_heads};
pub use decimal::scaled_arith;
pub use domain::{check_domain, check_rules, conditions, satisfies};
pub(crate) use elsewhere::is_elsewhere;
pub use enums::ENUM_RANGE;
pub(crate) use errors::mismatch;
use errors::{division_by_zero, out_of_range};
pub use eval::{eval, eval_predicate, eval_row_count};
pub use json_assign::WITH_JSON;
pub use json_rows::{JSON_RECORD, JSON_RECORDS};
pub use jsonpath::check_path_regex;
pub use library::{candidates, library};
pub(crate) use library::{pure, volatile};
pub use like::{LikeEscape, like, like_prefix};
pub use like_matcher::LikeMatcher;
pub use long::{EvaluationOutcome, LongCall, LongCallResults, in_parts, next_part, read_text};
pub(crate) use long::{VALUE_BYTES_MAX, too_long};
pub(crate) use md5::digest as md5;
pub use record::{
    FIELD, FIELDS_OF_ALL, ROW, ROW_IS_NULL, WITH_FIELD, check_fields, checked, parts_of, row_of,
};
pub(crate) use record::{no_field, wrong_width};
pub use rows::{RowsFunction, rows_candidates};
pub use sample::{SAMPLED, SAMPLED_AGAIN};
pub(crate) use sequence::draws;
pub use series::Series;
pub use string::{quote_ident, quote_literal};
pub use variadic_call::spread_candidate;

/// Returns the function that computes the partition of a row; see `catalog`.
pub fn partition_of() -> &'static ScalarFunction {
    &catalog::PARTITION_OF
}

/// Returns the function that computes the version of a row from its values.
pub fn row_version() -> &'static ScalarFunction {
    &row_version::ROW_VERSION
}

/// Returns whether the function returns its first argument with a changed part.
pub fn changes_a_part(function: &ScalarFunction) -> bool {
    [&WITH_FIELD, &WITH_ELEMENT, &WITH_SLICE, &WITH_JSON].contains(&function)
}

/// A scalar function with one signature.
pub struct ScalarFunction {
    /// The name.
    pub name: &'static str,
    /// The types of the arguments.
    pub args: &'static [TypeKind],
    /// Whether the last argument can be given any number of times.
    pub variadic: bool,
    /// The type of the result.
    pub result: TypeKind,
    /// Whether a NULL argument gives NULL without a call.
    pub strict: bool,
    /// The volatility: what the result depends on.
    pub volatility: Volatility,
    /// The implementation.
    pub eval: fn(&[Value], &EvalContext) -> Result<Value, SqlError>,
    /// The implementation if the function may have to wait; `eval` then only returns an error.
    pub wait: Option<WaitingFunction>,
}

/// The implementation of a function that may have to wait.
pub type WaitingFunction = for<'a> fn(&[Value], &'a EvalContext) -> ValueFuture<'a>;

/// The future value of a function that may have to wait.
pub type ValueFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, SqlError>> + Send + 'a>>;

/// Omits the address of the code, which differs from process to process: plans are compared by this
/// text.
impl std::fmt::Debug for ScalarFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?} -> {:?}", self.name, self.args, self.result)
    }
}

impl PartialEq for ScalarFunction {
    fn eq(&self, other: &ScalarFunction) -> bool {
        std::ptr::eq(self, other)
    }
}
