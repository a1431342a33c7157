//! How much of the log waits to be written: lines and bytes are bounded, so that a client that
//! makes long lines faster than they can be written takes no more memory.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Lines that may wait.
pub const LINES_MAX: usize = 64 << 10;
/// Bytes that may wait; a line that is longer is written if no other waits.
const BYTES_MAX: usize = 64 << 20;

/// Counts what waits.
#[derive(Debug, Default)]
pub struct Meter {
    lines: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Meter {
    /// Whether a line may wait, too; one that may not is counted.
    pub fn admits(&self, bytes: usize) -> bool {
        let lines_before = self.lines.fetch_add(1, Relaxed);
        let bytes_before = self.bytes.fetch_add(bytes, Relaxed);
        let has_room = bytes_before == 0 || bytes_before + bytes <= BYTES_MAX;
        let admits = lines_before < LINES_MAX && has_room;
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

    /// How many lines were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// A sink that tells a meter of each line that is written.
pub struct Metered {
    sink: Box<dyn Write + Send>,
    meter: Arc<Meter>,
}

impl Metered {
    /// Writes lines to `sink`.
    pub fn new(sink: Box<dyn Write + Send>, meter: &Arc<Meter>) -> Metered {
        Metered {
            sink,
            meter: Arc::clone(meter),
        }
    }
}

impl Write for Metered {
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
        let mut sink = Metered::new(Box::new(io::sink()), &meter);
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
