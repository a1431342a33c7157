//! SEARCH and CYCLE of recursive queries: both terms get additional columns, as in PostgreSQL's
//! rewrite.
//!
//! ```text
//! WITH RECURSIVE t (a) AS (left UNION ALL right)
//!   SEARCH DEPTH FIRST BY a SET s CYCLE a SET m USING p
//!
//! left     SELECT a, ARRAY[ROW(a)], false, ARRAY[ROW(a)] FROM (left) (a)
//! right    SELECT a, s || ARRAY[ROW(a)],
//!            CASE WHEN ROW(a) = ANY (p) THEN true ELSE false END, p || ARRAY[ROW(a)]
//!          FROM (right, with the s, m and p of t) (a, s, m, p) WHERE m <> true
//! ```
//! Inside the query these columns have generated names, which `*` omits. BREADTH FIRST counts the
//! depth in one more column, which the query does not return.

use sqlparser::ast::{self, SetExpr, TableFactor};

use super::names;
use super::scope::UNSEEN;
use crate::bound::Select;
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident;
use crate::parser::{Cycle, Search, SearchCycle, parse_query};
use crate::walk::{Visitor, Walk};

/// The names of the added columns inside the query.
const SEQUENCE: &str = "sequence";
const MARK: &str = "mark";
const PATH: &str = "path";
const DEPTH: &str = "depth";

/// A visitor that looks for a reference to the query of this name.
struct ReferenceFinder<'a> {
    called: &'a str,
    found: bool,
}

impl Visitor for ReferenceFinder<'_> {
    fn relation(&mut self, name: &ast::ObjectName) -> Result<(), SqlError> {
        let name = names::table_name(name);
        self.found |= matches!(name, Ok((None, name)) if name == self.called);
        Ok(())
    }
}

/// Returns the error 42601 for SEARCH or CYCLE of a query that does not refer to itself.
pub(super) fn not_recursive() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "WITH query is not recursive")
}

/// Returns both terms of a query whose columns are `columns`, with the columns that the clauses
/// add.
pub(super) fn extended(
    called: &str,
    of: &SearchCycle,
    columns: &[String],
    (left, right): (&SetExpr, &SetExpr),
) -> Result<(SetExpr, SetExpr), SqlError> {
    check(of, columns)?;
    let mut reads = ReferenceFinder {
        called,
        found: false,
    };
    Walk(&mut reads).set(right)?;
    if !reads.found {
        return Err(not_recursive());
    }
    if matches!(left, SetExpr::SetOperation { .. }) {
        return Err(not_a_select("left"));
    }
    let (begin, step) = lists(of, columns);
    let aliases: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let text = format!(
        "SELECT {begin} FROM (SELECT) AS {} ({})",
        own("l"),
        aliases.join(", ")
    );
    let left = over(&text, left.clone())?;

    let mut inner = match right {
        SetExpr::Select(select) => ast::Select::clone(select),
        SetExpr::Query(query) => match &*query.body {
            SetExpr::Select(select) if query.order_by.is_none() && query.limit_clause.is_none() => {
                ast::Select::clone(select)
            }
            _ => return Err(not_a_select("right")),
        },
        _ => return Err(not_a_select("right")),
    };
    let plain = |item: &ast::SelectItem| {
        use ast::SelectItem as S;
        matches!(item, S::UnnamedExpr(_) | S::ExprWithAlias { .. })
    };
    if inner.projection.iter().all(plain) && inner.projection.len() != columns.len() {
        let message = "each UNION query must have the same number of columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let Some(itself) = reference(&inner.from, called) else {
        let message = format!(
            "with a SEARCH or CYCLE clause, the recursive reference to \
             WITH query \"{called}\" must be at the top level of its right-hand SELECT"
        );
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    let mut all = aliases;
    for name in added(of) {
        let column = vec![itself.clone(), ast::Ident::with_quote('"', unseen(name))];
        let column = ast::Expr::CompoundIdentifier(column);
        inner.projection.push(ast::SelectItem::UnnamedExpr(column));
        all.push(own(name));
    }
    let mut text = format!(
        "SELECT {step} FROM (SELECT) AS {} ({})",
        own("r"),
        all.join(", ")
    );
    if let Some(cycle) = &of.cycle {
        text += &format!(" WHERE {}.{} <> {}", own("r"), own(MARK), values(cycle).0);
    }
    Ok((left, over(&text, SetExpr::Select(Box::new(inner)))?))
}

/// Gives the added columns the names that the clauses define, and removes the depth column.
pub(super) fn name_columns(of: &SearchCycle, query: &mut Select) {
    if breadth(of).is_some() {
        query.targets.pop();
        query.visible = query.targets.len();
    }
    let search = of.search.iter().map(|of| (SEQUENCE, &of.sequence));
    let cycle = of.cycle.iter();
    let cycle = cycle.flat_map(|of| [(MARK, &of.mark), (PATH, &of.path)]);
    for (own, name) in search.chain(cycle) {
        let mut targets = query.targets.iter_mut();
        if let Some(target) = targets.find(|target| target.name == unseen(own)) {
            target.name.clone_from(name);
        }
    }
}

/// Returns the names of the added columns, in order.
fn added(of: &SearchCycle) -> impl Iterator<Item = &'static str> {
    let search = of.search.iter().map(|_| SEQUENCE);
    let cycle = of.cycle.iter().flat_map(|_| [MARK, PATH]);
    search.chain(cycle).chain(breadth(of).map(|_| DEPTH))
}

fn breadth(of: &SearchCycle) -> Option<&Search> {
    of.search.as_ref().filter(|search| !search.depth)
}

