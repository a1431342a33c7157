//! Window calls. As for aggregates, a call is added to a list, and a placeholder stands for it in
//! the expression.

use sqlparser::ast;

use super::aggregate::{Aggregates, kind_of};
use super::call::plain_argument;
use super::expr::{Clause, ExprContext};
use super::scope::Scope;
use super::{Binder, names};
use crate::bound::{
    Aggregate, AggregateKind, Exclude, Expr, Frame, FrameBound, FrameOffset, FrameUnit, WindowCall,
    WindowFunction,
};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::parser::MARKS;
use crate::types::{Type, TypeKind};

/// The first slot number of window placeholders, which are replaced when the SELECT is complete.
pub(super) const WINDOW_SLOTS: usize = 1 << 50;

/// ORDER BY of a window: the expression, whether it is descending, and whether NULLs come first.
type Order = Vec<(Expr, bool, bool)>;

impl Aggregates {
    /// Returns the placeholder of a window call; equal calls share one.
    fn add_window(&mut self, call: WindowCall) -> Expr {
        let ty = call.ty;
        let at = match self.windows.iter().position(|w| *w == call) {
            Some(at) => at,
            None => {
                self.windows.push(call);
                self.windows.len() - 1
            }
        };
        Expr::column(ty, WINDOW_SLOTS + at)
    }
}

