//! Functions of sequences take names: they become oids here.

use sqlparser::ast;

use super::{Binder, names};
use crate::bound::{Expr, Node};
use crate::catalog::PUBLIC_SCHEMA;
use crate::error::{SqlError, SqlState};
use crate::parser::parse_expression;
use crate::types::Type;
use crate::value::Value;

/// The functions whose first argument is a sequence.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// Is the first argument of the function a sequence?
pub(super) fn takes_sequence(function: &str) -> bool {
    OF_SEQUENCES.contains(&function)
}

/// The name in `'name'::regclass`.
pub(super) fn under_regclass(arg: &ast::Expr) -> &ast::Expr {
    match arg {
        ast::Expr::Cast {
            expr, data_type, ..
        } if data_type.to_string().eq_ignore_ascii_case("regclass")
            || data_type
                .to_string()
                .eq_ignore_ascii_case("pg_catalog.regclass") =>
        {
            expr
        }
        other => other,
    }
}

impl Binder<'_> {
    /// The oid of the sequence that an argument names.
    pub(super) fn sequence_of(&self, arg: Expr) -> Result<Expr, SqlError> {
        let name = match &arg.node {
            Node::Const(Value::Text(name)) => name.clone(),
            _ if arg.ty.kind.is_integer() => return Ok(arg),
            Node::Const(Value::Null) => return Ok(Expr::constant(Type::INT8, Value::Null)),
            _ => return Err(SqlError::unsupported("a sequence that is not named")),
        };
        let (schema, name) = qualified(&name)?;
        self.check_schema(schema.as_deref(), false)?;
        let shown = names::shown(schema.as_deref(), &name);
        if let Some(sequence) = self.catalog.sequence(schema.as_deref(), &name)? {
            let id = Value::Int8(i64::from(sequence.id));
            return Ok(Expr::constant(Type::INT8, id));
        }
        // Defaults of SERIAL columns do not say it, whatever the path.
        if schema.is_none()
            && let Some(sequence) = self.catalog.sequence(Some(PUBLIC_SCHEMA), &name)?
        {
            let id = Value::Int8(i64::from(sequence.id));
            return Ok(Expr::constant(Type::INT8, id));
        }
        match self.catalog.table(schema.as_deref(), &name)? {
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{shown}\" is not a sequence"),
            )),
            None => Err(names::no_relation(schema.as_deref(), &name)),
        }
    }

    /// `pg_get_serial_sequence('table', 'column')`
    pub(super) fn serial_sequence(&self, args: &[Expr]) -> Result<Expr, SqlError> {
        let [table, column] = args else {
            return Err(SqlError::unsupported("pg_get_serial_sequence of this"));
        };
        let (Node::Const(Value::Text(table)), Node::Const(Value::Text(column))) =
            (&table.node, &column.node)
        else {
            return Err(SqlError::unsupported("pg_get_serial_sequence of this"));
        };
        let (schema, name) = qualified(table)?;
        let table = self.table_called(schema.as_deref(), &name)?;
        let Some(position) = table.column(column) else {
            return Err(names::no_column_of(column, &table.name));
        };
        let owned = table.columns[position].more.sequence;
        let sequence = match owned {
            None => None,
            Some(id) => self.catalog.sequence_by_id(id)?,
        };
        let name = sequence.map_or(Value::Null, |sequence| {
            let (schema, name) = (&sequence.schema, &sequence.name);
            let quoted = crate::parser::quoted;
            Value::text(format!("{}.{}", quoted(schema), quoted(name)))
        });
        Ok(Expr::constant(Type::TEXT, name))
    }
}

/// Schema and name in a text that is read as an identifier.
fn qualified(text: &str) -> Result<(Option<String>, String), SqlError> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    match parse_expression(text).map_err(|_| invalid())? {
        ast::Expr::Identifier(name) => Ok((None, names::fold(&name))),
        ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
            [schema, name] => Ok((Some(names::fold(schema)), names::fold(name))),
            _ => Err(invalid()),
        },
        _ => Err(invalid()),
    }
}
