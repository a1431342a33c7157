//! Operators, and their resolution by the operand types.

use sqlparser::ast::BinaryOperator;

use super::Binder;
use super::coerce::common_type;
use super::whole_row::check_alike;
use crate::bound::{ArithClass, ArithOp, CompareClass, CompareOp, Expr, LikeKind, Node};
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, candidates};
use crate::types::{Type, TypeCategory, TypeKind};
use crate::value::Value;

impl Binder<'_> {
    /// Binds a binary operator other than AND and OR.
    pub(super) fn binary(
        &mut self,
        op: &BinaryOperator,
        left: Expr,
        right: Expr,
    ) -> Result<Expr, SqlError> {
        if let Some(compare) = compare_op(op) {
            return self.compare(compare, left, right);
        }
        let arith = match op {
            BinaryOperator::Plus => ArithOp::Add,
            BinaryOperator::Minus => ArithOp::Sub,
            BinaryOperator::Multiply => ArithOp::Mul,
            BinaryOperator::Divide => ArithOp::Div,
            BinaryOperator::Modulo => ArithOp::Mod,
            BinaryOperator::StringConcat => return self.concat(left, right),
            BinaryOperator::PGLikeMatch
            | BinaryOperator::PGILikeMatch
            | BinaryOperator::PGNotLikeMatch
            | BinaryOperator::PGNotILikeMatch => {
                let (kind, negated) = match op {
                    BinaryOperator::PGLikeMatch => (LikeKind::Like, false),
                    BinaryOperator::PGNotLikeMatch => (LikeKind::Like, true),
                    BinaryOperator::PGILikeMatch => (LikeKind::ILike, false),
                    _ => (LikeKind::ILike, true),
                };
                return self.like(kind, negated, (left, right), None);
            }
            BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexNotMatch
                if left.ty.kind.is_citext() =>
            {
                let symbol = match op {
                    BinaryOperator::PGRegexMatch => "~*",
                    _ => "!~*",
                };
                return self.symbol(symbol, left, right);
            }
            BinaryOperator::PGExp => return self.call("power", vec![left, right]),
            BinaryOperator::PGCustomBinaryOperator(parts) => {
                let symbol = match parts.as_slice() {
                    [schema, symbol] if schema == "pg_catalog" => symbol,
                    [symbol] => symbol,
                    _ => return Err(SqlError::unsupported(format!("operator {op}"))),
                };
                if let Some(plain) = plain(symbol) {
                    return self.binary(&plain, left, right);
                }
                if candidates(symbol).next().is_none() {
                    return Err(SqlError::unsupported(format!("operator {op}")));
                }
                return self.symbol(symbol, left, right);
            }
            other => {
                let symbol = other.to_string();
                if candidates(&symbol).next().is_some() {
                    return self.symbol(&symbol, left, right);
                }
                return Err(SqlError::unsupported(format!("operator {other}")));
            }
        };
        self.arith(arith, left, right)
    }

    /// Binds a comparison.
    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        left: Expr,
        right: Expr,
    ) -> Result<Expr, SqlError> {
        let (class, left, right) = self.comparable(op.symbol(), left, right)?;
        Ok(self.fold(Expr::new(
            Type::BOOL,
            Node::Compare {
                op,
                class,
                left: Box::new(left),
                right: Box::new(right),
            },
        )))
    }

    /// Converts both sides to types that can be compared.
    pub(super) fn comparable(
        &mut self,
        symbol: &str,
        left: Expr,
        right: Expr,
    ) -> Result<(CompareClass, Expr, Expr), SqlError> {
        let (l, r) = (left.ty.kind, right.ty.kind);
        if l.is_integer() && r.is_integer() {
            let (left, right) = same_width(left, right);
            return Ok((CompareClass::Int, left, right));
        }
        if l.is_row() && r.is_row() {
            check_alike(&left, &right)?;
        }
        if [l, r].contains(&TypeKind::Xid) && !["=", "<>"].contains(&symbol) {
            return Err(no_operator(symbol, &left.ty, &right.ty));
        }
        let right = match (l, r) {
            (TypeKind::Xid, TypeKind::Int4) => self.as_xid(right),
            _ => right,
        };
        let r = right.ty.kind;
        let target = match compare_type(l, r) {
            Some(kind) => Type::of(kind),
            None => return Err(no_operator(symbol, &left.ty, &right.ty)),
        };
        let class = match target.kind.is_integer() {
            true => CompareClass::Int,
            false => CompareClass::Same,
        };
        let left = self.side(left, target)?;
        let right = self.side(right, target)?;
        Ok((class, left, right))
    }

    /// Converts an integer that is compared with an xid; no cast in the catalog does this.
    fn as_xid(&self, integer: Expr) -> Expr {
        let node = Node::Cast {
            explicit: false,
            input: Box::new(integer),
        };
        self.fold(Expr::new(Type::XID, node))
    }

    /// Converts one side of a comparison. Strings are compared as stored, so a string column stays
    /// a column. Compared as char, a varchar loses its trailing blanks.
    fn side(&mut self, expr: Expr, target: Type) -> Result<Expr, SqlError> {
        let stays = expr.ty.kind == target.kind
            || (expr.ty != Type::UNKNOWN
                && expr.ty.kind.is_string()
                && target.kind.is_string()
                && target.kind != TypeKind::BpChar);
        if stays {
            return Ok(expr);
        }
        self.coerce(expr, target, CastContext::Implicit)
    }

    /// Converts all expressions to one comparable type, for IN, CASE, GREATEST and similar
    /// constructs.
    pub(super) fn comparable_all(
        &mut self,
        exprs: Vec<Expr>,
        what: &str,
    ) -> Result<(CompareClass, Type, Vec<Expr>), SqlError> {
        let ty = common_type(&exprs, what)?;
        let mut out = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let keeps = (ty.kind.is_integer() && expr.ty.kind.is_integer())
                || (ty.kind.is_string()
                    && expr.ty.kind.is_string()
                    && expr.ty != Type::UNKNOWN
                    && (ty.kind != TypeKind::BpChar || expr.ty.kind == TypeKind::BpChar));
            out.push(match keeps {
                true => expr,
                false => self.coerce(expr, Type::of(ty.kind), CastContext::Implicit)?,
            });
        }
        let class = match ty.kind.is_integer() {
            true => CompareClass::Int,
            false => CompareClass::Same,
        };
        Ok((class, ty, out))
    }

    fn arith(&mut self, op: ArithOp, left: Expr, right: Expr) -> Result<Expr, SqlError> {
        let (l, r) = (left.ty.kind, right.ty.kind);
        if l == TypeKind::Unknown && r == TypeKind::Unknown {
            return Err(not_unique(op.symbol(), &left.ty, &right.ty));
        }
        if [l, r].iter().any(|k| {
            matches!(
                k.category(),
                TypeCategory::DateTime | TypeCategory::Timespan
            )
        }) {
            return self.date_arith(op, left, right);
        }
        let Some(kind) = arith_type(l, r) else {
            return self.symbol(op.symbol(), left, right);
        };
        let class = arith_class(kind);
        if op == ArithOp::Mod && matches!(class, ArithClass::Float4 | ArithClass::Float8) {
            return Err(no_operator(op.symbol(), &left.ty, &right.ty));
        }
        let left = self.coerce(left, Type::of(kind), CastContext::Implicit)?;
        let right = self.coerce(right, Type::of(kind), CastContext::Implicit)?;
        Ok(self.arith_node(Type::of(kind), op, class, left, right))
    }

    fn date_arith(&mut self, op: ArithOp, left: Expr, right: Expr) -> Result<Expr, SqlError> {
        use TypeKind as T;
        let (l, r) = (left.ty.kind, right.ty.kind);
        match (op, l, r) {
            (ArithOp::Sub, T::Date, T::Date | T::Unknown) | (ArithOp::Sub, T::Unknown, T::Date) => {
                let left = self.coerce(left, Type::DATE, CastContext::Implicit)?;
                let right = self.coerce(right, Type::DATE, CastContext::Implicit)?;
                Ok(self.arith_node(Type::INT4, op, ArithClass::DateDiff, left, right))
            }
            (ArithOp::Add | ArithOp::Sub, T::Date, T::Int2 | T::Int4) => {
                let right = self.coerce(right, Type::INT4, CastContext::Implicit)?;
                Ok(self.arith_node(Type::DATE, op, ArithClass::DateDays, left, right))
            }
            (ArithOp::Add, T::Int2 | T::Int4, T::Date) => {
                let left = self.coerce(left, Type::INT4, CastContext::Implicit)?;
                Ok(self.arith_node(Type::DATE, op, ArithClass::DateDays, right, left))
            }
            _ => self.symbol(op.symbol(), left, right),
        }
    }

    fn arith_node(
        &self,
        ty: Type,
        op: ArithOp,
        class: ArithClass,
        left: Expr,
        right: Expr,
    ) -> Expr {
        self.fold(Expr::new(
            ty,
            Node::Arith {
                op,
                class,
                left: Box::new(left),
                right: Box::new(right),
            },
        ))
    }

    /// Binds unary minus.
    pub(super) fn negate(&mut self, input: Expr) -> Result<Expr, SqlError> {
        if input.ty == Type::UNKNOWN {
            return Err(SqlError::new(
                SqlState::AMBIGUOUS_FUNCTION,
                "operator is not unique: - unknown",
            )
            .hint(
                "Could not choose a best candidate operator. You might need to add explicit \
                 type casts.",
            ));
        }
        if input.ty.kind == TypeKind::Interval {
            return self.call("-", vec![input]);
        }
        if !is_number(input.ty.kind) {
            return Err(no_prefix_operator("-", &input.ty));
        }
        let ty = Type::of(input.ty.kind);
        Ok(self.fold(Expr::new(
            ty,
            Node::Negate {
                class: arith_class(input.ty.kind),
                input: Box::new(input),
            },
        )))
    }

    fn concat(&mut self, left: Expr, right: Expr) -> Result<Expr, SqlError> {
        use TypeKind as T;
        let (l, r) = (left.ty.kind, right.ty.kind);
        let is_array = |kind: T| kind.element().is_some();
        match (is_array(l), is_array(r)) {
            (true, true) => return self.call("array_cat", vec![left, right]),
            (true, false) if r == T::Unknown => return self.call("array_cat", vec![left, right]),
            (false, true) if l == T::Unknown => return self.call("array_cat", vec![left, right]),
            (true, false) => return self.symbol_as("array_append", "||", left, right),
            (false, true) => return self.symbol_as("array_prepend", "||", left, right),
            (false, false) => {}
        }
        if l == T::Jsonb || r == T::Jsonb {
            return self.symbol("||", left, right);
        }
        if (l == T::Bytea && matches!(r, T::Bytea | T::Unknown))
            || (l == T::Unknown && r == T::Bytea)
        {
            return self.call("byteacat", vec![left, right]);
        }
        let is_text = |kind: T| kind.is_string() || kind.is_citext();
        if !is_text(l) && !is_text(r) {
            return Err(no_operator("||", &left.ty, &right.ty));
        }
        let left = self.as_text(left)?;
        let right = self.as_text(right)?;
        self.call("textcat", vec![left, right])
    }

    /// Converts any value to text.
    pub(super) fn as_text(&mut self, expr: Expr) -> Result<Expr, SqlError> {
        self.coerce(expr, Type::TEXT, CastContext::Assignment)
    }
}

