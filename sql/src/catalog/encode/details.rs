//! The details of tables, which come before the definitions. They contain storage parameters,
//! UNLOGGED, collations, operator classes, and constraints that are NOT VALID or NO INHERIT. They
//! also contain the indexes on which foreign keys depend, and the columns that ON DELETE SET
//! changes. A table without any of these has no details.

use super::super::collation::Collation;
use super::super::def::{KeyOptions, TableDef};
use super::{Reader, Writer};

/// The first byte of details without the indexes that foreign keys depend on.
pub(super) const DETAILS_FORMAT: u8 = 0x21;
/// The first byte of details that end with these indexes.
pub(super) const DETAILS_FORMAT_KEYS: u8 = 0x22;
/// The first byte of details that end with these indexes and the column lists of ON DELETE SET.
pub(super) const DETAILS_FORMAT_SETS: u8 = 0x23;

const NOT_VALID: u8 = 1;
const NO_INHERIT: u8 = 2;
const UNCHECKED: u8 = 4;
const INERT: u8 = 8;

type Options = Vec<(String, String)>;

/// The details of a table.
#[derive(Default, PartialEq)]
pub(super) struct Details {
    unlogged: bool,
    options: Options,
    /// The collations of columns, by position.
    collations: Vec<(u32, u8)>,
    /// The flags of constraints, by oid.
    constraints: Vec<(u32, u8)>,
    /// The options and key properties of indexes, by oid.
    indexes: Vec<(u32, Options, Vec<KeyOptions>)>,
    /// The oids of foreign keys, each with that of the index it depends on (FK-3).
    keys: Vec<(u32, u32)>,
    /// The oids of foreign keys, each with its `delete_columns`.
    sets: Vec<(u32, Vec<u32>)>,
}

impl Details {
    fn of(table: &TableDef) -> Details {
        let mut details = Details {
            unlogged: table.rules.storage.unlogged,
            options: table.rules.storage.options.clone(),
            ..Details::default()
        };
        for (at, column) in (0..).zip(&table.columns) {
            if column.more.collation != Collation::Default {
                details.collations.push((at, byte(column.more.collation)));
            }
        }
        for check in &table.rules.checks {
            let valid = if check.valid { 0 } else { NOT_VALID };
            let inherit = if check.no_inherit { NO_INHERIT } else { 0 };
            details.constraints.push((check.id, valid | inherit));
        }
        for key in &table.rules.foreign_keys {
            let valid = if key.valid { 0 } else { NOT_VALID };
            let unchecked = if key.unchecked { UNCHECKED } else { 0 };
            let inert = if key.inert { INERT } else { 0 };
            details
                .constraints
                .push((key.id, valid | unchecked | inert));
            if key.index != 0 {
                details.keys.push((key.id, key.index));
            }
            if !key.delete_columns.is_empty() {
                let columns = key.delete_columns.iter().map(|nth| *nth as u32);
                details.sets.push((key.id, columns.collect()));
            }
        }
        details.constraints.retain(|(_, bits)| *bits != 0);
        for index in &table.indexes {
            let more = &index.more;
            if !more.options.is_empty() || !more.looks.is_empty() {
                let of = (index.id, more.options.clone(), more.looks.clone());
                details.indexes.push(of);
            }
        }
        details
    }

    /// Adds the details to the table; `None` if they do not belong to it.
    pub(super) fn give(self, table: &mut TableDef) -> Option<()> {
        table.rules.storage.unlogged = self.unlogged;
        table.rules.storage.options = self.options;
        for (at, collation) in self.collations {
            let column = table.columns.get_mut(at as usize)?;
            column.more.collation = *Collation::ALL.get(usize::from(collation))?;
        }
        for (id, bits) in self.constraints {
            let mut checks = table.rules.checks.iter_mut();
            let mut keys = table.rules.foreign_keys.iter_mut();
            if let Some(check) = checks.find(|check| check.id == id) {
                check.valid = bits & NOT_VALID == 0;
                check.no_inherit = bits & NO_INHERIT != 0;
            } else {
                let key = keys.find(|key| key.id == id)?;
                key.valid = bits & NOT_VALID == 0;
                key.unchecked = bits & UNCHECKED != 0;
                key.inert = bits & INERT != 0;
            }
        }
        for (id, options, looks) in self.indexes {
            let mut indexes = table.indexes.iter_mut();
            let index = indexes.find(|index| index.id == id)?;
            if !looks.is_empty() && looks.len() != index.columns.len() {
                return None;
            }
            index.more.options = options;
            index.more.looks = looks;
        }
        for (id, index) in self.keys {
            let mut keys = table.rules.foreign_keys.iter_mut();
            keys.find(|key| key.id == id)?.index = index;
        }
        for (id, columns) in self.sets {
            let mut keys = table.rules.foreign_keys.iter_mut();
            let key = keys.find(|key| key.id == id)?;
            key.delete_columns = columns.iter().map(|nth| *nth as usize).collect();
            if key
                .delete_columns
                .iter()
                .any(|nth| *nth >= key.columns.len())
            {
                return None;
            }
        }
        Some(())
    }
}

