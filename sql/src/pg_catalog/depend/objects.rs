//! Dependencies of types, routines, views and extensions.

use super::super::routines::{PLPGSQL_LANGUAGE, result_oid};
use super::{AUTO, Dependencies, EXTENSION, INTERNAL, NORMAL, class, rule_oid};
use crate::binder::{References, VisibleColumns};
use crate::catalog::{ExtensionDef, Language, RoutineDef, TypeDef, UserType, ViewDef};
use crate::types::composites::{ROW_ARRAY, ROW_TYPE};
use crate::types::{Composite, Domain};

impl Dependencies<'_, '_> {
    pub(super) fn user_type(&mut self, ty: &TypeDef) {
        let of = (class::TYPE, ty.id, 0);
        self.in_schema(of, &ty.schema);
        if let Some(array) = ty.array_id() {
            self.add((class::TYPE, array, 0), of, INTERNAL);
        }
        match ty.of {
            UserType::Domain(domain) => self.domain(domain),
            UserType::Composite(composite) => self.composite(composite),
            UserType::Enum(_) | UserType::Citext(_) => {}
        }
    }

    fn domain(&mut self, domain: Domain) {
        let definition = domain.definition();
        let of = (class::TYPE, definition.id, 0);
        self.of_type(of, definition.base);
        let schema = definition.schema.as_str();
        if let Some(default) = &definition.default {
            let place = (schema, VisibleColumns::Nothing);
            self.expression(of, default, place, Some(definition.base));
        }
        for check in &definition.checks {
            let rule = (class::CONSTRAINT, check.id, 0);
            self.add(rule, of, AUTO);
            let place = (schema, VisibleColumns::Domain(domain.root()));
            self.expression(rule, &check.text, place, None);
        }
    }

    fn composite(&mut self, composite: Composite) {
        let definition = composite.definition();
        let relation = (class::RELATION, definition.relation, 0);
        self.add(relation, (class::TYPE, definition.id, 0), INTERNAL);
        for field in &definition.fields {
            let attribute = i16::try_from(field.place).unwrap_or(i16::MAX - 1) + 1;
            let part = (class::RELATION, definition.relation, attribute);
            self.of_type(part, field.ty);
        }
    }

    pub(super) fn routine(&mut self, routine: &RoutineDef) {
        let of = (class::ROUTINE, routine.id, 0);
        self.in_schema(of, &routine.schema);
        let mut signature = References::new();
        if routine.language == Language::PlPgSql {
            signature.insert((class::LANGUAGE, PLPGSQL_LANGUAGE, 0));
        }
        let result = routine.result.ty;
        let types = routine.args.iter().map(|arg| arg.ty);
        let result = Some(result).filter(|ty| ty.oid() == result_oid(routine));
        for ty in types.chain(result).filter(|ty| ty.kind.is_users()) {
            signature.insert((class::TYPE, ty.oid(), 0));
        }
        self.normal(of, &signature);
        let mut defaults = References::new();
        for arg in routine.inputs() {
            let place = (routine.schema.as_str(), VisibleColumns::Nothing);
            let text = arg.default.as_deref();
            let on = text.and_then(|text| self.reader.references(text, place, Some(arg.ty)));
            defaults.extend(on.unwrap_or_default());
        }
        self.normal(of, &defaults);
        if routine.atomic {
            let body = self.reader.body_references(routine);
            self.normal(of, &body.unwrap_or_default());
        }
    }

    /// Adds the dependencies of a view, except those of its query.
    pub(super) fn view(&mut self, view: &ViewDef) {
        let relation = (class::RELATION, view.id, 0);
        self.in_schema(relation, &view.schema);
        self.row_type(view.id, (view.id | ROW_TYPE, view.id | ROW_ARRAY));
        let table = view.as_table();
        for column in &table.columns {
            self.of_type((class::RELATION, view.id, column.attnum), column.ty);
            self.default(&table, column);
        }
        self.triggers(&table);
    }

    /// Adds the dependencies of the query of a view or materialized view.
    pub(super) fn rule(&mut self, view: &ViewDef) {
        let rule = (class::RULE, rule_oid(view.id), 0);
        let relation = (class::RELATION, view.id, 0);
        self.add(rule, relation, INTERNAL);
        self.add(rule, relation, NORMAL);
        let on = self.reader.view_references(view).unwrap_or_else(|| {
            let tables = view.tables.iter().chain(&view.views);
            let types = view.types.iter().map(|id| (class::TYPE, *id, 0));
            let tables = tables.map(|id| (class::RELATION, *id, 0));
            tables.chain(types).collect()
        });
        self.normal(rule, &on);
    }

    pub(super) fn extension(&mut self, extension: &ExtensionDef) {
        let of = (class::EXTENSION, extension.id, 0);
        if extension.is_built_in() {
            let language = (class::LANGUAGE, PLPGSQL_LANGUAGE, 0);
            self.add(language, of, EXTENSION);
        } else {
            self.in_schema(of, &extension.schema);
        }
        for (class, id) in &extension.members {
            self.add((*class, *id, 0), of, EXTENSION);
        }
    }
}
