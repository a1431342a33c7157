//! The binary form of views. They are stored in the tables tree.

use super::bytes::{Reader, Writer};
use super::{GUARDS_MAX, corrupt, trigger};
use crate::catalog::guard::Guards;
use crate::catalog::snapshot::Snapshot;
use crate::catalog::view::{ViewDef, ViewMore};
use crate::error::SqlError;
use crate::types::Type;

/// The format of views.
pub(super) const VIEW_FORMAT: u8 = 0x4c;
/// The format of views without guards.
pub(super) const VIEW_FORMAT_NO_GUARDS: u8 = 0x48;
/// The format of views without guards that consist of a query only.
pub(super) const VIEW_FORMAT_PLAIN: u8 = 0x44;
/// The format of views from versions without user-defined types.
pub(super) const VIEW_FORMAT_NO_TYPES: u8 = 0x41;

/// Returns the binary form of a view's definition.
pub fn encode_view(view: &ViewDef) -> Vec<u8> {
    let mut out = Writer(vec![VIEW_FORMAT]);
    out.u32(view.id);
    out.text(&view.schema);
    out.text(&view.name);
    out.u32(view.columns.len() as u32);
    for (name, ty) in &view.columns {
        out.text(name);
        out.u32(ty.kind.oid());
        out.u32(ty.typmod as u32);
    }
    out.text(&view.text);
    out.list(view.tables.iter().copied());
    out.list(view.views.iter().copied());
    out.list(view.types.iter().copied());
    let more = &view.more;
    out.u32(more.options.len() as u32);
    for (name, value) in &more.options {
        out.text(name);
        out.text(value);
    }
    out.u32(more.defaults.len() as u32);
    for (column, text) in &more.defaults {
        out.u32(*column as u32);
        out.text(text);
    }
    trigger::encode(&more.triggers, &mut out);
    out.u64(view.version);
    out.u32(view.guards.raw().len() as u32);
    view.guards.raw().iter().for_each(|guard| out.u64(*guard));
    out.0
}

/// Reads the properties besides the query of a view with `width` columns.
fn read_view_more(input: &mut Reader<'_>, width: usize) -> Option<ViewMore> {
    let mut more = ViewMore::default();
    for _ in 0..input.u32()? {
        more.options.push((input.text()?, input.text()?));
    }
    for _ in 0..input.u32()? {
        let column = Some(input.u32()? as usize).filter(|column| *column < width)?;
        more.defaults.push((column, input.text()?));
    }
    more.triggers = trigger::read(input, width)?;
    Some(more)
}

/// Returns whether the bytes are a view's definition.
pub fn is_view(bytes: &[u8]) -> bool {
    let formats = [
        VIEW_FORMAT,
        VIEW_FORMAT_NO_GUARDS,
        VIEW_FORMAT_PLAIN,
        VIEW_FORMAT_NO_TYPES,
    ];
    bytes.first().is_some_and(|first| formats.contains(first))
}

/// Decodes a view's definition.
pub fn decode_view(bytes: &[u8], around: &Snapshot) -> Result<ViewDef, SqlError> {
    read_view(&mut Reader(bytes), around).ok_or_else(corrupt)
}

fn read_view(input: &mut Reader<'_>, around: &Snapshot) -> Option<ViewDef> {
    let (has_types, has_more, has_guards) = match input.u8()? {
        VIEW_FORMAT => (true, true, true),
        VIEW_FORMAT_NO_GUARDS => (true, true, false),
        VIEW_FORMAT_PLAIN => (true, false, false),
        VIEW_FORMAT_NO_TYPES => (false, false, false),
        _ => return None,
    };
    let id = input.u32()?;
    let schema = input.text()?;
    let name = input.text()?;
    let mut columns = Vec::new();
    for _ in 0..input.u32()? {
        let name = input.text()?;
        let ty = Type {
            kind: around.types().kind(input.u32()?)?,
            typmod: input.u32()? as i32,
        };
        columns.push((name, ty));
    }
    let width = columns.len();
    let mut view = ViewDef {
        id,
        schema,
        name,
        columns,
        text: input.text()?,
        tables: input.list()?,
        views: input.list()?,
        types: match has_types {
            true => input.list()?,
            false => Vec::new(),
        },
        more: match has_more {
            true => read_view_more(input, width)?,
            false => ViewMore::default(),
        },
        version: 0,
        guards: Guards::none(),
    };
    if has_guards {
        view.version = input.u64()?;
        let count = Some(input.u32()?).filter(|count| *count <= GUARDS_MAX)?;
        let guards: Option<Vec<u64>> = (0..count).map(|_| input.u64()).collect();
        view.guards = Guards::at(guards?)?;
    }
    input.0.is_empty().then_some(view)
}