impl Binder<'_> {
    /// Checks the windows of the WINDOW clause, including those that no call uses.
    ///
    /// # Errors
    /// Returns the errors of a call with such a window.
    pub(super) fn check_windows(
        &mut self,
        scope: &Scope,
        aggregates: &mut Aggregates,
    ) -> Result<(), SqlError> {
        for (_, spec) in aggregates.named.clone() {
            let mut around = ExprContext {
                scope,
                clause: Clause::Window,
                aggregates: Some(&mut *aggregates),
            };
            self.window(&spec, &mut around)?;
        }
        Ok(())
    }

    /// Binds a call with OVER.
    pub(super) fn window_call(
        &mut self,
        name: &str,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<Expr, SqlError> {
        if let Some(treatment) = &function.null_treatment {
            let message = format!("{treatment} is not supported");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let allowed = matches!(around.clause, Clause::Select | Clause::OrderBy);
        if !allowed || around.aggregates.is_none() {
            let message = match around.clause {
                Clause::Window => "window function calls cannot be nested".to_owned(),
                Clause::Argument => {
                    "aggregate function calls cannot contain window function calls".to_owned()
                }
                clause => format!("window functions are not allowed in {}", clause.name()),
            };
            let state = match around.clause {
                Clause::Argument => SqlState::GROUPING_ERROR,
                _ => SqlState::WINDOWING_ERROR,
            };
            return Err(SqlError::new(state, message));
        }
        let mut inner = ExprContext {
            scope: around.scope,
            clause: Clause::Window,
            aggregates: around.aggregates.as_deref_mut(),
        };
        let spec = match &function.over {
            Some(ast::WindowType::WindowSpec(spec)) => spec.clone(),
            Some(ast::WindowType::NamedWindow(name)) => named_window(&inner, name)?,
            None => return Err(SqlError::internal("a window call without a window")),
        };
        let (partition_by, order_by, frame) = self.window(&spec, &mut inner)?;
        let (function, args, ty) = self.window_function(name, function, &mut inner)?;
        let call = WindowCall {
            function,
            args,
            partition_by,
            order_by,
            frame,
            ty,
        };
        match &mut around.aggregates {
            Some(list) => Ok(list.add_window(call)),
            None => Err(SqlError::internal("a window call where none may be")),
        }
    }

    /// Returns the function, its arguments and its type.
    fn window_function(
        &mut self,
        name: &str,
        function: &ast::Function,
        around: &mut ExprContext<'_>,
    ) -> Result<(WindowFunction, Vec<Expr>, Type), SqlError> {
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(super::call::no_function(name, &[]));
        };
        let star = matches!(
            list.args.as_slice(),
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
        );
        let refused = |what: &str| {
            Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{what} window functions"),
            ))
        };
        let mut args = Vec::new();
        if !star {
            for arg in &list.args {
                args.push(self.expr(plain_argument(arg)?, around)?);
            }
        }
        if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
            return refused("DISTINCT is not implemented for");
        }
        if !list.clauses.is_empty() {
            return refused("aggregate ORDER BY is not implemented for");
        }
        if let Some(found) = WindowFunction::of(name) {
            if function.filter.is_some() {
                return refused("FILTER is not implemented for non-aggregate");
            }
            let (args, ty) = self.window_arguments(name, &found, args)?;
            return Ok((found, args, ty));
        }
        let Some(mut kind) = kind_of(name) else {
            // The name may belong to another kind of function, or to none.
            self.call(name, args)?;
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!(
                    "OVER specified, but {name} is not a window function nor an aggregate function"
                ),
            ));
        };
        if star && kind == AggregateKind::Count {
            kind = AggregateKind::CountStar;
        }
        let filter = match &function.filter {
            None => None,
            Some(filter) => {
                let filter = self.expr(filter, around)?;
                Some(self.condition(filter, "FILTER")?)
            }
        };
        let (ty, args) = self.aggregate_types(name, kind, args)?;
        let aggregate = Aggregate {
            kind,
            distinct: false,
            args,
            filter,
            order_by: Vec::new(),
            ty,
        };
        Ok((
            WindowFunction::Aggregate(Box::new(aggregate)),
            Vec::new(),
            ty,
        ))
    }

    fn window_arguments(
        &mut self,
        name: &str,
        function: &WindowFunction,
        args: Vec<Expr>,
    ) -> Result<(Vec<Expr>, Type), SqlError> {
        use WindowFunction as W;
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let (least, most) = match function {
            W::Ntile | W::FirstValue | W::LastValue => (1, 1),
            W::NthValue => (2, 2),
            W::Lag | W::Lead => (1, 3),
            _ => (0, 0),
        };
        if args.len() < least || args.len() > most {
            return Err(super::call::no_function(name, &types));
        }
        let wrong = |e: SqlError| match e.sqlstate() == SqlState::CANNOT_COERCE {
            true => super::call::no_function(name, &types),
            false => e,
        };
        let mut args = args.into_iter();
        let (first, second, third) = (args.next(), args.next(), args.next());
        let mut bound = Vec::new();
        match (function, first) {
            (W::RowNumber | W::Rank | W::DenseRank, _) => return Ok((bound, Type::INT8)),
            (W::PercentRank | W::CumeDist, _) => return Ok((bound, Type::FLOAT8)),
            (W::Ntile, Some(first)) => {
                let buckets = self.coerce(first, Type::INT4, CastContext::Implicit);
                bound.push(buckets.map_err(wrong)?);
                return Ok((bound, Type::INT4));
            }
            (_, Some(first)) => bound.push(self.unknown_to_text(first)?),
            (_, None) => return Err(super::call::no_function(name, &types)),
        }
        if let Some(second) = second {
            let count = self.coerce(second, Type::INT4, CastContext::Implicit);
            bound.push(count.map_err(wrong)?);
        }
        if let Some(third) = third {
            let value = bound.remove(0);
            let (_, mut both) = self.unify(vec![value, third], name).map_err(|e| {
                match e.sqlstate() == SqlState::DATATYPE_MISMATCH {
                    true => super::call::no_function(name, &types),
                    false => e,
                }
            })?;
            let default = both.pop();
            bound.splice(0..0, both);
            bound.extend(default);
        }
        let ty = bound[0].ty;
        Ok((bound, ty))
    }

    fn window(
        &mut self,
        spec: &ast::WindowSpec,
        around: &mut ExprContext<'_>,
    ) -> Result<(Vec<Expr>, Order, Frame), SqlError> {
        let (spec, exclude) = exclusion(spec);
        let spec = &resolved(&spec, around)?;
        let mut partition_by = Vec::with_capacity(spec.partition_by.len());
        for key in &spec.partition_by {
            let bound = self.expr(key, around)?;
            partition_by.push(self.unknown_to_text(bound)?);
        }
        let mut order_by: Order = Vec::with_capacity(spec.order_by.len());
        for key in &spec.order_by {
            let bound = self.expr(&key.expr, around)?;
            let desc = key.options.asc == Some(false);
            let nulls_first = key.options.nulls_first.unwrap_or(desc);
            order_by.push((self.unknown_to_text(bound)?, desc, nulls_first));
        }
        let frame = match &spec.window_frame {
            None => Frame {
                unit: FrameUnit::Range,
                start: FrameBound::First,
                end: FrameBound::Current,
                exclude,
            },
            Some(frame) => Frame {
                exclude,
                ..self.frame(frame, &order_by)?
            },
        };
        Ok((partition_by, order_by, frame))
    }

    fn frame(
        &mut self,
        frame: &ast::WindowFrame,
        order_by: &[(Expr, bool, bool)],
    ) -> Result<Frame, SqlError> {
        let wrong = |why: &str| Err(SqlError::new(SqlState::WINDOWING_ERROR, why));
        let unit = match frame.units {
            ast::WindowFrameUnits::Rows => FrameUnit::Rows,
            ast::WindowFrameUnits::Range => FrameUnit::Range,
            ast::WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let start = self.bound(unit, &frame.start_bound, order_by)?;
        let end = match &frame.end_bound {
            Some(end) => self.bound(unit, end, order_by)?,
            None => FrameBound::Current,
        };
        match (&start, &end) {
            (FrameBound::Last, _) => return wrong("frame start cannot be UNBOUNDED FOLLOWING"),
            (_, FrameBound::First) => return wrong("frame end cannot be UNBOUNDED PRECEDING"),
            (FrameBound::Current, FrameBound::Preceding(_)) => {
                return wrong("frame starting from current row cannot have preceding rows");
            }
            (FrameBound::Following(_), FrameBound::Preceding(_) | FrameBound::Current) => {
                return wrong("frame starting from following row cannot have preceding rows");
            }
            _ => {}
        }
        if unit == FrameUnit::Groups && order_by.is_empty() {
            return wrong("GROUPS mode requires an ORDER BY clause");
        }
        Ok(Frame {
            unit,
            start,
            end,
            exclude: Exclude::NoOthers,
        })
    }

    fn bound(
        &mut self,
        unit: FrameUnit,
        bound: &ast::WindowFrameBound,
        order_by: &[(Expr, bool, bool)],
    ) -> Result<FrameBound, SqlError> {
        let (offset, preceding) = match bound {
            ast::WindowFrameBound::CurrentRow => return Ok(FrameBound::Current),
            ast::WindowFrameBound::Preceding(None) => return Ok(FrameBound::First),
            ast::WindowFrameBound::Following(None) => return Ok(FrameBound::Last),
            ast::WindowFrameBound::Preceding(Some(offset)) => (offset, true),
            ast::WindowFrameBound::Following(Some(offset)) => (offset, false),
        };
        let by = self.scalar(
            offset_of(offset, order_by),
            &Scope::default(),
            Clause::Window,
        )?;
        let offset = match unit {
            FrameUnit::Rows | FrameUnit::Groups => FrameOffset {
                by: self.coerce(by, Type::INT8, CastContext::Implicit)?,
                value: None,
            },
            FrameUnit::Range => {
                let [(key, desc, _)] = order_by else {
                    return Err(SqlError::new(
                        SqlState::WINDOWING_ERROR,
                        "RANGE with offset PRECEDING/FOLLOWING requires exactly one \
                         ORDER BY column",
                    ));
                };
                let by = match by.ty == Type::UNKNOWN {
                    true => self.coerce(by, Type::of(key.ty.kind), CastContext::Implicit)?,
                    false => by,
                };
                let op = match preceding != *desc {
                    true => ast::BinaryOperator::Minus,
                    false => ast::BinaryOperator::Plus,
                };
                let at = Expr::column(key.ty, 0);
                let value = self.binary(&op, at, Expr::column(by.ty, 1));
                let alike = |value: &Expr| compares(key.ty.kind, value.ty.kind);
                let value = value.ok().filter(alike).ok_or_else(|| {
                    SqlError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        format!(
                            "RANGE with offset PRECEDING/FOLLOWING is not supported for column \
                             type {} and offset type {}",
                            key.ty.kind, by.ty.kind,
                        ),
                    )
                })?;
                FrameOffset {
                    by,
                    value: Some(value),
                }
            }
        };
        if offset.by.has_subquery() {
            return Err(SqlError::unsupported(
                "a subquery in a window function call",
            ));
        }
        Ok(match preceding {
            true => FrameBound::Preceding(offset),
            false => FrameBound::Following(offset),
        })
    }
}

