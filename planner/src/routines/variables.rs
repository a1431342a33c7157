//! The variables of a running body.

use fencepost_sql::cursors::place_of;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{Code, NameMeaning, VariableKind};
use fencepost_sql::types::{Composite, Fields, Type, TypeKind};
use fencepost_sql::value::{Record, Value};

use super::portals::{Portals, no_cursor};

/// The values of the variables, and the transition tables.
#[derive(Clone, Debug)]
pub struct Slots(pub Vec<Slot>, pub Vec<Transition>);

/// A transition table: rows that a statement has changed, as a trigger sees them.
#[derive(Clone, Debug)]
pub struct Transition {
    /// Its name in the trigger function.
    pub name: String,
    /// The type of an array of its rows.
    pub ty: Type,
    /// Its rows as an array.
    pub rows: Value,
}

/// The content of a variable.
#[derive(Clone, Debug)]
pub enum Slot {
    /// A value, and its type.
    Value(Value, Type),
    /// A row; `None` for a record that has not been assigned yet.
    Row(Option<Row>),
}

/// A row and its columns. It has no values if the row does not exist, such as OLD of an INSERT.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub columns: Vec<(String, Type)>,
    pub values: Vec<Value>,
    /// Its composite type, unless it is a `record`.
    pub of: Option<Composite>,
}

impl Slots {
    /// Creates the variables, before the first statement.
    pub fn new(code: &Code) -> Slots {
        let slot = |variable: &fencepost_sql::plpgsql::VariableDef| match &variable.kind {
            VariableKind::Value(ty) => Slot::Value(Value::Null, *ty),
            VariableKind::Record => Slot::Row(None),
            VariableKind::Row(of) => Slot::Row(Some(Row::absent(*of))),
            VariableKind::Cursor { .. } => Slot::Value(Value::Null, Type::REFCURSOR),
        };
        Slots(code.variables.iter().map(slot).collect(), Vec::new())
    }

    /// Returns the columns and values of a row.
    pub fn row(&self, code: &Code, variable: usize) -> Result<&Row, SqlError> {
        match self.0.get(variable) {
            Some(Slot::Row(Some(row))) => Ok(row),
            _ => Err(unassigned(code, variable)),
        }
    }

    /// Returns the composite type of the row that a variable holds, if the row has one.
    pub fn row_type(&self, variable: usize) -> Option<Composite> {
        match self.0.get(variable) {
            Some(Slot::Row(Some(row))) => row.of,
            _ => None,
        }
    }

    /// Returns whether a variable is a record that has had no row yet, which as a whole is NULL.
    pub fn has_no_row(&self, variable: usize) -> bool {
        matches!(self.0.get(variable), Some(Slot::Row(None)))
    }

