//! Conditions split into terms that an index may serve.

use fencepost_sql::bound::{CompareClass, CompareOp, Expr, Node, SubqueryKind, Volatility};
use fencepost_sql::types::{Type, TypeKind};

use crate::slots::{SlotRange, SlotSet, Slots};

/// Returns whether these values are a single array that stands for its elements.
pub fn is_array(values: &[Expr]) -> bool {
    matches!(values, [one] if one.ty.kind.element().is_some())
}

/// Returns whether `expr` reads no other slots than those of `slots`.
pub fn reads_only(expr: &Expr, slots: impl SlotSet) -> bool {
    let mut only = true;
    expr.for_each_column(&mut |slot| only &= slots.contains(slot));
    only
}

/// Returns whether `expr` reads a slot of `slots`.
pub fn reads_any(expr: &Expr, slots: impl SlotSet) -> bool {
    let mut any = false;
    expr.for_each_column(&mut |slot| any |= slots.contains(slot));
    any
}

/// A condition on one column of a leaf that an index could serve.
#[derive(Clone, Debug)]
pub struct Term {
    /// The column, by position in the table.
    pub column: usize,
    /// The comparison.
    pub kind: TermKind,
    /// The conjunct that it comes from.
    pub conjunct: usize,
}

/// The comparison that a term makes with its column.
#[derive(Clone, Debug)]
pub enum TermKind {
    /// Equal to this value.
    Equal(Expr),
    /// Equal to one of these values, or to an element of a single array.
    Any(Vec<Expr>),
    /// Equal to one of the values of a subquery. The expression is the condition `… = ANY (query)`.
    Members(Expr),
    /// Greater than this value, or also equal if the flag is set.
    Lower(Expr, bool),
    /// Less than this value, or also equal if the flag is set.
    Upper(Expr, bool),
}

/// The subject of terms: the columns of a leaf, or an expression over them, which then counts as
/// the column `own.0`.
#[derive(Clone, Copy)]
struct Subject<'a> {
    own: SlotRange,
    expression: Option<&'a Expr>,
}

/// Returns the terms on the leaf that owns `own`. Their other sides read only `known` slots.
pub fn terms(conjuncts: &[Expr], own: SlotRange, known: &Slots) -> Vec<Term> {
    let subject = Subject {
        own,
        expression: None,
    };
    about(conjuncts, subject, known, 0)
}

/// Returns the terms on an expression over the leaf, as terms of the column `column`.
pub fn expression_terms(
    conjuncts: &[Expr],
    (own, known): (SlotRange, &Slots),
    expression: &Expr,
    column: usize,
) -> Vec<Term> {
    let mut expression = expression.clone();
    expression.remap_columns(&mut |slot| slot + own.0);
    let subject = Subject {
        own,
        expression: Some(&expression),
    };
    about(conjuncts, subject, known, column)
}

fn about(conjuncts: &[Expr], of: Subject<'_>, known: &Slots, first: usize) -> Vec<Term> {
    let mut found = Vec::new();
    for (position, conjunct) in conjuncts.iter().enumerate() {
        if let Some((column, kind)) = term(conjunct, of, known) {
            found.push(Term {
                column: column - of.own.0 + first,
                kind,
                conjunct: position,
            });
        }
    }
    found
}

fn term(conjunct: &Expr, of: Subject<'_>, known: &Slots) -> Option<(usize, TermKind)> {
    let own = of.own;
    match &conjunct.node {
        Node::Compare {
            op,
            class,
            left,
            right,
        } => comparison(*op, *class, left, right, of, known)
            .or_else(|| comparison(op.swap(), *class, right, left, of, known)),
        Node::InList {
            negated: false,
            input,
            list,
            ..
        } => {
            let column = own_column(input, of)?;
            let known = list.iter().all(|e| is_known(e, own, known));
            let kind = match list.as_slice() {
                [one] => TermKind::Equal(one.clone()),
                list => TermKind::Any(list.to_vec()),
            };
            known.then_some((column, kind))
        }
        Node::Quantified {
            op: CompareOp::Eq,
            all: false,
            left,
            array,
        } => {
            let column = own_column(left, of)?;
            is_known(array, own, known).then(|| (column, TermKind::Any(vec![Expr::clone(array)])))
        }
        Node::Subquery(sub) if !sub.volatile && sub.stands_alone() => {
            let SubqueryKind::Any {
                all: false,
                test,
                columns,
            } = &sub.kind
            else {
                return None;
            };
            let column = own_column(member_test(test, columns)?.0, of)?;
            Some((column, TermKind::Members(conjunct.clone())))
        }
        Node::Or(parts) => any_of(parts, of, known),
        Node::Column(slot) if of.expression.is_none() && own.0 <= *slot && *slot < own.1 => {
            let yes = Expr::constant(Type::BOOL, fencepost_sql::value::Value::Bool(true));
            Some((*slot, TermKind::Equal(yes)))
        }
        _ => None,
    }
}

