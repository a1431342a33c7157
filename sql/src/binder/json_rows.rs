//! Functions that convert JSON objects to rows. The first argument of `json_populate_record` and
//! `json_populate_recordset` determines the row type. A column definition list determines it for
//! `json_to_record` and `json_to_recordset`.

use sqlparser::ast;

use super::call::{function_name, no_function, plain_argument};
use super::expr::Clause;
use super::from::lateral;
use super::scope::{RowValue, Scope, ScopeColumn, ScopeLeaf};
use super::target_rows::{is_own, set_here};
use super::{Binder, names};
use crate::bound::{Expr, From, LeafSource, Node, TableFunction};
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, FIELDS_OF_ALL, JSON_RECORD, JSON_RECORDS};
use crate::types::{Fields, Type, TypeKind};
use crate::value::{Record, Value};

/// One of these functions, described by its properties.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonRows {
    /// Whether it returns a set of rows.
    set: bool,
    /// Whether the first argument gives the row type.
    populates: bool,
    binary: bool,
}

impl JsonRows {
    /// Returns the function of this name; `None` for other names.
    pub(super) fn of(name: &str) -> Option<JsonRows> {
        let (binary, rest) = match name.strip_prefix("jsonb_") {
            Some(rest) => (true, rest),
            None => (false, name.strip_prefix("json_")?),
        };
        let (populates, set) = match rest {
            "populate_record" => (true, false),
            "populate_recordset" => (true, true),
            "to_record" => (false, false),
            "to_recordset" => (false, true),
            _ => return None,
        };
        Some(JsonRows {
            set,
            populates,
            binary,
        })
    }

    /// Returns whether the function returns several rows of the type of its argument.
    pub(super) fn gives_values(self) -> bool {
        self.set && self.populates
    }
}

