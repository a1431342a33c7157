//! The times of the steps of reconfigurations on this machine, for monitoring.
//!
//! ```text
//! suspect ─ probe ─ config ─ apply ─► commit ─ drained ─ active ─ all active ─ refill ─ whole
//! └─ the configuration has no number yet ┘ └─ all of these are of the applied configuration
//! ```
//! For each step the first time is kept. A step is absent if this machine had no part in it. For
//! example, it suspected no machine, did not become the CM, or received no data.

use std::collections::VecDeque;

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::MachineId;

use super::ReconfigurationDriver;
use crate::machine::Machine;

/// Reconfigurations that are remembered.
const TIMELINES_MAX: usize = 16;

/// A step from the failure of a machine to the end of its repair, in order (SOSP'15 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A lease expired here.
    Suspect,
    /// This machine answered the probe of a candidate for the next CM, or sent the probe.
    Probe,
    /// The configuration was stored; recorded at its CM alone.
    Store,
    /// The configuration was applied.
    Apply,
    /// The configuration was committed: commits continue.
    Commit,
    /// The logs of all earlier configurations were drained.
    Drain,
    /// The regions whose primary this machine became were recovered.
    Active,
    /// The regions of all machines were recovered: all data can be used.
    AllActive,
    /// Data recovery began, if this machine lacks data.
    DataRecovery,
    /// Data recovery ended.
    Whole,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 10] = [
        Step::Suspect,
        Step::Probe,
        Step::Store,
        Step::Apply,
        Step::Commit,
        Step::Drain,
        Step::Active,
        Step::AllActive,
        Step::DataRecovery,
        Step::Whole,
    ];

    /// Returns the displayed name of the step.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Suspect => "suspect",
            Step::Probe => "probe",
            Step::Store => "config",
            Step::Apply => "apply",
            Step::Commit => "commit",
            Step::Drain => "drained",
            Step::Active => "active",
            Step::AllActive => "all-active",
            Step::DataRecovery => "data-recovery",
            Step::Whole => "whole",
        }
    }
}

impl Step {
    /// Returns the text of the step in the log.
    const fn happening(self) -> &'static str {
        match self {
            Step::Suspect => "a lease of a machine has expired, or its connection is lost",
            Step::Probe => "this machine has answered the probe",
            Step::Store => "stored",
            Step::Apply => "applied",
            Step::Commit => "committed: transactions commit again",
            Step::Drain => "the logs of earlier configurations are drained",
            Step::Active => "the regions of which this machine became the primary are recovered",
            Step::AllActive => "all regions are active",
            Step::DataRecovery => "data recovery begins",
            Step::Whole => "data recovery is complete",
        }
    }
}

/// The steps to one configuration, as this machine recorded them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Number of the configuration; `None` before it is applied.
    pub configuration: Option<u64>,
    times: [Option<u64>; Step::ALL.len()],
}

impl Timeline {
    /// Returns the time of a step in nanoseconds, by the clock of the machine's host.
    pub fn at_ns(&self, step: Step) -> Option<u64> {
        self.times[step as usize]
    }

    fn mark(&mut self, step: Step, now: u64) {
        let time = &mut self.times[step as usize];
        if time.is_none() {
            *time = Some(now);
            match self.configuration {
                Some(number) => tracing::info!("configuration {number}: {}", step.happening()),
                None => tracing::info!("next configuration: {}", step.happening()),
            }
        }
    }
}

/// The timelines of the last configurations, the newest last.
#[derive(Debug, Default)]
pub(super) struct Timelines(VecDeque<Timeline>);

impl Timelines {
    /// Records a step to a configuration that has no number yet.
    pub fn towards_next(&mut self, step: Step, now: u64) {
        if self
            .0
            .back()
            .is_none_or(|last| last.configuration.is_some())
        {
            if self.0.len() == TIMELINES_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Timeline::default());
        }
        if let Some(next) = self.0.back_mut() {
            next.mark(step, now);
        }
    }

    /// Records that a machine is suspected to have failed.
    pub fn suspect(&mut self, machine: MachineId, now: u64) {
        let machine = machine.0;
        tracing::warn!(machine, "machine {machine} is suspected to have failed");
        self.towards_next(Step::Suspect, now);
    }

    /// Gives the configuration number to the steps recorded so far.
    pub fn applied(&mut self, configuration: ConfigurationId, now: u64) {
        self.towards_next(Step::Apply, now);
        if let Some(next) = self.0.back_mut() {
            next.configuration = Some(configuration.0);
        }
    }

    /// Records a step after the last configuration was applied.
    pub fn since_applied(&mut self, step: Step, now: u64) {
        let mut applied = self.0.iter_mut().rev();
        if let Some(last) = applied.find(|timeline| timeline.configuration.is_some()) {
            last.mark(step, now);
        }
    }
}

impl ReconfigurationDriver {
    /// Returns the timelines of the last reconfigurations.
    fn timelines(&self) -> Vec<Timeline> {
        self.state.lock().timelines.0.iter().cloned().collect()
    }
}

impl Machine {
    /// Returns the timelines of the last reconfigurations on this machine, the newest last. Empty
    /// where failed machines are not replaced.
    pub fn timelines(&self) -> Vec<Timeline> {
        let driver = self.network().and_then(|network| network.driver.as_ref());
        driver.map_or_else(Vec::new, ReconfigurationDriver::timelines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_counts_once_for_the_configuration_it_leads_to() {
        let mut timelines = Timelines::default();
        timelines.since_applied(Step::Commit, 1);
        timelines.towards_next(Step::Suspect, 2);
        timelines.towards_next(Step::Suspect, 3);
        timelines.applied(ConfigurationId(7), 4);
        timelines.since_applied(Step::Commit, 5);
        timelines.towards_next(Step::Suspect, 6);
        // This step still belongs to the configuration in force.
        timelines.since_applied(Step::Drain, 7);
        timelines.applied(ConfigurationId(9), 8);
        timelines.since_applied(Step::Commit, 9);
        let all: Vec<_> = timelines.0.iter().collect();
        assert_eq!(all.len(), 2);
        let times = |at: usize| Step::ALL.map(|step| all[at].at_ns(step));
        assert_eq!(all[0].configuration, Some(7));
        let first = [Some(2), None, None, Some(4), Some(5), Some(7)];
        assert_eq!(times(0)[..6], first);
        assert_eq!(all[1].configuration, Some(9));
        assert_eq!(times(1)[..6], [Some(6), None, None, Some(8), Some(9), None]);
    }

    #[test]
    fn few_are_kept() {
        let mut timelines = Timelines::default();
        for id in 1..=100 {
            timelines.applied(ConfigurationId(id), id);
        }
        let kept = timelines.0.iter().map(|timeline| timeline.configuration);
        assert!(kept.eq((85..=100).map(Some)));
    }
}
