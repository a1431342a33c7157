//! The logging of panics, with a backtrace.

use std::backtrace::Backtrace;

/// Makes panics of all threads log lines instead of the standard message.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = Backtrace::force_capture();
        tracing::error!(
            target: "fencepost::panic",
            sqlstate = "XX000",
            backtrace = %backtrace,
            "internal error: thread \"{}\": {panic}",
            thread.name().unwrap_or("unnamed")
        );
    }));
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
    use tracing_subscriber::registry::Registry;

    use super::super::record::Record;
    use super::log_panics;

    /// The records of all events.
    #[derive(Clone, Default)]
    struct Records(Arc<Mutex<Vec<Record>>>);

    impl<S: Subscriber> Layer<S> for Records {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().push(Record::of(event));
        }
    }

    #[test]
    fn panic_is_one_record_with_a_backtrace() {
        let records = Records::default();
        let before = panic::take_hook();
        log_panics();
        tracing::subscriber::with_default(Registry::default().with(records.clone()), || {
            let panicked = panic::catch_unwind(|| panic!("a page is damaged"));
            assert!(panicked.is_err());
        });
        panic::set_hook(before);
        let records = records.0.lock();
        let [record] = records.as_slice() else {
            panic!("{} records", records.len());
        };
        assert!(record.message.starts_with("internal error: thread"));
        assert!(record.message.contains("a page is damaged"));
        assert_eq!(record.sqlstate.as_deref(), Some("XX000"));
        let backtrace = record.backtrace.as_deref().unwrap_or_default();
        assert!(backtrace.contains("panic_is_one_record_with_a_backtrace"));
    }
}
