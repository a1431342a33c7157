//! The items that a jsonpath returns: elements of the document and values computed from them.

use std::borrow::Cow;

use crate::types::json::{Json, Kind, quote};

/// An item of a jsonpath result.
#[derive(Clone, Debug)]
pub(super) enum Item<'j> {
    Null,
    Bool(bool),
    /// A number in the text form of jsonb.
    Number(Cow<'j, str>),
    Text(Cow<'j, str>),
    Array(&'j Json<'j>),
    Object(&'j Json<'j>),
    /// The result of keyvalue() for a key.
    Pair {
        id: usize,
        key: &'j str,
        value: &'j Json<'j>,
    },
}

impl<'j> Item<'j> {
    /// Converts an element of a document.
    pub(super) fn of(json: &'j Json<'j>) -> Item<'j> {
        match &json.is {
            Kind::Null => Item::Null,
            Kind::Bool(value) => Item::Bool(*value),
            Kind::Number => Item::Number(Cow::Borrowed(json.raw)),
            Kind::Text(text) => Item::Text(Cow::Borrowed(text)),
            Kind::Array(_) => Item::Array(json),
            Kind::Object(_) => Item::Object(json),
        }
    }

    /// Returns the result of type().
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Item::Null => "null",
            Item::Bool(_) => "boolean",
            Item::Number(_) => "number",
            Item::Text(_) => "string",
            Item::Array(_) => "array",
            Item::Object(_) | Item::Pair { .. } => "object",
        }
    }

    /// Returns the keys and values of an object; `None` for other items.
    pub(super) fn pairs(&self) -> Option<Vec<(&'j str, Item<'j>)>> {
        match self {
            Item::Object(json) => match &json.is {
                Kind::Object(pairs) => {
                    let pairs = pairs.iter().map(|(key, value)| (&**key, Item::of(value)));
                    Some(pairs.collect())
                }
                _ => None,
            },
            Item::Pair { id, key, value } => Some(vec![
                ("id", Item::Number(Cow::Owned(id.to_string()))),
                ("key", Item::Text(Cow::Borrowed(key))),
                ("value", Item::of(value)),
            ]),
            _ => None,
        }
    }

    /// Returns the elements of an array or the values of an object; `None` for other items.
    pub(super) fn parts(&self) -> Option<Vec<Item<'j>>> {
        match self {
            Item::Array(json) => Some(super::elements(json).iter().map(Item::of).collect()),
            _ => {
                let pairs = self.pairs()?;
                Some(pairs.into_iter().map(|(_, value)| value).collect())
            }
        }
    }

    /// Appends the item in the text form of jsonb.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Item::Null => out.push_str("null"),
            Item::Bool(true) => out.push_str("true"),
            Item::Bool(false) => out.push_str("false"),
            Item::Number(text) => out.push_str(text),
            Item::Text(text) => quote(text, out),
            Item::Array(json) | Item::Object(json) => out.push_str(json.raw),
            Item::Pair { id, key, value } => {
                out.push_str(&format!("{{\"id\": {id}, \"key\": "));
                quote(key, out);
                out.push_str(&format!(", \"value\": {}}}", value.raw));
            }
        }
    }
}