fn byte(collation: Collation) -> u8 {
    let mut all = (0..).zip(Collation::ALL);
    all.find(|(_, of)| *of == collation)
        .map_or(0, |(byte, _)| byte)
}

/// Writes the details of a table, if it has any.
pub(super) fn encode(table: &TableDef, out: &mut Writer) {
    let details = Details::of(table);
    if details == Details::default() {
        return;
    }
    let format = match (details.keys.is_empty(), details.sets.is_empty()) {
        (_, false) => DETAILS_FORMAT_SETS,
        (false, true) => DETAILS_FORMAT_KEYS,
        (true, true) => DETAILS_FORMAT,
    };
    out.0.push(format);
    out.flag(details.unlogged);
    encode_options(&details.options, out);
    for list in [&details.collations, &details.constraints] {
        out.u32(list.len() as u32);
        for (of, byte) in list {
            out.u32(*of);
            out.0.push(*byte);
        }
    }
    out.u32(details.indexes.len() as u32);
    for (id, options, looks) in &details.indexes {
        out.u32(*id);
        encode_options(options, out);
        out.u32(looks.len() as u32);
        for look in looks {
            out.flag(look.collation.is_some());
            if let Some(collation) = look.collation {
                out.0.push(byte(collation));
            }
            out.optional(look.class.as_deref());
        }
    }
    if format != DETAILS_FORMAT {
        out.u32(details.keys.len() as u32);
        for (key, index) in &details.keys {
            out.u32(*key);
            out.u32(*index);
        }
    }
    if format == DETAILS_FORMAT_SETS {
        out.u32(details.sets.len() as u32);
        for (key, columns) in &details.sets {
            out.u32(*key);
            out.list(columns.iter().copied());
        }
    }
}

fn encode_options(options: &Options, out: &mut Writer) {
    out.u32(options.len() as u32);
    for (name, value) in options {
        out.text(name);
        out.text(value);
    }
}

/// Reads the details before a table's definition.
pub(super) fn read(input: &mut Reader<'_>) -> Option<Details> {
    let mut details = Details::default();
    let format = match input.0.first() {
        Some(format @ (&DETAILS_FORMAT | &DETAILS_FORMAT_KEYS | &DETAILS_FORMAT_SETS)) => *format,
        _ => return Some(details),
    };
    input.u8()?;
    details.unlogged = input.flag()?;
    details.options = read_options(input)?;
    for list in [&mut details.collations, &mut details.constraints] {
        for _ in 0..input.u32()? {
            list.push((input.u32()?, input.u8()?));
        }
    }
    for _ in 0..input.u32()? {
        let id = input.u32()?;
        let options = read_options(input)?;
        let mut looks = Vec::new();
        for _ in 0..input.u32()? {
            let collation = match input.flag()? {
                true => Some(*Collation::ALL.get(usize::from(input.u8()?))?),
                false => None,
            };
            looks.push(KeyOptions {
                collation,
                class: input.optional()?,
            });
        }
        details.indexes.push((id, options, looks));
    }
    if format != DETAILS_FORMAT {
        for _ in 0..input.u32()? {
            details.keys.push((input.u32()?, input.u32()?));
        }
    }
    if format == DETAILS_FORMAT_SETS {
        for _ in 0..input.u32()? {
            details.sets.push((input.u32()?, input.list()?));
        }
    }
    Some(details)
}

fn read_options(input: &mut Reader<'_>) -> Option<Options> {
    let mut options = Options::new();
    for _ in 0..input.u32()? {
        options.push((input.text()?, input.text()?));
    }
    Some(options)
}
