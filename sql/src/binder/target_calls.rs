//! Set-returning functions in a target list, and the relations that they are rewritten to.

use sqlparser::ast::{self, Expr as E};

use super::names;
use super::target_rows::{
    OWN, RewrittenSelect, RowShape, SetFunctions, field_of, is_own, named, quoted,
};
use super::whole_row::row_of_star;
use crate::error::{SqlError, SqlState};
use crate::parser::parse_query;
use crate::walk::{TreeMut, VisitorMut};

/// The field name that stands for the row itself.
const WHOLE: &str = "\u{1}";

/// A call, with the fields of its rows that the query reads.
struct Call {
    function: ast::Function,
    /// The text of the call before its arguments are rewritten.
    written: String,
    shape: RowShape,
    /// One more than the largest level of the calls in its arguments.
    level: usize,
    read: Vec<String>,
}

/// The calls of a target list. As in PostgreSQL, calls with equal text inside expressions are one
/// call, together with an equal call that is a whole target. Calls that are whole targets each
/// return rows of their own.
pub(super) struct Calls<'a> {
    known: &'a SetFunctions<'a>,
    list: Vec<Call>,
    /// The texts of the calls inside expressions, with their position in the list once they are
    /// added.
    shared: Vec<(String, Option<usize>)>,
    /// Whether only calls whose text is in `shared` are taken.
    pub(super) only_known: bool,
    /// The number of relations that earlier target lists have added to FROM.
    before: usize,
    /// The level of the calls in the arguments of the current call.
    level: usize,
    /// Whether the current target has changed.
    changed: bool,
    /// The number of queries around the visited expression.
    queries: usize,
}

