//! The statements that recreate roles, owners, privileges, comments and settings.

use std::sync::Arc;

use super::others::{relation_object, routine_name, type_kind};
use super::{Ddl, DdlKind, is_brought, is_permanent, list, qualified, quoted};
use crate::catalog::acl::{Acl, AclItem, PUBLIC, Privileges};
use crate::catalog::{
    CatalogView, DefaultAcl, Object, ObjectKind, RoleDef, RoutineKind, SETTINGS_OF_ALL,
    SUPERUSER_OID, Security, Snapshot, TableDef,
};
use crate::functions::quote_literal;
use crate::order::StableSort;
use crate::pg_catalog::{Constraint, class, namespace_name};
use crate::settings::Settings;
use crate::types::{Type, TypeKind, text_out};
use crate::value::Value;

/// Returns statements for the roles that users created, then for the memberships.
pub(super) fn roles(snapshot: &Snapshot, with_passwords: bool) -> Vec<Ddl> {
    let made = |role: &Arc<RoleDef>| !Security::is_predefined(role.id) && role.id != SUPERUSER_OID;
    let all = snapshot.roles();
    let security = snapshot.security();
    let of = |role: &RoleDef, text: String| Ddl::new(DdlKind::Role, "", &role.name, text);
    let own = all.iter().filter(|role| made(role));
    let mut ddl: Vec<Ddl> = own
        .map(|role| of(role, create_role(role, with_passwords)))
        .collect();
    for member in &all {
        for membership in &member.member_of {
            let text = format!(
                "GRANT {} TO {}{} GRANTED BY {}",
                quoted(&security.role_name(membership.role)),
                quoted(&member.name),
                if membership.admin {
                    " WITH ADMIN OPTION"
                } else {
                    ""
                },
                quoted(&security.role_name(membership.grantor))
            );
            ddl.push(of(member, text));
        }
    }
    for role in &all {
        let settings = role.settings.iter().filter(|of| of.database == 0);
        ddl.extend(settings.flat_map(|of| &of.settings).map(|(name, value)| {
            let (role_name, to) = (quoted(&role.name), setting(name, value));
            of(role, format!("ALTER ROLE {role_name} SET {to}"))
        }));
    }
    for role in &all {
        let settings = role.settings.iter();
        let settings = settings.filter(|of| of.database == SETTINGS_OF_ALL);
        ddl.extend(settings.flat_map(|of| &of.settings).map(|(name, value)| {
            let to = setting(name, value);
            of(role, format!("ALTER ROLE ALL SET {to}"))
        }));
    }
    for role in all.iter().filter(|role| made(role)) {
        if let Some(about) = security.about(Object::new(ObjectKind::Role, role.id)) {
            let comments = about.comments.iter();
            ddl.extend(comments.map(|(_, text)| {
                let name = quoted(&role.name);
                of(
                    role,
                    format!("COMMENT ON ROLE {name} IS {}", quote_literal(text)),
                )
            }));
        }
    }
    ddl
}

/// Returns the text after SET. A search path is a list of names already; other values are a single
/// literal.
fn setting(name: &str, value: &str) -> String {
    match name {
        "search_path" if !value.is_empty() => format!("{name} TO {value}"),
        _ => format!("{} TO {}", quoted(name), quote_literal(value)),
    }
}

fn create_role(role: &RoleDef, with_password: bool) -> String {
    let mut text = format!("CREATE ROLE {} WITH", quoted(&role.name));
    let may = [
        (role.superuser, "SUPERUSER"),
        (role.inherit, "INHERIT"),
        (role.create_role, "CREATEROLE"),
        (role.create_db, "CREATEDB"),
        (role.login, "LOGIN"),
        (role.replication, "REPLICATION"),
        (role.bypass_rls, "BYPASSRLS"),
    ];
    for (is, word) in may {
        text += if is { " " } else { " NO" };
        text += word;
    }
    if role.connections != -1 {
        text += &format!(" CONNECTION LIMIT {}", role.connections);
    }
    if let Some(verifier) = role.verifier.as_ref().filter(|_| with_password) {
        text += &format!(" PASSWORD {}", quote_literal(verifier));
    }
    if let Some(until) = role.valid_until {
        let mut limit = Vec::new();
        let (ty, settings) = (Type::of(TypeKind::TimestampTz), Settings::new());
        text_out(&Value::TimestampTz(until), &ty, &settings, &mut limit);
        text += &format!(" VALID UNTIL '{}'", String::from_utf8_lossy(&limit));
    }
    text
}

