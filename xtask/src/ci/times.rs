//! The time of each step.

use std::fmt::Write;
use std::time::Duration;

/// The steps that have ended, and the one under way. Times count from the start of the run.
#[derive(Debug, Default)]
pub struct Times {
    ended: Vec<(String, Duration)>,
    current: Option<(String, Duration)>,
}

impl Times {
    /// Ends the step under way, and begins another one.
    pub fn begin(&mut self, title: &str, now: Duration) {
        self.end(now);
        self.current = Some((title.to_owned(), now));
    }

    /// Ends the step under way, if there is one.
    pub fn end(&mut self, now: Duration) {
        if let Some((title, since)) = self.current.take() {
            self.ended.push((title, now.saturating_sub(since)));
        }
    }

    /// Returns a line for each step, also for the one under way, and one for their sum.
    pub fn summary(&self, now: Duration) -> String {
        let mut text = String::new();
        let current = self.current.iter();
        let current = current.map(|(title, since)| (title, now.saturating_sub(*since)));
        let ended = self.ended.iter().map(|(title, time)| (title, *time));
        for (title, time) in ended.chain(current) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} s  {title}", time.as_secs());
        }
        let _ = write!(text, "{} s  in all", now.as_secs());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn summary_has_each_step_and_the_sum() {
        let mut times = Times::default();
        times.begin("format", seconds(1));
        times.begin("tests", seconds(3));
        times.end(seconds(10));
        times.end(seconds(11));
        let summary = times.summary(seconds(12));
        assert_eq!(summary, "2 s  format\n7 s  tests\n12 s  in all");
    }

    #[test]
    fn step_under_way_is_in_the_summary() {
        let mut times = Times::default();
        assert_eq!(times.summary(seconds(0)), "0 s  in all");
        times.begin("tests", seconds(3));
        assert_eq!(times.summary(seconds(9)), "6 s  tests\n9 s  in all");
    }
}
