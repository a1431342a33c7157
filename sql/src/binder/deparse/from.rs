//! Deparsing of FROM: relations and joins.

use sqlparser::ast::{self, TableFactor};

use super::super::call::{function_name, plain_argument};
use super::super::join::using_name;
use super::super::json_rows::JsonRows;
use super::super::names;
use super::super::rows::gives_rows;
use super::call_pieces::call_named;
use super::tree::{FromItem, Source, Tree};
use super::{Deparser, Level};
use crate::bound::{Expr, Node};
use crate::error::SqlError;
use crate::functions::quote_ident as quoted;
use crate::parser::{ROWS_FROM, using_alias};
use crate::pg_catalog::relation_oid;
use crate::types::{Type, TypeCategory, TypeKind};

impl Deparser<'_, '_> {
    /// Deparses the items of a FROM list; their relations are those of `level`, in the same order.
    pub(super) fn from(
        &mut self,
        list: &[ast::TableWithJoins],
        level: &Level,
    ) -> Result<Vec<FromItem>, SqlError> {
        let mut next = 0;
        let items = list.iter();
        items
            .map(|item| self.joined(item, &mut next, level))
            .collect()
    }

    fn joined(
        &mut self,
        item: &ast::TableWithJoins,
        next: &mut usize,
        level: &Level,
    ) -> Result<FromItem, SqlError> {
        use ast::JoinOperator as J;
        let first = *next;
        let mut from = self.factor(&item.relation, next, level)?;
        for join in &item.joins {
            let (words, constraint) = match &join.join_operator {
                J::Join(c) | J::Inner(c) | J::CrossJoin(c) => ("JOIN", c),
                J::Left(c) | J::LeftOuter(c) => ("LEFT JOIN", c),
                J::Right(c) | J::RightOuter(c) => ("RIGHT JOIN", c),
                J::FullOuter(c) => ("FULL JOIN", c),
                _ => return Err(SqlError::unsupported("this kind of join")),
            };
            let second = *next;
            let right = self.factor(&join.relation, next, level)?;
            let mut using = Vec::new();
            let mut alias = None;
            let mut on = None;
            match constraint {
                ast::JoinConstraint::On(condition) => on = Some(self.condition(condition, level)?),
                ast::JoinConstraint::Using(columns) => {
                    for name in columns {
                        let name = using_name(name)?;
                        match using_alias(&name) {
                            Some(of) => alias = Some(quoted(of)),
                            None => using.push(quoted(&name)),
                        }
                    }
                }
                ast::JoinConstraint::Natural => {
                    let names = |leaves: std::ops::Range<usize>| {
                        let leaves = level.scope.leaves.get(leaves).unwrap_or_default();
                        let columns = leaves.iter().flat_map(|leaf| &leaf.columns);
                        columns.map(|column| &column.name).collect::<Vec<_>>()
                    };
                    let others = names(second..*next);
                    let shared = names(first..second).into_iter();
                    let mut shared: Vec<_> = shared.filter(|name| others.contains(name)).collect();
                    shared.dedup();
                    using.extend(shared.into_iter().map(|name| quoted(name)));
                }
                ast::JoinConstraint::None => {}
            }
            for leaf in &level.scope.leaves {
                let joined = |name: &str| using.iter().any(|of| *of == quoted(name));
                let mut columns = leaf.columns.iter().enumerate();
                if columns.any(|(at, of)| joined(&of.name) && self.new_column(leaf, at).is_some()) {
                    self.check_stays(leaf)?;
                }
            }
            let words = match (words, using.is_empty() && on.is_none()) {
                ("JOIN", true) => "CROSS JOIN",
                (words, _) => words,
            };
            from = FromItem::Join {
                words,
                left: Box::new(from),
                right: Box::new(right),
                using,
                alias,
                on,
            };
        }
        Ok(from)
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        next: &mut usize,
        level: &Level,
    ) -> Result<FromItem, SqlError> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = factor
        {
            return self.joined(table_with_joins, next, level);
        }
        let at = *next;
        *next += 1;
        match factor {
            TableFactor::Table {
                sample: Some(_), ..
            } => Err(SqlError::unsupported("TABLESAMPLE in this place")),
            TableFactor::Table {
                name,
                args: Some(_),
                ..
            }
            | TableFactor::Function { name, .. }
                if names::table_name(name).is_ok_and(|(_, name)| name == ROWS_FROM) =>
            {
                Err(SqlError::unsupported("ROWS FROM in this place"))
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let (deparsed, plain) = self.relation(name)?;
                let refname = level.names.get(at).cloned().flatten();
                let mut text = String::new();
                let renamed = refname.is_some() && refname.as_ref() != Some(&plain);
                let columns = alias
                    .as_ref()
                    .is_some_and(|alias| !alias.columns.is_empty());
                if alias.is_some() || renamed {
                    text = self.alias(at, columns.then_some(Definition::Names), level)?;
                }
                Ok(FromItem::Leaf {
                    lateral: false,
                    source: Source::Name(deparsed),
                    alias: text,
                })
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                ..
            } => {
                let query = self.inside(level, |deparser| deparser.query(subquery, None))?;
                let columns = alias
                    .as_ref()
                    .is_some_and(|alias| !alias.columns.is_empty());
                Ok(FromItem::Leaf {
                    lateral: *lateral,
                    source: Source::Query(query),
                    alias: self.alias(at, columns.then_some(Definition::Names), level)?,
                })
            }
            TableFactor::Table {
                name,
                args: Some(args),
                with_ordinality,
                alias,
                ..
            } => {
                let args = args
                    .args
                    .iter()
                    .map(plain_argument)
                    .collect::<Result<Vec<_>, _>>()?;
                self.called(name, &args, (*with_ordinality, defined(alias)), at, level)
            }
            TableFactor::Function {
                name,
                args,
                with_ordinality,
                alias,
                ..
            } => {
                let args = args
                    .iter()
                    .map(plain_argument)
                    .collect::<Result<Vec<_>, _>>()?;
                self.called(name, &args, (*with_ordinality, defined(alias)), at, level)
            }
            TableFactor::UNNEST {
                array_exprs,
                with_ordinality,
                alias,
                ..
            } => {
                let args: Vec<&ast::Expr> = array_exprs.iter().collect();
                let name = ast::ObjectName::from(vec![ast::Ident::new("unnest")]);
                self.called(&name, &args, (*with_ordinality, defined(alias)), at, level)
            }
            _ => Err(SqlError::unsupported("this kind of FROM item")),
        }
    }

    /// Deparses a function in FROM.
    fn called(
        &mut self,
        name: &ast::ObjectName,
        args: &[&ast::Expr],
        (ordinality, definition): (bool, Definition),
        at: usize,
        level: &Level,
    ) -> Result<FromItem, SqlError> {
        let mut lateral = false;
        for arg in args {
            lateral |= self.bound(arg, level)?.has_columns();
        }
        let mut deparsed = self.exprs(args.iter().copied(), level)?;
        let called = function_name(name);
        if matches!(called.as_deref(), Ok("generate_series")) {
            let time = |ty: Type| ty.kind.category() == TypeCategory::DateTime;
            let timed = deparsed.iter().any(|deparsed| time(deparsed.ty));
            let step = (deparsed.len() == 3 && timed)
                .then(|| deparsed.pop())
                .flatten();
            deparsed = self.unified(deparsed)?.1;
            if let Some(step) = step {
                deparsed.push(self.coerced(step, Type::INTERVAL, false)?);
            }
        }
        if let Ok(name) = &called
            && gives_rows(name)
        {
            deparsed = self.rows_arguments(name, deparsed)?;
        }
        if let Ok(name) = &called
            && JsonRows::of(name).is_some()
            && let Some(document) = deparsed.pop()
        {
            let kind = match name.starts_with("jsonb") {
                true => TypeKind::Jsonb,
                false => TypeKind::Json,
            };
            deparsed.push(self.coerced_unknown(document, Type::of(kind))?);
        }
        if deparsed
            .iter()
            .any(|deparsed| deparsed.ty.kind == TypeKind::Unknown)
        {
            return Err(SqlError::unsupported(
                "a literal of a type that is not known",
            ));
        }
        let name = match called {
            Ok(name) => quoted(&name),
            Err(_) => {
                let (schema, name) = names::table_name(name)?;
                let schema = schema.map_or(String::new(), |schema| quoted(&schema) + ".");
                schema + &quoted(&name)
            }
        };
        Ok(FromItem::Leaf {
            lateral,
            source: Source::Call {
                call: call_named(name, deparsed),
                ordinality,
            },
            alias: self.alias(at, Some(definition), level)?,
        })
    }

    /// Returns the alias of a relation, with its column aliases if `columns` asks for them.
    fn alias(
        &self,
        at: usize,
        columns: Option<Definition>,
        level: &Level,
    ) -> Result<String, SqlError> {
        let leaf = level.scope.leaves.get(at);
        let leaf = leaf.ok_or_else(|| SqlError::internal("a relation that is none"))?;
        let name = level.names.get(at).and_then(|name| name.as_ref());
        let mut text = quoted(name.unwrap_or(&leaf.alias));
        if let Some(definition) = columns {
            self.check_stays(leaf)?;
            let columns = leaf.columns.iter().map(|column| {
                let name = quoted(&column.name);
                match definition {
                    Definition::Names => name,
                    Definition::Types => format!("{name} {}", self.type_name(column.ty)),
                }
            });
            let columns: Vec<String> = columns.collect();
            text += &format!("({})", columns.join(", "));
        }
        Ok(text)
    }

    /// Returns the name by which the reader must refer to a relation, and its unqualified name.
    fn relation(&self, name: &ast::ObjectName) -> Result<(String, String), SqlError> {
        let (schema, plain) = names::table_name(name)?;
        let deparsed = quoted(&plain);
        if schema.is_none() && self.binder.is_named(&plain) {
            return Ok((deparsed, plain));
        }
        let is_in = |schema: &str| relation_oid(self.reader.snapshot, Some(schema), &plain);
        let schemas: Vec<&str> = match &schema {
            Some(schema) => vec![schema],
            None => self.binder.path.iter().map(String::as_str).collect(),
        };
        let found = schemas.into_iter().find_map(|of| Some((of, is_in(of)?)));
        let Some((schema, oid)) = found else {
            // It is a system relation.
            return Ok((deparsed, plain));
        };
        let first = self.seen.iter().find_map(|of| is_in(of));
        let renamed = self.reader.renaming.and_then(|of| of.of_relation(oid));
        let (deparsed, plain) = match renamed {
            Some(to) => (quoted(to), to.to_owned()),
            None => (deparsed, plain),
        };
        Ok(
            match first == Some(oid) || schema == crate::catalog::CATALOG_SCHEMA {
                true => (deparsed, plain),
                false => (format!("{}.{deparsed}", quoted(schema)), plain),
            },
        )
    }
}

/// The parts of a column alias list.
#[derive(Clone, Copy)]
enum Definition {
    Names,
    /// The names and the types: a column definition list.
    Types,
}

fn defined(alias: &Option<ast::TableAlias>) -> Definition {
    let mut columns = alias.iter().flat_map(|alias| &alias.columns);
    match columns.any(|column| column.data_type.is_some()) {
        true => Definition::Types,
        false => Definition::Names,
    }
}

/// Returns a column of a join with its own alias, if it is a column of neither side; `None`
/// otherwise.
pub(super) fn of_join(named: &ast::Expr, expr: &Expr, level: &Level) -> Option<Tree> {
    let ast::Expr::CompoundIdentifier(parts) = named else {
        return None;
    };
    let [alias, column] = parts.as_slice() else {
        return None;
    };
    let (alias, column) = (names::fold(alias), names::fold(column));
    level.scope.join_called(None, &alias)?;
    let plain = matches!(expr.node, Node::Column(_));
    (!plain).then(|| Tree::Var(format!("{}.{}", quoted(&alias), quoted(&column))))
}
