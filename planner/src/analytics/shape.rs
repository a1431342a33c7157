//! The shape of an analytical SELECT: the columns that go to DataFusion, their forms, and the
//! aggregates.

use fencepost_sql::bound::{
    Aggregate, AggregateKind, ArithClass, ArithOp, Expr, Grouping, JoinKind, Node,
};
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use super::cost_choice::for_each_scan;
use super::form::{Form, declared_scale};
use crate::build::mark;
use crate::conjuncts::{conjunction, conjuncts};
use crate::plan::{Hints, Join, JoinMethod, SelectPlan, Source};

/// The information about expressions.
struct ExprFacts<'a> {
    /// The declared types of the from row's slots.
    types: &'a [Option<Type>],
    /// The parameters; `None` during planning.
    params: Option<&'a [Value]>,
}

impl ExprFacts<'_> {
    /// Returns the form of an expression's values.
    fn form(&self, expr: &Expr) -> Option<Form> {
        match expr.ty.kind {
            TypeKind::Numeric => self.scale(expr).map(Form::Decimal),
            _ => Form::of(expr.ty),
        }
    }

    /// Returns the number of decimal places that every value of a numeric expression has. For
    /// parameters it is not known during planning; any number is possible then.
    fn scale(&self, expr: &Expr) -> Option<u32> {
        let scale = match &expr.node {
            Node::Const(value) => scale_of(value)?,
            Node::Param(nth) => match self.params {
                Some(params) => scale_of(params.get(*nth)?)?,
                None => 0,
            },
            Node::Column(slot) => declared_scale((*self.types.get(*slot)?)?)?,
            Node::Cast { input, .. } => match (declared_scale(expr.ty), input.ty.kind) {
                (Some(declared), _) => declared,
                (None, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8) => 0,
                (None, TypeKind::Numeric) => self.scale(input)?,
                _ => return None,
            },
            Node::Negate {
                class: ArithClass::Numeric,
                input,
            } => self.scale(input)?,
            Node::Arith {
                op,
                class: ArithClass::Numeric,
                left,
                right,
            } => match op {
                ArithOp::Add | ArithOp::Sub => self.scale(left)?.max(self.scale(right)?),
                ArithOp::Mul => self.scale(left)? + self.scale(right)?,
                _ => return None,
            },
            _ => return None,
        };
        (scale <= 28).then_some(scale)
    }

    /// Returns the form of an aggregate's argument; `None` if DataFusion would compute a different
    /// result.
    fn argument(&self, aggregate: &Aggregate) -> Option<Form> {
        use TypeKind::{Int2, Int4, Int8, Numeric};
        if aggregate.distinct || !aggregate.order_by.is_empty() || aggregate.args.len() > 1 {
            return None;
        }
        let arg = aggregate.args.first();
        match (aggregate.kind, arg.map(|arg| arg.ty.kind)) {
            (AggregateKind::CountStar | AggregateKind::Count, _) => Some(Form::Present),
            // A bigint can only overflow after 2^32 values.
            (AggregateKind::Sum | AggregateKind::Avg, Some(Int2 | Int4)) => Some(Form::Int),
            (AggregateKind::Sum | AggregateKind::Avg, Some(Int8)) => Some(Form::Decimal(0)),
            (AggregateKind::Sum | AggregateKind::Avg, Some(Numeric)) => self.form(arg?),
            (AggregateKind::Min | AggregateKind::Max, Some(_)) => self
                .form(arg?)
                .filter(|form| matches!(form, Form::Int | Form::Text | Form::Decimal(_))),
            _ => None,
        }
    }

    /// Returns the forms of the group keys and of the aggregate arguments.
    fn forms(&self, grouping: &Grouping) -> Option<(Vec<Form>, Vec<Form>)> {
        let key = |key: &Expr| self.form(key).filter(|form| form.is_key());
        let keys: Option<_> = grouping.keys.iter().map(key).collect();
        let args: Option<_> = grouping
            .aggregates
            .iter()
            .map(|a| self.argument(a))
            .collect();
        keys.zip(args)
    }
}

fn scale_of(value: &Value) -> Option<u32> {
    match value {
        Value::Null => Some(0),
        Value::Numeric(value) => Some(value.scale()),
        _ => None,
    }
}

