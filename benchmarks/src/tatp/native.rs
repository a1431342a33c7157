//! TATP on hash tables, with FaSST's row sizes: 8-byte keys, subscribers of 40 bytes, accesses and
//! forwardings of 16, facilities and the index by number of 8.
//!
//! ```text
//! subscriber  number | bits 10 · hex 40 | byte2 8 B | byte2 2 B | msc 32 · vlr 32
//! access      data3 24 · data2 8 · data1 8 | data4 40
//! facility    data_b 40 · data_a 8 · error 8 · active 8
//! forwarding  end_time | number
//! ```
//! Numbers are fifteen decimal digits of four bits each. All rows of a subscriber are on one
//! machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError, Insert};
use fencepost_txn::{Coordinator, Machine, Mode, Stop, Transaction};

use super::mix::{Mix, Request};
use super::population::{Access, Facility, Population, START_TIMES, Sizes, Subscriber, TYPES};
use super::{DUPLICATE, NO_ROW};
use crate::error::BenchError;
use crate::failover::Survivor;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{Machines, Partitions, Roots, create_table, end, load, look_at_each};

/// The number of subscribers in one transaction of the load: about two thousand rows.
const PIECE: u64 = 200;

/// The hash tables of a machine.
#[derive(Clone, Copy)]
struct Tables {
    subscriber: HashTable,
    by_number: HashTable,
    access: HashTable,
    facility: HashTable,
    forwarding: HashTable,
}

impl Roots for Tables {
    fn roots(&self) -> Vec<u64> {
        let all = [
            self.subscriber,
            self.by_number,
            self.access,
            self.facility,
            self.forwarding,
        ];
        all.iter().flat_map(Roots::roots).collect()
    }

    fn of_roots(roots: &[u64]) -> Option<Tables> {
        let tables: Option<Vec<HashTable>> = roots.chunks(1).map(HashTable::of_roots).collect();
        match tables?[..] {
            [subscriber, by_number, access, facility, forwarding] => Some(Tables {
                subscriber,
                by_number,
                access,
                facility,
                forwarding,
            }),
            _ => None,
        }
    }
}

/// TATP on the transaction API.
pub struct TatpNative {
    machines: Machines,
    tables: Partitions<Tables>,
    population: Population,
    loaded: Mutex<Sizes>,
    /// The number of forwardings that committed requests inserted, less those that they deleted.
    more_forwardings: AtomicI64,
}

impl TatpNative {
    /// Creates the workload with empty tables.
    ///
    /// # Errors
    /// Failure to create the tables.
    pub fn new(machines: Machines, subscribers: u32, seed: u64) -> Result<TatpNative, BenchError> {
        let population = Population {
            subscribers: subscribers.max(1),
            seed,
        };
        let rows = machines.share(population.subscribers.into());
        let tables = machines.tables(|machine| {
            let table = |value_words, rows| create_table(machine, 8, value_words, rows);
            Ok(Tables {
                subscriber: table(5, rows)?,
                by_number: table(1, rows)?,
                access: table(2, rows * 5 / 2)?,
                facility: table(1, rows * 5 / 2)?,
                forwarding: table(2, rows * 15 / 4)?,
            })
        })?;
        Ok(TatpNative {
            machines,
            tables,
            population,
            loaded: Mutex::default(),
            more_forwardings: AtomicI64::new(0),
        })
    }
}

fn id_key(s_id: u32) -> [u8; 8] {
    u64::from(s_id).to_le_bytes()
}

/// Returns the key of an access row or a facility.
fn type_key(s_id: u32, kind: u8) -> [u8; 8] {
    (u64::from(s_id) << 8 | u64::from(kind)).to_le_bytes()
}

fn forwarding_key(s_id: u32, sf_type: u8, start_time: u8) -> [u8; 8] {
    let parts = u64::from(s_id) << 16 | u64::from(sf_type) << 8 | u64::from(start_time);
    parts.to_le_bytes()
}

/// Returns a subscriber's number in decimal digits of four bits.
fn number(s_id: u32) -> u64 {
    let (mut digits, mut rest) = (0, u64::from(s_id));
    for place in 0..15 {
        digits |= (rest % 10) << (4 * place);
        rest /= 10;
    }
    digits
}