/// Returns statements for the owners, the privileges and the comments of objects.
pub(super) fn objects(snapshot: &Snapshot, tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let all = named(snapshot, tables);
    let mut ddl: Vec<Ddl> = all.iter().filter_map(|of| of.owned(snapshot)).collect();
    ddl.extend(all.iter().flat_map(|of| of.granted(snapshot)));
    ddl.extend(comments(snapshot, tables));
    ddl.extend(database(snapshot));
    let defaults = snapshot.security().defaults().iter();
    ddl.extend(defaults.flat_map(|of| default_acl(snapshot, of)));
    ddl
}

/// An object as statements refer to it.
struct NamedTarget {
    object: Object,
    /// The name of its kind in GRANT.
    granted_as: &'static str,
    /// The name of its kind in ALTER.
    altered_as: &'static str,
    schema: String,
    name: String,
    text: String,
    /// Whether its owner is that of another object.
    owned_elsewhere: bool,
}

fn named(snapshot: &Snapshot, tables: &[Arc<TableDef>]) -> Vec<NamedTarget> {
    let mut all = Vec::new();
    if snapshot.has_first_public() {
        all.push(NamedTarget::schema(
            "public",
            crate::pg_catalog::PUBLIC_NAMESPACE,
        ));
    }
    let schemas = snapshot.schemas().into_iter();
    let schemas = schemas.filter(|(name, _)| is_permanent(name));
    all.extend(schemas.map(|(name, id)| NamedTarget::schema(&name, id)));
    let types = snapshot.types().all();
    for ty in types.iter().filter(|ty| is_permanent(&ty.schema)) {
        let object = Object::new(ObjectKind::Type, ty.id);
        all.push(NamedTarget {
            object,
            granted_as: "TYPE",
            altered_as: type_kind(ty),
            schema: ty.schema.clone(),
            name: ty.name.clone(),
            text: qualified(&ty.schema, &ty.name),
            owned_elsewhere: snapshot.extension_of(object).is_some(),
        });
    }
    for routine in snapshot.all_routines() {
        let kind = match routine.kind {
            RoutineKind::Function => "FUNCTION",
            RoutineKind::Procedure => "PROCEDURE",
        };
        all.push(NamedTarget {
            object: Object::new(routine.kind.into(), routine.id),
            granted_as: kind,
            altered_as: kind,
            schema: routine.schema.clone(),
            name: routine.signature(),
            text: routine_name(snapshot, &routine),
            owned_elsewhere: is_brought(snapshot, &routine),
        });
    }
    let mut sequences: Vec<_> = snapshot.sequences().collect();
    sequences.order_by_key(|sequence| sequence.id);
    let mut views: Vec<_> = snapshot.views().collect();
    views.order_by_key(|view| view.id);
    let tables = tables
        .iter()
        .map(|table| (ObjectKind::Table, table.id, false));
    let views = views.iter().map(|view| (ObjectKind::View, view.id, false));
    let sequences = sequences.iter();
    let sequences = sequences.map(|of| (ObjectKind::Sequence, of.id, of.owner.is_some()));
    for (kind, id, owned_elsewhere) in tables.chain(views).chain(sequences) {
        let Some((altered_as, schema, name)) = relation_object(snapshot, id) else {
            continue;
        };
        all.push(NamedTarget {
            object: Object::new(kind, id),
            granted_as: match kind {
                ObjectKind::Sequence => "SEQUENCE",
                _ => "TABLE",
            },
            altered_as,
            text: qualified(&schema, &name),
            schema,
            name,
            owned_elsewhere,
        });
    }
    all.retain(|of| is_permanent(&of.schema));
    all
}

impl NamedTarget {
    fn schema(name: &str, id: u32) -> NamedTarget {
        NamedTarget {
            object: Object::new(ObjectKind::Schema, id),
            granted_as: "SCHEMA",
            altered_as: "SCHEMA",
            schema: name.to_owned(),
            name: name.to_owned(),
            text: quoted(name),
            owned_elsewhere: false,
        }
    }

    fn ddl(&self, text: String) -> Ddl {
        Ddl::new(DdlKind::About, &self.schema, &self.name, text)
    }

    /// Returns the statement for the owner. An existing schema such as `public` keeps its owner,
    /// unless another one is stored.
    fn owned(&self, snapshot: &Snapshot) -> Option<Ddl> {
        let security = snapshot.security();
        let said = security.about(self.object).and_then(|about| about.owner);
        let is_public = self.object.first_owner() != SUPERUSER_OID;
        if self.owned_elsewhere || (is_public && said.is_none()) {
            return None;
        }
        let owner = quoted(&security.role_name(security.owner(self.object)));
        let text = format!("ALTER {} {} OWNER TO {owner}", self.altered_as, self.text);
        Some(self.ddl(text))
    }

