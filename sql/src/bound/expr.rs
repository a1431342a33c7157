//! A typed expression.
//!
//! The common cases have their own nodes, so that evaluating `aid = $1` is one match and one
//! comparison. The other cases are calls through a function pointer.

use super::routine::RoutineCall;
use super::subquery::{Subquery, SubqueryKind};
use crate::functions::{ScalarFunction, draws};
use crate::types::Type;
use crate::value::Value;

/// An expression and its type. Two expressions are equal if they have the same value and display
/// wherever they are evaluated, so constants are compared by their representation.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The type of its value.
    pub ty: Type,
    /// The operation, with its operands.
    pub node: Node,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        let nodes = match (&self.node, &other.node) {
            (Node::Const(a), Node::Const(b)) => a.is_identical(b),
            (a, b) => a == b,
        };
        nodes && self.ty == other.ty
    }
}

/// The operation of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A constant.
    Const(Value),
    /// A slot of the input row.
    Column(usize),
    /// A parameter, from 0.
    Param(usize),
    /// A comparison; NULL if a side is NULL.
    Compare {
        /// The operator.
        op: CompareOp,
        /// The class that determines how the sides are compared.
        class: CompareClass,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// `IS [NOT] DISTINCT FROM`.
    Distinct {
        /// Whether it is NOT DISTINCT.
        negated: bool,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// Conjunction by three-valued logic.
    And(Vec<Expr>),
    /// Disjunction by three-valued logic.
    Or(Vec<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// `IS [NOT] NULL`.
    IsNull {
        /// Whether it is IS NOT NULL.
        negated: bool,
        /// The operand.
        input: Box<Expr>,
    },
    /// `IS [NOT] TRUE | FALSE | UNKNOWN`.
    BoolTest {
        /// The tested truth value.
        test: BoolTest,
        /// Whether the test is negated.
        negated: bool,
        /// The operand.
        input: Box<Expr>,
    },
    /// `+ - * / %`, both sides of the class's type.
    Arith {
        /// The operator.
        op: ArithOp,
        /// The type of the operands.
        class: ArithClass,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// Unary minus.
    Negate {
        /// The type of the operand.
        class: ArithClass,
        /// The operand.
        input: Box<Expr>,
    },
    /// A conversion from the input's type to this expression's.
    Cast {
        /// Whether the user wrote the cast: a value that is too long is then truncated instead of
        /// refused.
        explicit: bool,
        /// The operand.
        input: Box<Expr>,
    },
    /// `input [NOT] BETWEEN low AND high`, if it is SYMMETRIC or its input is expensive to evaluate
    /// twice. A BETWEEN with a cheap input is bound as two comparisons.
    Between {
        /// Whether it is NOT BETWEEN.
        negated: bool,
        /// SYMMETRIC: the bounds may be in either order.
        symmetric: bool,
        /// The class that determines how the three values are compared.
        class: CompareClass,
        /// The operand.
        input: Box<Expr>,
        /// The lower bound.
        low: Box<Expr>,
        /// The upper bound.
        high: Box<Expr>,
    },
    /// `input [NOT] IN (list)`.
    InList {
        /// Whether it is NOT IN.
        negated: bool,
        /// The class that determines how the values are compared.
        class: CompareClass,
        /// The operand.
        input: Box<Expr>,
        /// The candidates, of a type comparable with the input's.
        list: Vec<Expr>,
    },
    /// `left op ANY (array)`, or ALL.
    Quantified {
        /// The comparison operator.
        op: CompareOp,
        /// Whether it is ALL rather than ANY.
        all: bool,
        /// The operand.
        left: Box<Expr>,
        /// The array whose elements the operand is compared with.
        array: Box<Expr>,
    },
    /// `input [NOT] LIKE pattern [ESCAPE escape]`.
    Like {
        /// LIKE or ILIKE.
        kind: LikeKind,
        /// Whether it is NOT LIKE.
        negated: bool,
        /// The operand.
        input: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character; `None` is the backslash.
        escape: Option<Box<Expr>>,
    },
    /// CASE. With an operand each WHEN is compared with it, else each WHEN is a condition.
    Case {
        /// The operand, and how it is compared with each WHEN.
        operand: Option<(Box<Expr>, CompareClass)>,
        /// WHEN … THEN …
        branches: Vec<(Expr, Expr)>,
        /// ELSE
        otherwise: Option<Box<Expr>>,
    },
    /// The first argument that is not NULL.
    Coalesce(Vec<Expr>),
    /// NULL if both are equal, else the first.
    NullIf {
        /// The class that determines how the sides are compared.
        class: CompareClass,
        /// The first argument, as it is compared.
        left: Box<Expr>,
        /// The second argument, as it is compared.
        right: Box<Expr>,
        /// The result if they differ: the first argument without the casts of the comparison.
        result: Box<Expr>,
    },
    /// GREATEST (or LEAST) of the arguments that are not NULL.
    Extreme {
        /// Whether it is GREATEST.
        greatest: bool,
        /// The class that determines how the arguments are compared.
        class: CompareClass,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// A call of a built-in function.
    Call {
        /// The function.
        function: &'static ScalarFunction,
        /// The arguments, with the types of the function's parameters.
        args: Vec<Expr>,
    },
    /// A call of a user-defined function. Like a query, it may read rows: see
    /// [`Expr::has_subquery`].
    Routine(Box<RoutineCall>),
    /// A value from outside the query that contains the expression: see [`Subquery`].
    Outer(usize),
    /// A subquery.
    Subquery(Box<Subquery>),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl CompareOp {
    /// Returns whether the operator is true for this ordering of the sides.
    #[inline]
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            CompareOp::Eq => ordering.is_eq(),
            CompareOp::Ne => ordering.is_ne(),
            CompareOp::Lt => ordering.is_lt(),
            CompareOp::Le => ordering.is_le(),
            CompareOp::Gt => ordering.is_gt(),
            CompareOp::Ge => ordering.is_ge(),
        }
    }

    /// Returns the operator with its sides swapped: `a < b` is `b > a`.
    pub fn swap(self) -> CompareOp {
        match self {
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
            same => same,
        }
    }

    /// Returns the negated operator, which is true exactly where this one is false.
    pub fn negate(self) -> CompareOp {
        match self {
            CompareOp::Eq => CompareOp::Ne,
            CompareOp::Ne => CompareOp::Eq,
            CompareOp::Lt => CompareOp::Ge,
            CompareOp::Le => CompareOp::Gt,
            CompareOp::Gt => CompareOp::Le,
            CompareOp::Ge => CompareOp::Lt,
        }
    }

    /// Returns the symbol of the operator.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "=",
            CompareOp::Ne => "<>",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        }
    }
}

/// The way in which two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareClass {
    /// Integers, of the same or of different widths (the sides are *not* cast to each other).
    Int,
    /// Both sides have one type other than an integer.
    Same,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
}