impl<'a> Calls<'a> {
    /// Returns an empty list; calls whose text is in `shared` become one call.
    pub(super) fn of(known: &'a SetFunctions<'a>, shared: Vec<String>) -> Calls<'a> {
        Calls {
            known,
            list: Vec::new(),
            shared: shared.into_iter().map(|text| (text, None)).collect(),
            only_known: false,
            before: 0,
            level: 0,
            changed: false,
            queries: 0,
        }
    }

    /// Moves the calls of a SELECT into FROM. With `as_fields` the fields of rows become additional
    /// columns, which `*` omits.
    ///
    /// # Errors
    /// 42703 for a field that a row does not have.
    pub(super) fn beside(
        mut self,
        (mut select, mut order_by): RewrittenSelect,
        as_fields: bool,
    ) -> Result<RewrittenSelect, SqlError> {
        let own = |table: &&ast::TableWithJoins| is_own_factor(&table.relation);
        self.before = select.from.iter().filter(own).count();
        let mut projection = Vec::with_capacity(select.projection.len());
        let mut fields = Vec::new();
        for item in &select.projection {
            self.item(item, &mut projection)?;
            if as_fields {
                self.fields(item, &mut fields)?;
            }
        }
        projection.append(&mut fields);
        select.projection = projection;
        for key in &mut order_by {
            key.expr.walk_mut(&mut self)?;
        }
        if let Some(ast::Distinct::On(keys)) = &mut select.distinct {
            for key in keys {
                key.walk_mut(&mut self)?;
            }
        }
        if self.only_known {
            if let ast::GroupByExpr::Expressions(keys, _) = &mut select.group_by {
                for key in keys {
                    key.walk_mut(&mut self)?;
                }
            }
            if let Some(having) = &mut select.having {
                having.walk_mut(&mut self)?;
            }
        }
        let deepest = self.list.iter().map(|call| call.level).max();
        for level in 0..deepest.map_or(0, |deepest| deepest + 1) {
            select.from.push(ast::TableWithJoins {
                relation: self.relation(level)?,
                joins: Vec::new(),
            });
        }
        Ok((select, order_by))
    }

    /// Adds the rewritten target.
    fn item(
        &mut self,
        item: &ast::SelectItem,
        out: &mut Vec<ast::SelectItem>,
    ) -> Result<(), SqlError> {
        let Some((expr, name)) = named(item) else {
            out.push(item.clone());
            return Ok(());
        };
        // The target is `(f(x)).*`.
        if let Some(E::Nested(row)) = row_of_star(expr)
            && let E::Function(function) = &*row
            && let Some(shape) = self.known.shape(function)
            && shape.is_row
            && self.takes(function)
        {
            let at = self.place(function, &shape)?;
            for field in &shape.fields {
                let expr = self.column(at, field);
                let alias = quoted(field.clone());
                out.push(ast::SelectItem::ExprWithAlias { expr, alias });
            }
            return Ok(());
        }
        let mut changed = expr.clone();
        self.changed = false;
        changed.walk_mut(self)?;
        out.push(match (self.changed, row_of_star(expr)) {
            (false, _) => item.clone(),
            (true, Some(_)) => ast::SelectItem::UnnamedExpr(changed),
            (true, None) => ast::SelectItem::ExprWithAlias {
                expr: changed,
                alias: quoted(name),
            },
        });
        Ok(())
    }

    /// Adds the fields of a target that is a row.
    fn fields(
        &mut self,
        item: &ast::SelectItem,
        out: &mut Vec<ast::SelectItem>,
    ) -> Result<(), SqlError> {
        let Some((E::Function(function), name)) = named(item) else {
            return Ok(());
        };
        let Some(shape) = self.known.shape(function).filter(|shape| shape.is_row) else {
            return Ok(());
        };
        let text = function.to_string();
        let at = self.list.iter().position(|call| call.written == text);
        let Some(at) = at else {
            return Ok(());
        };
        for field in &shape.fields {
            out.push(ast::SelectItem::ExprWithAlias {
                expr: self.column(at, field),
                alias: quoted(field_of(&name, field)),
            });
        }
        Ok(())
    }

    /// Returns whether the call is moved into FROM in this pass.
    fn takes(&self, function: &ast::Function) -> bool {
        let text = || function.to_string();
        !self.only_known || self.shared.iter().any(|(known, _)| *known == text())
    }

    /// Returns the position of a call in the list; adds the call unless it shares the position of
    /// an equal one.
    fn place(&mut self, function: &ast::Function, shape: &RowShape) -> Result<usize, SqlError> {
        let text = function.to_string();
        let at = self.shared.iter().position(|(known, _)| *known == text);
        if let Some(at) = at
            && let Some(place) = self.shared[at].1
        {
            self.level = self.level.max(self.list[place].level + 1);
            return Ok(place);
        }
        let around = std::mem::take(&mut self.level);
        let mut function = function.clone();
        if let ast::FunctionArguments::List(list) = &mut function.args {
            for arg in &mut list.args {
                if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))
                | ast::FunctionArg::Named {
                    arg: ast::FunctionArgExpr::Expr(arg),
                    ..
                } = arg
                {
                    arg.walk_mut(self)?;
                }
            }
        }
        let level = self.level;
        self.level = around.max(level + 1);
        self.list.push(Call {
            function,
            written: text,
            shape: shape.clone(),
            level,
            read: Vec::new(),
        });
        let place = self.list.len() - 1;
        if let Some(at) = at {
            self.shared[at].1 = Some(place);
        }
        Ok(place)
    }

    /// Returns a column of a call.
    fn column(&mut self, at: usize, field: &str) -> E {
        let call = &mut self.list[at];
        if !call.read.iter().any(|known| known == field) {
            call.read.push(field.to_owned());
        }
        let relation = own(self.before + call.level);
        E::CompoundIdentifier(vec![quoted(relation), quoted(column_of(at, field))])
    }

    /// Returns the relation of the calls of a level.
    fn relation(&self, level: usize) -> Result<ast::TableFactor, SqlError> {
        let calls = self.list.iter().enumerate();
        let calls: Vec<_> = calls.filter(|(_, call)| call.level == level).collect();
        let columns = calls
            .iter()
            .flat_map(|(at, call)| call.read.iter().map(|field| column_of(*at, field)));
        let alias = alias(&own(self.before + level), columns);
        if let [(_, call)] = calls.as_slice() {
            if !call.shape.is_row {
                return rows_of(&call.function, alias);
            }
            let read: Vec<&str> = call.read.iter().map(String::as_str).collect();
            return Ok(ast::TableFactor::Derived {
                lateral: true,
                subquery: fields_of_call(call, &read)?,
                alias: Some(alias),
                sample: None,
            });
        }
        let mut args = Vec::new();
        for (_, call) in calls {
            for field in &call.read {
                let query = fields_of_call(call, &[field])?;
                let array = ast::Function {
                    name: ast::ObjectName::from(vec![ast::Ident::new("ARRAY")]),
                    args: ast::FunctionArguments::Subquery(query),
                    ..call.function.clone()
                };
                let array = ast::FunctionArgExpr::Expr(E::Function(array));
                args.push(ast::FunctionArg::Unnamed(array));
            }
        }
        Ok(ast::TableFactor::Function {
            lateral: true,
            name: ast::ObjectName::from(vec![ast::Ident::new("unnest")]),
            args,
            with_ordinality: false,
            alias: Some(alias),
        })
    }
}