    /// Returns the statements for the privileges.
    fn granted(&self, snapshot: &Snapshot) -> Vec<Ddl> {
        let security = snapshot.security();
        let Some(about) = security.about(self.object) else {
            return Vec::new();
        };
        let owner = security.owner(self.object);
        let on = format!("ON {} {}", self.granted_as, self.text);
        let mut texts = Vec::new();
        if let Some(acl) = &about.acl {
            let first = self.object.first_acl(owner);
            texts.extend(grants(security, (acl, &first), owner, &on, ""));
        }
        let names = match self.object.kind {
            ObjectKind::Table | ObjectKind::View => snapshot.column_names(self.object.id),
            _ => Vec::new(),
        };
        for (column, acl) in &about.columns {
            let at = usize::try_from(*column).unwrap_or(0).wrapping_sub(1);
            if let Some(name) = names.get(at) {
                let column = format!(" ({})", quoted(name));
                texts.extend(grants(security, (acl, &Vec::new()), owner, &on, &column));
            }
        }
        texts.into_iter().map(|text| self.ddl(text)).collect()
    }
}

/// Returns statements that turn the list `first` into `acl`. Privileges that other roles than the
/// owner have granted are granted again by these roles.
fn grants(
    security: &Security,
    (acl, first): (&Acl, &Acl),
    owner: u32,
    on: &str,
    column: &str,
) -> Vec<String> {
    let name = |role: u32| match role {
        PUBLIC => "PUBLIC".to_owned(),
        role => quoted(&security.role_name(role)),
    };
    let mut texts = Vec::new();
    for item in first {
        texts.push(format!("REVOKE ALL {on} FROM {}", name(item.grantee)));
    }
    let mut grant = |item: &AclItem, privileges: Privileges, option: &str| {
        if privileges.is_none() {
            return;
        }
        let each = privileges.each().map(|(_, name)| format!("{name}{column}"));
        let to = name(item.grantee);
        let text = format!("GRANT {} {on} TO {to}{option}", list(each));
        texts.push(match item.grantor == owner {
            true => text,
            false => format!("SET ROLE {}; {text}; RESET ROLE", name(item.grantor)),
        });
    };
    for item in acl {
        grant(item, item.privileges.without(item.options), "");
        grant(item, item.options, " WITH GRANT OPTION");
    }
    texts
}

/// Returns statements for ALTER DEFAULT PRIVILEGES.
fn default_acl(snapshot: &Snapshot, of: &DefaultAcl) -> Vec<Ddl> {
    let security = snapshot.security();
    let objects = match of.kind {
        ObjectKind::Sequence => "SEQUENCES",
        ObjectKind::Function | ObjectKind::Procedure => "FUNCTIONS",
        ObjectKind::Type => "TYPES",
        ObjectKind::Schema => "SCHEMAS",
        _ => "TABLES",
    };
    let role = quoted(&security.role_name(of.role));
    let schema = (of.schema != 0)
        .then(|| namespace_name(snapshot, of.schema))
        .flatten();
    let (within, first) = match &schema {
        Some(schema) => (format!(" IN SCHEMA {}", quoted(schema)), Acl::new()),
        None => (String::new(), Object::new(of.kind, 0).first_acl(of.role)),
    };
    let begin = format!("ALTER DEFAULT PRIVILEGES FOR ROLE {role}{within} ");
    let all = grants(
        security,
        (&of.acl, &first),
        of.role,
        &format!("ON {objects}"),
        "",
    );
    let schema = schema.unwrap_or_default();
    let ddl = all
        .into_iter()
        .map(|text| Ddl::new(DdlKind::About, &schema, "", format!("{begin}{text}")));
    ddl.collect()
}

/// Returns statements for all comments, except those on roles and databases.
fn comments(snapshot: &Snapshot, tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let mut all = Vec::new();
    let mut say = |schema: &str, name: &str, on: String, text: &str| {
        let text = format!("COMMENT ON {on} IS {}", quote_literal(text));
        all.push(Ddl::new(DdlKind::About, schema, name, text));
    };
    for table in tables {
        let name = qualified(&table.schema, &table.name);
        for (column, text) in &table.rules.comments {
            let on = match (column, &table.materialized) {
                (Some(at), _) => format!("COLUMN {name}.{}", quoted(&table.columns[*at].name)),
                (None, Some(_)) => format!("MATERIALIZED VIEW {name}"),
                (None, None) => format!("TABLE {name}"),
            };
            say(&table.schema, &table.name, on, text);
        }
        for trigger in &table.rules.triggers {
            if let Some(text) = &trigger.comment {
                let on = format!("TRIGGER {} ON {name}", quoted(&trigger.name));
                say(&table.schema, &table.name, on, text);
            }
        }
    }
    for view in snapshot.views().filter(|view| is_permanent(&view.schema)) {
        let name = qualified(&view.schema, &view.name);
        for trigger in &view.more.triggers {
            if let Some(text) = &trigger.comment {
                let on = format!("TRIGGER {} ON {name}", quoted(&trigger.name));
                say(&view.schema, &view.name, on, text);
            }
        }
    }
    for about in snapshot.security().abouts() {
        for (column, text) in &about.comments {
            if let Some((schema, name, on)) =
                commented(snapshot, tables, (about.class, about.id), *column)
                && is_permanent(&schema)
            {
                say(&schema, &name, on, text);
            }
        }
    }
    all
}

