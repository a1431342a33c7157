//! The oids of the system catalogs that contain objects: the class of an object.

/// `pg_default_acl`
pub const DEFAULT_ACL: u32 = 826;
/// `pg_type`
pub const TYPE: u32 = 1247;
/// `pg_proc`
pub const ROUTINE: u32 = 1255;
/// `pg_class`
pub const RELATION: u32 = 1259;
/// `pg_authid`
pub const ROLE: u32 = 1260;
/// `pg_database`
pub const DATABASE: u32 = 1262;
/// `pg_attrdef`
pub const DEFAULT: u32 = 2604;
/// `pg_constraint`
pub const CONSTRAINT: u32 = 2606;
/// `pg_namespace`
pub const SCHEMA: u32 = 2615;
/// `pg_language`
pub const LANGUAGE: u32 = 2612;
/// `pg_extension`
pub const EXTENSION: u32 = 3079;
/// `pg_rewrite`
pub const RULE: u32 = 2618;
