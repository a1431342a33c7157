//! The binary form of CHECK and FOREIGN KEY constraints and of comments.

use super::super::rules::{CheckDef, ForeignKeyDef, Referential, TableRules};
use super::{Reader, Writer};

/// Writes the rules of a table.
pub(super) fn encode_rules(rules: &TableRules, out: &mut Writer) {
    out.u32(rules.checks.len() as u32);
    for check in &rules.checks {
        out.u32(check.id);
        out.text(&check.name);
        out.text(&check.text);
    }
    out.u32(rules.foreign_keys.len() as u32);
    for key in &rules.foreign_keys {
        out.u32(key.id);
        out.text(&key.name);
        out.list(key.columns.iter().map(|c| *c as u32));
        out.u32(key.parent);
        out.list(key.parent_columns.iter().map(|c| *c as u32));
        out.0.push(referential_byte(key.on_delete));
        out.0.push(referential_byte(key.on_update));
        out.flag(key.full);
        out.flag(key.deferrable);
        out.flag(key.deferred);
    }
    out.list(rules.referenced_by.iter().copied());
    out.u32(rules.comments.len() as u32);
    for (column, text) in &rules.comments {
        out.u32(column.map_or(0, |column| column as u32 + 1));
        out.text(text);
    }
}

/// The referential actions, in the order of their stored numbers.
const REFERENTIAL: [Referential; 5] = [
    Referential::NoAction,
    Referential::Restrict,
    Referential::Cascade,
    Referential::SetNull,
    Referential::SetDefault,
];

fn referential_byte(action: Referential) -> u8 {
    let mut all = (0..).zip(REFERENTIAL);
    all.find(|(_, a)| *a == action).map_or(0, |(byte, _)| byte)
}

/// Reads the rules of a table with `width` columns.
pub(super) fn read_rules(input: &mut Reader<'_>, width: usize) -> Option<TableRules> {
    let mut rules = TableRules::default();
    for _ in 0..input.u32()? {
        rules.checks.push(CheckDef {
            id: input.u32()?,
            name: input.text()?,
            text: input.text()?,
            // The details before the definition contain the further properties (`details`).
            valid: true,
            no_inherit: false,
        });
    }
    for _ in 0..input.u32()? {
        let id = input.u32()?;
        let name = input.text()?;
        let columns = input.positions()?;
        let parent = input.u32()?;
        let parent_columns = input.positions()?;
        let fits = columns.len() == parent_columns.len() && columns.iter().all(|c| *c < width);
        if columns.is_empty() || !fits {
            return None;
        }
        rules.foreign_keys.push(ForeignKeyDef {
            id,
            name,
            columns,
            parent,
            parent_columns,
            // Contained in the details, too.
            index: 0,
            on_delete: *REFERENTIAL.get(usize::from(input.u8()?))?,
            on_update: *REFERENTIAL.get(usize::from(input.u8()?))?,
            delete_columns: Vec::new(),
            full: input.flag()?,
            deferrable: input.flag()?,
            deferred: input.flag()?,
            valid: true,
            unchecked: false,
            inert: false,
        });
    }
    rules.referenced_by = input.list()?;
    for _ in 0..input.u32()? {
        let column = (input.u32()? as usize).checked_sub(1);
        if column.is_some_and(|column| column >= width) {
            return None;
        }
        rules.comments.push((column, input.text()?));
    }
    Some(rules)
}