impl VisitorMut for Calls<'_> {
    fn query(&mut self, _: &mut ast::Query) -> Result<(), SqlError> {
        self.queries += 1;
        Ok(())
    }

    fn query_end(&mut self) {
        self.queries -= 1;
    }

    fn expr(&mut self, expr: &mut E) -> Result<(), SqlError> {
        if self.queries > 0 {
            return Ok(());
        }
        let (function, field) = match &*expr {
            E::Function(function) => (function, None),
            E::CompoundFieldAccess { root, access_chain } => match (&**root, &access_chain[..]) {
                (E::Nested(inner), [ast::AccessExpr::Dot(E::Identifier(field))]) => {
                    match &**inner {
                        E::Function(function) => (function, Some(names::fold(field))),
                        _ => return Ok(()),
                    }
                }
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        let Some(shape) = self.known.shape(function) else {
            return Ok(());
        };
        if !self.takes(function) {
            return Ok(());
        }
        let field = match field {
            // The only column may be a row or have no fields; the binder checks that later.
            Some(_) if !shape.is_row => return Ok(()),
            Some(field) if shape.fields.contains(&field) => field,
            Some(field) => {
                let what = format!("column \"{field}\" not found in data type record");
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what));
            }
            None if shape.is_row => WHOLE.to_owned(),
            None => shape.fields.first().cloned().unwrap_or_default(),
        };
        let at = self.place(&function.clone(), &shape)?;
        self.changed = true;
        *expr = self.column(at, &field);
        Ok(())
    }
}

/// Returns the name of the `n`-th relation that a target list adds.
pub(super) fn own(n: usize) -> String {
    format!("{OWN}{n}")
}

fn is_own_factor(factor: &ast::TableFactor) -> bool {
    match factor {
        ast::TableFactor::Derived { alias, .. } | ast::TableFactor::Function { alias, .. } => alias
            .as_ref()
            .is_some_and(|alias| is_own(&alias.name.value)),
        _ => false,
    }
}

/// Returns the name of a column of a call in the relation of the calls.
fn column_of(call: usize, field: &str) -> String {
    format!("{call} {field}")
}

/// Returns an alias with column names.
pub(super) fn alias(name: &str, columns: impl Iterator<Item = String>) -> ast::TableAlias {
    ast::TableAlias {
        explicit: true,
        name: quoted(name),
        columns: columns
            .map(|column| ast::TableAliasColumnDef {
                name: quoted(column),
                data_type: None,
            })
            .collect(),
        at: None,
    }
}

/// Returns a query for some fields of the rows of a call.
fn fields_of_call(call: &Call, fields: &[&str]) -> Result<Box<ast::Query>, SqlError> {
    // A generated name keeps a composite value as one column; under another name its fields become
    // columns.
    let rows = match call.shape.is_row {
        true => "rows".to_owned(),
        false => OWN.to_owned(),
    };
    let mut query = parse_query("SELECT a FROM f")?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        let items = fields.iter().map(|field| match *field {
            WHOLE => E::Identifier(quoted(&*rows)),
            field => E::CompoundIdentifier(vec![quoted(&*rows), quoted(field)]),
        });
        select.projection = items.map(ast::SelectItem::UnnamedExpr).collect();
        let alias = alias(&rows, call.shape.fields.iter().cloned());
        select.from[0].relation = rows_of(&call.function, alias)?;
    }
    Ok(query)
}

/// Returns a call as a relation.
fn rows_of(function: &ast::Function, alias: ast::TableAlias) -> Result<ast::TableFactor, SqlError> {
    let ast::FunctionArguments::List(list) = &function.args else {
        return Err(SqlError::internal("a call without a list of arguments"));
    };
    Ok(ast::TableFactor::Function {
        lateral: true,
        name: function.name.clone(),
        args: list.args.clone(),
        with_ordinality: false,
        alias: Some(alias),
    })
}