    /// Returns the names of the fields of a row.
    pub fn field_names(&self, code: &Code, variable: usize) -> Result<Vec<String>, SqlError> {
        let row = self.row(code, variable)?;
        Ok(row.columns.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Returns the type of a named variable or field.
    pub fn type_of(&self, code: &Code, named: &NameMeaning) -> Result<Type, SqlError> {
        match named {
            NameMeaning::Variable(variable) => match self.0.get(*variable) {
                Some(Slot::Value(_, ty)) => Ok(*ty),
                Some(Slot::Row(row)) => Ok(match row.as_ref().and_then(|row| row.of) {
                    Some(of) => Type::of(TypeKind::Composite(of)),
                    None => code.row_type(*variable),
                }),
                None => Err(SqlError::internal("a name of no variable")),
            },
            NameMeaning::Field(variable, field) => {
                let row = self.row(code, *variable)?;
                let at = row.field(code, *variable, field)?;
                Ok(row.columns[at].1.plain())
            }
            NameMeaning::Place(..) => Ok(Type::of(TypeKind::Uuid)),
            NameMeaning::Rows(nth) => {
                let rows = self.1.get(*nth).map(|rows| rows.ty);
                rows.ok_or_else(|| SqlError::internal("rows of no trigger"))
            }
        }
    }

    /// Returns the value of a named variable or field.
    pub fn value_of(
        &self,
        code: &Code,
        named: &NameMeaning,
        portals: &Portals,
    ) -> Result<Value, SqlError> {
        match named {
            NameMeaning::Variable(variable) => match self.0.get(*variable) {
                Some(Slot::Value(value, _)) => Ok(value.clone()),
                Some(Slot::Row(_)) => Ok(self.get(*variable)),
                None => Err(SqlError::internal("a name of no variable")),
            },
            NameMeaning::Field(variable, field) => {
                let row = self.row(code, *variable)?;
                let at = row.field(code, *variable, field)?;
                Ok(row.values.get(at).cloned().unwrap_or_default())
            }
            NameMeaning::Rows(nth) => {
                let rows = self.1.get(*nth);
                Ok(rows.map_or(Value::Null, |rows| rows.rows.clone()))
            }
            NameMeaning::Place(cursor, table, oid) => {
                let name = self.get(*cursor);
                let Some(name) = name.as_text() else {
                    return Err(null_cursor(&code.variables[*cursor].name));
                };
                match portals.get(name) {
                    Some(open) => place_of(open.place(*oid), name, table),
                    None => Err(no_cursor(name)),
                }
            }
        }
    }

    /// Returns the value of a variable; a row variable yields a row value.
    pub fn get(&self, variable: usize) -> Value {
        match self.0.get(variable) {
            Some(Slot::Value(value, _)) => value.clone(),
            Some(Slot::Row(Some(row))) => row.as_value(),
            _ => Value::Null,
        }
    }

    /// Sets a variable that the interpreter itself controls.
    pub fn put(&mut self, variable: usize, value: Value) {
        if let Some(Slot::Value(place, _)) = self.0.get_mut(variable) {
            *place = value;
        }
    }
}

impl Row {
    /// Creates an absent row of this type, which is NULL.
    pub fn absent(of: Composite) -> Row {
        let fields = of.definition().fields.iter();
        Row {
            columns: fields.map(|f| (f.name.clone(), f.ty)).collect(),
            values: Vec::new(),
            of: Some(of),
        }
    }

    /// Creates a row of this type.
    pub fn holding(of: Composite, row: &Record) -> Row {
        let absent = Row::absent(of);
        let width = absent.columns.len();
        Row {
            values: (0..width).map(|at| row.get(at).clone()).collect(),
            ..absent
        }
    }

    /// Creates a row with the fields of a record.
    pub fn of_record(row: &Record) -> Row {
        let fields = row.fields.iter();
        let known = |ty: Type| if ty == Type::UNKNOWN { Type::TEXT } else { ty };
        let columns: Vec<_> = fields
            .map(|field| (field.name.clone(), known(field.ty)))
            .collect();
        Row {
            values: (0..columns.len()).map(|at| row.get(at).clone()).collect(),
            columns,
            of: match &row.fields {
                Fields::Named(of) => Some(*of),
                _ => None,
            },
        }
    }

    /// Returns the row as a value; NULL if it is absent.
    pub fn as_value(&self) -> Value {
        if self.values.is_empty() && !self.columns.is_empty() {
            return Value::Null;
        }
        let fields = match self.of {
            Some(of) => Fields::Named(of),
            None => Fields::own(self.columns.iter().cloned()),
        };
        Record::new(fields, self.values.clone()).into()
    }

    /// Returns the position of a field, or error 42703.
    pub fn field(&self, code: &Code, variable: usize, field: &str) -> Result<usize, SqlError> {
        let found = self.columns.iter().position(|(name, _)| name == field);
        found.ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "record \"{}\" has no field \"{field}\"",
                    code.variables[variable].name
                ),
            )
        })
    }
}

/// Returns error 22004.
pub fn null_cursor(variable: &str) -> SqlError {
    SqlError::new(
        SqlState::new(b"22004"),
        format!("cursor variable \"{variable}\" is null"),
    )
}

/// Returns error 55000.
fn unassigned(code: &Code, variable: usize) -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "record \"{}\" is not assigned yet",
            code.variables[variable].name
        ),
    )
    .detail("The tuple structure of a not-yet-assigned record is indeterminate.")
}
