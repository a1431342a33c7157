//! Name resolution in a scope.

use super::{Code, VariableKind};
use crate::types::{Type, TypeKind};

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMeaning {
    /// A transition table of a trigger, by its number.
    Rows(usize),
    /// A variable.
    Variable(usize),
    /// A field of a row.
    Field(usize, String),
    /// The position of a cursor on a table, given by the table's name and oid.
    Place(usize, String, u32),
}

impl Code {
    /// Resolves a name, given by its parts, in `scope`.
    pub fn named(&self, scope: usize, path: &[String]) -> Option<NameMeaning> {
        match path {
            [name] => self.find(scope, name).map(NameMeaning::Variable),
            [first, second] => match self.find(scope, first) {
                Some(row) if self.is_row(row) => Some(NameMeaning::Field(row, second.clone())),
                _ => self
                    .labelled(scope, first, second)
                    .map(NameMeaning::Variable),
            },
            [label, row, field] => {
                let row = self.labelled(scope, label, row)?;
                self.is_row(row)
                    .then(|| NameMeaning::Field(row, field.clone()))
            }
            _ => None,
        }
    }

    /// Returns whether a variable holds rows.
    pub fn is_row(&self, variable: usize) -> bool {
        let variable = self.variables.get(variable);
        variable.is_some_and(|v| matches!(v.kind, VariableKind::Record | VariableKind::Row(_)))
    }

    /// Returns whether a variable holds the name of a cursor.
    pub fn is_cursor(&self, variable: usize) -> bool {
        let kind = self.variables.get(variable).map(|of| &of.kind);
        match kind {
            Some(VariableKind::Cursor { .. }) => true,
            Some(VariableKind::Value(ty)) => ty.kind == TypeKind::RefCursor,
            _ => false,
        }
    }

    /// Returns whether a variable holds rows of any type.
    pub fn is_record(&self, variable: usize) -> bool {
        let variable = self.variables.get(variable);
        variable.is_some_and(|v| matches!(v.kind, VariableKind::Record))
    }

    /// Returns the type of the rows that a variable holds.
    pub fn row_type(&self, variable: usize) -> Type {
        match self.variables.get(variable).map(|of| &of.kind) {
            Some(VariableKind::Row(of)) => Type::of(TypeKind::Composite(*of)),
            _ => Type::of(TypeKind::Record),
        }
    }

    fn find(&self, scope: usize, name: &str) -> Option<usize> {
        let mut next = Some(scope);
        while let Some(scope) = next.and_then(|scope| self.scopes.get(scope)) {
            let mut names = scope.names.iter().rev();
            if let Some((_, variable)) = names.find(|(of, _)| of == name) {
                return Some(*variable);
            }
            next = scope.parent;
        }
        None
    }

    fn labelled(&self, scope: usize, label: &str, name: &str) -> Option<usize> {
        let mut next = Some(scope);
        while let Some(scope) = next.and_then(|scope| self.scopes.get(scope)) {
            if scope.label.as_deref() == Some(label) {
                let mut names = scope.names.iter().rev();
                return names.find(|(of, _)| of == name).map(|(_, v)| *v);
            }
            next = scope.parent;
        }
        None
    }
}
