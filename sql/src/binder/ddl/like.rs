//! `LIKE table [INCLUDING …]` in CREATE TABLE: copies the columns of another table, and the
//! properties that INCLUDING names.

use sqlparser::ast;

use super::super::{Binder, names};
use super::constraint::Shape;
use super::table::{add_sequence, set_primary_key};
use crate::bound::{CreateTable, KeyConstraint, SequenceOptions};
use crate::catalog::{
    ColumnDef, ColumnMore, EXPRESSION, IndexDef, IndexKind, Object, ObjectKind, Roots, SequenceDef,
    TableDef, ViewDef,
};
use crate::error::{SqlError, SqlState};
use crate::parser::{LikeSyntax, like_at, parse_expression};

/// A copied CHECK constraint: its name, its text, and whether it is NO INHERIT.
pub(super) type LikeCheck = (String, String, bool);

impl Binder<'_> {
    /// Replaces the pseudo-column `column` of the statement by the columns of the LIKE clause.
    /// Returns the checks; the columns that they read may not be defined yet.
    pub(super) fn alike(
        &mut self,
        column: &ast::ColumnDef,
        table: &mut CreateTable,
    ) -> Result<Vec<LikeCheck>, SqlError> {
        let at = self.position(column.name.span);
        let like = like_at(self.text, at)?;
        let (schema, name) = (like.table.0.as_deref(), like.table.1.as_str());
        self.check_usage(schema)?;
        if let Some(view) = self.catalog.view(schema, name)? {
            self.like_view(&view, &like, table)?;
            return Ok(Vec::new());
        }
        let Some(source) = self.catalog.table(schema, name)? else {
            let qualified = names::qualified_name(schema, name);
            if self.catalog.sequence(schema, name)?.is_some() {
                let message = format!("relation \"{name}\" is invalid in LIKE clause");
                let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                let detail = "This operation is not supported for sequences.";
                return Err(error.detail(detail).at(at + "LIKE ".len() as u32));
            }
            let message = format!("relation \"{qualified}\" does not exist");
            let error = SqlError::new(SqlState::UNDEFINED_TABLE, message);
            return Err(error.at(at + "LIKE ".len() as u32));
        };
        let reads = self.need_read(ObjectKind::Table, source.id, &source.name);
        reads
            .borrow_mut()
            .extend(source.columns.iter().map(|of| of.attnum));
        let first = table.columns.len();
        for column in &source.columns {
            self.like_column(column, &like, table)?;
        }
        if like.comments {
            let comments = source.rules.comments.iter();
            let comments = comments.filter_map(|(at, text)| Some((first + (*at)?, text.clone())));
            table.alike.comments.extend(comments);
            self.check_no_more_comments(&source, &like)?;
        }
        if like.indexes {
            for index in source.indexes.iter().filter(|index| !index.is_hidden()) {
                like_index(index, first, table)?;
            }
        }
        let checks = source.rules.checks.iter().filter(|_| like.constraints);
        Ok(checks
            .map(|check| (check.name.clone(), check.text.clone(), check.no_inherit))
            .collect())
    }

    fn like_view(
        &mut self,
        view: &ViewDef,
        like: &LikeSyntax,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        let reads = self.need_view(view);
        reads.borrow_mut().extend((1..).take(view.columns.len()));
        let first = table.columns.len();
        for (name, ty) in &view.columns {
            let column = ColumnDef {
                name: name.clone(),
                ty: ty.plain(),
                not_null: false,
                default: None,
                attnum: 0,
                more: ColumnMore {
                    domain: ty.as_domain(),
                    ..ColumnMore::default()
                },
            };
            self.like_column(&column, like, table)?;
        }
        let about = self.catalog.security();
        let about = about.and_then(|of| of.about(Object::new(ObjectKind::View, view.id)));
        let comments = about.iter().flat_map(|about| &about.comments);
        let comments = comments.filter(|(number, _)| like.comments && *number > 0);
        let comments = comments.map(|(number, text)| (first + *number as usize - 1, text.clone()));
        table.alike.comments.extend(comments);
        Ok(())
    }

    fn like_column(
        &mut self,
        of: &ColumnDef,
        like: &LikeSyntax,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        if table.columns.iter().any(|column| column.name == of.name) {
            let message = format!("column \"{}\" specified more than once", of.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        self.check_type_usage(of.declared())?;
        let position = table.columns.len();
        let identity = of.more.identity.filter(|_| like.identity);
        if identity.is_some() {
            let id = of.more.sequence.unwrap_or(0);
            let sequence = self.catalog.sequence_by_id(id)?;
            let options = sequence.map_or_else(SequenceOptions::default, |of| options_of(&of));
            add_sequence(table, position, of.ty.kind, options);
        }
        let default = of.default.as_ref();
        table.columns.push(ColumnDef {
            name: of.name.clone(),
            ty: of.ty,
            not_null: of.not_null,
            default: default
                .filter(|_| like.defaults && of.more.identity.is_none())
                .cloned(),
            attnum: i16::try_from(position + 1).unwrap_or(i16::MAX),
            more: ColumnMore {
                generated: of.more.generated.clone().filter(|_| like.generated),
                identity,
                domain: of.more.domain,
                collation: of.more.collation,
                ..ColumnMore::default()
            },
        });
        Ok(())
    }

    /// Refuses comments on constraints and indexes that would have to be copied, with 0A000.
    fn check_no_more_comments(&self, source: &TableDef, like: &LikeSyntax) -> Result<(), SqlError> {
        let keys = source.indexes.iter().filter(|_| like.indexes);
        let checks = source.rules.checks.iter().filter(|_| like.constraints);
        let keys = keys.flat_map(|of| {
            let kinds = [ObjectKind::Index, ObjectKind::Constraint];
            kinds.map(|kind| Object::new(kind, of.id))
        });
        let mut all = keys.chain(checks.map(|of| Object::new(ObjectKind::Constraint, of.id)));
        let security = self.catalog.security();
        let has = |object| {
            let about = security.and_then(|security| security.about(object));
            about.is_some_and(|about| !about.comments.is_empty())
        };
        match all.any(has) {
            true => Err(SqlError::unsupported(
                "INCLUDING COMMENTS of constraints and indexes that have some",
            )),
            false => Ok(()),
        }
    }

    /// Binds the copied checks once all columns are defined.
    pub(super) fn like_checks(
        &mut self,
        checks: Vec<LikeCheck>,
        table: &mut CreateTable,
    ) -> Result<(), SqlError> {
        for (name, text, no_inherit) in checks {
            let check = ast::CheckConstraint {
                name: None,
                expr: Box::new(parse_expression(&text)?),
                enforced: no_inherit.then_some(true),
            };
            let shape = Shape::of_new(table);
            let name = ast::Ident::with_quote('"', name);
            let check = self.new_check(&shape, Some(&name), &check)?;
            super::table::add_check(table, check)?;
        }
        Ok(())
    }
}

/// Returns the options of a sequence.
fn options_of(of: &SequenceDef) -> SequenceOptions {
    SequenceOptions {
        increment: Some(of.increment),
        min: Some(Some(of.min)),
        max: Some(Some(of.max)),
        start: Some(of.start),
        cache: Some(of.cache),
        cycle: Some(of.cycle),
        ..SequenceOptions::default()
    }
}

/// Adds an index of the same shape whose columns come after `first` others; its name is chosen when
/// it is created.
fn like_index(of: &IndexDef, first: usize, table: &mut CreateTable) -> Result<(), SqlError> {
    let moved = |column: usize| match column {
        EXPRESSION.. => column,
        column => column + first,
    };
    let key = || KeyConstraint {
        name: None,
        columns: of.columns.iter().map(|key| moved(key.column)).collect(),
        deferrable: of.more.deferrable,
        nulls_equal: of.more.nulls_equal,
        options: of.more.options.clone(),
        include: of
            .more
            .include
            .iter()
            .map(|column| column + first)
            .collect(),
    };
    if of.primary {
        if of.kind == IndexKind::Hash {
            table.index_kind = IndexKind::Hash;
        }
        return set_primary_key(table, key());
    }
    if of.constraint {
        table.unique.push(key());
        return Ok(());
    }
    let mut index = IndexDef {
        id: 0,
        name: String::new(),
        roots: Roots::NONE,
        ..of.clone()
    };
    index
        .columns
        .iter_mut()
        .for_each(|key| key.column = moved(key.column));
    index
        .more
        .include
        .iter_mut()
        .for_each(|column| *column += first);
    if let Some(predicate) = &mut index.more.predicate {
        predicate
            .condition
            .remap_columns(&mut |column| column + first);
    }
    for expression in &mut index.more.expressions {
        expression.value.remap_columns(&mut |column| column + first);
    }
    table.alike.indexes.push(index);
    Ok(())
}
