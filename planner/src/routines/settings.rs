//! Settings that hold within a routine: SET of CREATE FUNCTION, and what a body has set itself.
//!
//! Evaluation has its settings behind a shared reference, so what runs under others has surroundings of its own
//! ([`EvalContext::under`]), which end in [`EvalContext::resume`].

use fencepost_sql::catalog::RoutineDef;
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;

/// The surroundings of a routine that has settings.
pub fn settings_of(routine: &RoutineDef, eval: &EvalContext) -> Result<EvalContext, SqlError> {
    let mut settings = eval.settings_now()?;
    for (name, value) in &routine.settings {
        settings.set(name, value)?;
    }
    Ok(eval.under(settings))
}