/// A column that passes through the joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its slot in the from row.
    pub slot: usize,
    /// Its form.
    pub form: Form,
    /// The type of its values.
    pub kind: TypeKind,
}

/// The parts of a SELECT that DataFusion evaluates.
#[derive(Debug)]
pub struct Shape {
    /// The number of slots of a from row.
    pub width: usize,
    /// The declared types of the slots of tables.
    types: Vec<Option<Type>>,
    /// The columns that are needed above the scans.
    pub columns: Vec<Column>,
    /// The grouping that DataFusion evaluates.
    pub groups: Option<GroupShape>,
}

/// The input of a grouping.
#[derive(Debug)]
pub struct GroupShape {
    /// The forms of the group keys.
    pub keys: Vec<Form>,
    /// The forms of the aggregate arguments.
    pub args: Vec<Form>,
    /// Whether the session computes keys and arguments from the joined rows, because they are not
    /// all columns or there are conditions.
    pub computed: bool,
}

/// Converts `plan`, which uses hash joins, to one whose source runs on DataFusion's operators.
/// Returns `None` if it is not eligible.
pub fn bulk(mut plan: SelectPlan) -> Option<SelectPlan> {
    let by_sets = plan.grouping.as_ref().is_some_and(|g| !g.sets.is_empty());
    let joins = matches!(plan.source, Source::Join(_));
    if plan.deep || by_sets || plan.lock.is_some() || !(joins || plan.grouping.is_some()) {
        return None;
    }
    if !plan.computed.is_empty() || !plan.inits.is_empty() {
        return None;
    }
    hoist_conditions(&mut plan);
    let mut sound = true;
    for_each_scan(&plan.source, &mut |scan| {
        sound &= scan.locks.is_none() && scan.pointer_slot.is_none() && scan.hints == Hints::No;
    });
    if !sound || !joins_hash(&plan.source) {
        return None;
    }
    let shape = shape(&plan)?;
    let input = std::mem::replace(&mut plan.source, Source::One);
    plan.source = Source::Analytics {
        input: Box::new(input),
        shape,
    };
    plan.split = None;
    Some(plan)
}

/// Moves join conditions up to WHERE, if all joins are inner joins.
fn hoist_conditions(plan: &mut SelectPlan) {
    fn all_inner(source: &Source) -> bool {
        match source {
            Source::Join(join) => {
                join.kind == JoinKind::Inner && all_inner(&join.left) && all_inner(&join.right)
            }
            Source::Filter { input, .. } => all_inner(input),
            _ => true,
        }
    }
    fn take(source: Source, out: &mut Vec<Expr>) -> Source {
        match source {
            Source::Join(mut join) => {
                conjuncts(join.on.take(), out);
                let Join { left, right, .. } = &mut *join;
                for side in [left, right] {
                    *side = take(std::mem::replace(side, Source::One), out);
                }
                Source::Join(join)
            }
            Source::Filter { input, filter } => {
                conjuncts(Some(filter), out);
                take(*input, out)
            }
            other => other,
        }
    }
    if all_inner(&plan.source) {
        let mut conditions = Vec::new();
        conjuncts(plan.filter.take(), &mut conditions);
        let source = std::mem::replace(&mut plan.source, Source::One);
        plan.source = take(source, &mut conditions);
        plan.filter = conjunction(conditions);
    }
}

/// Returns whether the source consists of scans, and hash joins on columns that Arrow compares as
/// PostgreSQL does.
fn joins_hash(source: &Source) -> bool {
    match source {
        Source::Scan(_) => true,
        Source::Join(join) => {
            let JoinMethod::Hash {
                left_keys,
                right_keys,
            } = &join.method
            else {
                return false;
            };
            let mut keys = left_keys.iter().zip(right_keys);
            let sound = keys.all(|(left, right)| {
                let (Some(left), Some(right)) = (key_column(left), key_column(right)) else {
                    return false;
                };
                left.form == right.form && left.form.is_key()
            });
            sound
                && join.on.is_none()
                && join.carried.is_empty()
                && joins_hash(&join.left)
                && joins_hash(&join.right)
        }
        _ => false,
    }
}

