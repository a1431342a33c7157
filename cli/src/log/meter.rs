//! The limit of waiting log lines. Their number and bytes are bounded, so that a client that
//! produces lines faster than they can be written takes no more memory.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The largest number of waiting lines.
pub const LINES_MAX: usize = 64 << 10;
/// The largest number of waiting bytes; a longer line is written if no other line waits.
const BYTES_MAX: usize = 64 << 20;

/// The counters of waiting lines and bytes.
#[derive(Debug, Default)]
pub struct Meter {
    lines: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Meter {
    /// Returns whether another line may wait; a refused line is counted as dropped.
    pub fn admits(&self, bytes: usize) -> bool {
        let lines_before = self.lines.fetch_add(1, Relaxed);
        let bytes_before = self.bytes.fetch_add(bytes, Relaxed);
        let has_capacity = bytes_before == 0 || bytes_before + bytes <= BYTES_MAX;
        let admits = lines_before < LINES_MAX && has_capacity;
        if !admits {
            self.leaves(bytes);
            self.dropped.fetch_add(1, Relaxed);
        }
        admits
    }

    fn leaves(&self, bytes: usize) {
        self.lines.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// Returns the number of dropped lines.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// A sink that reports each written line to a meter.
pub struct MeteredSink {
    sink: Box<dyn Write + Send>,
    meter: Arc<Meter>,
}

impl MeteredSink {
    /// Returns a sink that writes lines to `sink`.
    pub fn new(sink: Box<dyn Write + Send>, meter: &Arc<Meter>) -> MeteredSink {
        MeteredSink {
            sink,
            meter: Arc::clone(meter),
        }
    }
}

impl Write for MeteredSink {
    /// Writes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.sink.write_all(line);
        self.meter.leaves(line.len());
        written.map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limits_are_dropped_and_counted() {
        let meter = Arc::new(Meter::default());
        assert!(meter.admits(BYTES_MAX + 1), "it waits alone");
        assert!(!meter.admits(1));
        let mut sink = MeteredSink::new(Box::new(io::sink()), &meter);
        sink.write_all(&vec![b'x'; BYTES_MAX + 1]).expect("written");
        for _ in 0..LINES_MAX {
            assert!(meter.admits(10));
        }
        assert!(!meter.admits(10));
        assert_eq!(meter.dropped(), 2);
        sink.write_all(&[b'x'; 10]).expect("written");
        assert!(meter.admits(10));
    }
}