/// Returns the schema and name of an object, and the way in which COMMENT ON refers to it or to a
/// column of it.
fn commented(
    snapshot: &Snapshot,
    tables: &[Arc<TableDef>],
    (of_class, id): (u32, u32),
    column: i16,
) -> Option<(String, String, String)> {
    match of_class {
        class::RELATION => {
            let (kind, schema, name) = relation_object(snapshot, id)?;
            let text = qualified(&schema, &name);
            let on = match usize::try_from(column).ok()?.checked_sub(1) {
                None => format!("{kind} {text}"),
                Some(at) => {
                    let column = snapshot.column_names(id).get(at).cloned()?;
                    format!("COLUMN {text}.{}", quoted(&column))
                }
            };
            Some((schema, name, on))
        }
        class::SCHEMA => {
            let name = namespace_name(snapshot, id)?;
            let on = format!("SCHEMA {}", quoted(&name));
            Some((name.clone(), name, on))
        }
        class::TYPE => {
            let ty = snapshot.types().with_oid(id)?;
            let on = format!("{} {}", type_kind(ty), qualified(&ty.schema, &ty.name));
            Some((ty.schema.clone(), ty.name.clone(), on))
        }
        class::ROUTINE => {
            let routine = snapshot.routine_by_id(id)?;
            let kind = routine.kind.name().to_ascii_uppercase();
            let on = format!("{kind} {}", routine_name(snapshot, &routine));
            Some((routine.schema.clone(), routine.signature(), on))
        }
        class::EXTENSION => {
            let of = snapshot.extension_by_id(id)?;
            let on = format!("EXTENSION {}", quoted(&of.name));
            Some((of.schema.clone(), of.name.clone(), on))
        }
        class::CONSTRAINT => constraint(tables, id),
        _ => None,
    }
}

fn constraint(tables: &[Arc<TableDef>], id: u32) -> Option<(String, String, String)> {
    tables.iter().find_map(|table| {
        let constraint = Constraint::all(table).find(|of| of.id() == id)?;
        let name = qualified(&table.schema, &table.name);
        let on = format!("CONSTRAINT {} ON {name}", quoted(constraint.name()));
        Some((table.schema.clone(), table.name.clone(), on))
    })
}

/// A placeholder for the name of the database into which the dump is restored.
const DATABASE: &str = "\u{1}";

/// Returns the statements about the database, with a placeholder for its name.
fn database(snapshot: &Snapshot) -> Vec<Ddl> {
    let security = snapshot.security();
    let object = security.database();
    let mut texts = Vec::new();
    if let Some(database) = snapshot.database_by_id(object.id) {
        for (name, value) in &database.settings {
            let to = setting(name, value);
            texts.push(format!("ALTER DATABASE {DATABASE} SET {to}"));
        }
    }
    for role in snapshot.roles() {
        let settings = role.settings.iter().filter(|of| of.database == object.id);
        for (name, value) in settings.flat_map(|of| &of.settings) {
            let (role, to) = (quoted(&role.name), setting(name, value));
            texts.push(format!("ALTER ROLE {role} IN DATABASE {DATABASE} SET {to}"));
        }
    }
    if let Some(about) = security.about(object) {
        let owner = security.owner(object);
        if about.owner.is_some() {
            let owner = quoted(&security.role_name(owner));
            texts.push(format!("ALTER DATABASE {DATABASE} OWNER TO {owner}"));
        }
        if let Some(acl) = &about.acl {
            let first = object.first_acl(owner);
            let on = format!("ON DATABASE {DATABASE}");
            texts.extend(grants(security, (acl, &first), owner, &on, ""));
        }
        for (_, text) in &about.comments {
            let text = quote_literal(text);
            texts.push(format!("COMMENT ON DATABASE {DATABASE} IS {text}"));
        }
    }
    let ddl = texts.into_iter().map(|text| {
        let text = text.replace('%', "%%").replace(DATABASE, "%I");
        let text = format!(
            "EXECUTE format({}, current_database());",
            quote_literal(&text)
        );
        let text = format!("DO {}", quote_literal(&format!("BEGIN {text} END")));
        Ddl::new(DdlKind::About, "", "", text)
    });
    ddl.collect()
}
