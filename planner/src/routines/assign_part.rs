//! Assignments to parts of variables: `a[1] := …`, `a[2:3] := …`, `r.f[1] := …`, `j['k'] := …`.

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{WITH_ELEMENT, WITH_JSON, WITH_SLICE, set_element};
use fencepost_sql::plpgsql::{Subscript, Target};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use super::machine::BodyExecution;
use super::returned::fit;
use super::variables::Slot;
use crate::exec::Cx;

/// Evaluated subscripts.
struct SubscriptValues {
    values: Vec<Value>,
    /// For a slice: a bit mask of the bounds that are omitted.
    slice: Option<i32>,
}

impl BodyExecution {
    /// Assigns a value to the part of a variable or field that the subscripts select.
    pub(super) async fn assign_part(
        &mut self,
        of: &Target,
        subscripts: &[Subscript],
        (value, from): (Value, Type),
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let ty = self.place_of(of)?.1;
        let plain = ty.plain();
        let places = match plain.kind {
            TypeKind::Jsonb => self.json_places(subscripts, cx).await?,
            _ if plain.element().is_some() => self.places(subscripts, cx).await?,
            kind => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "cannot subscript type {kind} because it does not support subscripting"
                    ),
                )
                .into());
            }
        };
        let wanted = match plain.element() {
            Some(element) if places.slice.is_none() => element,
            _ => plain,
        };
        let value = fit(value, &from, &wanted, cx.eval)?;
        let (slot, _) = self.place_of(of)?;
        if let (Value::Array(array), None, true) = (&mut *slot, places.slice, ty == plain) {
            // In place, because a loop may update a large array.
            let ints = places.values.iter().map(Value::as_int);
            let ints = ints.map(|place| place.and_then(|place| i32::try_from(place).ok()));
            if let Some(ints) = ints.collect::<Option<Vec<i32>>>() {
                return Ok(set_element(array, &value, &ints)?);
            }
        }
        let mut args = vec![slot.clone(), value];
        args.extend(places.slice.map(Value::Int4));
        args.extend(places.values);
        let function = match (plain.kind, places.slice) {
            (TypeKind::Jsonb, _) => &WITH_JSON,
            (_, Some(_)) => &WITH_SLICE,
            (_, None) => &WITH_ELEMENT,
        };
        let whole = fit((function.eval)(&args, cx.eval)?, &plain, &ty, cx.eval)?;
        *self.place_of(of)?.0 = whole;
        Ok(())
    }

    /// Returns a reference to the value of a variable or field, and its type.
    fn place_of(&mut self, of: &Target) -> Result<(&mut Value, Type), SqlError> {
        let none = || SqlError::internal("a part of no variable");
        match of {
            Target::Variable(variable) => match self.slots.0.get_mut(*variable) {
                Some(Slot::Value(value, ty)) => Ok((value, *ty)),
                _ => Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    "cannot subscript type record because it does not support subscripting",
                )),
            },
            Target::Field(row, field) => {
                let code = &self.body.code;
                let of = self.slots.row(code, *row)?;
                let at = of.field(code, *row, field)?;
                let Some(Slot::Row(Some(row))) = self.slots.0.get_mut(*row) else {
                    return Err(none());
                };
                row.values.resize(row.columns.len(), Value::Null);
                let ty = row.columns[at].1;
                Ok((&mut row.values[at], ty))
            }
            Target::Part(..) => Err(none()),
        }
    }

    async fn places(
        &mut self,
        subscripts: &[Subscript],
        cx: &mut Cx<'_>,
    ) -> Result<SubscriptValues, StatementStop> {
        let is_slice = |subscript: &Subscript| matches!(subscript, Subscript::Slice(..));
        let sliced = subscripts.iter().any(is_slice);
        let (mut values, mut left_out) = (Vec::new(), 0);
        for subscript in subscripts {
            let bounds = match subscript {
                Subscript::Index(index) if !sliced => {
                    values.push(self.place(*index, cx).await?);
                    continue;
                }
                // If another subscript is a slice, a single subscript means a slice from 1.
                Subscript::Index(index) => {
                    values.push(Value::Int4(1));
                    [Some(*index), None].into_iter().take(1)
                }
                Subscript::Slice(from, to) => [*from, *to].into_iter().take(2),
            };
            for bound in bounds {
                match bound {
                    Some(bound) => values.push(self.place(bound, cx).await?),
                    None => {
                        left_out |= 1 << values.len();
                        values.push(Value::Null);
                    }
                }
            }
        }
        Ok(SubscriptValues {
            values,
            slice: sliced.then_some(left_out),
        })
    }

    async fn place(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<Value, StatementStop> {
        let (value, ty) = self.value(index, cx).await?;
        Ok(fit(value, &ty, &Type::INT4, cx.eval)?)
    }

    async fn json_places(
        &mut self,
        subscripts: &[Subscript],
        cx: &mut Cx<'_>,
    ) -> Result<SubscriptValues, StatementStop> {
        let mut values = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let Subscript::Index(index) = subscript else {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    "jsonb subscript does not support slices",
                )
                .into());
            };
            let (value, ty) = self.value(*index, cx).await?;
            let to = match ty.kind {
                TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 => Type::INT4,
                _ => Type::TEXT,
            };
            values.push(fit(value, &ty, &to, cx.eval)?);
        }
        Ok(SubscriptValues {
            values,
            slice: None,
        })
    }
}