/// Returns the mark values of CYCLE: for a row that closes a cycle, and for other rows.
fn values(cycle: &Cycle) -> (String, String) {
    match &cycle.values {
        Some((value, default)) => (format!("({value})"), format!("({default})")),
        None => ("true".to_owned(), "false".to_owned()),
    }
}

/// Returns the target lists of both terms.
fn lists(of: &SearchCycle, columns: &[String]) -> (String, String) {
    let (left, right) = (own("l"), own("r"));
    let row = |of: &str, first: Option<String>, columns: &[String]| {
        let columns = columns.iter().map(|name| format!("{of}.{}", quoted(name)));
        let parts: Vec<String> = first.into_iter().chain(columns).collect();
        format!("ROW({})", parts.join(", "))
    };
    let plain = |of: &str| {
        let columns = columns.iter();
        let columns = columns.map(|name| format!("{of}.{}", quoted(name)));
        columns.collect::<Vec<String>>()
    };
    let (mut begin, mut step) = (plain(&left), plain(&right));
    let mut add = |name: &str, first: String, then: String| {
        begin.push(format!("{first} AS {}", own(name)));
        step.push(format!("{then} AS {}", own(name)));
    };
    let before = |name: &str| format!("{right}.{}", own(name));
    let deeper = format!("{} + 1", before(DEPTH));
    match &of.search {
        Some(search) if search.depth => {
            let (first, then) = (
                row(&left, None, &search.columns),
                row(&right, None, &search.columns),
            );
            let then = format!("{} || ARRAY[{then}]", before(SEQUENCE));
            add(SEQUENCE, format!("ARRAY[{first}]"), then);
        }
        Some(search) => {
            let first = row(&left, Some("0::bigint".to_owned()), &search.columns);
            let then = row(&right, Some(deeper.clone()), &search.columns);
            add(SEQUENCE, first, then);
        }
        None => {}
    }
    if let Some(cycle) = &of.cycle {
        let (value, default) = values(cycle);
        let (first, then) = (
            row(&left, None, &cycle.columns),
            row(&right, None, &cycle.columns),
        );
        // CASE in both terms gives the mark columns one type.
        let mark = |met: &str| format!("CASE WHEN {met} THEN {value} ELSE {default} END");
        let met = format!("{then} = ANY ({})", before(PATH));
        add(MARK, mark("false"), mark(&met));
        let then = format!("{} || ARRAY[{then}]", before(PATH));
        add(PATH, format!("ARRAY[{first}]"), then);
    }
    if breadth(of).is_some() {
        add(DEPTH, "0::bigint".to_owned(), deeper);
    }
    (begin.join(", "), step.join(", "))
}

fn unseen(name: &str) -> String {
    format!("{UNSEEN}{name}")
}

/// Returns a quoted generated name, which does not occur in user queries.
fn own(name: &str) -> String {
    format!("\"{UNSEEN}{name}\"")
}

fn quoted(name: &str) -> String {
    quote_ident(name)
}

/// Parses `text` and replaces the subquery in its FROM by `inner`.
fn over(text: &str, inner: SetExpr) -> Result<SetExpr, SqlError> {
    let mut query = parse_query(&text.replacen("(SELECT)", "(SELECT 1)", 1))?;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        *subquery.body = inner;
    }
    Ok(*query.body)
}

/// Returns the name that the recursive reference has in FROM.
fn reference(from: &[ast::TableWithJoins], called: &str) -> Option<ast::Ident> {
    from.iter().find_map(|item| {
        let joined = item.joins.iter().map(|join| &join.relation);
        let mut relations = std::iter::once(&item.relation).chain(joined);
        relations.find_map(|relation| match relation {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let (schema, name) = names::table_name(name).ok()?;
                let own = ast::Ident::with_quote('"', called);
                let alias = alias.as_ref().map_or(own, |alias| alias.name.clone());
                (schema.is_none() && name == called).then_some(alias)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => reference(std::slice::from_ref(table_with_joins), called),
            _ => None,
        })
    })
}

/// Checks the column lists of the clauses, with the errors that PostgreSQL reports.
fn check(of: &SearchCycle, columns: &[String]) -> Result<(), SqlError> {
    let syntax = |message: String| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    let listed = |kind: &str, named: &[String]| {
        for (at, name) in named.iter().enumerate() {
            if !columns.contains(name) {
                let message = format!("{kind} column \"{name}\" not in WITH query column list");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            if named[..at].contains(name) {
                let message = format!("{kind} column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        Ok(())
    };
    let used = |kind: &str, name: &String| match columns.contains(name) {
        true => {
            let message =
                format!("{kind} column name \"{name}\" already used in WITH query column list");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
        false => Ok(()),
    };
    if let Some(search) = &of.search {
        listed("search", &search.columns)?;
        used("search sequence", &search.sequence)?;
    }
    let Some(cycle) = &of.cycle else {
        return Ok(());
    };
    listed("cycle", &cycle.columns)?;
    used("cycle mark", &cycle.mark)?;
    used("cycle path", &cycle.path)?;
    if cycle.mark == cycle.path {
        return syntax("cycle mark column name and cycle path column name are the same".to_owned());
    }
    for (kind, name) in [("mark", &cycle.mark), ("path", &cycle.path)] {
        if of.search.as_ref().is_some_and(|s| s.sequence == *name) {
            return syntax(format!(
                "search sequence column name and cycle {kind} column name are the same"
            ));
        }
    }
    Ok(())
}

fn not_a_select(side: &str) -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT"),
    )
}
