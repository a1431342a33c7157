//! Functions that give rows, in a select list beside other columns: `SELECT a, unnest(b) FROM t`.
//!
//! They become one relation beside those of FROM, which it may read, and each call in the list one of its columns. Several
//! run side by side, and the shorter ones go on with NULLs: that is what `unnest` does with arrays, which their rows are made
//! into. A field of a row that such a function gives, `(f(x)).n`, is a column too. There are no values that are rows: of one
//! in the list of a subquery in FROM there are its fields, under names that nobody else can write, and `(t.row).n` finds them.
//!
//! The rows of users' functions are values, too. Where the rows are to be made after groups or windows, or for some rows only, it is refused.

use sqlparser::ast::{self, Expr as E};

use super::call::function_name;
use super::column_name::column_name;
use super::expr::Around;
use super::rows::gives_rows;
use super::whole_row::row_of_star;
use super::{Binder, names};
use crate::bound::{Expr, TableFunction};
use crate::catalog::CatalogView;
use crate::error::{SqlError, SqlState};
use crate::functions::rows_candidates;
use crate::parser::parse_query;
use crate::stack;
use crate::walk::{TreeMut, Visitor, VisitorMut, Walk};

/// The name of the relation, and what divides the name of a row from that of a field: no text has this character.
const OWN: &str = "\0";

/// The field that a row itself is.
const WHOLE: &str = "\u{1}";

/// Is it the relation of a select list, which neither `*` nor a name alone finds?
pub(super) fn is_own(alias: &str) -> bool {
    alias == OWN
}

/// Is it a field of a row in a subquery's list?
pub(super) fn is_field(name: &str) -> bool {
    name.contains(OWN)
}

/// The column of a subquery that is this field of the row called `row`.
pub(super) fn field_of(row: &str, field: &str) -> String {
    format!("{row}{OWN}{field}")
}

/// 0A000 for a row where a value is wanted.
pub(super) fn a_row() -> SqlError {
    SqlError::unsupported("a row as a value")
}

impl Binder<'_> {
    /// The SELECT with its functions that give rows beside FROM; `None` if there are none, or one is all that is selected.
    pub(super) fn with_rows_beside(
        &mut self,
        select: &ast::Select,
    ) -> Result<Option<ast::Select>, SqlError> {
        let as_fields = std::mem::take(&mut self.rows_as_fields);
        let known = Known {
            catalog: self.catalog,
        };
        if select.from.is_empty() && known.is_one_call(&select.projection) {
            return Ok(None);
        }
        let mut looked = Looked::of(&known);
        Walk(&mut looked).items(&select.projection)?;
        if !looked.found {
            return Ok(None);
        }
        Walk(&mut looked).select(select)?;
        // Copying a tree recurses.
        stack::check(looked.deepest)?;
        let mut calls = Calls::of(&known, looked.within);
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            calls.item(item, as_fields, &mut projection)?;
        }
        if calls.list.is_empty() {
            return Ok(None);
        }
        let grouped = match &select.group_by {
            ast::GroupByExpr::All(_) => true,
            ast::GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        };
        if grouped || select.having.is_some() || calls.windows {
            let what = "a function that gives rows in a select list with groups or windows";
            return Err(SqlError::unsupported(what));
        }
        let mut rewritten = select.clone();
        rewritten.projection = projection;
        rewritten.from.push(ast::TableWithJoins {
            relation: calls.relation()?,
            joins: Vec::new(),
        });
        Ok(Some(rewritten))
    }

    /// `(t.row).field`, where the subquery `t` has such a row.
    pub(super) fn field_of_row(
        &mut self,
        row: &E,
        dot: &ast::AccessExpr,
        around: &mut Around<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let mut path = match row {
            E::Identifier(name) => vec![name.clone()],
            E::CompoundIdentifier(path) => path.clone(),
            _ => return Ok(None),
        };
        let (ast::AccessExpr::Dot(E::Identifier(field)), Some(row)) = (dot, path.pop()) else {
            return Ok(None);
        };
        let column = quoted(field_of(&names::fold(&row), &names::fold(field)));
        let column = match path.is_empty() {
            true => E::Identifier(column),
            false => {
                path.push(column);
                E::CompoundIdentifier(path)
            }
        };
        match self.expr(&column, around) {
            Ok(found) => Ok(Some(found)),
            Err(missing) if missing.sqlstate() == SqlState::UNDEFINED_COLUMN => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a function that gives rows gives.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    /// The columns of its rows.
    fields: Vec<String>,
    /// Its rows are values.
    value: bool,
}

/// The functions that are known.
struct Known<'a> {
    catalog: &'a dyn CatalogView,
}

