//! The memory of the operators of a query: `work_mem`, `hash_mem_multiplier`, `temp_file_limit`.

use super::unit::Unit;

/// The memory that one operator of a query uses before it writes rows to a temporary file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkMemory {
    work_kb: f64,
    hash_multiplier: f64,
    files_kb: Option<f64>,
}

impl WorkMemory {
    /// The built-in values.
    pub(super) const DEFAULT: WorkMemory = WorkMemory {
        work_kb: 65_536.0,
        hash_multiplier: 2.0,
        files_kb: None,
    };

    /// Applies the canonical value of a setting, if it is one of these.
    pub(super) fn apply(&mut self, name: &str, value: &str) {
        match name {
            "work_mem" => self.work_kb = Unit::Kb.read(value).unwrap_or(Self::DEFAULT.work_kb),
            "hash_mem_multiplier" => {
                self.hash_multiplier = value.parse().unwrap_or(Self::DEFAULT.hash_multiplier);
            }
            "temp_file_limit" => self.files_kb = Unit::Kb.read(value).filter(|kb| *kb >= 0.0),
            _ => {}
        }
    }

    /// Returns the memory of a sort, in bytes (`work_mem`).
    pub fn sort_bytes(&self) -> usize {
        (self.work_kb * 1024.0) as usize
    }

    /// Returns the memory of a hash table, in bytes: `work_mem` times `hash_mem_multiplier`.
    pub fn hash_bytes(&self) -> usize {
        (self.work_kb * self.hash_multiplier * 1024.0) as usize
    }

    /// Returns the limit of the session's temporary files together, in bytes (`temp_file_limit`).
    /// `None` is unlimited.
    pub fn file_bytes_max(&self) -> Option<u64> {
        self.files_kb.map(|kb| (kb * 1024.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    #[test]
    fn settings_determine_work_memory() {
        let mut settings = Settings::new();
        assert_eq!(settings.work_memory, super::WorkMemory::DEFAULT);
        assert_eq!(settings.work_memory.sort_bytes(), 64 << 20);
        settings.set("work_mem", "1MB").expect("a valid value");
        settings
            .set("hash_mem_multiplier", "1.5")
            .expect("a valid value");
        settings
            .set("temp_file_limit", "2GB")
            .expect("a valid value");
        assert_eq!(settings.work_memory.sort_bytes(), 1 << 20);
        assert_eq!(settings.work_memory.hash_bytes(), 3 << 19);
        assert_eq!(settings.work_memory.file_bytes_max(), Some(2 << 30));
        settings.reset_all();
        assert_eq!(settings.work_memory, super::WorkMemory::DEFAULT);
    }
}