/// Packs bytes into a word, little-endian.
fn packed(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn subscriber_row(row: &Subscriber) -> [u64; 5] {
    let hex = row
        .hex
        .iter()
        .rev()
        .fold(0, |word, digit| word << 4 | u64::from(*digit));
    [
        number(row.s_id),
        u64::from(row.bits) << 40 | hex,
        packed(&row.byte2[..8]),
        packed(&row.byte2[8..]),
        u64::from(row.msc_location) << 32 | u64::from(row.vlr_location),
    ]
}

/// `bit_1` in the second word of a subscriber.
const BIT_1: u64 = 1 << 40;
/// `vlr_location` in the fifth word.
const VLR: u64 = 0xffff_ffff;

fn access_row(row: &Access) -> [u64; 2] {
    let data = u64::from(row.data1) | u64::from(row.data2) << 8 | packed(&row.data3) << 16;
    [data, packed(&row.data4)]
}

fn facility_row(row: &Facility) -> [u64; 1] {
    let small = [u8::from(row.is_active), row.error_cntrl, row.data_a];
    [packed(&small) | packed(&row.data_b) << 24]
}

impl Tables {
    async fn load(&self, tx: &mut Transaction, subscriber: &Subscriber) -> Result<(), IndexError> {
        let s_id = subscriber.s_id;
        load(
            tx,
            &self.subscriber,
            &id_key(s_id),
            &subscriber_row(subscriber),
        )
        .await?;
        let number_key = number(s_id).to_le_bytes();
        load(tx, &self.by_number, &number_key, &[u64::from(s_id)]).await?;
        for row in &subscriber.access {
            load(
                tx,
                &self.access,
                &type_key(s_id, row.ai_type),
                &access_row(row),
            )
            .await?;
        }
        for row in &subscriber.facilities {
            load(
                tx,
                &self.facility,
                &type_key(s_id, row.sf_type),
                &facility_row(row),
            )
            .await?;
            for call in &row.forwardings {
                let key = forwarding_key(s_id, row.sf_type, call.start_time);
                let value = [u64::from(call.end_time), number(call.to)];
                load(tx, &self.forwarding, &key, &value).await?;
            }
        }
        Ok(())
    }

    /// Returns the subscriber with a number.
    async fn id_of_number(
        &self,
        tx: &mut Transaction,
        s_id: u32,
    ) -> Result<Option<u32>, IndexError> {
        let mut found = [0];
        let there = self
            .by_number
            .get_into(tx, &number(s_id).to_le_bytes(), &mut found)
            .await?;
        Ok(there.then_some(found[0] as u32))
    }

    async fn run(&self, tx: &mut Transaction, request: &Request) -> Result<Attempt, IndexError> {
        match *request {
            // Single rows are read without a transaction.
            Request::GetSubscriberData { .. } | Request::GetAccessData { .. } => {
                Ok(Attempt::Failed(NO_ROW))
            }
            Request::GetNewDestination {
                s_id,
                sf_type,
                start_time,
                end_time,
            } => {
                self.destination(tx, s_id, sf_type, start_time, end_time)
                    .await
            }
            Request::UpdateSubscriberData {
                s_id,
                bit,
                sf_type,
                data_a,
            } => {
                let (key, mut row) = (id_key(s_id), [0; 5]);
                if !self.subscriber.get_into(tx, &key, &mut row).await? {
                    return Ok(Attempt::Failed(NO_ROW));
                }
                row[1] = row[1] & !BIT_1 | u64::from(bit) << 40;
                self.subscriber.replace(tx, &key, &row).await?;
                let (key, mut row) = (type_key(s_id, sf_type), [0]);
                if !self.facility.get_into(tx, &key, &mut row).await? {
                    return Ok(Attempt::Failed(NO_ROW));
                }
                row[0] = row[0] & !(0xff << 16) | u64::from(data_a) << 16;
                self.facility.replace(tx, &key, &row).await?;
                Ok(Attempt::Committed)
            }
            Request::UpdateLocation { s_id, location } => {
                let Some(s_id) = self.id_of_number(tx, s_id).await? else {
                    return Ok(Attempt::Failed(NO_ROW));
                };
                let (key, mut row) = (id_key(s_id), [0; 5]);
                if !self.subscriber.get_into(tx, &key, &mut row).await? {
                    return Ok(Attempt::Failed(NO_ROW));
                }
                row[4] = row[4] & !VLR | u64::from(location);
                self.subscriber.replace(tx, &key, &row).await?;
                Ok(Attempt::Committed)
            }
            Request::InsertCallForwarding {
                s_id,
                sf_type,
                start_time,
                end_time,
                to,
            } => {
                let Some(s_id) = self.id_of_number(tx, s_id).await? else {
                    return Ok(Attempt::Failed(NO_ROW));
                };
                if !self
                    .facility
                    .get_into(tx, &type_key(s_id, sf_type), &mut [0])
                    .await?
                {
                    return Ok(Attempt::Failed(NO_ROW));
                }
                let key = forwarding_key(s_id, sf_type, start_time);
                let value = [u64::from(end_time), number(to)];
                Ok(match self.forwarding.insert(tx, &key, &value).await? {
                    Insert::Done => Attempt::Committed,
                    Insert::Exists(_) => Attempt::Failed(DUPLICATE),
                })
            }
            Request::DeleteCallForwarding {
                s_id,
                sf_type,
                start_time,
            } => {
                let Some(s_id) = self.id_of_number(tx, s_id).await? else {
                    return Ok(Attempt::Failed(NO_ROW));
                };
                let key = forwarding_key(s_id, sf_type, start_time);
                let removed = self.forwarding.remove(tx, &key).await?;
                Ok(if removed {
                    Attempt::Committed
                } else {
                    Attempt::Failed(NO_ROW)
                })
            }
        }
    }

    async fn destination(
        &self,
        tx: &mut Transaction,
        s_id: u32,
        sf_type: u8,
        start_time: u8,
        end_time: u8,
    ) -> Result<Attempt, IndexError> {
        let mut facility = [0];
        let there = self
            .facility
            .get_into(tx, &type_key(s_id, sf_type), &mut facility)
            .await?;
        if !there || facility[0] & 0xff == 0 {
            return Ok(Attempt::Failed(NO_ROW));
        }
        let mut numbers = 0;
        for start in START_TIMES.into_iter().filter(|start| *start <= start_time) {
            let mut row = [0; 2];
            let key = forwarding_key(s_id, sf_type, start);
            if self.forwarding.get_into(tx, &key, &mut row).await? && u64::from(end_time) < row[0] {
                numbers += 1;
            }
        }
        Ok(if numbers > 0 {
            Attempt::Committed
        } else {
            Attempt::Failed(NO_ROW)
        })
    }
}

/// A client of one thread.
pub struct TatpNativeClient<'a> {
    of: &'a TatpNative,
    machine: &'a Machine,
    coordinator: Coordinator,
    mix: Mix,
}

