//! The frames of rows: their bounds, with offsets, and the rows that EXCLUDE leaves.

use std::cmp::Ordering;
use std::ops::Range;

use fencepost_sql::bound::{Exclude, Frame, FrameBound, FrameOffset, FrameUnit};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::sort_compare;
use fencepost_sql::types::calendar::DAY_US;
use fencepost_sql::value::Value;

use super::super::cx::Cx;
use super::partition::{Bounds, WindowPartition};

impl Bounds {
    pub(super) fn new(frame: &Frame, cx: &Cx<'_>) -> Result<Bounds, SqlError> {
        let offset = |bound: &FrameBound, which: &str| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => {
                let value = cx.value_here(&offset.by, &[])?;
                check_offset(&value, frame.unit, which)?;
                Ok::<Value, SqlError>(value)
            }
            _ => Ok(Value::Null),
        };
        Ok(Bounds {
            start: offset(&frame.start, "starting")?,
            end: offset(&frame.end, "ending")?,
        })
    }
}

fn check_offset(value: &Value, unit: FrameUnit, which: &str) -> Result<(), SqlError> {
    if value.is_null() {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            format!("frame {which} offset must not be null"),
        ));
    }
    let negative = match value {
        Value::Float4(v) => *v < 0.0,
        Value::Float8(v) => *v < 0.0,
        Value::Numeric(v) => v.is_sign_negative() && !v.is_zero(),
        other => other.as_int().is_some_and(|v| v < 0),
    };
    if negative {
        return Err(SqlError::new(
            SqlState::INVALID_FRAME_OFFSET,
            match unit {
                FrameUnit::Range => {
                    "invalid preceding or following size in window function".to_owned()
                }
                FrameUnit::Rows | FrameUnit::Groups => {
                    format!("frame {which} offset must not be negative")
                }
            },
        ));
    }
    Ok(())
}

impl WindowPartition<'_> {
    /// Returns the frame of the row at `at` without the excluded rows, as ordered pieces that may
    /// be empty.
    pub(super) fn pieces(&self, at: usize, cx: &Cx<'_>) -> Result<[Range<usize>; 3], SqlError> {
        let frame = self.frame(at, cx)?;
        let (hole, kept) = match self.call.frame.exclude {
            Exclude::NoOthers => (frame.end..frame.end, 0..0),
            Exclude::Current => (at..at + 1, 0..0),
            Exclude::Group => (self.peers(at), 0..0),
            Exclude::Ties => (self.peers(at), at..at + 1),
        };
        let within = |piece: Range<usize>| {
            let start = piece.start.max(frame.start);
            start..piece.end.min(frame.end).max(start)
        };
        Ok([
            within(frame.start..hole.start),
            within(kept),
            within(hole.end..frame.end),
        ])
    }

    /// Returns the frame of the row at `at`.
    pub(super) fn frame(&self, at: usize, cx: &Cx<'_>) -> Result<Range<usize>, SqlError> {
        let frame = &self.call.frame;
        let count = self.order.len();
        let start = match &frame.start {
            FrameBound::First => 0,
            FrameBound::Last => count,
            FrameBound::Current => match frame.unit {
                FrameUnit::Rows => at,
                FrameUnit::Range | FrameUnit::Groups => self.peers(at).start,
            },
            FrameBound::Preceding(offset) => {
                self.bound(at, (-1, offset, &self.bounds.start), true, cx)?
            }
            FrameBound::Following(offset) => {
                self.bound(at, (1, offset, &self.bounds.start), true, cx)?
            }
        };
        let end = match &frame.end {
            FrameBound::First => 0,
            FrameBound::Last => count,
            FrameBound::Current => match frame.unit {
                FrameUnit::Rows => at + 1,
                FrameUnit::Range | FrameUnit::Groups => self.peers(at).end,
            },
            FrameBound::Preceding(offset) => {
                self.bound(at, (-1, offset, &self.bounds.end), false, cx)?
            }
            FrameBound::Following(offset) => {
                self.bound(at, (1, offset, &self.bounds.end), false, cx)?
            }
        };
        Ok(start..end.max(start))
    }

    /// Returns the position of a bound with an offset: the first row inside (`start`), or the first
    /// row beyond.
    fn bound(
        &self,
        at: usize,
        (direction, offset, by): (i64, &FrameOffset, &Value),
        start: bool,
        cx: &Cx<'_>,
    ) -> Result<usize, SqlError> {
        let count = self.order.len();
        let far = |from: usize| {
            let by = by.as_int().unwrap_or(0);
            (from as i64).saturating_add(direction.saturating_mul(by))
        };
        match self.call.frame.unit {
            FrameUnit::Rows => {
                let place = far(at).saturating_add(i64::from(!start));
                Ok(usize::try_from(place).unwrap_or(0).min(count))
            }
            FrameUnit::Groups => {
                let first = self.sorted.groups[self.first];
                let last = self.sorted.groups[self.first + count - 1];
                let group = far(self.sorted.groups[self.first + at] as usize);
                if group < i64::from(first) {
                    return Ok(0);
                }
                if group > i64::from(last) {
                    return Ok(count);
                }
                let range = self.group(group as usize);
                Ok(if start { range.start } else { range.end })
            }
            FrameUnit::Range => {
                let keys = &self.sorted.keys[self.first..self.first + count];
                let (Some(value), Some((_, desc, nulls_first))) =
                    (&offset.value, self.call.order_by.first())
                else {
                    return Ok(at);
                };
                if keys[at].is_null() {
                    let peers = self.peers(at);
                    return Ok(if start { peers.start } else { peers.end });
                }
                // In 128 bits, no sum of integers overflows.
                if let (Some(key), Some(by)) = (keys[at].as_int(), by.as_int()) {
                    let (key, by) = (i128::from(key), i128::from(by));
                    let bound = match (direction < 0) != *desc {
                        true => key - by,
                        false => key + by,
                    };
                    let within = |key: &Value| {
                        let key = key.as_int().map(i128::from);
                        let ordering = match (key, *desc) {
                            (Some(key), true) => bound.cmp(&key),
                            (Some(key), false) => key.cmp(&bound),
                            (None, _) if *nulls_first => Ordering::Less,
                            (None, _) => Ordering::Greater,
                        };
                        match start {
                            true => ordering.is_lt(),
                            false => ordering.is_le(),
                        }
                    };
                    return Ok(keys.partition_point(within));
                }
                let bound = cx.value_here(value, &[keys[at].clone(), by.clone()])?;
                let within = |key: &Value| {
                    let wide = as_wide(key, &bound);
                    let key = wide.as_ref().unwrap_or(key);
                    let ordering = sort_compare(key, &bound, *desc, *nulls_first);
                    match start {
                        true => ordering.is_lt(),
                        false => ordering.is_le(),
                    }
                };
                Ok(keys.partition_point(within))
            }
        }
    }
}

/// Converts a key to the type of key plus offset, if that differs from the key's type.
fn as_wide(key: &Value, bound: &Value) -> Option<Value> {
    match (key, bound) {
        (Value::Date(day), Value::Timestamp(_)) => Some(Value::Timestamp(match *day {
            i32::MIN => i64::MIN,
            i32::MAX => i64::MAX,
            day => i64::from(day).saturating_mul(DAY_US),
        })),
        (Value::Float4(key), Value::Float8(_)) => Some(Value::Float8(f64::from(*key))),
        _ => None,
    }
}
