//! Enums: the types of CREATE TYPE … AS ENUM.
//!
//! A type is plain data that is copied freely, so it refers to the definition of an enum.
//! Definitions are interned: they never change, and they live until the process ends. Equal
//! definitions are the same one. Their number is therefore bounded by the number of different
//! definitions, not of catalog reads.
//!
//! Invariants
//! - ENUM-1: a label never changes its oid and its place. Rows contain the oid and keys contain the
//!   place, so both stay correct when labels are added or renamed.
//! - ENUM-2: labels are in the order of their places.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use parking_lot::Mutex;

use crate::catalog::PUBLIC_SCHEMA;
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident;
use crate::order::StableSort;
use crate::value::Value;

/// The maximum length of a label, in bytes.
pub const LABEL_BYTES_MAX: usize = 63;

/// The definition of an enum.
#[derive(Debug, PartialEq)]
pub struct EnumDef {
    /// The oid of the type.
    pub id: u32,
    /// The oid of the array type.
    pub array_id: u32,
    /// The name in the catalog.
    pub name: String,
    /// The name in messages: quoted if needed, and qualified unless the schema is `public`.
    pub display_name: String,
    /// The labels (ENUM-2).
    pub labels: Vec<Label>,
    /// The name of the array type in the catalog.
    pub array_name: String,
    /// The name of the array type in messages.
    pub array_display_name: String,
}

impl EnumDef {
    /// Creates an enum for a schema and name.
    pub fn named(
        id: u32,
        array_id: u32,
        (schema, name): (&str, &str),
        labels: Vec<Label>,
    ) -> EnumDef {
        let display_name = match schema {
            PUBLIC_SCHEMA => quote_ident(name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        };
        EnumDef {
            id,
            array_id,
            name: name.to_owned(),
            array_name: format!("_{name}"),
            array_display_name: format!("{display_name}[]"),
            display_name,
            labels,
        }
    }
}

/// A label of an enum.
#[derive(Debug, PartialEq)]
pub struct Label {
    /// The oid of the label.
    pub id: u32,
    /// The position in the sort order (`enumsortorder`).
    pub place: f64,
    /// The text of the label.
    pub name: String,
}

/// An enum type. Two values are equal if their oids are, whatever the labels.
#[derive(Clone, Copy)]
pub struct Enum(&'static EnumDef);

/// A value of an enum.
#[derive(Clone, Copy)]
pub struct EnumValue(&'static Label);

/// Every definition that the process has seen.
static DEFINITIONS: Mutex<Vec<&'static EnumDef>> = Mutex::new(Vec::new());

impl Enum {
    /// Returns the enum for a definition, whose labels are sorted by place.
    pub fn of(mut definition: EnumDef) -> Enum {
        definition
            .labels
            .order_by(|a, b| a.place.total_cmp(&b.place));
        let mut all = DEFINITIONS.lock();
        if let Some(same) = all.iter().find(|of| ***of == definition) {
            return Enum(same);
        }
        let interned: &'static EnumDef = Box::leak(Box::new(definition));
        all.push(interned);
        Enum(interned)
    }

    /// Returns the definition.
    pub const fn definition(self) -> &'static EnumDef {
        self.0
    }

    /// Returns the values, in order.
    pub fn values(self) -> impl DoubleEndedIterator<Item = EnumValue> {
        self.0.labels.iter().map(EnumValue)
    }

    /// Returns the value with a label.
    ///
    /// # Errors
    /// 22P02 if there is none.
    pub fn named(self, name: &str) -> Result<EnumValue, SqlError> {
        let mut all = self.values();
        all.find(|value| value.name() == name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!(
                    "invalid input value for enum {}: \"{name}\"",
                    self.0.display_name
                ),
            )
        })
    }

    /// Returns the value that had this label in an earlier definition of the type, if it still
    /// exists.
    pub fn formerly(self, name: &str) -> Option<EnumValue> {
        let all = DEFINITIONS.lock();
        let mut earlier = all.iter().rev().filter(|of| of.id == self.0.id);
        let oid = earlier.find_map(|of| {
            let mut labels = of.labels.iter();
            labels
                .find(|label| label.name == name)
                .map(|label| label.id)
        });
        self.with_oid(oid?)
    }

    /// Returns the value with an oid, as it is stored in rows.
    pub fn with_oid(self, oid: u32) -> Option<EnumValue> {
        self.values().find(|value| value.oid() == oid)
    }
}

impl EnumValue {
    /// Returns the label.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Returns the oid.
    pub fn oid(self) -> u32 {
        self.0.id
    }

    /// Returns the position in the sort order.
    pub fn place(self) -> f64 {
        self.0.place
    }
}

impl From<EnumValue> for Value {
    fn from(value: EnumValue) -> Value {
        Value::Enum(value)
    }
}

impl PartialEq for Enum {
    fn eq(&self, other: &Enum) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Enum {}

impl Hash for Enum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialOrd for Enum {
    fn partial_cmp(&self, other: &Enum) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Enum {
    fn cmp(&self, other: &Enum) -> Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

/// Plans are compared by this text across machines.
impl fmt::Debug for Enum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "enum {}", self.0.id)
    }
}

impl PartialEq for EnumValue {
    fn eq(&self, other: &EnumValue) -> bool {
        self.oid() == other.oid()
    }
}

impl Eq for EnumValue {}

impl Hash for EnumValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid().hash(state);
    }
}

impl PartialOrd for EnumValue {
    fn partial_cmp(&self, other: &EnumValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EnumValue {
    fn cmp(&self, other: &EnumValue) -> Ordering {
        let by_place = self.place().total_cmp(&other.place());
        by_place.then_with(|| self.oid().cmp(&other.oid()))
    }
}

impl fmt::Debug for EnumValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.oid(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood(names: &[(&str, f64)]) -> EnumDef {
        let label = |(at, (name, place)): (usize, &(&str, f64))| Label {
            id: 100 + at as u32,
            place: *place,
            name: (*name).to_owned(),
        };
        let labels = names.iter().enumerate().map(label).collect();
        EnumDef::named(7, 8, ("public", "mood"), labels)
    }

    #[test]
    fn enum_definition_is_shared_and_labels_are_ordered() {
        let first = Enum::of(mood(&[("sad", 1.0), ("happy", 2.0), ("ok", 1.5)]));
        let second = Enum::of(mood(&[("sad", 1.0), ("happy", 2.0), ("ok", 1.5)]));
        assert!(std::ptr::eq(first.definition(), second.definition()));
        let names: Vec<&str> = first.values().map(EnumValue::name).collect();
        assert_eq!(names, ["sad", "ok", "happy"]);
        assert!(first.named("sad").expect("a label") < first.named("ok").expect("a label"));
        assert_eq!(first.with_oid(102).map(EnumValue::name), Some("ok"));
        let error = first.named("glad").expect_err("no label");
        assert_eq!(
            error.message(),
            "invalid input value for enum mood: \"glad\""
        );
    }

    #[test]
    fn another_definition_is_the_same_type() {
        let before = Enum::of(mood(&[("sad", 1.0)]));
        let after = Enum::of(mood(&[("gloomy", 1.0)]));
        assert_eq!(before, after);
        assert_eq!(before.named("sad").ok(), after.named("gloomy").ok());
    }
}