/// Returns the comparison that an operator denotes; `None` for other operators.
pub(super) fn compare_op(op: &BinaryOperator) -> Option<CompareOp> {
    Some(match op {
        BinaryOperator::Eq => CompareOp::Eq,
        BinaryOperator::NotEq => CompareOp::Ne,
        BinaryOperator::Lt => CompareOp::Lt,
        BinaryOperator::LtEq => CompareOp::Le,
        BinaryOperator::Gt => CompareOp::Gt,
        BinaryOperator::GtEq => CompareOp::Ge,
        _ => return None,
    })
}

/// Returns the type to which both sides of a comparison are converted.
fn compare_type(left: TypeKind, right: TypeKind) -> Option<TypeKind> {
    use TypeKind as T;
    if left == right && !left.is_object() {
        return match left {
            // These types have neither an ordering nor an equality operator.
            T::Json | T::JsonPath => None,
            T::Unknown => Some(T::Text),
            T::Cidr => Some(T::Inet),
            same => Some(same),
        };
    }
    let is_oid = |kind: T| kind == T::Oid || kind.is_object();
    match (left, right) {
        (a, b) if is_oid(a) && (is_oid(b) || b.is_integer() || b == T::Unknown) => Some(T::Oid),
        (a, b) if is_oid(b) && (a.is_integer() || a == T::Unknown) => Some(T::Oid),
        (T::Unknown, T::VarChar) | (T::VarChar, T::Unknown) => Some(T::Text),
        (T::Unknown, T::Json | T::JsonPath) | (T::Json | T::JsonPath, T::Unknown) => None,
        (T::JsonPath, _) | (_, T::JsonPath) => None,
        (a, b) if a.is_row() && (b.is_row() || b == T::Unknown) => Some(T::Record),
        (T::Unknown, b) if b.is_row() => Some(T::Record),
        (T::Unknown | T::Inet | T::Cidr, T::Inet | T::Cidr) | (T::Inet | T::Cidr, T::Unknown) => {
            Some(T::Inet)
        }
        (T::Unknown, known) | (known, T::Unknown) => Some(known),
        (T::Citext(_), other) | (other, T::Citext(_)) if other.is_string() => Some(T::Text),
        // varchar converts to char as easily as to text, so the char operand decides.
        (T::BpChar, T::VarChar) | (T::VarChar, T::BpChar) => Some(T::BpChar),
        (a, b) if a.is_string() && b.is_string() => Some(T::Text),
        (T::Interval, T::Time) | (T::Time, T::Interval) => Some(T::Interval),
        (a, b) if a.category() != b.category() => None,
        (a, _) if a.category() == TypeCategory::Numeric => arith_type(left, right),
        (a, _) if a.category() == TypeCategory::DateTime => left.max_time(right),
        _ => None,
    }
}

