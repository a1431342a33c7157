//! Scopes: the columns that a name can refer to.

use super::names;
use super::needs::Columns;
use super::target_rows::is_own;
use crate::bound::{ColumnOrigin, Expr, Node, slots_of};
use crate::error::{SqlError, SqlState};
use crate::types::{Composite, Type};

/// The relations that an expression sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) leaves: Vec<ScopeLeaf>,
    /// The columns merged by USING and NATURAL; each hides the columns that it was merged from.
    pub(super) merged: Vec<MergedColumn>,
    /// The joins with an alias of their own, `USING (…) AS alias`.
    pub(super) joins: Vec<JoinAlias>,
    /// The number of slots of the leaves.
    pub(super) width: usize,
}

/// One relation of a scope.
#[derive(Clone, Debug)]
pub(super) struct ScopeLeaf {
    pub(super) alias: String,
    /// The name of the table, if the alias is another name.
    pub(super) table_name: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) first_slot: usize,
    pub(super) columns: Vec<ScopeColumn>,
    /// The slots of the primary key, for columns that depend on it in GROUP BY.
    pub(super) key: Vec<usize>,
    /// The slots that determine the partition of a row; empty for tables without partitions.
    pub(super) routed: Vec<usize>,
    /// The list that records read columns for privilege checks; `None` if there are none.
    pub(super) reads: Option<Columns>,
    /// The value that the relation name stands for, unless it is the row of a table, view or query.
    pub(super) row: Option<RowValue>,
    /// Whether the relation is a table, materialized view or system catalog; these have system
    /// columns.
    pub(super) is_table: bool,
}

/// The value that the name of a function in FROM stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowValue {
    /// A row of this type.
    Composite(Composite),
    /// The value of its one column.
    Scalar,
}

#[derive(Clone, Debug)]
pub(super) struct ScopeColumn {
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) origin: Option<ColumnOrigin>,
    /// Whether a merged column replaces this one in unqualified references.
    pub(super) hidden: bool,
}

/// A column that a join has merged from both sides.
#[derive(Clone, Debug)]
pub(super) struct MergedColumn {
    pub(super) name: String,
    /// The first slot of the left side of the join; `*` lists the merged column before it.
    pub(super) first: usize,
    pub(super) expr: Expr,
}

/// A column that `*` expands to.
enum StarColumn<'a> {
    Merged(&'a MergedColumn),
    Of(&'a ScopeLeaf, usize),
}

impl StarColumn<'_> {
    fn name(&self) -> &str {
        match self {
            StarColumn::Merged(merged) => &merged.name,
            StarColumn::Of(leaf, i) => &leaf.columns[*i].name,
        }
    }
}

/// The columns that USING merges, under an alias.
#[derive(Clone, Debug)]
pub(super) struct JoinAlias {
    pub(super) alias: String,
    pub(super) columns: Vec<MergedColumn>,
}

/// The first character of generated column names, which `*` omits; it does not occur in names that
/// users write.
pub(super) const UNSEEN: char = '\u{2}';

/// The column that a name refers to.
#[derive(Clone, Debug)]
pub(super) struct ResolvedColumn {
    pub(super) expr: Expr,
    pub(super) origin: Option<ColumnOrigin>,
}

