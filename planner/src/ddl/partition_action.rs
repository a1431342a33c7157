//! The actions of ALTER TABLE on the partitions of a table, by their inherited constraints.

use fencepost_sql::bound::AlterAction;
use fencepost_sql::catalog::TableDef;

/// Returns how an action on a table applies to a partition: not at all (`None`), unchanged
/// (`Some(None)`), or as an action on the partition's own constraint.
pub(super) fn of_partition(
    action: &AlterAction,
    before: &TableDef,
    partition: &TableDef,
) -> Option<Option<AlterAction>> {
    match action {
        AlterAction::DropConstraint { name, cascade, .. } => {
            let own = linked_constraint(before, name, partition)?;
            Some(Some(AlterAction::DropConstraint {
                name: own.1,
                if_exists: false,
                cascade: *cascade,
            }))
        }
        AlterAction::RenameConstraint { from, to } => {
            let (is_key, own) = linked_constraint(before, from, partition)?;
            (!is_key && own == *from).then(|| {
                Some(AlterAction::RenameConstraint {
                    from: own,
                    to: to.clone(),
                })
            })
        }
        _ => Some(None),
    }
}

/// Returns the partition's constraint that is inherited from the constraint with that name: whether
/// it is a key, and its name.
fn linked_constraint(
    parent: &TableDef,
    name: &str,
    partition: &TableDef,
) -> Option<(bool, String)> {
    let of = |table: &TableDef| -> Vec<(u32, bool, String)> {
        let keys = table.indexes.iter().map(|i| (i.id, true, i.name.clone()));
        let checks = table.rules.checks.iter();
        let checks = checks.map(|c| (c.id, false, c.name.clone()));
        let foreign = table.rules.foreign_keys.iter();
        let foreign = foreign.map(|k| (k.id, false, k.name.clone()));
        keys.chain(checks).chain(foreign).collect()
    };
    let (parents, ..) = of(parent).into_iter().find(|(_, _, own)| own == name)?;
    let own = partition.linked(parents)?;
    let found = of(partition).into_iter().find(|(id, ..)| *id == own)?;
    Some((found.1, found.2))
}
