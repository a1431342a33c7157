//! Arithmetic over the columns of encoded rows.

use fencepost_sql::bound::{ArithClass, ArithOp, Expr, Node};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::scaled_arith;
use fencepost_sql::row::RowReader;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;

/// The digits of a numeric, and its number of decimal places.
pub type Number = (i128, u32);

/// A numeric expression over the columns of a scan.
#[derive(Debug)]
pub enum NumberExpr {
    /// A numeric or integer column.
    Column(usize),
    /// A constant; `None` is NULL.
    Constant(Option<Number>),
    /// `+`, `-` or `*`.
    Arith(ArithOp, Box<NumberExpr>, Box<NumberExpr>),
}

impl NumberExpr {
    /// Converts a numeric expression over a scan whose columns begin at `first_slot`. Returns
    /// `None` if it does anything else than to add, subtract and multiply columns and constants.
    pub fn new(expr: &Expr, first_slot: usize, params: &[Value]) -> Option<NumberExpr> {
        if expr.ty.kind != TypeKind::Numeric {
            return None;
        }
        match &expr.node {
            Node::Column(slot) => Some(NumberExpr::Column(slot.checked_sub(first_slot)?)),
            Node::Const(value) => constant(value),
            Node::Param(nth) => constant(params.get(*nth)?),
            Node::Cast { input, .. } if expr.ty.typmod == -1 => {
                let is_int = matches!(
                    input.ty.kind,
                    TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8
                );
                match &input.node {
                    Node::Column(slot) if is_int => {
                        Some(NumberExpr::Column(slot.checked_sub(first_slot)?))
                    }
                    Node::Const(value) if is_int => constant(value),
                    Node::Param(nth) if is_int => constant(params.get(*nth)?),
                    _ => None,
                }
            }
            Node::Arith {
                op: op @ (ArithOp::Add | ArithOp::Sub | ArithOp::Mul),
                class: ArithClass::Numeric,
                left,
                right,
            } => Some(NumberExpr::Arith(
                *op,
                Box::new(NumberExpr::new(left, first_slot, params)?),
                Box::new(NumberExpr::new(right, first_slot, params)?),
            )),
            _ => None,
        }
    }

    /// Computes the expression for a row; `None` is NULL.
    ///
    /// # Errors
    /// 22003 if a result has too many digits; XX001 if the row is damaged.
    pub fn value(&self, row: &RowReader<'_>) -> Result<Option<Number>, SqlError> {
        match self {
            NumberExpr::Column(column) => row.decimal(*column),
            NumberExpr::Constant(number) => Ok(*number),
            NumberExpr::Arith(op, left, right) => match (left.value(row)?, right.value(row)?) {
                (Some(left), Some(right)) => scaled_arith(*op, left, right).map(Some),
                _ => Ok(None),
            },
        }
    }
}

fn constant(value: &Value) -> Option<NumberExpr> {
    match value {
        Value::Null => Some(NumberExpr::Constant(None)),
        Value::Numeric(value) => Some(NumberExpr::Constant(Some((
            value.mantissa(),
            value.scale(),
        )))),
        _ => None,
    }
}
