//! Deparsing: returns stored definitions in PostgreSQL's form, with all names resolved and all
//! implied casts written out.
//!
//! ```text
//!   text ──parser──▶ syntax ──expr, call, query, from──▶ Tree ──write, write_query──▶ text
//!                              (types of the binder)
//! ```
//! The syntax is walked together with the binder, which resolves names and chooses operators and
//! functions. Statements that run do not become slower. Some constructs cannot be deparsed and keep
//! their original text: whole rows, composite fields, and set-returning functions in a target list.
//! So does syntax that a rewrite changes before parsing (EXCLUDE in frames).

mod aggregate_call;
mod call;
mod call_pieces;
mod comparison;
mod constant;
mod expr;
mod from;
mod groups;
mod keyword_call;
mod operator;
mod ordered_set;
mod query;
mod renaming;
mod row;
mod tree;
mod window;
mod write;
mod write_query;

use sqlparser::ast;

pub use self::renaming::ObjectRename;
use self::tree::Tree;
pub use self::write::Style;
use self::write::Writer;
use super::aggregate::Aggregates;
use super::expr::{Clause, ExprContext};
use super::from::table_leaf;
use super::path::PathView;
use super::scope::{Scope, ScopeColumn, ScopeLeaf};
use super::{Binder, ParamTypes, search_path};
use crate::bound::{Expr, Node};
use crate::catalog::{PUBLIC_SCHEMA, Snapshot, TableDef, ViewDef};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::functions::quote_ident as quoted;
use crate::parser::{parse_expression, parse_query};
use crate::stack::on_large_stack;
use crate::types::Type;
use crate::value::Value;

/// The reader of definitions: the catalog and the session for which they are deparsed.
#[derive(Clone, Copy)]
pub struct DeparseContext<'a> {
    /// The catalog.
    pub snapshot: &'a Snapshot,
    /// The session's settings.
    pub cx: &'a EvalContext,
    /// The layout of the text.
    pub style: Style,
    /// The new names of renamed objects, for a text that is stored again.
    pub renaming: Option<&'a ObjectRename>,
}