/// Returns the operator that is written `OPERATOR(pg_catalog.symbol)`.
fn plain(symbol: &str) -> Option<BinaryOperator> {
    use BinaryOperator as O;
    let all = [
        O::Eq,
        O::NotEq,
        O::Lt,
        O::LtEq,
        O::Gt,
        O::GtEq,
        O::Plus,
        O::Minus,
        O::Multiply,
        O::Divide,
        O::Modulo,
        O::StringConcat,
        O::PGExp,
        O::PGLikeMatch,
        O::PGILikeMatch,
        O::PGNotLikeMatch,
        O::PGNotILikeMatch,
        O::PGRegexMatch,
        O::PGRegexIMatch,
        O::PGRegexNotMatch,
        O::PGRegexNotIMatch,
        O::BitwiseAnd,
        O::BitwiseOr,
    ];
    all.into_iter().find(|op| op.to_string() == symbol)
}

/// Returns the type to which both operands of arithmetic are converted.
fn arith_type(left: TypeKind, right: TypeKind) -> Option<TypeKind> {
    use TypeKind as T;
    let (left, right) = match (left, right) {
        (T::Unknown, known) | (known, T::Unknown) => (known, known),
        both => both,
    };
    if [left, right]
        .iter()
        .any(|k| k.category() != TypeCategory::Numeric || *k == T::Oid || k.is_object())
    {
        return None;
    }
    Some(match (left, right) {
        (a, b) if a == b => a,
        (T::Float4 | T::Float8, _) | (_, T::Float4 | T::Float8) => T::Float8,
        (T::Numeric, _) | (_, T::Numeric) => T::Numeric,
        (T::Int8, _) | (_, T::Int8) => T::Int8,
        _ => T::Int4,
    })
}

