//! The binary form of triggers, at the end of the definition of their table.

use super::super::trigger::{ConstraintTrigger, Events, Timing, TriggerDef, TriggerState};
use super::bytes::{Reader, Writer};

pub(super) fn encode(triggers: &[TriggerDef], out: &mut Writer) {
    out.u32(triggers.len() as u32);
    for trigger in triggers {
        out.u32(trigger.id);
        out.text(&trigger.name);
        out.u32(trigger.function);
        out.0.push(match trigger.timing {
            Timing::Before => 0,
            Timing::After => 1,
            Timing::Instead => 2,
        });
        out.0.push(trigger.events.bits());
        out.list(trigger.columns.iter().map(|c| *c as u32));
        out.flag(trigger.row);
        out.optional(trigger.condition.as_deref());
        for name in &trigger.transition {
            out.optional(name.as_deref());
        }
        out.u32(trigger.args.len() as u32);
        trigger.args.iter().for_each(|arg| out.text(arg));
        let mut all = (0..).zip(TriggerState::ALL);
        let enabled = all.find(|(_, enabled)| *enabled == trigger.enabled);
        out.0.push(enabled.map_or(0, |(byte, _)| byte));
        out.flag(trigger.constraint.is_some());
        if let Some(constraint) = &trigger.constraint {
            out.u32(constraint.from.unwrap_or(0));
            out.flag(constraint.deferrable);
            out.flag(constraint.deferred);
        }
        out.optional(trigger.comment.as_deref());
    }
}

/// Reads the triggers of a table with `width` columns.
pub(super) fn read(input: &mut Reader<'_>, width: usize) -> Option<Vec<TriggerDef>> {
    let mut triggers = Vec::new();
    for _ in 0..input.u32()? {
        let id = input.u32()?;
        let name = input.text()?;
        let function = input.u32()?;
        let timing = match input.u8()? {
            0 => Timing::Before,
            1 => Timing::After,
            2 => Timing::Instead,
            _ => return None,
        };
        let events = Events::of_bits(input.u8()?)?;
        let columns = input.positions()?;
        if columns.iter().any(|column| *column >= width) {
            return None;
        }
        triggers.push(TriggerDef {
            id,
            name,
            function,
            timing,
            events,
            columns,
            row: input.flag()?,
            condition: input.optional()?,
            transition: [input.optional()?, input.optional()?],
            args: (0..input.u32()?)
                .map(|_| input.text())
                .collect::<Option<_>>()?,
            enabled: *TriggerState::ALL.get(usize::from(input.u8()?))?,
            constraint: match input.flag()? {
                false => None,
                true => Some(ConstraintTrigger {
                    from: Some(input.u32()?).filter(|id| *id != 0),
                    deferrable: input.flag()?,
                    deferred: input.flag()?,
                }),
            },
            comment: input.optional()?,
        });
    }
    Some(triggers)
}