impl Scope {
    /// Returns the column `name` of any relation; `None` if no relation has it.
    pub(super) fn unqualified(&self, name: &str) -> Result<Option<ResolvedColumn>, SqlError> {
        let mut found: Option<ResolvedColumn> = None;
        let ambiguous = || {
            SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{name}\" is ambiguous"),
            )
        };
        for merged in self.merged.iter().filter(|m| m.name == name) {
            if found.replace(self.found_merged(merged)).is_some() {
                return Err(ambiguous());
            }
        }
        for leaf in self.leaves.iter().filter(|leaf| !is_own(&leaf.alias)) {
            for (i, column) in leaf.columns.iter().enumerate() {
                if column.name == name && !column.hidden && found.replace(leaf.found(i)).is_some() {
                    return Err(ambiguous());
                }
            }
        }
        if found.is_none() {
            for leaf in &self.leaves {
                let of_leaf = leaf.system_column(name, self.leaves.len() == 1)?;
                if of_leaf.is_some_and(|of_leaf| found.replace(of_leaf).is_some()) {
                    return Err(ambiguous());
                }
            }
        }
        Ok(found)
    }

    /// Returns the column `name` of the relation `alias`, or an error.
    pub(super) fn qualified(
        &self,
        schema: Option<&str>,
        alias: &str,
        name: &str,
    ) -> Result<ResolvedColumn, SqlError> {
        if let Some(join) = self.join_called(schema, alias) {
            let column = join.columns.iter().find(|column| column.name == name);
            return column.map(|of| self.found_merged(of)).ok_or_else(|| {
                let message = format!("column {alias}.{name} does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            });
        }
        let leaf = self.leaf(schema, alias)?;
        let mut found = None;
        for (i, column) in leaf.columns.iter().enumerate() {
            if column.name == name && found.replace(leaf.found(i)).is_some() {
                return Err(SqlError::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("column reference \"{name}\" is ambiguous"),
                ));
            }
        }
        if found.is_none() {
            found = leaf.system_column(name, self.leaves.len() == 1)?;
        }
        match found {
            Some(found) => Ok(found),
            None => {
                if let Some(refused) = leaf.refused_column(name) {
                    return Err(refused);
                }
                let missing = SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column {alias}.{name} does not exist"),
                );
                Err(match super::did_you_mean::hint(self, Some(alias), name) {
                    Some(hint) => missing.hint(hint),
                    None => missing,
                })
            }
        }
    }

    /// Returns the join with this alias.
    pub(super) fn join_called(&self, schema: Option<&str>, alias: &str) -> Option<&JoinAlias> {
        let mut joins = self.joins.iter().filter(|_| schema.is_none());
        joins.find(|join| join.alias == alias)
    }

    /// Returns the columns that `join.*` expands to.
    pub(super) fn join_star(
        &self,
        schema: Option<&str>,
        alias: &str,
    ) -> Option<Vec<(String, ResolvedColumn)>> {
        let columns = self.join_called(schema, alias)?.columns.iter();
        Some(
            columns
                .map(|of| (of.name.clone(), self.found_merged(of)))
                .collect(),
        )
    }

    /// Returns the expression and the origin of a merged column.
    pub(super) fn found_merged(&self, merged: &MergedColumn) -> ResolvedColumn {
        ResolvedColumn {
            expr: merged.expr.clone(),
            origin: self.origin_of(&merged.expr),
        }
    }

    /// Returns the relation that a name refers to.
    pub(super) fn leaf(&self, schema: Option<&str>, alias: &str) -> Result<&ScopeLeaf, SqlError> {
        let fits = |leaf: &&ScopeLeaf| {
            leaf.alias == alias
                && (schema.is_none()
                    || (leaf.table_name.is_none() && leaf.schema.as_deref() == schema))
        };
        if let Some(leaf) = self.leaves.iter().find(fits) {
            return Ok(leaf);
        }
        let hidden = self
            .leaves
            .iter()
            .find(|l| l.table_name.as_deref() == Some(alias));
        if let Some(leaf) = hidden {
            return Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("invalid reference to FROM-clause entry for table \"{alias}\""),
            )
            .hint(format!(
                "Perhaps you meant to reference the table alias \"{}\".",
                leaf.alias
            )));
        }
        Err(SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!(
                "missing FROM-clause entry for table \"{}\"",
                names::qualified_name(None, alias)
            ),
        ))
    }

    /// Adds a relation; 42712 if its name is in use.
    pub(super) fn push(&mut self, leaf: ScopeLeaf) -> Result<(), SqlError> {
        self.check_alias(&leaf.alias)?;
        self.width += slots_of(leaf.columns.len());
        self.leaves.push(leaf);
        Ok(())
    }

    /// Checks that an alias is not in use; 42712 if it is.
    pub(super) fn check_alias(&self, alias: &str) -> Result<(), SqlError> {
        let taken = self.leaves.iter().any(|leaf| leaf.alias == alias);
        match taken || self.join_called(None, alias).is_some() {
            true => Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{alias}\" specified more than once"),
            )),
            false => Ok(()),
        }
    }

    /// Returns the columns that `*` expands to: for each join the merged columns, then those of its
    /// sides.
    pub(super) fn star(&self) -> Vec<(String, ResolvedColumn)> {
        let found = |at: &StarColumn<'_>| match at {
            StarColumn::Merged(merged) => self.found_merged(merged),
            StarColumn::Of(leaf, i) => leaf.found(*i),
        };
        let columns = self.star_columns().into_iter();
        columns
            .filter(|at| !at.name().starts_with(UNSEEN))
            .map(|at| (at.name().to_owned(), found(&at)))
            .collect()
    }

    /// Returns the names of the columns that `*` expands to, without recording them as read.
    pub(super) fn star_names(&self) -> Vec<String> {
        let columns = self.star_columns().into_iter();
        columns.map(|at| at.name().to_owned()).collect()
    }

    fn star_columns(&self) -> Vec<StarColumn<'_>> {
        let mut out = Vec::new();
        let mut given = None;
        for leaf in &self.leaves {
            let first = leaf.first_slot;
            if given.replace(first) != Some(first) {
                let merged = self.merged.iter().filter(|merged| merged.first == first);
                out.extend(merged.map(StarColumn::Merged));
            }
            if is_own(&leaf.alias) {
                continue;
            }
            let visible = leaf.columns.iter().enumerate().filter(|(_, c)| !c.hidden);
            out.extend(visible.map(|(i, _)| StarColumn::Of(leaf, i)));
        }
        out
    }

    /// Returns the table column that the expression is; `None` for other expressions.
    fn origin_of(&self, expr: &Expr) -> Option<ColumnOrigin> {
        let Node::Column(slot) = expr.node else {
            return None;
        };
        let (leaf, column) = self.leaf_of_slot(slot)?;
        leaf.columns[column].origin
    }

    /// Returns the relation that owns a slot, and the position of the column.
    pub(super) fn leaf_of_slot(&self, slot: usize) -> Option<(&ScopeLeaf, usize)> {
        self.leaves.iter().find_map(|leaf| {
            let column = slot.checked_sub(leaf.first_slot)?;
            (column < leaf.columns.len()).then_some((leaf, column))
        })
    }

    /// Returns `alias.column` for a slot.
    pub(super) fn slot_name(&self, slot: usize) -> String {
        match self.leaf_of_slot(slot) {
            Some((leaf, column)) => format!("{}.{}", leaf.alias, leaf.columns[column].name),
            None => "?column?".to_owned(),
        }
    }
}

impl ScopeLeaf {
    /// Returns a column of the relation, and records it as read.
    pub(super) fn found(&self, column: usize) -> ResolvedColumn {
        let c = &self.columns[column];
        if let (Some(reads), Some(origin)) = (&self.reads, c.origin) {
            reads.borrow_mut().push(origin.attnum);
        }
        ResolvedColumn {
            expr: Expr::column(c.ty, self.first_slot + column),
            origin: c.origin,
        }
    }
}
