//! Aggregate calls. A call is added to a list, and a placeholder column stands for it in the
//! expression.

use sqlparser::ast;

use super::Binder;
use super::call::plain_argument;
use super::distinct::{has_equality, has_order};
use super::expr::{Clause, ExprContext, has_blanks};
use super::grouping_sets::LEVEL_SLOTS;
use crate::bound::{Aggregate, AggregateKind, Expr, Node, Statistic, WindowCall};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::{Type, TypeCategory, TypeKind};
use crate::value::Value;

/// The first slot number of aggregate placeholders. `group` later replaces a placeholder by the
/// column of the grouped row.
pub(super) const AGGREGATE_SLOTS: usize = 1 << 40;

/// The aggregate calls of one SELECT, with its window calls and its calls of GROUPING.
#[derive(Debug, Default)]
pub(super) struct Aggregates {
    pub(super) list: Vec<Aggregate>,
    /// The calls with OVER.
    pub(super) windows: Vec<WindowCall>,
    /// The arguments of each call of GROUPING.
    pub(super) levels: Vec<Vec<Expr>>,
    /// The definitions of the WINDOW clause, by name.
    pub(super) named: Vec<(String, ast::WindowSpec)>,
}

impl Aggregates {
    /// Returns the placeholder of an aggregate call; equal calls share one.
    pub(super) fn add(&mut self, aggregate: Aggregate) -> Expr {
        let ty = aggregate.ty;
        let at = match self.list.iter().position(|a| *a == aggregate) {
            Some(at) => at,
            None => {
                self.list.push(aggregate);
                self.list.len() - 1
            }
        };
        Expr::column(ty, AGGREGATE_SLOTS + at)
    }

    /// Returns the placeholder of a call of GROUPING.
    pub(super) fn add_level(&mut self, args: Vec<Expr>) -> Expr {
        self.levels.push(args);
        Expr::column(Type::INT4, LEVEL_SLOTS + self.levels.len() - 1)
    }
}

pub(super) fn kind_of(name: &str) -> Option<AggregateKind> {
    Some(match name {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Avg,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "bool_and" | "every" => AggregateKind::BoolAnd,
        "bool_or" => AggregateKind::BoolOr,
        "string_agg" => AggregateKind::StringAgg,
        "array_agg" => AggregateKind::ArrayAgg,
        "json_agg" => AggregateKind::JsonAgg,
        "jsonb_agg" => AggregateKind::JsonbAgg,
        "json_object_agg" => AggregateKind::JsonObjectAgg,
        "jsonb_object_agg" => AggregateKind::JsonbObjectAgg,
        "bit_and" => AggregateKind::BitAnd,
        "bit_or" => AggregateKind::BitOr,
        "bit_xor" => AggregateKind::BitXor,
        _ => return Statistic::of(name).map(AggregateKind::Statistic),
    })
}