/// Returns the offset expression. The parser reads a literal as an interval, which is an offset
/// only for date and time keys.
fn offset_of<'a>(offset: &'a ast::Expr, order_by: &[(Expr, bool, bool)]) -> &'a ast::Expr {
    let of_moments = order_by.first().is_some_and(|(key, ..)| {
        use TypeKind::{Date, Interval, Time, TimeTz, Timestamp, TimestampTz};
        matches!(
            key.ty.kind,
            Date | Interval | Time | TimeTz | Timestamp | TimestampTz
        )
    });
    match offset {
        ast::Expr::Interval(interval) if !of_moments && interval.leading_field.is_none() => {
            &interval.value
        }
        _ => offset,
    }
}

/// Returns whether keys of a type can be compared with the result of adding an offset to them.
fn compares(key: TypeKind, bound: TypeKind) -> bool {
    let wide = matches!(
        (key, bound),
        (TypeKind::Date, TypeKind::Timestamp) | (TypeKind::Float4, TypeKind::Float8)
    );
    wide || key == bound || (key.is_integer() && bound.is_integer())
}

/// Returns the definition of a window name.
fn named_window(around: &ExprContext<'_>, name: &ast::Ident) -> Result<ast::WindowSpec, SqlError> {
    let called = names::fold(name);
    let windows = around.aggregates.as_ref().map(|list| &list.named);
    let mut found = windows.into_iter().flatten().filter(|(n, _)| *n == called);
    match found.next() {
        Some((_, spec)) => Ok(spec.clone()),
        None => Err(no_window(&called)),
    }
}