impl Workload for TatpNative {
    type Client<'a> = TatpNativeClient<'a>;
    const SAMPLED: u64 = 8;

    fn name(&self) -> &'static str {
        "tatp"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let last = u64::from(self.population.subscribers);
        self.machines
            .load((last, "subscribers"), PIECE, say, async |tx, s_id| {
                let subscriber = self.population.subscriber(s_id as u32);
                self.tables.of(s_id).load(tx, &subscriber).await
            })?;
        let mut sizes = Sizes::default();
        for s_id in 1..=self.population.subscribers {
            sizes.add(&self.population.subscriber(s_id));
        }
        *self.loaded.lock().expect("no thread panics with the sizes") = sizes;
        Ok(())
    }

    fn client(&self, thread: usize) -> Result<TatpNativeClient<'_>, BenchError> {
        let mix = Mix::new(self.population.subscribers);
        let machine = self.machines.of(thread);
        Ok(TatpNativeClient {
            of: self,
            machine,
            coordinator: machine.coordinator(),
            mix,
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let forwardings = match self.verify_rows()? {
            Ok(forwardings) => forwardings,
            Err(broken) => return Ok(Some(broken)),
        };
        let loaded = self
            .loaded
            .lock()
            .expect("no thread panics with the sizes")
            .forwardings as i64;
        let wanted = loaded + self.more_forwardings.load(Ordering::Relaxed);
        let wrong = forwardings != wanted;
        Ok(wrong.then(|| format!("{forwardings} forwardings instead of {wanted}")))
    }

    fn counters(&self) -> Counters {
        self.machines.counters()
    }
}

impl Survivor for TatpNative {
    /// Verifies the rows. The number of forwardings cannot be checked, because the counts of failed
    /// machines are lost.
    fn verify_after_failure(&self) -> Result<Option<String>, BenchError> {
        Ok(self.verify_rows()?.err())
    }
}

impl TatpNative {
    /// Returns the number of forwardings after all transactions have ended, or the violated
    /// condition.
    fn verify_rows(&self) -> Result<Result<i64, String>, BenchError> {
        if let Some(broken) = self.machines.wait_until_idle() {
            return Ok(Err(broken));
        }
        let mut forwardings = 0;
        let look = async |s_id: u64| {
            let one = self.verify_one(s_id as u32).await;
            Ok(one.map_err(|broken| format!("subscriber {s_id}: {broken}")))
        };
        let last = self.population.subscribers.into();
        let broken = look_at_each(last, look, |count| forwardings += count)?;
        Ok(broken.map_or(Ok(forwardings), Err))
    }

