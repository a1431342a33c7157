//! Tests that definitions survive encoding and decoding, and that damaged bytes are refused.

use super::super::trigger::{ConstraintTrigger, Events, Timing, TriggerDef, TriggerState};
use super::*;
use crate::catalog::{Bound, Edge, HierarchyPosition, PartitionKey, PartitionOf, Strategy};
use crate::catalog::{CheckDef, Collation, ForeignKeyDef, KeyOptions, Referential, Storage};
use crate::catalog::{Membership, RoleDef, RoleSettings, ViewDef, ViewMore};
use crate::value::Value;

fn table() -> TableDef {
    TableDef {
        id: 16384,
        schema: "public".into(),
        name: "accounts".into(),
        columns: vec![ColumnDef {
            name: "a".into(),
            ty: Type::varchar(10),
            not_null: true,
            default: Some("'x'".into()),
            attnum: 1,
            more: ColumnMore::default(),
        }],
        indexes: vec![IndexDef {
            id: 16385,
            name: "accounts_pkey".into(),
            kind: IndexKind::Hash,
            unique: true,
            primary: true,
            constraint: true,
            columns: vec![IndexColumn {
                column: 0,
                desc: true,
                nulls_first: false,
            }],
            more: IndexMore::default(),
            roots: Roots::One(77),
        }],
        partitioning: None,
        hierarchy: None,
        materialized: None,
        rules: TableRules::default(),
        version: 9,
        guards: Guards::at([88, 89]).expect("two"),
    }
}

fn partitioned() -> TableDef {
    let mut table = table();
    table.partitioning = Some(Partitioning {
        column: 0,
        kind: TypeKind::VarChar,
        count: 3,
        group: 16384,
    });
    table.indexes[0].roots = Roots::Each([7, 8, 9].into());
    table
}

/// Returns a partitioned table that is itself a partition.
fn between() -> TableDef {
    let mut table = table();
    table.indexes[0].roots = Roots::Each([].into());
    table.hierarchy = Some(Box::new(HierarchyPosition {
        key: Some(PartitionKey {
            strategy: Strategy::Hash,
            columns: vec![0],
        }),
        of: Some(PartitionOf {
            parent: 16380,
            bound: Bound::Range {
                from: vec![Edge::Min, Edge::Value(Value::text("m"))],
                to: vec![Edge::Value(Value::Int8(7)), Edge::Max],
            },
            links: vec![(16385, 16381)],
        }),
        tree: None,
    }));
    table
}

#[test]
fn partition_hierarchies_round_trip() {
    let around = Snapshot::default();
    let mut bounds = vec![between()];
    for bound in [
        Bound::Default,
        Bound::List(vec![Value::Null, Value::text("a"), Value::Bool(true)]),
        Bound::Hash {
            modulus: 4,
            remainder: 3,
        },
    ] {
        let mut leaf = table();
        let of = PartitionOf {
            parent: 16380,
            bound,
            links: Vec::new(),
        };
        leaf.hierarchy = Some(Box::new(HierarchyPosition {
            of: Some(of),
            ..HierarchyPosition::default()
        }));
        bounds.push(leaf);
    }
    for table in bounds {
        let bytes = encode_table(&table);
        assert_eq!(decode_table(&bytes, &around).ok(), Some(table));
        for length in 0..bytes.len() {
            assert!(decode_table(&bytes[..length], &around).is_err());
        }
    }
}