impl ArithOp {
    /// Returns the symbol of the operator.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Div => "/",
            ArithOp::Mod => "%",
        }
    }
}

/// The type of both operands of an arithmetic node, and of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithClass {
    /// smallint
    Int2,
    /// integer
    Int4,
    /// bigint
    Int8,
    /// real
    Float4,
    /// double precision
    Float8,
    /// numeric
    Numeric,
    /// date ± integer days, giving a date
    DateDays,
    /// date - date, giving integer days
    DateDiff,
}

/// The truth value that a boolean is tested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoolTest {
    /// IS TRUE
    True,
    /// IS FALSE
    False,
    /// IS UNKNOWN
    Unknown,
}

/// The kind of a pattern match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LikeKind {
    /// LIKE
    Like,
    /// ILIKE
    ILike,
}

/// The volatility of an expression: the state other than its inputs on which its value depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatility {
    /// The value depends on the inputs only.
    Immutable,
    /// The value is constant within a statement or session.
    Stable,
    /// The value may differ in each call.
    Volatile,
}

impl Expr {
    /// Returns an expression with this type and node.
    pub fn new(ty: Type, node: Node) -> Expr {
        Expr { ty, node }
    }

    /// Returns a constant.
    pub fn constant(ty: Type, value: Value) -> Expr {
        Expr::new(ty, Node::Const(value))
    }

    /// Returns a reference to a slot.
    pub fn column(ty: Type, slot: usize) -> Expr {
        Expr::new(ty, Node::Column(slot))
    }

    /// Calls `f` on each direct operand.
    pub fn for_each_part<'a>(&'a self, mut f: impl FnMut(&'a Expr)) {
        match &self.node {
            Node::Const(_) | Node::Column(_) | Node::Param(_) | Node::Outer(_) => {}
            Node::Compare { left, right, .. }
            | Node::Distinct { left, right, .. }
            | Node::Arith { left, right, .. } => {
                f(left);
                f(right);
            }
            Node::And(parts) | Node::Or(parts) | Node::Coalesce(parts) => {
                parts.iter().for_each(f);
            }
            Node::Extreme { args, .. } | Node::Call { args, .. } => args.iter().for_each(f),
            Node::Routine(call) => call.args.iter().for_each(f),
            Node::Not(input)
            | Node::IsNull { input, .. }
            | Node::BoolTest { input, .. }
            | Node::Negate { input, .. }
            | Node::Cast { input, .. } => f(input),
            Node::Between {
                input, low, high, ..
            } => {
                f(input);
                f(low);
                f(high);
            }
            Node::Quantified { left, array, .. } => {
                f(left);
                f(array);
            }
            Node::InList { input, list, .. } => {
                f(input);
                list.iter().for_each(f);
            }
            Node::Like {
                input,
                pattern,
                escape,
                ..
            } => {
                f(input);
                f(pattern);
                escape.iter().for_each(|e| f(e));
            }
            Node::Case {
                operand,
                branches,
                otherwise,
            } => {
                operand.iter().for_each(|(e, _)| f(e));
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                otherwise.iter().for_each(|e| f(e));
            }
            Node::NullIf {
                left,
                right,
                result,
                ..
            } => {
                f(left);
                f(right);
                f(result);
            }
            Node::Subquery(sub) => {
                sub.args.iter().for_each(|(_, arg)| f(arg));
                if let SubqueryKind::Any { test, .. } = &sub.kind {
                    f(test);
                }
            }
        }
    }