fn arith_class(kind: TypeKind) -> ArithClass {
    match kind {
        TypeKind::Int2 => ArithClass::Int2,
        TypeKind::Int4 => ArithClass::Int4,
        TypeKind::Int8 => ArithClass::Int8,
        TypeKind::Float4 => ArithClass::Float4,
        TypeKind::Float8 => ArithClass::Float8,
        _ => ArithClass::Numeric,
    }
}

/// Converts an integer constant to the width of the other operand, if its value fits.
fn same_width(left: Expr, right: Expr) -> (Expr, Expr) {
    match (&left.node, &right.node) {
        (_, Node::Const(value)) => {
            let resized = resized(value, left.ty);
            match resized {
                Some(value) => {
                    let ty = Type::of(left.ty.kind);
                    (left, Expr::constant(ty, value))
                }
                None => (left, right),
            }
        }
        (Node::Const(value), _) => match resized(value, right.ty) {
            Some(value) => (Expr::constant(Type::of(right.ty.kind), value), right),
            None => (left, right),
        },
        _ => (left, right),
    }
}

fn resized(value: &Value, ty: Type) -> Option<Value> {
    let v = value.as_int()?;
    match ty.kind {
        TypeKind::Int2 => i16::try_from(v).ok().map(Value::Int2),
        TypeKind::Int4 => i32::try_from(v).ok().map(Value::Int4),
        TypeKind::Int8 => Some(Value::Int8(v)),
        _ => None,
    }
}

