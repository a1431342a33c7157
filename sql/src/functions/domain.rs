//! What a domain asks of its values.

use crate::binder::domain_conditions;
use crate::bound::Expr;
use crate::context::EvalContext;
use crate::error::{ErrorFields, SqlError, SqlState};
use crate::types::Domain;
use crate::value::Value;

/// 23502 or 23514 where a value of a domain's root is no value of the domain, as the domain is now: what names a domain
/// may be older than its rules.
pub fn check_domain(domain: Domain, value: &Value, cx: &EvalContext) -> Result<(), SqlError> {
    let now = cx.catalog().types().domain(domain.definition().id);
    check_rules(now.unwrap_or(domain), value, cx)
}

/// The same for the rules of a definition that is known to be the newest.
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

/// The conditions of a domain's own constraints, in their order.
pub fn conditions(domain: Domain, cx: &EvalContext) -> Result<&'static [Expr], SqlError> {
    domain.conditions(|| {
        let definition = domain.definition();
        let texts = definition.checks.iter().map(|check| check.text.as_str());
        domain_conditions(definition, texts, &*cx.catalog())
    })
}

/// A condition is broken by what is false; NULL will do.
pub fn satisfies(condition: &Expr, value: &Value, cx: &EvalContext) -> Result<bool, SqlError> {
    let row = std::slice::from_ref(value);
    Ok(super::eval(condition, row, &[], cx)? != Value::Bool(false))
}

/// 23502
#[cold]
fn null_refused(domain: Domain) -> SqlError {
    let definition = domain.definition();
    SqlError::from(ErrorFields {
        schema: Some(definition.schema.clone()),
        data_type: Some(definition.name.clone()),
        ..ErrorFields::new(
            SqlState::NOT_NULL_VIOLATION,
            format!("domain {} does not allow null values", definition.shown),
        )
    })
}

/// 23514
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
                definition.shown
            ),
        )
    })
}