/// Returns the frame exclusion of a window, and the window without the marker key by which the
/// parser represents it.
pub(super) fn exclusion(spec: &ast::WindowSpec) -> (ast::WindowSpec, Exclude) {
    let mut spec = spec.clone();
    let mark = match spec.order_by.last().map(|key| &key.expr) {
        Some(ast::Expr::Identifier(name)) if spec.window_frame.is_some() => {
            MARKS.iter().position(|mark| *mark == name.value)
        }
        _ => None,
    };
    let exclude = match mark {
        None => return (spec, Exclude::NoOthers),
        Some(0) => Exclude::Current,
        Some(1) => Exclude::Group,
        Some(_) => Exclude::Ties,
    };
    spec.order_by.pop();
    (spec, exclude)
}

/// Returns `spec` with the clauses of the named windows that it builds on.
///
/// The loop ends because `named_windows` admits only names that are defined earlier.
fn resolved(spec: &ast::WindowSpec, around: &ExprContext<'_>) -> Result<ast::WindowSpec, SqlError> {
    let mut chain = Vec::new();
    let mut base = spec.clone();
    while let Some(name) = base.window_name.take() {
        let next = named_window(around, &name)?;
        chain.push((base, name));
        base = next;
    }
    while let Some((spec, name)) = chain.pop() {
        base = copied(base, spec, &names::fold(&name))?;
    }
    Ok(base)
}

/// Returns `spec` with the clauses of `base`, the window with the name `called`.
fn copied(
    base: ast::WindowSpec,
    spec: ast::WindowSpec,
    called: &str,
) -> Result<ast::WindowSpec, SqlError> {
    let wrong = |why: String| Err(SqlError::new(SqlState::WINDOWING_ERROR, why));
    if !spec.partition_by.is_empty() {
        return wrong(format!(
            "cannot override PARTITION BY clause of window \"{called}\""
        ));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return wrong(format!(
            "cannot override ORDER BY clause of window \"{called}\""
        ));
    }
    if base.window_frame.is_some() {
        return wrong(format!(
            "cannot copy window \"{called}\" because it has a frame clause"
        ));
    }
    Ok(ast::WindowSpec {
        window_name: None,
        partition_by: base.partition_by,
        order_by: match spec.order_by.is_empty() {
            true => base.order_by,
            false => spec.order_by,
        },
        window_frame: spec.window_frame,
    })
}

/// Returns the error 42704 for a window name that is not defined.
fn no_window(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("window \"{name}\" does not exist"),
    )
}

/// Returns the windows that the WINDOW clause defines, by name.
///
/// # Errors
/// 42704 for a window that refers to itself, to a later window or to an undefined one; 42P20 for a
/// duplicate name.
pub(super) fn named_windows(
    definitions: &[ast::NamedWindowDefinition],
) -> Result<Vec<(String, ast::WindowSpec)>, SqlError> {
    let mut named: Vec<(String, ast::WindowSpec)> = Vec::with_capacity(definitions.len());
    for ast::NamedWindowDefinition(name, definition) in definitions {
        let ast::NamedWindowExpr::WindowSpec(spec) = definition else {
            return Err(SqlError::unsupported("this form of WINDOW"));
        };
        let called = names::fold(name);
        if named.iter().any(|(n, _)| *n == called) {
            return Err(SqlError::new(
                SqlState::WINDOWING_ERROR,
                format!("window \"{called}\" is already defined"),
            ));
        }
        if let Some(base) = spec.window_name.as_ref().map(names::fold)
            && named.iter().all(|(n, _)| *n != base)
        {
            return Err(no_window(&base));
        }
        named.push((called, spec.clone()));
    }
    Ok(named)
}