/// The columns that an expression may read.
#[derive(Clone, Copy)]
pub enum VisibleColumns<'a> {
    /// The columns of a table.
    Table(&'a TableDef),
    /// The new and the old row of the trigger's table.
    Trigger(&'a TableDef),
    /// VALUE, which has the base type of a domain.
    Domain(Type),
    /// No columns.
    Nothing,
}

impl DeparseContext<'_> {
    /// Returns an expression; `None` if it can only be displayed as it was written.
    pub fn expression(&self, text: &str, over: VisibleColumns<'_>) -> Option<String> {
        self.deparse(text, over).map(|(text, _)| text)
    }

    /// Returns the expression of an index: in parentheses unless it is a function call.
    pub fn index_expression(&self, text: &str, over: VisibleColumns<'_>) -> Option<String> {
        let (text, call) = self.deparse(text, over)?;
        Some(match call {
            true => text,
            false => format!("({text})"),
        })
    }

    /// Returns the expression, and whether it is a function call.
    fn deparse(&self, text: &str, over: VisibleColumns<'_>) -> Option<(String, bool)> {
        on_large_stack(|| self.deparse_on_stack(text, over)).ok()
    }

    fn deparse_on_stack(
        &self,
        text: &str,
        over: VisibleColumns<'_>,
    ) -> Result<(String, bool), SqlError> {
        let parsed = parse_expression(text)?;
        let schema = match over {
            VisibleColumns::Table(table) | VisibleColumns::Trigger(table) => table.schema.as_str(),
            _ => PUBLIC_SCHEMA,
        };
        let tree = self.along(schema, text, |deparser| {
            let level = level_over(over)?;
            let deparsed = deparser.settled(&parsed, &level)?;
            Ok(deparsed.tree)
        });
        let tree = tree?;
        let mut writer = Writer::new(self.style);
        writer.tree(&tree, false);
        let call = matches!(tree, Tree::Call { .. }) && !writer.text.starts_with("ARRAY");
        Ok((writer.text, call))
    }

    /// Returns the query of a view, without the semicolon.
    pub fn view(&self, view: &ViewDef) -> Option<String> {
        on_large_stack(|| self.view_here(view)).ok()
    }

    fn view_here(&self, view: &ViewDef) -> Result<String, SqlError> {
        let parsed = parse_query(&view.text)?;
        let query = self.along(&view.schema, &view.text, |deparser| {
            deparser.query(&parsed, None)
        });
        let names: Vec<String> = view.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut writer = Writer::new(self.style);
        writer.query(&query?, Some(&names), true);
        Ok(writer.text)
    }

    /// Runs `deparse` with names resolved in `schema`.
    fn along<T>(
        &self,
        schema: &str,
        text: &str,
        deparse: impl FnOnce(&mut Deparser<'_, '_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let path = [schema.to_owned(), PUBLIC_SCHEMA.to_owned()];
        let along = PathView {
            catalog: self.snapshot,
            path: &path,
        };
        let mut none = ParamTypes::new();
        let binder = Binder::of(text, (&along, &path), &mut none, (self.cx, 0));
        let seen = match self.renaming {
            Some(_) => Vec::new(),
            None => search_path(self.snapshot, self.cx),
        };
        deparse(&mut Deparser {
            binder,
            reader: self,
            seen: &seen,
            levels: Vec::new(),
        })
    }
}

/// Returns the scope of an expression that belongs to no query.
pub(super) fn scope_over(over: VisibleColumns<'_>) -> Result<Scope, SqlError> {
    level_over(over).map(|level| level.scope)
}

/// Returns the level for an expression that belongs to no query; its columns are not qualified.
fn level_over(over: VisibleColumns<'_>) -> Result<Level, SqlError> {
    let mut level = Level {
        clause: Clause::Check,
        ..Level::default()
    };
    match over {
        VisibleColumns::Nothing => {}
        VisibleColumns::Table(table) => {
            level.scope.push(table_leaf(table, None, 0))?;
            level.names.push(None);
        }
        VisibleColumns::Trigger(table) => {
            for row in ["old", "new"] {
                let at = level.scope.width;
                level
                    .scope
                    .push(table_leaf(table, Some(row.to_owned()), at))?;
                level.names.push(Some(row.to_owned()));
            }
        }
        VisibleColumns::Domain(base) => {
            level.scope.push(ScopeLeaf {
                alias: "value".to_owned(),
                table_name: None,
                schema: None,
                first_slot: 0,
                columns: vec![ScopeColumn {
                    name: "value".to_owned(),
                    ty: base,
                    origin: None,
                    hidden: false,
                }],
                key: Vec::new(),
                routed: Vec::new(),
                reads: None,
                row: None,
                is_table: false,
            })?;
            level.names.push(None);
            level.domain = true;
        }
    }
    Ok(level)
}

/// The deparser, which walks the syntax.
struct Deparser<'b, 'a> {
    binder: Binder<'b>,
    reader: &'a DeparseContext<'a>,
    /// The search path of the reader.
    seen: &'a [String],
    /// The outer queries of the current query.
    levels: Vec<Level>,
}

/// One query, with the scope of its expressions.
#[derive(Clone)]
struct Level {
    scope: Scope,
    /// The unique names of the scope's relations, which differ from those of all outer queries;
    /// `None` if the relation is not qualified.
    names: Vec<Option<String>>,
    windows: Vec<(String, ast::WindowSpec)>,
    clause: Clause,
    aggregates: bool,
    domain: bool,
}

impl Default for Level {
    fn default() -> Level {
        Level {
            scope: Scope::default(),
            names: Vec::new(),
            windows: Vec::new(),
            clause: Clause::Select,
            aggregates: false,
            domain: false,
        }
    }
}

/// A deparsed expression and its type.
#[derive(Clone)]
struct DeparsedExpr {
    tree: Tree,
    ty: Type,
}

impl DeparsedExpr {
    fn new(tree: Tree, ty: Type) -> DeparsedExpr {
        DeparsedExpr { tree, ty }
    }

    fn boolean(tree: Tree) -> DeparsedExpr {
        DeparsedExpr::new(tree, Type::BOOL)
    }

    /// Returns an expression of the same type, which is not evaluated and stands for it in the
    /// binder.
    fn placeholder(&self) -> Expr {
        match &self.tree {
            Tree::Const { text, .. } if self.ty == Type::UNKNOWN => {
                let value = text.as_ref().map_or(Value::Null, Value::text);
                Expr::constant(Type::UNKNOWN, value)
            }
            _ => Expr::column(self.ty, 0),
        }
    }
}

impl Deparser<'_, '_> {
    /// Binds an expression.
    fn bound(&mut self, expr: &ast::Expr, level: &Level) -> Result<Expr, SqlError> {
        let mut aggregates = Aggregates {
            named: level.windows.clone(),
            ..Aggregates::default()
        };
        let mut around = ExprContext {
            scope: &level.scope,
            clause: level.clause,
            aggregates: level.aggregates.then_some(&mut aggregates),
        };
        self.binder.expr(expr, &mut around)
    }

    /// Returns a column with the name that the scope gives it.
    fn named(&self, expr: &Expr, name: &str, level: &Level) -> Result<Tree, SqlError> {
        let Node::Column(slot) = expr.node else {
            return match level.scope.merged.iter().any(|m| m.name == name) {
                // A merged column belongs to neither side.
                true => Ok(Tree::Var(quoted(name))),
                false => Err(SqlError::unsupported("this kind of column")),
            };
        };
        if level.domain {
            return Ok(Tree::Var("VALUE".to_owned()));
        }
        let leaf = level.scope.leaf_of_slot(slot);
        let (leaf, column) = leaf.ok_or_else(|| SqlError::internal("a column of nothing"))?;
        let place = level
            .scope
            .leaves
            .iter()
            .position(|l| l.alias == leaf.alias);
        let name = match self.new_column(leaf, column) {
            Some(name) => quoted(name),
            None => quoted(&leaf.columns[column].name),
        };
        Ok(Tree::Var(
            match place.and_then(|at| level.names.get(at)?.as_ref()) {
                Some(relation) => format!("{}.{name}", quoted(relation)),
                None => name,
            },
        ))
    }
}
