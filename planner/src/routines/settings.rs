//! Settings that apply within a routine: the SET clauses of CREATE FUNCTION, and settings that a
//! body changes.
//!
//! The evaluator has its settings behind a shared reference. So code with other settings runs with
//! another context ([`EvalContext::under`]), which ends with [`EvalContext::resume`].

use fencepost_sql::catalog::RoutineDef;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;

/// Returns the context of a routine with SET clauses.
pub fn settings_of(routine: &RoutineDef, eval: &EvalContext) -> Result<EvalContext, SqlError> {
    let mut settings = eval.settings_now()?;
    for (name, value) in &routine.settings {
        settings.set(name, value)?;
    }
    Ok(eval.under(settings))
}
