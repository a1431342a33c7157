//! CREATE, ALTER and DROP of functions and procedures, and CALL.

use std::sync::Arc;

use super::polymorphic_types::{ConcreteTypes, check_determined, has_any};
use super::routine_body::{bind_body, invalid, parsed_body};
use super::routine_signature::{check_any, check_records};
use super::{Binder, names};
use crate::bound::{
    AlterRoutine, CreateRoutine, DropRoutine, SettingChange, Statement, Volatility,
};
use crate::catalog::{Language, Planning, RoutineDef, RoutineKind};
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident;
use crate::parser::{self, Attributes, Body, RoutineChange, RoutineName, RoutineSyntax};
use crate::plpgsql;
use crate::settings::{Settings, display_name, is_list};
use crate::types::Type;

const TRIGGER_ARGUMENTS_HINT: &str =
    "The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead.";

impl Binder<'_> {
    pub(super) fn routine(&mut self, syntax: &RoutineSyntax) -> Result<Statement, SqlError> {
        match syntax {
            RoutineSyntax::Create(create) => self.create_routine(create),
            RoutineSyntax::Drop(drop) => {
                let mut bound = DropRoutine {
                    kind: drop.kind,
                    routines: Vec::new(),
                    missing: Vec::new(),
                    cascade: drop.cascade,
                };
                for name in &drop.routines {
                    match self.named_routine(name, drop.kind)? {
                        Ok(routine) => bound.routines.push(routine),
                        Err(error) if drop.if_exists => {
                            let missing = error.message().to_owned();
                            bound.missing.push(missing.replace(" does not exist", ""));
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(Statement::DropRoutine(bound))
            }
            RoutineSyntax::Alter(alter) => {
                let routine = self.named_routine(&alter.routine, alter.kind)??;
                if let RoutineChange::Schema(schema) = &alter.change {
                    self.schema_for(Some(schema.clone()))?;
                }
                let mut settings = routine.settings.clone();
                let mut planning = routine.planning;
                if let RoutineChange::Attributes {
                    settings: all,
                    attributes,
                } = &alter.change
                {
                    settings = self.settings_after(&settings, all)?;
                    planning = planning_after(planning, attributes, routine.result.set)?;
                }
                Ok(Statement::AlterRoutine(AlterRoutine {
                    kind: alter.kind,
                    routine,
                    change: alter.change.clone(),
                    settings,
                    planning,
                }))
            }
            RoutineSyntax::Call(function) => {
                Ok(Statement::Call(Box::new(self.procedure_call(function)?)))
            }
        }
    }

    /// Returns the settings of a routine after these changes.
    fn settings_after(
        &self,
        before: &[(String, String)],
        changes: &[SettingChange],
    ) -> Result<Vec<(String, String)>, SqlError> {
        let mut all = before.to_vec();
        for change in changes {
            let (name, value) = match change {
                SettingChange::ResetAll => {
                    all.clear();
                    continue;
                }
                SettingChange::Set(name, value) => (name, value.clone()),
                SettingChange::SetCurrent(name) => (name, self.cx.setting(name)),
            };
            let of_transaction = name.starts_with("transaction_");
            if of_transaction || matches!(name.as_str(), "role" | "session_authorization") {
                let what = format!("SET {name} of a function");
                return Err(SqlError::unsupported(what));
            }
            let setting_name = display_name(name);
            let place = all.iter().position(|(of, _)| of == setting_name);
            let mut trial = Settings::new();
            let Some(mut value) = value else {
                trial.reset(name)?;
                if let Some(place) = place {
                    all.remove(place);
                }
                continue;
            };
            if is_list(name) && !value.contains(',') && !value.starts_with('"') {
                value = quote_ident(&value);
            }
            trial.set(name, &value)?;
            match place {
                Some(place) => all[place].1 = value,
                None => all.push((setting_name.to_owned(), value)),
            }
        }
        Ok(all)
    }

    /// Returns the routine that DROP or ALTER names, or the error that it does not exist.
    pub(super) fn named_routine(
        &mut self,
        name: &RoutineName,
        kind: Option<RoutineKind>,
    ) -> Result<Result<Arc<RoutineDef>, SqlError>, SqlError> {
        let what = kind.map_or("routine", RoutineKind::name);
        let qualified = names::qualified_name(name.schema.as_deref(), &name.name);
        let mut found = self.catalog.routines(name.schema.as_deref(), &name.name);
        let mut types = None;
        if let Some(args) = &name.args {
            let mut kinds = Vec::new();
            for arg in args {
                if arg.mode.is_input() {
                    kinds.push(self.value_type(&arg.ty)?.kind);
                }
            }
            found.retain(|routine| routine.input_kinds() == kinds);
            let list: Vec<String> = kinds.iter().map(|k| Type::of(*k).name()).collect();
            types = Some(list.join(", "));
        }
        let of_kind = |routine: &Arc<RoutineDef>| kind.is_none_or(|kind| kind == routine.kind);
        let right: Vec<_> = found.iter().filter(|r| of_kind(r)).cloned().collect();
        Ok(match (right.as_slice(), found.first(), types) {
            ([one], ..) => Ok(Arc::clone(one)),
            ([first, ..], _, Some(_)) => Ok(Arc::clone(first)),
            ([_, ..], _, None) => {
                let message = format!("{what} name \"{qualified}\" is not unique");
                let hint = format!("Specify the argument list to select the {what} unambiguously.");
                Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint))
            }
            ([], Some(other), _) => {
                let message = format!("{} is not a {what}", other.signature());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            ([], None, types) => {
                let message = match types {
                    Some(types) => format!("{what} {qualified}({types}) does not exist"),
                    None if kind == Some(RoutineKind::Procedure) => {
                        format!("could not find a procedure named \"{qualified}\"")
                    }
                    None => format!("could not find a {what} named \"{qualified}\""),
                };
                Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
            }
        })
    }

    fn create_routine(&mut self, create: &parser::CreateRoutine) -> Result<Statement, SqlError> {
        let schema = self.schema_for(create.schema.clone())?;
        let language = match (create.language.as_deref(), &create.body) {
            (Some("sql"), _) | (None, Some(Body::Sql(_))) => Language::Sql,
            (Some("plpgsql"), _) => Language::PlPgSql,
            (None, _) => return Err(invalid("no language specified")),
            (Some(other @ ("c" | "internal")), _) => {
                return Err(SqlError::unsupported(format!("language {other}")));
            }
            (Some(other), _) => {
                let message = format!("language \"{other}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        };
        let mut args = self.routine_args(&create.args)?;
        check_records(&args, language)?;
        let result = self.result_of(create, &mut args)?;
        check_determined(&args, &result)?;
        let (body, atomic) = match &create.body {
            None => return Err(invalid("no function body specified")),
            Some(Body::Text(text)) => (text.clone(), false),
            Some(Body::Sql(text)) => (text.clone(), true),
        };
        if atomic && language != Language::Sql {
            let message = "inline SQL function body only valid for language SQL";
            return Err(invalid(message));
        }
        if result.trigger && !args.is_empty() {
            return Err(invalid("trigger functions cannot have declared arguments")
                .hint(TRIGGER_ARGUMENTS_HINT));
        }
        let said = &create.attributes;
        let planning = planning_after(Planning::of(result.set), said, result.set)?;
        let bound = CreateRoutine {
            or_replace: create.or_replace,
            schema,
            name: create.name.clone(),
            kind: create.kind,
            language,
            args,
            result,
            volatility: said.volatility.unwrap_or(Volatility::Volatile),
            strict: said.strict.unwrap_or(false),
            definer: said.definer.unwrap_or(false),
            planning,
            body,
            atomic,
            settings: self.settings_after(&[], &create.settings)?,
        };
        check_any(language, &bound.args, &bound.result)?;
        let checked = self.cx.setting("check_function_bodies");
        let own = match bound.settings.is_empty() {
            true => None,
            false => {
                let mut settings = self.cx.settings_now()?;
                for (name, value) in &bound.settings {
                    settings.set(name, value)?;
                }
                Some(self.cx.under(settings))
            }
        };
        let cx = own.as_ref().unwrap_or(self.cx);
        if checked.as_deref() != Some("off") {
            match language {
                Language::Sql => {
                    if bound.result.trigger {
                        return Err(invalid("SQL functions cannot return type trigger"));
                    }
                    let body = (bound.body.as_str(), bound.atomic);
                    let signature = (bound.name.as_str(), &bound.args[..], &bound.result);
                    let read = match has_any(&bound.args, &bound.result) {
                        true => parsed_body(body).map(|_| ()),
                        false => bind_body(body, signature, self.catalog, cx).map(|_| ()),
                    };
                    let calls_itself = || parser::calls(&bound.body, &bound.name);
                    match read {
                        // Privileges are checked for the caller of the function, when it is called.
                        Err(error) if error.sqlstate() == SqlState::INSUFFICIENT_PRIVILEGE => {}
                        // A recursive function is bound once it is in the catalog.
                        Err(error)
                            if error.sqlstate() == SqlState::UNDEFINED_FUNCTION
                                && calls_itself() => {}
                        read => read?,
                    }
                }
                Language::PlPgSql => {
                    let example = ConcreteTypes::EXAMPLE.signature(&bound.args, &bound.result)?;
                    let header = plpgsql::Header {
                        name: &bound.name,
                        args: &example.0,
                        result: &example.1,
                        procedure: bound.kind == RoutineKind::Procedure,
                        polymorphic: bound.result.ty.kind.is_polymorphic(),
                    };
                    plpgsql::compile(&bound.body, header, self.catalog, cx)?;
                }
                // No user statement can declare a function in C.
                Language::C => {}
            }
        }
        Ok(Statement::CreateRoutine(Box::new(bound)))
    }
}

/// Returns the planner hints of a routine after this statement; 22023 for ROWS of a routine that
/// returns no set.
fn planning_after(before: Planning, said: &Attributes, set: bool) -> Result<Planning, SqlError> {
    if said.rows.is_some() && !set {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "ROWS is not applicable when function does not return a set",
        ));
    }
    Ok(Planning {
        leakproof: said.leakproof.unwrap_or(before.leakproof),
        parallel: said.parallel.unwrap_or(before.parallel),
        cost: said.cost.unwrap_or(before.cost),
        rows: said.rows.unwrap_or(before.rows),
    })
}
