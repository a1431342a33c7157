//! Enums: the types that CREATE TYPE … AS ENUM makes.
//!
//! A type is plain data that is copied everywhere, so what it says of an enum is a reference to its definition. A
//! definition never changes and is kept for as long as the process lives; one that says the same is the same one, so
//! there are as many as there have been definitions, however often the catalog is read.
//!
//! Invariants
//! - ENUM-1: a label keeps its oid and its place for good, so that rows, which have the oid, and keys, which have the
//!   place, are right whatever is added between the labels or renamed.
//! - ENUM-2: labels are in the order of their places.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use parking_lot::Mutex;

use crate::catalog::PUBLIC_SCHEMA;
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident;
use crate::order::InOrder;
use crate::value::Value;

/// Bytes that the name of a label may have.
pub const LABEL_BYTES_MAX: usize = 63;

/// What there is of an enum.
#[derive(Debug, PartialEq)]
pub struct EnumDef {
    /// The type's oid.
    pub id: u32,
    /// The oid of the type of its arrays.
    pub array_id: u32,
    /// The name in the catalog.
    pub name: String,
    /// The name in messages, in quotes where it needs them, with its schema where that is not `public`.
    pub shown: String,
    /// The values (ENUM-2).
    pub labels: Vec<Label>,
    /// The name of the array type in the catalog.
    pub array_name: String,
    /// The name of the array type in messages.
    pub array_shown: String,
}

impl EnumDef {
    /// An enum of this schema and name.
    pub fn named(
        id: u32,
        array_id: u32,
        (schema, name): (&str, &str),
        labels: Vec<Label>,
    ) -> EnumDef {
        let shown = match schema {
            PUBLIC_SCHEMA => quote_ident(name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        };
        EnumDef {
            id,
            array_id,
            name: name.to_owned(),
            array_name: format!("_{name}"),
            array_shown: format!("{shown}[]"),
            shown,
            labels,
        }
    }
}

/// One value of an enum.
#[derive(Debug, PartialEq)]
pub struct Label {
    /// Its oid.
    pub id: u32,
    /// Where it is among the others.
    pub place: f64,
    /// Its name.
    pub name: String,
}

/// An enum. It is the same type whatever becomes of its labels.
#[derive(Clone, Copy)]
pub struct Enum(&'static EnumDef);

/// A value of an enum.
#[derive(Clone, Copy)]
pub struct EnumValue(&'static Label);

/// Every definition that there has been.
static DEFINITIONS: Mutex<Vec<&'static EnumDef>> = Mutex::new(Vec::new());

impl Enum {
    /// The enum of a definition, whose labels are put in their order.
    pub fn of(mut definition: EnumDef) -> Enum {
        definition
            .labels
            .order_by(|a, b| a.place.total_cmp(&b.place));
        let mut all = DEFINITIONS.lock();
        if let Some(same) = all.iter().find(|of| ***of == definition) {
            return Enum(same);
        }
        let kept: &'static EnumDef = Box::leak(Box::new(definition));
        all.push(kept);
        Enum(kept)
    }

    /// Its definition.
    pub const fn definition(self) -> &'static EnumDef {
        self.0
    }

    /// Its values, in order.
    pub fn values(self) -> impl DoubleEndedIterator<Item = EnumValue> {
        self.0.labels.iter().map(EnumValue)
    }

    /// The value of a name, or 22P02.
    pub fn named(self, name: &str) -> Result<EnumValue, SqlError> {
        let mut all = self.values();
        all.find(|value| value.name() == name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input value for enum {}: \"{name}\"", self.0.shown),
            )
        })
    }

    /// The value that an earlier definition of the type had this name for, if it is still one.
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

    /// The value of an oid, as rows have it.
    pub fn with_oid(self, oid: u32) -> Option<EnumValue> {
        self.values().find(|value| value.oid() == oid)
    }
}

impl EnumValue {
    /// Its name.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Its oid.
    pub fn oid(self) -> u32 {
        self.0.id
    }

    /// Where it is among the others.
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

/// Plans are compared by this text, on several machines.
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
    fn one_definition_is_kept_once_and_labels_are_in_their_order() {
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
