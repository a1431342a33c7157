//! The names of PostgreSQL functions that are not supported. A call of one reports 0A000 instead of
//! "function does not exist".

/// Prefixes of the names of unsupported functions.
#[rustfmt::skip]
const PREFIXES: [&str; 25] = [
    "binary_upgrade_", "brin_", "database_to_xml", "gin_", "json_to_ts", "jsonb_to_ts", "lo_",
    "pg_backup_", "pg_control_", "pg_event_trigger_", "pg_logical_", "pg_ls_", "pg_replication_",
    "pg_snapshot_", "pg_stat_get_", "pg_wal", "pg_xact_", "query_to_xml", "schema_to_xml",
    "table_to_xml", "ts_", "tsquery_", "txid_snapshot_", "xml", "cursor_to_xml",
];

/// The names of other unsupported functions, sorted.
#[rustfmt::skip]
const NAMES: [&str; 159] = [
    "aclexplode", "area", "array_to_tsvector", "box", "center", "circle", "current_query",
    "currtid2", "datemultirange", "daterange", "diagonal", "diameter", "get_current_ts_config",
    "getpgusername", "has_foreign_data_wrapper_privilege", "has_language_privilege",
    "has_parameter_privilege", "has_server_privilege", "has_tablespace_privilege", "height",
    "inet_client_addr", "inet_client_port", "inet_server_addr", "inet_server_port",
    "int4multirange", "int4range", "int8multirange", "int8range", "isclosed", "isempty",
    "ishorizontal", "isopen", "isparallel", "isperp", "isvertical", "jsonb_path_exists_tz",
    "jsonb_path_match_tz", "jsonb_path_query_array_tz", "jsonb_path_query_first_tz",
    "jsonb_path_query_tz", "line", "loread", "lower_inc", "lower_inf", "lowrite", "lseg",
    "macaddr8_set7bit", "makeaclitem", "multirange", "mxid_age", "npoints", "numeric_exp",
    "numeric_ln", "numeric_log", "numeric_sqrt", "nummultirange", "numnode", "numrange",
    "oidvectortypes", "overlaps", "path", "pclose", "pg_available_extension_versions",
    "pg_available_extensions", "pg_collation_actual_version", "pg_collation_for", "pg_config",
    "pg_copy_logical_replication_slot", "pg_copy_physical_replication_slot",
    "pg_create_logical_replication_slot", "pg_create_physical_replication_slot",
    "pg_create_restore_point", "pg_current_snapshot", "pg_current_wal_flush_lsn",
    "pg_current_wal_insert_lsn", "pg_current_wal_lsn", "pg_current_xact_id",
    "pg_current_xact_id_if_assigned", "pg_cursor", "pg_database_collation_actual_version",
    "pg_drop_replication_slot", "pg_encoding_max_length", "pg_extension_config_dump",
    "pg_extension_update_paths", "pg_filenode_relation", "pg_get_backend_memory_contexts",
    "pg_get_catalog_foreign_keys", "pg_get_function_arg_default", "pg_get_multixact_members",
    "pg_get_object_address", "pg_get_publication_tables", "pg_get_replication_slots",
    "pg_get_shmem_allocations", "pg_get_statisticsobjdef_expressions",
    "pg_get_wal_replay_pause_state", "pg_get_wal_resource_managers", "pg_hba_file_rules",
    "pg_ident_file_mappings", "pg_identify_object", "pg_identify_object_as_address",
    "pg_import_system_collations", "pg_is_wal_replay_paused", "pg_last_committed_xact",
    "pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn", "pg_lock_status",
    "pg_log_backend_memory_contexts", "pg_mcv_list_items", "pg_prepared_statement",
    "pg_prepared_xact", "pg_promote", "pg_read_binary_file", "pg_read_file",
    "pg_settings_get_flags", "pg_show_all_file_settings", "pg_show_all_settings",
    "pg_show_replication_origin_status", "pg_stat_file", "pg_stat_have_stats",
    "pg_stat_reset_replication_slot", "pg_stat_reset_single_function_counters",
    "pg_stat_reset_slru", "pg_stat_reset_subscription_stats", "pg_switch_wal",
    "pg_tablespace_databases", "pg_timezone_abbrevs", "pg_timezone_names", "pg_visible_in_snapshot",
    "phraseto_tsquery", "plainto_tsquery", "point", "polygon", "popen", "querytree", "radius",
    "range_agg", "range_intersect_agg", "range_merge", "satisfies_hash_partition", "setweight",
    "similar_escape", "slope", "strip", "to_ascii", "to_tsquery", "to_tsvector", "tsmultirange",
    "tsrange", "tstzmultirange", "tstzrange", "tsvector_to_array", "txid_current_snapshot",
    "txid_visible_in_snapshot", "upper_inc", "upper_inf", "websearch_to_tsquery", "width", "xpath",
    "xpath_exists",
];

/// Returns whether a name belongs to an unsupported function.
pub(crate) fn is_elsewhere(name: &str) -> bool {
    let begins = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    begins || NAMES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{NAMES, is_elsewhere};

    #[test]
    fn names_are_in_order_and_found() {
        assert!(NAMES.is_sorted());
        assert!(is_elsewhere("to_tsvector") && is_elsewhere("lo_create"));
        assert!(!is_elsewhere("lower") && !is_elsewhere("nowhere"));
    }
}
