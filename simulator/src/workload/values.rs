//! Steps over the hash table, whose values hold the data.

use fencepost_hashtable::{HashBatch, HashTable, Insert};
use fencepost_txn::Stop;

use super::step::{Halt, Step};
use crate::history::{Object, ReadVersion};

/// Returns a key of the hash table as an object of the history.
pub const fn value(key: u64) -> Object {
    Object("hashed key", key)
}

impl Step<'_> {
    fn table(&self) -> Result<HashTable, Halt> {
        self.world.table.ok_or(Halt::Stop(Stop::Damaged))
    }

    /// Looks up and changes a few single keys.
    pub async fn values(&mut self) -> Result<(), Halt> {
        let table = self.table()?;
        for _ in 0..1 + self.below(3) {
            let key = self.below(self.plan.keys);
            let (bytes, object) = (key.to_be_bytes(), value(key));
            let new = [self.id(), key];
            let what = if self.writes() { self.below(8) } else { 0 };
            match what {
                0..2 => self.get_value(key).await?,
                2..5 => match table.insert(self.tx, &bytes, &new).await? {
                    Insert::Done => self.wrote(object, true, Some(false))?,
                    Insert::Exists(_) => self.get_value(key).await?,
                },
                5 => match table.replace(self.tx, &bytes, &new).await? {
                    true => self.wrote(object, true, Some(true))?,
                    false => self.saw(object, ReadVersion::Absent)?,
                },
                _ => match table.remove(self.tx, &bytes).await? {
                    true => self.wrote(object, false, Some(true))?,
                    false => self.saw(object, ReadVersion::Absent)?,
                },
            }
            self.pause().await;
        }
        Ok(())
    }

    async fn get_value(&mut self, key: u64) -> Result<(), Halt> {
        let found = self.table()?.get(self.tx, &key.to_be_bytes()).await?;
        self.saw_value(key, found)
    }

    fn saw_value(&self, key: u64, found: Option<[u64; 2]>) -> Result<(), Halt> {
        match found {
            None => self.saw(value(key), ReadVersion::Absent),
            Some([writer, of]) if of == key => self.saw(value(key), ReadVersion::By(writer)),
            Some(other) => Err(format!("{} has the value {other:?}", value(key)).into()),
        }
    }

    /// Reads all keys of the table.
    pub async fn all_values(&mut self) -> Result<(), Halt> {
        let mut found = vec![None; self.plan.keys as usize];
        let (mut cursor, mut batch) = (self.table()?.scan(), HashBatch::new());
        let enough = 1 + self.one_of(20);
        while cursor.next_batch(self.tx, &mut batch, enough).await? {
            for (key, value) in batch.iter() {
                let key = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
                let there = found.get_mut(key as usize);
                let there = there.filter(|there| there.is_none());
                let there = there.ok_or(format!("a scan met the hashed key {key} twice"))?;
                *there = Some([value[0], value[1]]);
            }
            self.pause().await;
        }
        for (key, found) in found.into_iter().enumerate() {
            self.saw_value(key as u64, found)?;
        }
        Ok(())
    }
}
