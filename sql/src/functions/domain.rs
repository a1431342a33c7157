//! The constraints of domains.

use crate::binder::domain_conditions;
use crate::bound::Expr;
use crate::context::EvalContext;
use crate::error::{ErrorFields, SqlError, SqlState};
use crate::types::Domain;
use crate::value::Value;

/// Checks a value of a domain's base type against the current definition of the domain. A plan can
/// contain an older definition.
///
/// # Errors
/// 23502 or 23514 if a constraint is violated.
pub fn check_domain(domain: Domain, value: &Value, cx: &EvalContext) -> Result<(), SqlError> {
    let now = cx.catalog().types().domain(domain.definition().id);
    check_rules(now.unwrap_or(domain), value, cx)
}

/// Checks a value against a definition that is known to be current; see [`check_domain`].
pub fn check_rules(domain: Domain, value: &Value, cx: &EvalContext) -> Result<(), SqlError> {
    if value.is_null() && domain.is_not_null() {
        return Err(null_refused(domain));
    }
    for level in domain.levels() {
        let checks = &level.definition().checks;
        for (check, condition) in checks.iter().zip(conditions(level, cx)?) {
            if !satisfies(condition, value, cx)? {
                return Err(refused(domain, &check.name));
            }
        }
    }
    Ok(())
}

/// Returns the conditions of a domain's own constraints, in their order.
pub fn conditions(domain: Domain, cx: &EvalContext) -> Result<&'static [Expr], SqlError> {
    domain.conditions(|| {
        let definition = domain.definition();
        let texts = definition.checks.iter().map(|check| check.text.as_str());
        domain_conditions(definition, texts, &*cx.catalog())
    })
}

/// Returns whether a value satisfies a condition: only false violates it, NULL does not.
pub fn satisfies(condition: &Expr, value: &Value, cx: &EvalContext) -> Result<bool, SqlError> {
    let row = std::slice::from_ref(value);
    Ok(super::eval(condition, row, &[], cx)? != Value::Bool(false))
}

/// Returns error 23502 for a domain that is NOT NULL.
#[cold]
fn null_refused(domain: Domain) -> SqlError {
    let definition = domain.definition();
    SqlError::from(ErrorFields {
        schema: Some(definition.schema.clone()),
        data_type: Some(definition.name.clone()),
        ..ErrorFields::new(
            SqlState::NOT_NULL_VIOLATION,
            format!(
                "domain {} does not allow null values",
                definition.display_name
            ),
        )
    })
}

/// Returns error 23514 for a violated check constraint.
#[cold]
fn refused(domain: Domain, constraint: &str) -> SqlError {
    let definition = domain.definition();
    SqlError::from(ErrorFields {
        schema: Some(definition.schema.clone()),
        data_type: Some(definition.name.clone()),
        constraint: Some(constraint.to_owned()),
        ..ErrorFields::new(
            SqlState::CHECK_VIOLATION,
            format!(
                "value for domain {} violates check constraint \"{constraint}\"",
                definition.display_name
            ),
        )
    })
}