    /// Verifies that the rows of a subscriber are those of the load, except for columns that the
    /// requests change. Returns the number of its forwardings, or the violated condition.
    async fn verify_one(&self, s_id: u32) -> Result<i64, String> {
        let (tables, machine) = (self.tables.of(s_id.into()), self.machines.of(s_id as usize));
        let lost = |stop: Stop| format!("cannot be looked up: {stop}");
        let wanted = self.population.subscriber(s_id);
        let (mut row, mut full) = ([0; 5], subscriber_row(&wanted));
        let key = id_key(s_id);
        let found = tables.subscriber.get_lockfree(machine, &key, &mut row);
        if !found.await.map_err(lost)? {
            return Err("is gone".to_string());
        }
        row[1] &= !BIT_1;
        full[1] &= !BIT_1;
        row[4] &= !VLR;
        full[4] &= !VLR;
        if row != full {
            return Err("is not what was loaded".to_string());
        }
        let mut by_number = [0];
        let key = number(s_id).to_le_bytes();
        let found = tables.by_number.get_lockfree(machine, &key, &mut by_number);
        if !found.await.map_err(lost)? || by_number[0] != u64::from(s_id) {
            return Err("is not found by its number".to_string());
        }
        let mut forwardings = 0;
        for kind in TYPES {
            let key = type_key(s_id, kind);
            let mut row = [0; 2];
            let there = tables
                .access
                .get_lockfree(machine, &key, &mut row)
                .await
                .map_err(lost)?;
            let loaded = wanted.access.iter().find(|access| access.ai_type == kind);
            if there.then_some(row) != loaded.map(access_row) {
                return Err(format!("access {kind} is not what was loaded"));
            }
            let mut row = [0];
            let there = tables
                .facility
                .get_lockfree(machine, &key, &mut row)
                .await
                .map_err(lost)?;
            let loaded = wanted
                .facilities
                .iter()
                .find(|facility| facility.sf_type == kind);
            let fixed = |row: [u64; 1]| row[0] & !(0xff << 16);
            if there.then_some(fixed(row)) != loaded.map(|row| fixed(facility_row(row))) {
                return Err(format!("facility {kind} is not what was loaded"));
            }
            for start in START_TIMES {
                let mut row = [0; 2];
                let key = forwarding_key(s_id, kind, start);
                if !tables
                    .forwarding
                    .get_lockfree(machine, &key, &mut row)
                    .await
                    .map_err(lost)?
                {
                    continue;
                }
                if !there || !(1..=24).contains(&row[0]) {
                    return Err(format!("forwarding {kind} at {start} cannot be"));
                }
                forwardings += 1;
            }
        }
        Ok(forwardings)
    }
}

impl Client for TatpNativeClient<'_> {
    type Request = Request;

    #[inline]
    fn generate(&mut self, random: &mut Random) -> Request {
        self.mix.draw(random)
    }

    #[inline]
    async fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let (tables, machine) = (self.of.tables.of(request.s_id().into()), self.machine);
        let found = |found| {
            if found {
                Attempt::Committed
            } else {
                Attempt::Failed(NO_ROW)
            }
        };
        let (mode, more) = match *request {
            Request::GetSubscriberData { s_id } => {
                let mut row = [0; 5];
                let key = id_key(s_id);
                let there = tables
                    .subscriber
                    .get_lockfree(machine, &key, &mut row)
                    .await?;
                return Ok(found(there && row[0] == number(s_id)));
            }
            Request::GetAccessData { s_id, ai_type } => {
                let mut row = [0; 2];
                let key = type_key(s_id, ai_type);
                let there = tables.access.get_lockfree(machine, &key, &mut row).await?;
                return Ok(found(there));
            }
            Request::GetNewDestination { .. } => (Mode::ReadOnly, 0),
            Request::InsertCallForwarding { .. } => (Mode::ReadWrite, 1),
            Request::DeleteCallForwarding { .. } => (Mode::ReadWrite, -1),
            _ => (Mode::ReadWrite, 0),
        };
        let mut tx = self.coordinator.begin(mode);
        let done = tables.run(&mut tx, request).await;
        let ended = end(tx, done).await?;
        if more != 0 && ended == Attempt::Committed {
            self.of.more_forwardings.fetch_add(more, Ordering::Relaxed);
        }
        Ok(ended)
    }
}
