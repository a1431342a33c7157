//! What depends on what, and the rules that views are: pg_dump writes things in an order that this allows.

use super::objects::{expression, part_oid, sequences_of};
use super::routines::PLPGSQL_LANGUAGE;
use super::rows::Rows;
use super::{Around, class, namespace_oid};
use crate::value::Value;

/// The kinds of dependencies.
const NORMAL: &str = "n";
const AUTO: &str = "a";
const INTERNAL: &str = "i";
const EXTENSION: &str = "e";

/// An object: its class, its oid, and which part of it.
type Object = (u32, u32, i16);

/// `pg_depend`: what columns' defaults read, which sequences go with columns, what views read, and what is an extension's.
pub fn dependencies(rows: &mut Rows, around: &Around<'_>) {
    let mut add = |(class, id, part): Object, on: Object, kind: &str| {
        rows.add([
            ("classid", Value::Oid(class)),
            ("objid", Value::Oid(id)),
            ("objsubid", Value::Int4(i32::from(part))),
            ("refclassid", Value::Oid(on.0)),
            ("refobjid", Value::Oid(on.1)),
            ("refobjsubid", Value::Int4(i32::from(on.2))),
            ("deptype", Value::text(kind)),
        ]);
    };
    for table in around.snapshot.tables() {
        for column in &table.columns {
            let of = (class::RELATION, table.id, column.attnum);
            let more = &column.more;
            if let Some(sequence) = more.sequence {
                let kind = match more.identity {
                    Some(_) => INTERNAL,
                    None => AUTO,
                };
                add((class::RELATION, sequence, 0), of, kind);
            }
            if expression(column).is_none() {
                continue;
            }
            let default = (class::DEFAULT, part_oid(table.id, column.attnum), 0);
            let kind = match more.generated {
                Some(_) => INTERNAL,
                None => AUTO,
            };
            add(default, of, kind);
            for sequence in sequences_of(around.snapshot, &table, column.default.as_ref()) {
                add(default, (class::RELATION, sequence.id, 0), NORMAL);
            }
        }
    }
    for domain in around
        .snapshot
        .types()
        .all()
        .iter()
        .filter_map(|ty| ty.as_domain())
    {
        let definition = domain.definition();
        let of = (class::TYPE, definition.id, 0);
        let base = definition.base.kind;
        let base = base.element().unwrap_or(base);
        if base.is_users() {
            add(of, (class::TYPE, base.oid(), 0), NORMAL);
        }
        for check in &definition.checks {
            add((class::CONSTRAINT, check.id, 0), of, AUTO);
        }
    }
    for ty in around.snapshot.types().all() {
        let Some(of) = ty.as_composite().map(|of| of.definition()) else {
            continue;
        };
        let relation = (class::RELATION, of.relation, 0);
        add(relation, (class::TYPE, of.id, 0), INTERNAL);
        for field in &of.fields {
            let kind = field.ty.kind;
            let kind = kind.element().unwrap_or(kind);
            if kind.is_users() {
                let attribute = i16::try_from(field.place).unwrap_or(i16::MAX - 1) + 1;
                let part = (class::RELATION, of.relation, attribute);
                add(part, (class::TYPE, kind.oid(), 0), NORMAL);
            }
        }
    }
    for extension in around.snapshot.extensions() {
        let of = (class::EXTENSION, extension.id, 0);
        if extension.is_built_in() {
            add((class::LANGUAGE, PLPGSQL_LANGUAGE, 0), of, EXTENSION);
        } else if let Some(schema) = namespace_oid(around.snapshot, &extension.schema) {
            add(of, (class::SCHEMA, schema, 0), NORMAL);
        }
        for (class, id) in &extension.members {
            add((*class, *id, 0), of, EXTENSION);
        }
    }
    for view in around.snapshot.queries() {
        let rule = (class::RULE, rule_oid(view.id), 0);
        add(rule, (class::RELATION, view.id, 0), INTERNAL);
        for read in view.tables.iter().chain(&view.views) {
            add(rule, (class::RELATION, *read, 0), NORMAL);
        }
    }
}

/// `pg_rewrite`: each view is a rule.
pub fn rules(rows: &mut Rows, around: &Around<'_>) {
    for view in around.snapshot.queries() {
        rows.add([
            ("oid", Value::Oid(rule_oid(view.id))),
            ("rulename", Value::text("_RETURN")),
            ("ev_class", Value::Oid(view.id)),
            ("ev_type", Value::text("1")),
            ("ev_enabled", Value::text("O")),
            ("is_instead", Value::Bool(true)),
        ]);
    }
}

fn rule_oid(view: u32) -> u32 {
    part_oid(view, 0)
}