impl Binder<'_> {
    /// Binds the call and returns its placeholder if `name` is an aggregate; `None` for other
    /// functions.
    pub(super) fn aggregate_call(
        &mut self,
        name: &str,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let Some(mut kind) = kind_of(name) else {
            return Ok(None);
        };
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(super::call::no_function(name, &[]));
        };
        let handed = self.handed();
        let mut args = Vec::new();
        let star = matches!(
            list.args.as_slice(),
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
        );
        if star && kind == AggregateKind::Count {
            kind = AggregateKind::CountStar;
        } else {
            for arg in &list.args {
                args.push(self.scalar(plain_argument(arg)?, around.scope, Clause::Argument)?);
            }
        }
        let distinct = matches!(
            list.duplicate_treatment,
            Some(ast::DuplicateTreatment::Distinct)
        );
        let order_by = self.inner_order(&list.clauses, around)?;
        if distinct {
            // DISTINCT sorts the values, so their types need an order and an equality.
            let sorts = |arg: &Expr| has_equality(&arg.ty).and_then(|()| has_order(&arg.ty));
            args.iter().try_for_each(sorts)?;
        }
        order_by
            .iter()
            .try_for_each(|(key, ..)| has_order(&key.ty))?;
        let filter = match &function.filter {
            None => None,
            Some(filter) => {
                let filter = self.scalar(filter, around.scope, Clause::Filter)?;
                Some(self.condition(filter, "FILTER")?)
            }
        };
        // ORDER BY names the arguments as they were before their casts.
        let written = if distinct { args.clone() } else { Vec::new() };
        let (ty, args) = self.aggregate_types(name, kind, args)?;
        let is_argument = |key: &Expr| args.contains(key) || written.contains(key);
        if distinct && order_by.iter().any(|(key, _, _)| !is_argument(key)) {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
            ));
        }
        let aggregate = Aggregate {
            kind,
            distinct,
            args,
            filter,
            order_by,
            ty,
        };
        self.belonging(aggregate, &handed, around).map(Some)
    }

    pub(super) fn inner_order(
        &mut self,
        clauses: &[ast::FunctionArgumentClause],
        around: &ExprContext<'_>,
    ) -> Result<Vec<(Expr, bool, bool)>, SqlError> {
        let mut order = Vec::new();
        for clause in clauses {
            let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(SqlError::unsupported("this clause in an aggregate call"));
            };
            for key in keys {
                let expr = self.scalar(&key.expr, around.scope, Clause::Argument)?;
                let expr = self.unknown_to_text(expr)?;
                let desc = key.options.asc == Some(false);
                order.push((expr, desc, key.options.nulls_first.unwrap_or(desc)));
            }
        }
        Ok(order)
    }

    /// Returns the result type, and the arguments cast to the types that the aggregate takes.
    pub(super) fn aggregate_types(
        &mut self,
        name: &str,
        kind: AggregateKind,
        args: Vec<Expr>,
    ) -> Result<(Type, Vec<Expr>), SqlError> {
        use AggregateKind as K;
        use TypeKind as T;
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let missing = || super::call::no_function(name, &types);
        let mut args = args.into_iter();
        match (kind, args.next(), args.next(), args.next()) {
            (K::CountStar, None, None, None) => Ok((Type::INT8, Vec::new())),
            (K::Count, Some(arg), None, None) => Ok((Type::INT8, vec![self.unknown_to_text(arg)?])),
            (K::Sum | K::Avg, Some(arg), None, None) => {
                let average = kind == K::Avg;
                let ty = match arg.ty.kind {
                    T::Int2 | T::Int4 if !average => Type::INT8,
                    T::Int2 | T::Int4 | T::Int8 | T::Numeric => Type::NUMERIC,
                    T::Float4 if !average => Type::FLOAT4,
                    T::Float4 | T::Float8 => Type::FLOAT8,
                    T::Interval => Type::INTERVAL,
                    T::Time if !average => {
                        let arg = self.coerce(arg, Type::INTERVAL, CastContext::Implicit)?;
                        return Ok((Type::INTERVAL, vec![arg]));
                    }
                    T::Unknown => {
                        let arg = self.coerce(arg, Type::FLOAT8, CastContext::Implicit)?;
                        return Ok((Type::FLOAT8, vec![arg]));
                    }
                    _ => return Err(missing()),
                };
                Ok((ty, vec![arg]))
            }
            (K::Min | K::Max, Some(arg), None, None) => {
                let arg = self.unknown_to_text(arg)?;
                let ty = match arg.ty.kind {
                    T::VarChar | T::Name => Type::TEXT,
                    T::Cidr => Type::INET,
                    T::Bool
                    | T::Bytea
                    | T::Uuid
                    | T::MacAddr
                    | T::Xid
                    | T::Json
                    | T::Jsonb
                    | T::RefCursor
                    | T::JsonPath
                    | T::Composite(_)
                    | T::Record
                    | T::Void => {
                        return Err(missing());
                    }
                    T::BpChar => arg.ty,
                    kind => Type::of(kind),
                };
                Ok((ty, vec![arg]))
            }
            (K::BoolAnd | K::BoolOr, Some(arg), None, None) => {
                if !matches!(
                    arg.ty.kind.category(),
                    TypeCategory::Boolean | TypeCategory::Unknown
                ) {
                    return Err(missing());
                }
                let arg = self.coerce(arg, Type::BOOL, CastContext::Implicit)?;
                Ok((Type::BOOL, vec![arg]))
            }
            (K::StringAgg, Some(arg), Some(separator), None) => {
                let is_bytes = |kind: T| matches!(kind, T::Bytea | T::Unknown);
                let both = [arg.ty.kind, separator.ty.kind];
                if both.contains(&T::Bytea) && both.into_iter().all(is_bytes) {
                    let arg = self.coerce(arg, Type::BYTEA, CastContext::Implicit)?;
                    let separator = self.coerce(separator, Type::BYTEA, CastContext::Implicit)?;
                    return Ok((Type::BYTEA, vec![arg, separator]));
                }
                let is_text = |kind: T| kind.is_string() || kind.is_citext();
                if !is_text(arg.ty.kind) || !is_text(separator.ty.kind) {
                    return Err(missing());
                }
                let arg = self.coerce(arg, Type::TEXT, CastContext::Implicit)?;
                let separator = self.coerce(separator, Type::TEXT, CastContext::Implicit)?;
                Ok((Type::TEXT, vec![arg, separator]))
            }
            (K::BitAnd | K::BitOr | K::BitXor, Some(arg), None, None) => match arg.ty.kind {
                T::Int2 | T::Int4 | T::Int8 => Ok((Type::of(arg.ty.kind), vec![arg])),
                _ => Err(missing()),
            },
            (K::Statistic(statistic), Some(arg), None, None) if statistic.is_single() => {
                match arg.ty.kind {
                    T::Int2 | T::Int4 | T::Int8 | T::Numeric => Ok((Type::NUMERIC, vec![arg])),
                    T::Float4 | T::Float8 | T::Unknown => {
                        let arg = self.coerce(arg, Type::FLOAT8, CastContext::Implicit)?;
                        Ok((Type::FLOAT8, vec![arg]))
                    }
                    _ => Err(missing()),
                }
            }
            (K::Statistic(statistic), Some(y), Some(x), None) if !statistic.is_single() => {
                let number = |e: &Expr| {
                    e.ty.kind.category() == TypeCategory::Numeric || e.ty == Type::UNKNOWN
                };
                if !number(&y) || !number(&x) {
                    return Err(missing());
                }
                let y = self.coerce(y, Type::FLOAT8, CastContext::Implicit)?;
                let x = self.coerce(x, Type::FLOAT8, CastContext::Implicit)?;
                let ty = match statistic {
                    Statistic::RegrCount => Type::INT8,
                    _ => Type::FLOAT8,
                };
                Ok((ty, vec![y, x]))
            }
            (K::JsonAgg | K::JsonbAgg, Some(arg), None, None) => {
                let (ty, made) = json_of(kind);
                let arg = self.unknown_to_text(arg)?;
                let parted = arg.ty.element().is_some() || arg.ty.kind.is_row();
                let arg = self.padded(arg)?;
                let mut args = vec![self.call(made, vec![arg])?];
                if parted && kind == K::JsonAgg {
                    // json_agg writes arrays and rows on lines of their own, and other values on
                    // one line.
                    args.push(Expr::constant(Type::BOOL, Value::Bool(true)));
                }
                Ok((ty, args))
            }
            (K::JsonObjectAgg | K::JsonbObjectAgg, Some(key), Some(arg), None) => {
                let (ty, made) = json_of(kind);
                let key = self.padded(key)?;
                let key = self.as_text(key)?;
                let arg = self.padded(arg)?;
                Ok((ty, vec![key, self.call(made, vec![arg])?]))
            }
            (K::ArrayAgg, Some(arg), None, None) => {
                let arg = self.unknown_to_text(arg)?;
                // Only `char(n)` is displayed other than it is stored, so only its length must be
                // kept.
                let of = match has_blanks(arg.ty) {
                    true => arg.ty,
                    false => Type::of(arg.ty.kind),
                };
                let ty = match of.element() {
                    Some(_) => Some(of),
                    None => of.array(),
                };
                Ok((ty.ok_or_else(missing)?, vec![arg]))
            }
            (K::Count, None, None, None) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "count(*) must be used to call a parameterless aggregate function",
            )),
            _ => Err(missing()),
        }
    }
}

/// Returns the type of a JSON aggregate, and the function that converts its input to JSON.
fn json_of(kind: AggregateKind) -> (Type, &'static str) {
    match kind {
        AggregateKind::JsonAgg | AggregateKind::JsonObjectAgg => (Type::JSON, "to_json"),
        _ => (Type::JSONB, "to_jsonb"),
    }
}

/// Returns the number of the aggregate that the expression is the placeholder of.
pub(super) fn placeholder(expr: &Expr) -> Option<usize> {
    match expr.node {
        Node::Column(slot) => slot.checked_sub(AGGREGATE_SLOTS),
        _ => None,
    }
}