fn ruled() -> TableDef {
    let mut table = table();
    table.columns[0].more = ColumnMore {
        generated: Some("a".into()),
        identity: Some(Identity::ByDefault),
        sequence: Some(17),
        missing: Some(Value::text("before")),
        domain: None,
        collation: Collation::Posix,
    };
    let text = "a <> ''".to_owned();
    let condition = index_condition(&table, &text, &Snapshot::default()).expect("it binds");
    table.indexes[0].more = IndexMore {
        deferrable: None,
        nulls_equal: true,
        include: vec![0],
        predicate: Some(Predicate { text, condition }),
        expressions: vec![IndexExpression {
            name: "lower".into(),
            value: index_expression(&table, "lower(a)", &Snapshot::default()).expect("it binds"),
            text: "lower(a)".into(),
        }],
        looks: vec![
            KeyOptions {
                collation: Some(Collation::C),
                class: None,
            },
            KeyOptions {
                collation: None,
                class: Some("text_pattern_ops".into()),
            },
        ],
        options: vec![("fillfactor".into(), "70".into())],
    };
    table.indexes[0].columns.push(IndexColumn {
        column: EXPRESSION,
        desc: false,
        nulls_first: false,
    });
    table.rules = TableRules {
        checks: vec![CheckDef {
            id: 1,
            name: "c".into(),
            text: "a > 'b'".into(),
            valid: false,
            no_inherit: true,
        }],
        foreign_keys: vec![ForeignKeyDef {
            id: 2,
            name: "f".into(),
            columns: vec![0],
            parent: 16384,
            parent_columns: vec![0],
            index: 16385,
            on_delete: Referential::SetDefault,
            delete_columns: vec![0],
            on_update: Referential::Cascade,
            full: true,
            deferrable: true,
            valid: false,
            unchecked: true,
            inert: true,
            deferred: false,
        }],
        referenced_by: vec![16384],
        comments: vec![(None, "t".into()), (Some(0), "c".into())],
        triggers: vec![TriggerDef {
            id: 3,
            name: "g".into(),
            function: 16390,
            timing: Timing::After,
            events: Events::of_bits(5).expect("two events"),
            columns: vec![0],
            row: true,
            condition: Some("new.a > 'b'".into()),
            transition: [Some("was".into()), None],
            args: vec!["x".into(), String::new()],
            enabled: TriggerState::Always,
            constraint: Some(ConstraintTrigger {
                from: Some(16384),
                deferrable: true,
                deferred: false,
            }),
            comment: Some("often".into()),
        }],
        storage: Storage {
            options: vec![("autovacuum_enabled".into(), "false".into())],
            unlogged: true,
        },
    };
    table
}

#[test]
fn definitions_come_back() {
    for table in [table(), partitioned(), ruled()] {
        let bytes = encode_table(&table);
        assert_eq!(
            decode_table(&bytes, &Snapshot::default()).expect("it decodes"),
            table
        );
        for cut in 0..bytes.len() {
            assert!(decode_table(&bytes[..cut], &Snapshot::default()).is_err());
        }
    }
    let role = RoleDef {
        superuser: true,
        verifier: Some("SCRAM".into()),
        connections: 7,
        valid_until: Some(-5),
        member_of: vec![Membership {
            role: 16384,
            admin: true,
            grantor: 10,
        }],
        settings: vec![RoleSettings {
            database: 5,
            settings: vec![("work_mem".into(), "8MB".into())],
        }],
        ..RoleDef::new(10, "postgres")
    };
    let bytes = encode_role(&role);
    assert_eq!(decode_role(&bytes).expect("it decodes"), role);
    for cut in 0..bytes.len() {
        assert!(decode_role(&bytes[..cut]).is_err());
    }
}

#[test]
fn sequences_come_back() {
    let sequence = SequenceDef {
        id: 16400,
        schema: "public".into(),
        name: "s".into(),
        kind: TypeKind::Int2,
        start: -5,
        increment: -1,
        min: -32768,
        max: -1,
        cache: 7,
        cycle: true,
        owner: Some(16384),
        cell: 99,
    };
    let bytes = encode_sequence(&sequence);
    assert!(is_sequence(&bytes) && !is_sequence(&encode_table(&table())));
    assert_eq!(decode_sequence(&bytes).expect("it decodes"), sequence);
    for cut in 0..bytes.len() {
        assert!(decode_sequence(&bytes[..cut]).is_err());
    }
}

#[test]
fn schemas_come_back() {
    let bytes = encode_schema(7, "s");
    let read = |bytes: &[u8]| decode_schema(bytes);
    assert_eq!(read(&bytes).expect("it decodes"), Some(("s".into(), 7)));
    assert!(read(&bytes[..bytes.len() - 1]).is_err());
    assert_eq!(read(&encode_table(&table())).expect("another"), None);
}

