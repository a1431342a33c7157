use std::sync::Arc;

use super::*;
use crate::context::EvalContext;
use crate::types::TypeKind;

fn around(snapshot: &Snapshot) -> Vec<(&'static str, usize)> {
    let cx = EvalContext::new(Arc::default(), 0, 0);
    let around = RowInputs {
        cursors: &[],
        prepared: &HashMap::new(),
        snapshot,
        cx: &cx,
        database: "postgres",
    };
    let of = |relation: &'static Relation| {
        let made = rows(relation, &around);
        let width = relation.columns.len();
        assert!(
            made.iter().all(|row| row.len() == width),
            "{}",
            relation.name
        );
        (relation.name, made.len())
    };
    Relation::all().iter().map(of).collect()
}

#[test]
fn catalog_describes_itself_and_rows_have_their_width() {
    let counts = around(&Snapshot::default());
    let of = |wanted: &str| {
        let mut counts = counts.iter();
        counts
            .find(|(name, _)| *name == wanted)
            .map(|(_, count)| *count)
    };
    assert_eq!(of("pg_class"), Some(Relation::all().len()));
    let columns = Relation::all()
        .iter()
        .map(|relation| relation.columns.len());
    assert_eq!(of("pg_attribute"), Some(columns.sum()));
    assert_eq!(of("pg_am"), Some(3));
    assert_eq!(of("pg_publication"), Some(0));
    for (relation, rows) in [
        ("pg_operator", 463),
        ("pg_cast", 167),
        ("pg_aggregate", 131),
        ("pg_opfamily", 49),
        ("pg_opclass", 65),
        ("pg_amop", 256),
        ("pg_amproc", 161),
    ] {
        assert_eq!(of(relation), Some(rows), "{relation}");
    }
}

#[test]
fn column_types_are_in_pg_type_under_their_oid() {
    let none = Snapshot::default();
    let cx = EvalContext::new(Arc::default(), 0, 0);
    let type_oid = |name: &str| type_oid(&none, name, &cx);
    let type_name = |oid: u32| type_name(&none, oid, &cx);
    let all = TypeKind::COLUMN_TYPES.into_iter();
    for kind in all.chain(TypeKind::OBJECT_TYPES) {
        assert_eq!(type_oid(kind.catalog_name()), Some(kind.oid()), "{kind}");
        assert_eq!(type_name(kind.oid()).as_deref(), Some(kind.name()));
        assert!(types::array_of(kind.oid()) != 0, "{kind}");
    }
    assert_eq!(type_oid("integer"), Some(23));
    assert_eq!(type_name(1007).as_deref(), Some("integer[]"));
    assert_eq!(Procedure::of(750).map(|of| of.name), Some("array_in"));
}