/// Returns the error 42883 for an operator that does not exist.
pub(super) fn no_operator(symbol: &str, left: &Type, right: &Type) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!(
            "operator does not exist: {} {symbol} {}",
            left.kind, right.kind
        ),
    )
    .hint(
        "No operator matches the given name and argument types. You might need to add explicit \
         type casts.",
    )
}

/// Returns whether unary `+` and `-` apply to the type. They do not apply to oids.
pub(super) fn is_number(kind: TypeKind) -> bool {
    use TypeKind::{Float4, Float8, Int2, Int4, Int8, Numeric};
    let kind = Type::of(kind).plain().kind;
    matches!(kind, Int2 | Int4 | Int8 | Numeric | Float4 | Float8)
}

pub(super) fn no_prefix_operator(symbol: &str, operand: &Type) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {symbol} {}", operand.kind),
    )
    .hint(
        "No operator matches the given name and argument type. You might need to add an \
         explicit type cast.",
    )
}

pub(super) fn not_unique(symbol: &str, left: &Type, right: &Type) -> SqlError {
    SqlError::new(
        SqlState::AMBIGUOUS_FUNCTION,
        format!(
            "operator is not unique: {} {symbol} {}",
            left.kind, right.kind
        ),
    )
    .hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
}

impl TypeKind {
    /// Returns the one of two date/time types to which the other converts.
    fn max_time(self, other: TypeKind) -> Option<TypeKind> {
        use TypeKind as T;
        let clocks = [self, other]
            .iter()
            .filter(|k| matches!(k, T::Time | T::TimeTz))
            .count();
        Some(match (self, other) {
            _ if clocks == 2 => T::TimeTz,
            _ if clocks == 1 => return None,
            (T::TimestampTz, _) | (_, T::TimestampTz) => T::TimestampTz,
            (T::Timestamp, _) | (_, T::Timestamp) => T::Timestamp,
            _ => T::Date,
        })
    }
}