impl Given {
    /// The fields, and the row itself where that is a value.
    fn all(&self) -> impl Iterator<Item = &str> {
        let whole = self.value.then_some(WHOLE);
        self.fields.iter().map(String::as_str).chain(whole)
    }
}

impl Known<'_> {
    /// A call that is all of a list is a relation as it is, unless its rows are values.
    fn is_one_call(&self, projection: &[ast::SelectItem]) -> bool {
        use ast::SelectItem as S;
        match projection {
            [
                S::UnnamedExpr(E::Function(function))
                | S::ExprWithAlias {
                    expr: E::Function(function),
                    ..
                },
            ] => self.given(function).is_none_or(|given| !given.value),
            _ => false,
        }
    }

    /// What comes of a function that gives rows; `None` if it gives none.
    fn given(&self, function: &ast::Function) -> Option<Given> {
        if function.over.is_some() || !matches!(function.args, ast::FunctionArguments::List(_)) {
            return None;
        }
        if let Some(given) = self.of_users(function) {
            return Some(given);
        }
        let name = function_name(&function.name).ok()?;
        let given = |fields| Given {
            fields,
            value: false,
        };
        if let Some(known) = rows_candidates(&name).next() {
            let named = known.columns.iter().map(|(name, _)| (*name).to_owned());
            return Some(given(named.collect()));
        }
        let gives = gives_rows(&name) || TableFunction::of(&name).is_some();
        gives.then(|| given(vec![name]))
    }

    fn of_users(&self, function: &ast::Function) -> Option<Given> {
        let (schema, name) = names::table_name(&function.name).ok()?;
        let routines = self.catalog.routines(schema.as_deref(), &name);
        let routine = routines.iter().find(|routine| routine.result.set)?;
        let columns = &routine.result.columns;
        match routine.gives_row() && !columns.is_empty() {
            true => Some(Given {
                fields: columns.iter().map(|(name, _)| name.clone()).collect(),
                value: true,
            }),
            false => Some(Given {
                fields: vec![name],
                value: false,
            }),
        }
    }
}

/// Whether there are functions that give rows, which of them are within expressions, and how deep these are.
struct Looked<'a> {
    known: &'a Known<'a>,
    found: bool,
    within: Vec<String>,
    queries: usize,
    depth: usize,
    deepest: usize,
}

impl<'a> Looked<'a> {
    fn of(known: &'a Known<'a>) -> Looked<'a> {
        Looked {
            known,
            found: false,
            within: Vec::new(),
            queries: 0,
            depth: 0,
            deepest: 0,
        }
    }
}

impl Visitor for Looked<'_> {
    fn query(&mut self, _: &ast::Query) -> Result<(), SqlError> {
        self.queries += 1;
        Ok(())
    }

    fn query_end(&mut self) {
        self.queries -= 1;
    }

    fn expr(&mut self, expr: &E) -> Result<(), SqlError> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if let E::Function(function) = expr
            && self.known.given(function).is_some()
        {
            self.found = true;
            if self.depth > 1 && self.queries == 0 {
                self.within.push(function.to_string());
            }
        }
        Ok(())
    }

    fn expr_end(&mut self, _: &E) {
        self.depth -= 1;
    }
}

/// The calls of a select list, with the columns of its rows. Those within expressions that read the same are one call, as they
/// are of PostgreSQL, also with those that are a whole column; of these alone each gives rows of its own.
struct Calls<'a> {
    known: &'a Known<'a>,
    list: Vec<(ast::Function, Given)>,
    /// Those within expressions, as they read, and which of the list each is, once it is there.
    within: Vec<(String, Option<usize>)>,
    /// Whether the item in hand has become another.
    changed: bool,
    windows: bool,
    /// How many queries deep the visitor is, and how many expressions that may leave out parts of theirs.
    queries: usize,
    conditions: usize,
}