#[test]
fn views_come_back() {
    let view = ViewDef {
        id: 16401,
        schema: "public".into(),
        name: "v".into(),
        columns: vec![("a".into(), Type::varchar(7)), ("b".into(), Type::INT8)],
        text: "SELECT 'x', 1".into(),
        tables: vec![16384, 16390],
        views: Vec::new(),
        types: vec![16402],
        more: ViewMore::default(),
        version: 9,
        guards: Guards::at([88, 89]).expect("two"),
    };
    let with_more = ViewDef {
        more: ViewMore {
            options: vec![("check_option".into(), "local".into())],
            defaults: vec![(1, "7".into())],
            triggers: vec![TriggerDef {
                id: 5,
                name: "i".into(),
                function: 16390,
                timing: Timing::Instead,
                events: Events::of_bits(1).expect("an event"),
                columns: Vec::new(),
                row: true,
                condition: None,
                transition: [None, None],
                args: Vec::new(),
                enabled: TriggerState::Origin,
                constraint: None,
                comment: None,
            }],
        },
        ..view.clone()
    };
    for view in [view, with_more] {
        let bytes = encode_view(&view);
        assert!(is_view(&bytes) && !is_view(&encode_table(&table())));
        assert_eq!(
            decode_view(&bytes, &Snapshot::default()).expect("it decodes"),
            view
        );
        for cut in 0..bytes.len() {
            assert!(decode_view(&bytes[..cut], &Snapshot::default()).is_err());
        }
    }
}

#[test]
fn tables_of_earlier_formats_are_still_read() {
    for format in [1, 2] {
        // Format 2 has a flag in both places that tells that there are no partitions.
        let no_partitions = |old: &mut Vec<u8>| old.extend((format == 2).then_some(0));
        let mut old = vec![format];
        old.extend(16384u32.to_le_bytes());
        for text in ["public", "accounts"] {
            old.extend((text.len() as u32).to_le_bytes());
            old.extend(text.as_bytes());
        }
        old.extend(9u64.to_le_bytes());
        old.extend(88u64.to_le_bytes());
        no_partitions(&mut old);
        old.extend([1, 0, 0, 0, 1, 0, 0, 0, b'a']);
        old.extend(1043u32.to_le_bytes());
        old.extend(14u32.to_le_bytes());
        old.extend([1, 1, 3, 0, 0, 0]);
        old.extend(b"'x'");
        old.extend(1u32.to_le_bytes());
        old.extend(16385u32.to_le_bytes());
        old.extend(13u32.to_le_bytes());
        old.extend(b"accounts_pkey");
        old.extend([1, 1, 1, 1]);
        no_partitions(&mut old);
        old.extend(77u64.to_le_bytes());
        old.extend([1, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let mut expected = table();
        expected.guards = Guards::at([88]).expect("one");
        assert_eq!(
            decode_table(&old, &Snapshot::default()).expect("it decodes"),
            expected
        );
    }
}

#[test]
fn roots_that_do_not_fit_the_partitions_are_refused() {
    let mut one_root = partitioned();
    one_root.indexes[0].roots = Roots::One(7);
    let mut none = partitioned();
    none.partitioning = None;
    let mut too_many = partitioned();
    too_many.indexes[0].roots = Roots::Each([7, 8, 9, 10].into());
    for table in [one_root, none, too_many] {
        assert!(decode_table(&encode_table(&table), &Snapshot::default()).is_err());
    }
}

#[test]
fn materialized_views_come_back() {
    let mut view = table();
    view.materialized = Some(Box::new(Materialized {
        text: "SELECT 1".to_owned(),
        tables: vec![20_000, 20_001],
        views: vec![20_002],
        types: Vec::new(),
        populated: true,
    }));
    let bytes = encode_table(&view);
    let known = Snapshot::default();
    assert_eq!(decode_table(&bytes, &known).expect("a definition"), view);
    for end in 0..bytes.len() {
        assert!(decode_table(&bytes[..end], &known).is_err(), "{end} bytes");
    }
    let as_view = view.as_view().expect("a materialized view");
    assert!(as_view.reads(20_001) && as_view.reads(20_002) && !as_view.reads(view.id));
}