    /// Calls `f` on each direct operand, which it may change.
    pub fn for_each_part_mut(&mut self, mut f: impl FnMut(&mut Expr)) {
        match &mut self.node {
            Node::Const(_) | Node::Column(_) | Node::Param(_) | Node::Outer(_) => {}
            Node::Compare { left, right, .. }
            | Node::Distinct { left, right, .. }
            | Node::Arith { left, right, .. } => {
                f(left);
                f(right);
            }
            Node::And(parts) | Node::Or(parts) | Node::Coalesce(parts) => {
                parts.iter_mut().for_each(f);
            }
            Node::Extreme { args, .. } | Node::Call { args, .. } => args.iter_mut().for_each(f),
            Node::Routine(call) => call.args.iter_mut().for_each(f),
            Node::Not(input)
            | Node::IsNull { input, .. }
            | Node::BoolTest { input, .. }
            | Node::Negate { input, .. }
            | Node::Cast { input, .. } => f(input),
            Node::Between {
                input, low, high, ..
            } => {
                f(input);
                f(low);
                f(high);
            }
            Node::Quantified { left, array, .. } => {
                f(left);
                f(array);
            }
            Node::InList { input, list, .. } => {
                f(input);
                list.iter_mut().for_each(f);
            }
            Node::Like {
                input,
                pattern,
                escape,
                ..
            } => {
                f(input);
                f(pattern);
                escape.iter_mut().for_each(|e| f(e));
            }
            Node::Case {
                operand,
                branches,
                otherwise,
            } => {
                operand.iter_mut().for_each(|(e, _)| f(e));
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
                otherwise.iter_mut().for_each(|e| f(e));
            }
            Node::NullIf {
                left,
                right,
                result,
                ..
            } => {
                f(left);
                f(right);
                f(result);
            }
            Node::Subquery(sub) => {
                sub.args.iter_mut().for_each(|(_, arg)| f(arg));
                if let SubqueryKind::Any { test, .. } = &mut sub.kind {
                    f(test);
                }
            }
        }
    }

    /// Calls `f` on each slot that the expression reads.
    pub fn for_each_column(&self, f: &mut dyn FnMut(usize)) {
        if let Node::Column(slot) = self.node {
            f(slot);
        }
        self.for_each_part(|part| part.for_each_column(f));
    }

    /// Replaces each slot by `f(slot)`.
    pub fn remap_columns(&mut self, f: &mut dyn FnMut(usize) -> usize) {
        if let Node::Column(slot) = &mut self.node {
            *slot = f(*slot);
        }
        self.for_each_part_mut(|part| part.remap_columns(f));
    }

    /// Replaces each slot for which `f` returns an expression by that expression.
    pub fn replace_columns(&mut self, f: &dyn Fn(usize) -> Option<Expr>) {
        if let Node::Column(slot) = self.node {
            if let Some(other) = f(slot) {
                *self = other;
            }
            return;
        }
        self.for_each_part_mut(|part| part.replace_columns(f));
    }

    /// Returns whether the expression reads a column.
    pub fn has_columns(&self) -> bool {
        let mut found = false;
        self.for_each_column(&mut |_| found = true);
        found
    }

    /// Returns the volatility of the most volatile part. A parameter counts as stable.
    pub fn volatility(&self) -> Volatility {
        self.volatility_by(&|function| function.volatility)
    }

    /// Returns the volatility as [`Expr::volatility`] does, but nextval counts as stable: a
    /// repeated execution can get the same values.
    pub fn volatility_beside_draws(&self) -> Volatility {
        self.volatility_by(&|function| match draws(function) {
            true => Volatility::Stable,
            false => function.volatility,
        })
    }

    fn volatility_by(&self, of: &dyn Fn(&ScalarFunction) -> Volatility) -> Volatility {
        let mut volatility = match &self.node {
            Node::Param(_) | Node::Outer(_) => Volatility::Stable,
            Node::Subquery(sub) if sub.volatile => Volatility::Volatile,
            Node::Subquery(_) => Volatility::Stable,
            Node::Call { function, .. } => of(function),
            Node::Routine(call) => call.routine.volatility,
            Node::Cast { input, .. } => crate::functions::cast_volatility(input.ty, self.ty),
            _ => Volatility::Immutable,
        };
        self.for_each_part(|part| volatility = volatility.max(part.volatility_by(of)));
        volatility
    }
}