impl<'a> Calls<'a> {
    fn of(known: &'a Known<'a>, within: Vec<String>) -> Calls<'a> {
        Calls {
            known,
            list: Vec::new(),
            within: within.into_iter().map(|text| (text, None)).collect(),
            changed: false,
            windows: false,
            queries: 0,
            conditions: 0,
        }
    }

    /// Adds an item of the list as it is to be.
    fn item(
        &mut self,
        item: &ast::SelectItem,
        as_fields: bool,
        out: &mut Vec<ast::SelectItem>,
    ) -> Result<(), SqlError> {
        let (expr, name) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, column_name(expr)),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, names::fold(alias)),
            _ => {
                out.push(item.clone());
                return Ok(());
            }
        };
        if let E::Function(function) = expr
            && let Some(given) = self.known.given(function)
            && given.fields.len() > 1
            && !given.value
        {
            if !as_fields {
                return Err(a_row());
            }
            let at = self.place(function, &given);
            out.extend(
                given
                    .fields
                    .iter()
                    .map(|field| ast::SelectItem::ExprWithAlias {
                        expr: column(at, field),
                        alias: quoted(field_of(&name, field)),
                    }),
            );
            return Ok(());
        }
        // `(f(x)).*`
        if let Some(E::Nested(row)) = row_of_star(expr)
            && let E::Function(function) = &*row
            && let Some(given) = self.known.given(function)
        {
            let at = self.place(function, &given);
            out.extend(
                given
                    .fields
                    .iter()
                    .map(|field| ast::SelectItem::ExprWithAlias {
                        expr: column(at, field),
                        alias: quoted(field.clone()),
                    }),
            );
            return Ok(());
        }
        let mut changed = expr.clone();
        self.changed = false;
        changed.walk_mut(self)?;
        out.push(match self.changed {
            false => item.clone(),
            true => ast::SelectItem::ExprWithAlias {
                expr: changed,
                alias: quoted(name),
            },
        });
        Ok(())
    }

    /// Which of the calls it is.
    fn place(&mut self, function: &ast::Function, given: &Given) -> usize {
        let next = self.list.len();
        let text = function.to_string();
        let mut within = self.within.iter_mut();
        if let Some((_, place)) = within.find(|(known, _)| *known == text) {
            let at = *place.get_or_insert(next);
            if at < next {
                return at;
            }
        }
        self.list.push((function.clone(), given.clone()));
        next
    }

    /// The relation that they are.
    fn relation(self) -> Result<ast::TableFactor, SqlError> {
        let columns = self.list.iter().enumerate();
        let columns =
            columns.flat_map(|(at, (_, given))| given.all().map(move |field| of(at, field)));
        let alias = alias(OWN, columns);
        if let [(function, given)] = self.list.as_slice() {
            if !given.value {
                return rows_of(function, alias);
            }
            let all: Vec<&str> = given.all().collect();
            return Ok(ast::TableFactor::Derived {
                lateral: true,
                subquery: fields_of_call(function, given, &all)?,
                alias: Some(alias),
                sample: None,
            });
        }
        let mut args = Vec::new();
        for (function, given) in &self.list {
            for field in given.all() {
                let query = fields_of_call(function, given, &[field])?;
                let array = ast::Function {
                    name: ast::ObjectName::from(vec![ast::Ident::new("ARRAY")]),
                    args: ast::FunctionArguments::Subquery(query),
                    ..function.clone()
                };
                args.push(unnamed(E::Function(array)));
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
            E::Case { .. } => {
                self.conditions += 1;
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.windows |= function.over.is_some();
        let Some(given) = self.known.given(function) else {
            return Ok(());
        };
        if self.conditions > 0 {
            let what = "set-returning functions are not allowed in CASE";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what);
            return Err(error);
        }
        let field = match (field, given.fields.as_slice()) {
            (None, _) if given.value => WHOLE.to_owned(),
            (Some(field), fields) if given.value && fields.contains(&field) => field,
            (None, [only]) => only.clone(),
            (Some(field), several) if several.len() > 1 && several.contains(&field) => field,
            (Some(field), [_, _, ..]) => {
                let what = format!("column \"{field}\" not found in data type record");
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what));
            }
            _ => return Err(a_row()),
        };
        let at = self.place(function, &given);
        self.changed = true;
        *expr = column(at, &field);
        Ok(())
    }

    fn expr_end(&mut self, expr: &mut E) {
        if self.queries == 0 && matches!(expr, E::Case { .. }) {
            self.conditions -= 1;
        }
    }
}

/// What the column of a call is called in the relation of all of them.
fn of(call: usize, field: &str) -> String {
    format!("{call} {field}")
}

fn column(call: usize, field: &str) -> E {
    E::CompoundIdentifier(vec![quoted(OWN.to_owned()), quoted(of(call, field))])
}

fn quoted(name: impl Into<String>) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

fn unnamed(expr: E) -> ast::FunctionArg {
    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))
}

fn alias(name: &str, columns: impl Iterator<Item = String>) -> ast::TableAlias {
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

/// A query for some fields of the rows of a call.
fn fields_of_call(
    function: &ast::Function,
    given: &Given,
    fields: &[&str],
) -> Result<Box<ast::Query>, SqlError> {
    const ROWS: &str = "rows";
    let mut query = parse_query("SELECT a FROM f")?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        let named = fields.iter().map(|field| match *field {
            WHOLE => E::Identifier(quoted(ROWS)),
            field => E::CompoundIdentifier(vec![quoted(ROWS), quoted(field)]),
        });
        select.projection = named.map(ast::SelectItem::UnnamedExpr).collect();
        select.from[0].relation = rows_of(function, alias(ROWS, given.fields.iter().cloned()))?;
    }
    Ok(query)
}

/// A call as a relation.
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
