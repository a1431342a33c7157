//! Sequence functions: the binder converts the sequence names in their arguments to oids.

use sqlparser::ast;

use super::ddl::text_of;
use super::scope::{ScopeColumn, ScopeLeaf};
use super::{Binder, names};
use crate::bound::{ColumnOrigin, Expr, LeafSource, Node, TableFunction};
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind, PUBLIC_SCHEMA, temporary};
use crate::error::{SqlError, SqlState};
use crate::parser::parse_expression;
use crate::pg_catalog;

use crate::types::{Type, TypeKind};
use crate::value::Value;
use crate::walk::{TreeMut, VisitorMut};

/// The functions whose first argument is a sequence.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// Returns whether the first argument of the function is a sequence.
pub(super) fn takes_sequence(function: &str) -> bool {
    OF_SEQUENCES.contains(&function)
}

/// Returns the inner expression of `'name'::regclass`.
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

/// A visitor that adds the schemas to the sequence names in literals.
struct SequenceQualifier<'a, 'b>(&'a Binder<'b>);

impl VisitorMut for SequenceQualifier<'_, '_> {
    fn expr_end(&mut self, expr: &mut ast::Expr) {
        if let ast::Expr::Function(function) = expr
            && let Some(ast::ObjectNamePart::Identifier(name)) = function.name.0.last()
            && takes_sequence(&names::fold(name))
            && let Some(text) = sequence_text(&mut function.args)
            && let Some(qualified) = self.0.qualified_sequence(text)
        {
            *text = qualified;
        }
    }
}

/// Returns the literal that is the first argument of a call.
fn sequence_text(args: &mut ast::FunctionArguments) -> Option<&mut String> {
    let ast::FunctionArguments::List(list) = args else {
        return None;
    };
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first)) = list.args.first_mut()?
    else {
        return None;
    };
    let literal = match first {
        ast::Expr::Cast { expr, .. } => &mut **expr,
        other => other,
    };
    match literal {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::SingleQuotedString(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

impl Binder<'_> {
    /// Returns the text of a default, with the sequence names qualified. It then means the same
    /// under every search path.
    pub(super) fn default_text(&self, expr: &ast::Expr) -> String {
        let mut expr = expr.clone();
        let _ = expr.walk_mut(&mut SequenceQualifier(self));
        text_of(&expr)
    }

    /// Returns the qualified name of a sequence, unless it has a schema or needs none.
    fn qualified_sequence(&self, text: &str) -> Option<String> {
        let (None, name) = qualified(text).ok()? else {
            return None;
        };
        let sequence = self.catalog.sequence(None, &name).ok()??;
        let quoted = crate::parser::quoted;
        let (schema, name) = (&sequence.schema, &sequence.name);
        let needed = schema != PUBLIC_SCHEMA && !temporary::is_temporary(schema);
        needed.then(|| format!("{}.{}", quoted(schema), quoted(name)))
    }

    /// Returns the oid of the sequence that an argument names.
    pub(super) fn sequence_of(&self, arg: Expr) -> Result<Expr, SqlError> {
        let name = match &arg.node {
            Node::Const(Value::Text(name)) => name.clone(),
            _ if arg.ty.kind.is_integer() => return Ok(arg),
            Node::Const(Value::Null) => return Ok(Expr::constant(Type::INT8, Value::Null)),
            // An oid, or a value of a type that overload resolution refuses later.
            _ if arg.ty != Type::UNKNOWN && !arg.ty.kind.is_string() => return Ok(arg),
            _ => return Err(SqlError::unsupported("a sequence that is not named")),
        };
        let (schema, name) = qualified(&name)?;
        self.check_schema(schema.as_deref(), false)?;
        self.check_usage(schema.as_deref())?;
        let qualified = names::qualified_name(schema.as_deref(), &name);
        if let Some(sequence) = self.catalog.sequence(schema.as_deref(), &name)? {
            let id = Value::Int8(i64::from(sequence.id));
            return Ok(Expr::constant(Type::INT8, id));
        }
        // The defaults of SERIAL columns omit the schema `public`, whatever the search path is.
        if schema.is_none()
            && let Some(sequence) = self.catalog.sequence(Some(PUBLIC_SCHEMA), &name)?
        {
            let id = Value::Int8(i64::from(sequence.id));
            return Ok(Expr::constant(Type::INT8, id));
        }
        match self.catalog.table(schema.as_deref(), &name)? {
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{qualified}\" is not a sequence"),
            )),
            None => Err(names::no_relation(schema.as_deref(), &name)),
        }
    }

    /// Requires the privileges that a function needs on a sequence that is given by oid.
    pub(super) fn need_sequence(
        &mut self,
        function: &str,
        sequence: &Expr,
    ) -> Result<(), SqlError> {
        let id = match &sequence.node {
            Node::Const(Value::Null) => return Ok(()),
            Node::Const(id) => id.as_int().and_then(|id| u32::try_from(id).ok()),
            _ => None,
        };
        let found = match id {
            Some(id) => self.catalog.sequence_by_id(id)?,
            None if self.passes_all() => return Ok(()),
            // The sequence, and so the privilege, is known only at run time.
            None => return Err(SqlError::unsupported("a sequence that is not named")),
        };
        let Some(found) = found else {
            return Ok(());
        };
        self.params.name_sequence(found.id);
        // One of these privileges suffices.
        let enough = match function {
            "nextval" => [Privileges::USAGE, Privileges::UPDATE],
            "setval" => [Privileges::UPDATE; 2],
            _ => [Privileges::USAGE, Privileges::SELECT],
        };
        let object = Object::new(ObjectKind::Sequence, found.id);
        self.need_one_of(object, &found.name, &enough);
        Ok(())
    }

    /// Returns a sequence as a relation, or `missing` if no sequence has this name.
    pub(super) fn sequence_leaf(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<String>,
        missing: SqlError,
    ) -> Result<(ScopeLeaf, LeafSource), SqlError> {
        let (schema, name) = names::table_name(name)?;
        let Some(sequence) = self.catalog.sequence(schema.as_deref(), &name)? else {
            return Err(missing);
        };
        let object = Object::new(ObjectKind::Sequence, sequence.id);
        self.need_use(object, &sequence.name, Privileges::SELECT);
        let columns = pg_catalog::SEQUENCE_COLUMNS.iter();
        let columns = (1..).zip(columns).map(|(attnum, (name, ty))| ScopeColumn {
            name: (*name).to_owned(),
            ty: *ty,
            origin: Some(ColumnOrigin {
                table: sequence.id,
                attnum,
            }),
            hidden: false,
        });
        let leaf = ScopeLeaf {
            table_name: alias.as_ref().map(|_| sequence.name.clone()),
            alias: alias.unwrap_or_else(|| sequence.name.clone()),
            schema: Some(sequence.schema.clone()),
            first_slot: 0,
            columns: columns.collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: true,
        };
        let oid = Expr::constant(Type::of(TypeKind::Oid), Value::Oid(sequence.id));
        let source = LeafSource::Function {
            function: TableFunction::Sequence,
            args: vec![oid],
        };
        Ok((leaf, source))
    }

    /// Binds `pg_get_serial_sequence('table', 'column')`. With non-constant arguments it is an
    /// ordinary call.
    pub(super) fn serial_sequence(&mut self, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let known = match args.as_slice() {
            [table, column] => match (&table.node, &column.node) {
                (Node::Const(Value::Text(table)), Node::Const(Value::Text(column))) => {
                    Some((table, column))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((table, column)) = known else {
            return self.call("pg_get_serial_sequence", args);
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

/// Parses a text as an identifier and returns its schema and name.
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