/// Rewrites `a = 1 OR a = 2` as `a IN (1, 2)`.
fn any_of(parts: &[Expr], of: Subject<'_>, known: &Slots) -> Option<(usize, TermKind)> {
    let mut list = Vec::new();
    let mut column = None;
    for part in parts {
        let (slot, kind) = term(part, of, known)?;
        if *column.get_or_insert(slot) != slot {
            return None;
        }
        match kind {
            TermKind::Equal(value) => list.push(value),
            TermKind::Any(values) if is_array(&values) => return None,
            TermKind::Any(values) => list.extend(values),
            TermKind::Members(_) | TermKind::Lower(..) | TermKind::Upper(..) => return None,
        }
    }
    Some((column?, TermKind::Any(list)))
}

fn comparison(
    op: CompareOp,
    class: CompareClass,
    column: &Expr,
    other: &Expr,
    of: Subject<'_>,
    known: &Slots,
) -> Option<(usize, TermKind)> {
    let slot = own_column(column, of)?;
    if !is_known(other, of.own, known) {
        return None;
    }
    debug_assert!(class == CompareClass::Int || !other.ty.kind.is_integer());
    let value = other.clone();
    let kind = match op {
        CompareOp::Eq => TermKind::Equal(value),
        CompareOp::Lt => TermKind::Upper(value, false),
        CompareOp::Le => TermKind::Upper(value, true),
        CompareOp::Gt => TermKind::Lower(value, false),
        CompareOp::Ge => TermKind::Lower(value, true),
        CompareOp::Ne => return None,
    };
    Some((slot, kind))
}

/// Returns the slot if `expr` is a column of the leaf or the subject expression. A cast that
/// changes no value may surround it.
fn own_column(expr: &Expr, of: Subject<'_>) -> Option<usize> {
    if of.expression.is_some_and(|wanted| wanted == expr) {
        return Some(of.own.0);
    }
    match &expr.node {
        Node::Column(slot) if of.expression.is_none() && of.own.0 <= *slot && *slot < of.own.1 => {
            Some(*slot)
        }
        Node::Cast { input, .. } if same_values(&input.ty, &expr.ty) => own_column(input, of),
        _ => None,
    }
}

/// Returns the two sides of a membership test: the value that is looked up, and the one column of
/// the subquery's rows.
pub fn member_test<'a>(test: &'a Expr, columns: &[usize]) -> Option<(&'a Expr, &'a Expr)> {
    let (
        Node::Compare {
            op: CompareOp::Eq,
            left,
            right,
            ..
        },
        [slot],
    ) = (&test.node, columns)
    else {
        return None;
    };
    let plain = !right.has_columns() && !right.has_subquery();
    (plain && reads_outer(right, *slot) && !reads_outer(left, *slot)).then_some((left, right))
}

/// Returns the equalities of a condition of ANY that exclude most rows: of each the value of the
/// outer row, and that of the subquery's row.
pub fn key_parts<'a>(
    test: &'a Expr,
    columns: &'a [usize],
) -> impl Iterator<Item = (&'a Expr, &'a Expr)> {
    let parts = match &test.node {
        Node::And(parts) => parts.as_slice(),
        _ => std::slice::from_ref(test),
    };
    parts.iter().filter_map(|part| {
        let Node::Compare {
            op: CompareOp::Eq,
            left,
            right,
            ..
        } = &part.node
        else {
            return None;
        };
        let is_of_row = |expr: &Expr| columns.iter().any(|slot| reads_outer(expr, *slot));
        let plain = !right.has_columns() && !right.has_subquery() && !left.has_subquery();
        (plain && is_of_row(right) && !is_of_row(left)).then_some((&**left, &**right))
    })
}

fn reads_outer(expr: &Expr, slot: usize) -> bool {
    let mut found = matches!(expr.node, Node::Outer(outer) if outer == slot);
    expr.for_each_part(|part| found |= reads_outer(part, slot));
    found
}

/// Returns whether a cast between unpadded string types keeps the bytes.
fn same_values(from: &Type, to: &Type) -> bool {
    let plain = |kind| matches!(kind, TypeKind::Text | TypeKind::VarChar | TypeKind::Name);
    plain(from.kind) && plain(to.kind) && to.typmod < 0
}

/// Returns whether a scan may use the value for its keys. A subquery in it has already run, so it
/// must not read columns.
fn is_known(expr: &Expr, own: SlotRange, known: &Slots) -> bool {
    if expr.has_subquery() && expr.has_columns() {
        return false;
    }
    expr.volatility() < Volatility::Volatile && !reads_any(expr, own) && reads_only(expr, known)
}
