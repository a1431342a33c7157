//! The order of steps: one after the other, up to the first that fails.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::error::{CiError, StepError, StepResult};
use super::times::Times;

/// A step, with the state `C` that steps share.
pub struct Step<C> {
    /// The name on the command line.
    pub name: &'static str,
    /// The line above its output.
    pub title: &'static str,
    /// The function that takes it.
    pub run: fn(&mut C) -> StepResult,
}

/// Returns the named steps, or all if none is named, in the order of `steps`.
pub fn select<'a, C>(steps: &'a [Step<C>], names: &[String]) -> Result<Vec<&'a Step<C>>, CiError> {
    let is_unknown = |name: &&String| steps.iter().all(|step| step.name != **name);
    if let Some(name) = names.iter().find(is_unknown) {
        return Err(CiError::UnknownStep(name.clone()));
    }
    let is_named = |step: &&Step<C>| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(steps.iter().filter(is_named).collect())
}

/// Runs steps in their order, and returns the name and failure of the first that fails.
///
/// `clock` returns the time since the start of the run.
pub fn run<C>(
    steps: &[&Step<C>],
    context: &mut C,
    times: &Mutex<Times>,
    clock: impl Fn() -> Duration,
) -> Option<(&'static str, StepError)> {
    let times = || times.lock().unwrap_or_else(PoisonError::into_inner);
    for step in steps {
        times().begin(step.title, clock());
        println!("\n== {}", step.title);
        let result = (step.run)(context);
        times().end(clock());
        if let Err(error) = result {
            return Some((step.name, error));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The steps that ran, by name.
    type Log = Vec<&'static str>;

    fn first(log: &mut Log) -> StepResult {
        log.push("first");
        Ok(())
    }

    fn failing(log: &mut Log) -> StepResult {
        log.push("failing");
        Err(StepError::Findings)
    }

    fn last(log: &mut Log) -> StepResult {
        log.push("last");
        Ok(())
    }

    const fn step(name: &'static str, run: fn(&mut Log) -> StepResult) -> Step<Log> {
        Step {
            name,
            title: name,
            run,
        }
    }

    const STEPS: &[Step<Log>] = &[
        step("first", first),
        step("failing", failing),
        step("last", last),
    ];

    /// The outcome of a run whose clock advances by a second at each look.
    struct Outcome {
        log: Log,
        failed: Option<&'static str>,
        summary: String,
    }

    fn run_named(names: &[&str]) -> Outcome {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let steps = select(STEPS, &names).unwrap();
        let seconds = Cell::new(0);
        let clock = || Duration::from_secs(seconds.replace(seconds.get() + 1));
        let times = Mutex::new(Times::default());
        let mut log = Log::new();
        let failure = run(&steps, &mut log, &times, clock);
        let summary = times.lock().unwrap().summary(Duration::from_secs(9));
        Outcome {
            log,
            failed: failure.map(|(name, _)| name),
            summary,
        }
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_list() {
        let outcome = run_named(&["last", "first", "last"]);
        assert_eq!(outcome.log, ["first", "last"]);
        assert_eq!(outcome.failed, None);
        assert_eq!(outcome.summary, "1 s  first\n1 s  last\n9 s  in all");
    }

    #[test]
    fn failure_stops_the_run_and_is_reported_with_times() {
        let outcome = run_named(&[]);
        assert_eq!(outcome.log, ["first", "failing"]);
        assert_eq!(outcome.failed, Some("failing"));
        assert_eq!(outcome.summary, "1 s  first\n1 s  failing\n9 s  in all");
    }

    #[test]
    fn unknown_step_is_refused() {
        let error = select(STEPS, &["tets".to_owned()]).err().unwrap();
        assert!(matches!(error, CiError::UnknownStep(name) if name == "tets"));
    }
}