impl Binder<'_> {
    /// Binds a call in an expression, which returns one row.
    pub(super) fn json_row(
        &mut self,
        name: &str,
        rows: JsonRows,
        args: Vec<Expr>,
        clause: Clause,
    ) -> Result<Expr, SqlError> {
        let refused = match (rows.populates, rows.set) {
            (true, false) => None,
            (true, true) => Some(set_here(name, clause)),
            (false, true) => {
                let what = format!("could not determine row type for result of {name}");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).hint(
                    "Provide a non-null record argument, or call the function in the \
                     FROM clause using a column definition list.",
                ));
            }
            (false, false) => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "function returning record called in context that cannot accept type record",
                ));
            }
        };
        match refused {
            Some(refused) => Err(refused),
            None => self.json_rows(name, rows, args, None),
        }
    }

    /// Binds a call that returns a row, or an array of rows for a set. `definitions` is the column
    /// definition list.
    pub(super) fn json_rows(
        &mut self,
        name: &str,
        rows: JsonRows,
        args: Vec<Expr>,
        definitions: Option<Vec<(String, Type)>>,
    ) -> Result<Expr, SqlError> {
        let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
        let mut args = args.into_iter();
        let (base, json) = match (rows.populates, args.len()) {
            (true, 2) => (args.next(), args.next()),
            (false, 1) => (None, args.next()),
            _ => return Err(no_function(name, &types)),
        };
        let json = json.ok_or_else(|| no_function(name, &types))?;
        let of = match rows.binary {
            true => Type::JSONB,
            false => Type::JSON,
        };
        let json =
            self.coerce(json, of, CastContext::Implicit)
                .map_err(|e| match e.sqlstate() {
                    SqlState::CANNOT_COERCE => no_function(name, &types),
                    _ => e,
                })?;
        let (fields, base) = match base {
            None => {
                let definitions = definitions.ok_or_else(list_required)?;
                let null = Expr::constant(Type::of(TypeKind::Record), Value::Null);
                (Fields::own(definitions), null)
            }
            Some(base) => (self.populated(name, &base, definitions)?, base),
        };
        let row = Type::of(fields.kind());
        let shape = Expr::constant(row, Record::new(fields, Vec::new()).into());
        let name = Expr::constant(Type::TEXT, Value::text(name));
        let args = vec![shape, base, json, name];
        let (function, ty) = match rows.set {
            true => (&JSON_RECORDS, row.array().unwrap_or(row)),
            false => (&JSON_RECORD, row),
        };
        Ok(Expr::new(ty, Node::Call { function, args }))
    }

    /// Returns the fields of rows whose type the first argument gives.
    fn populated(
        &self,
        name: &str,
        base: &Expr,
        definitions: Option<Vec<(String, Type)>>,
    ) -> Result<Fields, SqlError> {
        let kind = base.ty.plain().kind;
        match (kind.as_composite(), definitions) {
            (Some(_), Some(_)) => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "a column definition list is redundant for a function \
                 returning a named composite type",
            )),
            (Some(of), None) => Ok(Fields::Named(of)),
            (None, Some(definitions)) if kind == TypeKind::Record => Ok(Fields::own(definitions)),
            (None, _) if kind == TypeKind::Record => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("could not determine row type for result of {name}"),
            )
            .hint(
                "Provide a non-null record argument, or call the function in the \
                 FROM clause using a column definition list.",
            )),
            (None, _) if kind == TypeKind::Unknown => Err(super::polymorphic::undetermined()),
            (None, _) => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("first argument of {name} must be a row type"),
            )),
        }
    }

    /// Binds such a function in FROM; `None` if it is another function.
    pub(super) fn json_rows_in_from(
        &mut self,
        (name, args): (&ast::ObjectName, &[ast::FunctionArg]),
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        (scope, left): (&mut Scope, &[&Scope]),
    ) -> Result<Option<From>, SqlError> {
        let Ok(name) = function_name(name) else {
            return Ok(None);
        };
        let Some(rows) = JsonRows::of(&name) else {
            return Ok(None);
        };
        if alias.is_some_and(|alias| is_own(&alias.name.value)) {
            return Ok(None);
        }
        let definitions = self.column_definitions(alias)?;
        let empty = Scope::default();
        let ((call, fields), read) = self.beside(left, |binder| {
            let mut bound = Vec::with_capacity(args.len());
            for arg in args {
                bound.push(binder.scalar(plain_argument(arg)?, &empty, Clause::FromFunction)?);
            }
            let call = binder.json_rows(&name, rows, bound, definitions)?;
            let fields = fields_of(&call).ok_or_else(|| SqlError::internal("rows of nothing"))?;
            Ok((call, fields))
        })?;
        let width = Value::Int4(i32::try_from(fields.len()).unwrap_or(i32::MAX));
        let function = &FIELDS_OF_ALL;
        let call = match rows.set {
            true => call,
            false => super::array::of_one(call),
        };
        let args = vec![call, Expr::constant(Type::INT4, width)];
        let args = vec![Expr::new(
            Type::of(TypeKind::Any),
            Node::Call { function, args },
        )];
        let row = fields.kind().as_composite().filter(|_| !ordinality);
        let row = row.map(RowValue::Composite);
        let column = |(name, ty): (String, Type)| ScopeColumn {
            name,
            ty,
            origin: None,
            hidden: false,
        };
        let visible = fields
            .iter()
            .map(|field| (field.name.clone(), field.ty.plain()));
        let numbered = ordinality.then(|| ("ordinality".to_owned(), Type::INT8));
        let leaf = ScopeLeaf {
            alias: alias.map_or_else(|| name.clone(), |alias| names::fold(&alias.name)),
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: visible.chain(numbered).map(column).collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row,
            is_table: false,
        };
        let function = TableFunction::Rows {
            wide: true,
            ordinality,
        };
        let source = LeafSource::Function { function, args };
        self.leaf(leaf, lateral(read, source), alias, scope)
            .map(Some)
    }
}

/// Returns the fields of the rows that a call returns.
fn fields_of(call: &Expr) -> Option<Fields> {
    let Node::Call { args, .. } = &call.node else {
        return None;
    };
    match args.first().map(|shape| &shape.node) {
        Some(Node::Const(Value::Record(shape))) => Some(shape.fields.clone()),
        _ => None,
    }
}

/// Returns the error 42601 for a missing column definition list.
fn list_required() -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        "a column definition list is required for functions returning \"record\"",
    )
}
