//! The row-locking clauses: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE.

use fencepost_txn::Strength;
use sqlparser::ast;

use super::names;
use crate::bound::{From, Leaf, LeafSource, LockingClause, RowLockOptions, Select, WaitPolicy};
use crate::catalog::{Object, ObjectKind};
use crate::error::{SqlError, SqlState};
use crate::parser::is_weak;

/// A row-locking clause.
struct Clause<'a> {
    name: &'static str,
    hold: RowLockOptions,
    of: &'a [ast::ObjectNamePart],
}

/// Marks the rows of `select` that `clause` locks.
pub(super) fn lock_rows(clause: &ast::LockClause, select: &mut Select) -> Result<(), SqlError> {
    let strength = strength_of(clause);
    let wait = match clause.nonblock {
        None => WaitPolicy::Block,
        Some(ast::NonBlock::Nowait) => WaitPolicy::NoWait,
        Some(ast::NonBlock::SkipLocked) => WaitPolicy::Skip,
    };
    let clause = Clause {
        name: name_of(strength),
        hold: RowLockOptions { strength, wait },
        of: relations_of(clause),
    };
    clause.lock(select)
}

/// Returns the tables and views whose rows `select` locks.
pub(super) fn locked_relations(select: &Select) -> Vec<Object> {
    let mut locked = Vec::new();
    let Some(locking) = &select.locking else {
        return locked;
    };
    select.from.for_each_leaf(&mut |leaf| {
        if !locking.of.is_empty() && !locking.of.contains(&leaf.first_slot) {
            return;
        }
        match &leaf.source {
            LeafSource::Table(table) => locked.push(Object::new(ObjectKind::Table, table.id)),
            LeafSource::Subquery(inner) => {
                let view = inner.view.map(|id| Object::new(ObjectKind::View, id));
                locked.extend(view);
                locked.extend(locked_relations(inner));
            }
            _ => {}
        }
    });
    locked
}

fn strength_of(clause: &ast::LockClause) -> Strength {
    match (clause.lock_type, clause.of.as_ref().is_some_and(is_weak)) {
        (ast::LockType::Share, false) => Strength::Share,
        (ast::LockType::Share, true) => Strength::KeyShare,
        (ast::LockType::Update, false) => Strength::Update,
        (ast::LockType::Update, true) => Strength::NoKeyUpdate,
    }
}

/// Returns the names after OF. The parser has replaced the commas between them by dots.
pub(super) fn relations_of(clause: &ast::LockClause) -> &[ast::ObjectNamePart] {
    let of = clause.of.as_ref();
    of.map_or(&[], |of| &of.0[usize::from(is_weak(of))..])
}

/// Returns the SQL keywords of a clause.
pub(super) fn clause_name(clause: &ast::LockClause) -> &'static str {
    name_of(strength_of(clause))
}

/// Returns the SQL keywords for a lock strength.
pub(super) fn name_of(strength: Strength) -> &'static str {
    match strength {
        Strength::KeyShare => "FOR KEY SHARE",
        Strength::Share => "FOR SHARE",
        Strength::NoKeyUpdate => "FOR NO KEY UPDATE",
        Strength::Update => "FOR UPDATE",
    }
}

impl Clause<'_> {
    fn lock(&self, select: &mut Select) -> Result<(), SqlError> {
        self.check(select)?;
        let of = self.relations(select)?;
        let all = of.is_empty();
        let mut within = Ok(());
        select.from.for_each_leaf_mut(&mut |leaf| {
            if let LeafSource::Table(table) = &leaf.source
                && table.materialized.is_some()
                && (all || of.contains(&leaf.first_slot))
            {
                within = Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot lock rows in materialized view \"{}\"", table.name),
                ));
            }
            if let LeafSource::Subquery(inner) = &mut leaf.source
                && within.is_ok()
                && (all || of.contains(&leaf.first_slot))
            {
                // A subquery locks the rows from which its own rows are built.
                within = Clause { of: &[], ..*self }.lock(inner);
            }
        });
        within?;
        // If there are several clauses, the strongest applies to all locked relations.
        select.locking = Some(match select.locking.take() {
            None => LockingClause {
                hold: self.hold,
                of,
            },
            Some(other) => LockingClause {
                hold: RowLockOptions {
                    strength: self.hold.strength.max(other.hold.strength),
                    wait: stronger(self.hold.wait, other.hold.wait),
                },
                of: match all || other.of.is_empty() {
                    true => Vec::new(),
                    false => [other.of, of].concat(),
                },
            },
        });
        Ok(())
    }

    fn check(&self, select: &Select) -> Result<(), SqlError> {
        let name = self.name;
        let refused = |what: &str| {
            let message = format!("{name} is not allowed with {what}");
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        if let From::Leaf(leaf) = &select.from {
            match leaf.source {
                LeafSource::Set(_) => return refused("UNION/INTERSECT/EXCEPT"),
                LeafSource::Values(_) => {
                    let message = format!("{name} cannot be applied to VALUES");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                _ => {}
            }
        }
        if select.distinct {
            return refused("DISTINCT clause");
        }
        if !select.windows.is_empty() {
            return refused("window functions");
        }
        match &select.grouping {
            None => Ok(()),
            Some(grouping) if grouping.keys.is_empty() => refused("aggregate functions"),
            Some(_) => refused("GROUP BY clause"),
        }
    }

    /// Returns the first slots of the relations after OF.
    fn relations(&self, select: &Select) -> Result<Vec<usize>, SqlError> {
        let mut slots = Vec::new();
        for part in self.of {
            let wanted = part.as_ident().map(names::fold).unwrap_or_default();
            let mut found = None;
            select.from.for_each_leaf(&mut |leaf| {
                if leaf.alias == wanted {
                    found = Some(leaf);
                }
            });
            let Some(leaf) = found else {
                let message = format!(
                    "relation \"{wanted}\" in {} clause not found in FROM clause",
                    self.name
                );
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            };
            if let Some(what) = unlockable(leaf) {
                let message = format!("{} cannot be applied to {what}", self.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            slots.push(leaf.first_slot);
        }
        Ok(slots)
    }
}

/// Returns the description of a relation that has no rows to lock; `None` if it has rows.
fn unlockable(leaf: &Leaf) -> Option<&'static str> {
    match leaf.source {
        LeafSource::Table(_) | LeafSource::Subquery(_) | LeafSource::System(_) => None,
        LeafSource::Function { .. } => Some("a function"),
        LeafSource::Values(_) => Some("VALUES"),
        LeafSource::Cte(_) | LeafSource::Recursive(_) | LeafSource::Work(_) => Some("a WITH query"),
        LeafSource::Set(_) | LeafSource::Lateral(_) => None,
    }
}

fn stronger(one: WaitPolicy, other: WaitPolicy) -> WaitPolicy {
    match (one, other) {
        (WaitPolicy::NoWait, _) | (_, WaitPolicy::NoWait) => WaitPolicy::NoWait,
        (WaitPolicy::Skip, _) | (_, WaitPolicy::Skip) => WaitPolicy::Skip,
        _ => WaitPolicy::Block,
    }
}