/// Returns the column that a join key reads. The key may widen an integer, or cast a varchar to
/// text.
pub fn key_column(key: &Expr) -> Option<Column> {
    let is_text = |ty: Type| matches!(ty.kind, TypeKind::Text | TypeKind::VarChar);
    let is_int = |kind| matches!(kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8);
    match &key.node {
        Node::Column(slot) => Some(Column {
            slot: *slot,
            form: Form::of(key.ty)?,
            kind: key.ty.kind,
        }),
        Node::Cast { input, .. } if is_int(key.ty.kind) && is_int(input.ty.kind) => {
            key_column(input)
        }
        Node::Cast { input, .. } if key.ty == Type::TEXT && is_text(input.ty) => key_column(input),
        _ => None,
    }
}

fn shape(plan: &SelectPlan) -> Option<Shape> {
    let mut needed = vec![false; plan.width];
    let mut types = vec![None; plan.width];
    for_each_scan(&plan.source, &mut |scan| {
        for (slot, column) in types[scan.first_slot..]
            .iter_mut()
            .zip(&scan.table.def.columns)
        {
            *slot = Some(column.ty);
        }
    });
    let groups = match &plan.grouping {
        Some(grouping) => Some(group_shape(plan, grouping, &types)?),
        None => None,
    };
    // A single scan computes the keys and arguments itself.
    if matches!(plan.source, Source::Join(_)) {
        mark_above(plan, &mut needed);
    }
    let mut columns = Vec::new();
    let mut sound = true;
    for_each_scan(&plan.source, &mut |scan| {
        for column in &scan.columns {
            let slot = scan.first_slot + column;
            if needed[slot] {
                let ty = scan.table.def.columns[*column].ty;
                match Form::of(ty) {
                    Some(form) => columns.push(Column {
                        slot,
                        form,
                        kind: ty.kind,
                    }),
                    None => sound = false,
                }
            }
        }
    });
    sound.then_some(Shape {
        width: plan.width,
        types,
        columns,
        groups,
    })
}

/// Marks the slots that are read above the scans.
fn mark_above(plan: &SelectPlan, needed: &mut [bool]) {
    fn keys(source: &Source, needed: &mut [bool]) {
        if let Source::Join(join) = source {
            if let JoinMethod::Hash {
                left_keys,
                right_keys,
            } = &join.method
            {
                let keys = left_keys.iter().chain(right_keys);
                keys.for_each(|key| mark(key, needed));
            }
            keys(&join.left, needed);
            keys(&join.right, needed);
        }
    }
    keys(&plan.source, needed);
    plan.filter.iter().for_each(|expr| mark(expr, needed));
    match &plan.grouping {
        None => {
            let targets = plan.targets.iter();
            targets.for_each(|target| mark(&target.expr, needed));
            let calls = plan.windows.iter();
            calls.for_each(|call| call.for_each_expr(&mut |expr| mark(expr, needed)));
        }
        Some(grouping) => {
            grouping.keys.iter().for_each(|key| mark(key, needed));
            for aggregate in &grouping.aggregates {
                let exprs = aggregate.args.iter().chain(&aggregate.filter);
                exprs.for_each(|expr| mark(expr, needed));
            }
        }
    }
}

fn group_shape(
    plan: &SelectPlan,
    grouping: &Grouping,
    types: &[Option<Type>],
) -> Option<GroupShape> {
    let known = ExprFacts {
        types,
        params: None,
    };
    let (keys, args) = known.forms(grouping)?;
    let column = |expr: &Expr| matches!(expr.node, Node::Column(_));
    let plain =
        |aggregate: &Aggregate| aggregate.filter.is_none() && aggregate.args.iter().all(column);
    let all_plain = grouping.keys.iter().all(column) && grouping.aggregates.iter().all(plain);
    Some(GroupShape {
        keys,
        args,
        computed: plan.filter.is_some() || !all_plain,
    })
}

impl Shape {
    /// Returns the input of the grouping with these parameters; `None` if they make it ineligible.
    pub fn groups_with(&self, grouping: &Grouping, params: &[Value]) -> Option<GroupShape> {
        let known = ExprFacts {
            types: &self.types,
            params: Some(params),
        };
        let (keys, args) = known.forms(grouping)?;
        Some(GroupShape {
            keys,
            args,
            computed: self.groups.as_ref()?.computed,
        })
    }
}
