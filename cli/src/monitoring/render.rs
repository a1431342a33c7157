//! Metrics in Prometheus' text format, by the crate of the `metrics` project.
//!
//! Counters and gauges go through a recorder that exists for one request. Its histograms take
//! single values. The histograms here are sums already, so they are written line by line with the
//! recorder's own functions.

use fencepost::{Metric, MetricKind};
use fencepost_pgserver::Histogram;
use metrics::Label;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};
use metrics_exporter_prometheus::{LabelSet, PrometheusBuilder};

const DURATIONS: &str = "fencepost_statement_duration_seconds";

/// Returns the text of metrics, and of the durations of statements.
pub fn render(all: &[Metric], durations: &[Histogram]) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || all.iter().for_each(record));
    let mut text = recorder.handle().render();
    write_durations(durations, &mut text);
    text
}

fn record(metric: &Metric) {
    match metric.kind {
        MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
        MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
    }
    for sample in &metric.samples {
        let labels = labels(&sample.labels);
        match metric.kind {
            MetricKind::Counter => {
                metrics::counter!(metric.name, labels).absolute(sample.value as u64);
            }
            MetricKind::Gauge => metrics::gauge!(metric.name, labels).set(sample.value),
        }
    }
}

fn labels(labels: &[(&'static str, String)]) -> Vec<Label> {
    let labels = labels.iter();
    labels
        .map(|(name, value)| Label::new(*name, value.clone()))
        .collect()
}

fn write_durations(durations: &[Histogram], text: &mut String) {
    if durations.is_empty() {
        return;
    }
    let help = "How long statements took that ended well, by kind, their commit included.";
    write_help_line(text, DURATIONS, None, None, help);
    write_type_line(text, DURATIONS, None, None, "histogram");
    for histogram in durations {
        let key = metrics::Key::from_parts(DURATIONS, labels(&histogram.labels));
        let labels = LabelSet::from_key_and_global(&key, &Default::default());
        for (bound, count) in &histogram.buckets {
            let bound = Some(("le", *bound));
            write_metric_line(text, DURATIONS, Some("bucket"), &labels, bound, count, None);
        }
        let (all, none) = (Some(("le", "+Inf")), None::<(&'static str, &str)>);
        let (count, sum) = (histogram.count, histogram.sum);
        write_metric_line(text, DURATIONS, Some("bucket"), &labels, all, count, None);
        write_metric_line(text, DURATIONS, Some("sum"), &labels, none, sum, None);
        write_metric_line(text, DURATIONS, Some("count"), &labels, none, count, None);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_counters_gauges_and_histograms() {
        let all = [
            Metric::new(MetricKind::Counter, "a_total", "How many.").with(&[("kind", "x\"y")], 5.0),
            Metric::gauge("b", "How much.", 0.5),
        ];
        let durations = [Histogram {
            labels: vec![("kind", "select".into())],
            buckets: vec![(0.001, 1), (0.01, 3)],
            sum: 0.25,
            count: 4,
        }];
        let text = render(&all, &durations);
        for line in [
            "# TYPE a_total counter",
            "a_total{kind=\"x\\\"y\"} 5",
            "# HELP b How much.",
            "b 0.5",
            "# TYPE fencepost_statement_duration_seconds histogram",
            "fencepost_statement_duration_seconds_bucket{kind=\"select\",le=\"0.001\"} 1",
            "fencepost_statement_duration_seconds_bucket{kind=\"select\",le=\"+Inf\"} 4",
            "fencepost_statement_duration_seconds_sum{kind=\"select\"} 0.25",
            "fencepost_statement_duration_seconds_count{kind=\"select\"} 4",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} in:\n{text}"
            );
        }
    }
}
