//! Which columns a name can mean.

use super::names;
use crate::bound::{ColumnOrigin, Expr, Node};
use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// The relations that an expression sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) leaves: Vec<ScopeLeaf>,
    /// Columns merged by USING and NATURAL: they hide those they come from.
    pub(super) merged: Vec<Merged>,
    /// How many slots the leaves have.
    pub(super) width: usize,
}

/// One relation.
#[derive(Clone, Debug)]
pub(super) struct ScopeLeaf {
    pub(super) alias: String,
    /// The table's name, where the alias is another.
    pub(super) table_name: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) first_slot: usize,
    pub(super) columns: Vec<ScopeColumn>,
    /// The slots of the primary key, for columns that depend on it in GROUP BY.
    pub(super) key: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct ScopeColumn {
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) origin: Option<ColumnOrigin>,
    /// A merged column stands for it where no relation is named.
    pub(super) hidden: bool,
}

/// A column of both sides of a join.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) name: String,
    pub(super) expr: Expr,
}

/// What a name was found to be.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) expr: Expr,
    pub(super) origin: Option<ColumnOrigin>,
}

impl Scope {
    /// The column `name` of any relation; `None` if there is none.
    pub(super) fn unqualified(&self, name: &str) -> Result<Option<Found>, SqlError> {
        let mut found: Option<Found> = None;
        let ambiguous = || {
            SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{name}\" is ambiguous"),
            )
        };
        for merged in self.merged.iter().filter(|m| m.name == name) {
            let new = Found {
                expr: merged.expr.clone(),
                origin: self.origin_of(&merged.expr),
            };
            if found.replace(new).is_some() {
                return Err(ambiguous());
            }
        }
        for leaf in &self.leaves {
            for (i, column) in leaf.columns.iter().enumerate() {
                if column.name == name && !column.hidden && found.replace(leaf.found(i)).is_some() {
                    return Err(ambiguous());
                }
            }
        }
        Ok(found)
    }

    /// The column `name` of the relation `alias`, or an error.
    pub(super) fn qualified(
        &self,
        schema: Option<&str>,
        alias: &str,
        name: &str,
    ) -> Result<Found, SqlError> {
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
        found.ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column {alias}.{name} does not exist"),
            )
        })
    }

    /// The relation that goes by a name.
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
                names::shown(None, alias)
            ),
        ))
    }

    /// Adds a relation; 42712 if its name is taken.
    pub(super) fn push(&mut self, leaf: ScopeLeaf) -> Result<(), SqlError> {
        if self.leaves.iter().any(|l| l.alias == leaf.alias) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{}\" specified more than once", leaf.alias),
            ));
        }
        self.width += leaf.columns.len();
        self.leaves.push(leaf);
        Ok(())
    }

    /// What `*` stands for: merged columns first, then the others in order.
    pub(super) fn star(&self) -> Vec<(String, Found)> {
        let mut out: Vec<(String, Found)> = Vec::new();
        for merged in &self.merged {
            out.push((
                merged.name.clone(),
                Found {
                    expr: merged.expr.clone(),
                    origin: self.origin_of(&merged.expr),
                },
            ));
        }
        for leaf in &self.leaves {
            for (i, column) in leaf.columns.iter().enumerate() {
                if !column.hidden {
                    out.push((column.name.clone(), leaf.found(i)));
                }
            }
        }
        out
    }

    /// The table column that a slot is.
    fn origin_of(&self, expr: &Expr) -> Option<ColumnOrigin> {
        let Node::Column(slot) = expr.node else {
            return None;
        };
        let (leaf, column) = self.leaf_of_slot(slot)?;
        leaf.columns[column].origin
    }

    /// The relation that owns a slot, and which of its columns it is.
    pub(super) fn leaf_of_slot(&self, slot: usize) -> Option<(&ScopeLeaf, usize)> {
        self.leaves.iter().find_map(|leaf| {
            let column = slot.checked_sub(leaf.first_slot)?;
            (column < leaf.columns.len()).then_some((leaf, column))
        })
    }

    /// `alias.column` of a slot.
    pub(super) fn slot_name(&self, slot: usize) -> String {
        match self.leaf_of_slot(slot) {
            Some((leaf, column)) => format!("{}.{}", leaf.alias, leaf.columns[column].name),
            None => "?column?".to_owned(),
        }
    }
}

impl ScopeLeaf {
    /// A column of the relation.
    pub(super) fn found(&self, column: usize) -> Found {
        let c = &self.columns[column];
        Found {
            expr: Expr::column(c.ty, self.first_slot + column),
            origin: c.origin,
        }
    }
}
