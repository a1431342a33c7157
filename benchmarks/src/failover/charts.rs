//! The charts of a report. One run around the kill is drawn like Figures 9 and 10 of SOSP'15. The
//! whole run is drawn like Figure 11, and all runs like Figure 12.

use fencepost_txn::network::Step;

use super::Run;
use super::buckets::BUCKET_NS;
use super::drawing::{BLUE, ChartCanvas, GREY};

/// The time shown before the kill, in milliseconds.
const BEFORE: f64 = 50.0;
/// The number of buckets that are combined to one value in the chart of the whole run.
const COARSE: usize = 10;

/// The steps that are drawn: whether at the time of the first (false) or the last machine (true),
/// and the colour.
const SHOWN: [(Step, bool, &str); 9] = [
    (Step::Suspect, false, "#c0392b"),
    (Step::Probe, false, "#d9822b"),
    (Step::Store, true, "#c9a800"),
    (Step::Apply, true, "#7a9a01"),
    (Step::Commit, true, "#2e8b57"),
    (Step::Drain, true, "#1a9ba1"),
    (Step::AllActive, true, "#3b6fd4"),
    (Step::DataRecovery, false, "#7d4fc4"),
    (Step::Whole, true, "#c44fa0"),
];

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns the top of the throughput axis, in thousands per second.
fn top(values: &[f64]) -> f64 {
    let most = values.iter().fold(0.0, |most: f64, value| most.max(*value));
    (most * 1.05).max(1.0)
}

/// Returns the throughput in buckets of `together` milliseconds, in thousands per second, which is
/// commits per millisecond.
fn rates(counts: &[u64], together: usize) -> Vec<f64> {
    let sums = counts.chunks_exact(together);
    sums.map(|counts| counts.iter().sum::<u64>() as f64 / together as f64)
        .collect()
}

fn marks(drawing: &mut ChartCanvas, run: &Run) {
    drawing.mark(0.0, "#111", "kill");
    let suspected = run.steps.get(&Step::Suspect).map(|(first, _)| *first);
    for (step, last, colour) in SHOWN {
        let Some(times) = run.steps.get(&step) else {
            continue;
        };
        let at = if last { times.1 } else { times.0 };
        let since_kill = ms(at) - ms(run.killed_ns);
        let words = match suspected.filter(|_| step != Step::Suspect) {
            Some(suspected) => format!("{} +{:.1} ms", step.name(), ms(at) - ms(suspected)),
            None => format!("{} {since_kill:.1} ms", step.name()),
        };
        drawing.mark(since_kill, colour, &words);
    }
    if let Some(served) = run.recovery.suspicion_to_served {
        drawing.note(BLUE, &format!("80 % +{served:.1} ms"));
    }
    drawing.level(run.recovery.before, "before");
    drawing.level(run.recovery.before * 0.8, "80 %");
}

/// Draws the time from shortly before the kill until the recovery.
pub(super) fn around_the_kill(title: &str, run: &Run) -> String {
    let killed = ms(run.killed_ns);
    let last = ms(run.counts.len() as u64 * BUCKET_NS) - killed;
    let over = run.recovery.kill_to_served.unwrap_or(last);
    let until = (1.6 * over).max(100.0).min(last.max(1.0));
    let first = (run.killed_ns / BUCKET_NS).saturating_sub(BEFORE as u64) as usize;
    let end = ((killed + until) as usize).min(run.counts.len());
    let rate_points = rates(&run.counts[first.min(end)..end], 1);
    let x = ("milliseconds after the kill", (-BEFORE, until));
    let y = ("commits in a millisecond", (0.0, top(&rate_points)));
    let mut drawing = ChartCanvas::new(title, x, y);
    drawing.steps(first as f64 - killed, 1.0, &rate_points);
    marks(&mut drawing, run);
    drawing.svg()
}

/// Draws a whole run.
pub(super) fn whole(title: &str, run: &Run) -> String {
    let killed = ms(run.killed_ns);
    let rate_points = rates(&run.counts, COARSE);
    let end = rate_points.len() as f64 * COARSE as f64 - killed;
    let x = ("milliseconds after the kill", (-killed, end.max(1.0)));
    let y = ("commits in a millisecond", (0.0, top(&rate_points)));
    let mut drawing = ChartCanvas::new(title, x, y);
    drawing.steps(-killed, COARSE as f64, &rate_points);
    marks(&mut drawing, run);
    drawing.svg()
}

/// Draws how many of the runs recovered within which time.
pub(super) fn distribution(title: &str, runs: &[Run]) -> String {
    let served = runs
        .iter()
        .filter_map(|run| run.recovery.suspicion_to_served);
    let mut served: Vec<f64> = served.collect();
    served.sort_by(f64::total_cmp);
    let last = served.last().copied().unwrap_or(1.0);
    let x = (
        "milliseconds from suspicion to 80 % of the throughput before",
        (0.0, (last * 1.15).max(10.0)),
    );
    let mut drawing = ChartCanvas::new(title, x, ("share of the runs, percent", (0.0, 100.0)));
    let mut points = vec![(0.0, 0.0)];
    for (at, time) in served.iter().enumerate() {
        let share = |count: usize| 100.0 * count as f64 / runs.len() as f64;
        points.extend([(*time, share(at)), (*time, share(at + 1))]);
    }
    drawing.curve(&points);
    drawing.note(BLUE, &format!("{} of {} runs", served.len(), runs.len()));
    if let Some(spread) = super::Distribution::of(served) {
        for (name, value) in [
            ("median", spread.median),
            ("90 %", spread.p90),
            ("longest", spread.max),
        ] {
            drawing.mark(value, GREY, &format!("{name} {value:.1} ms"));
        }
    }
    drawing.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::report::run_for_tests;

    #[test]
    fn every_step_of_a_run_is_named() {
        let run = run_for_tests();
        for svg in [around_the_kill("a", &run), whole("b", &run)] {
            for name in ["kill", "suspect", "commit", "all-active", "before", "80 %"] {
                assert!(svg.contains(name), "{name} in {svg}");
            }
        }
    }

    #[test]
    fn runs_that_did_not_recover_are_missing_in_the_distribution() {
        let mut lost = run_for_tests();
        lost.recovery.suspicion_to_served = None;
        let svg = distribution("c", &[run_for_tests(), lost]);
        assert!(svg.contains("1 of 2 runs"), "{svg}");
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        let mut run = run_for_tests();
        run.counts.clear();
        run.steps.clear();
        run.killed_ns = 0;
        around_the_kill("a", &run);
        whole("b", &run);
        distribution("c", &[]);
    }
}
