//! Inserting, replacing and removing keys.
//!
//! A change of one bucket alone is a patch. So changes of different keys in one bucket do not
//! conflict, and blind updates of one hot key are combined. A change of several objects (a key
//! outside its home, displacement, overflow chains) overwrites them at the exact versions that were
//! seen.

use fencepost_storage::{Addr, View};
use fencepost_txn::{AbortReason, ObjectLocation, RerouteFuture, Stop, Transaction, Work};

use crate::counters::{Event, count};
use crate::error::IndexError;
use crate::grow;
use crate::image::{self, Pair};
use crate::kind::TABLE;
use crate::layout::{Bucket, Key};
use crate::op::{self, Code};
use crate::place::Window;
use crate::table::{
    HashTable, HomeChanged, HomeLocation, HomeRead, KeyLocation, MAX_STEPS, NO_HOME, Route,
};

/// Buckets after the home that are searched for a free slot.
const PROBES: usize = 16;

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The key was absent and has been inserted.
    Done,
    /// The key exists, and this is the start of its value; nothing has changed.
    Exists([u64; 2]),
}

/// The contents of an object when it was copied.
pub(crate) struct ObjectSnapshot {
    pub(crate) at: Addr,
    pub(crate) before: Vec<u64>,
}

/// Returns the first two words of a value.
fn start_of_value(bucket: &Bucket<'_, '_>, slot: usize) -> [u64; 2] {
    let mut value = [0; 2];
    bucket.value(slot, &mut value[..bucket.shape.value_words.min(2)]);
    value
}

impl HashTable {
    fn key_for(&self, bytes: &[u8], spot: &HomeLocation) -> Result<(), IndexError> {
        let limit = spot.root.shape.key_words * 8;
        if bytes.len() > limit {
            Err(IndexError::KeyTooLong {
                length: bytes.len(),
                limit,
            })
        } else {
            Ok(())
        }
    }

    /// Inserts a key that must be absent. Its absence is a condition that is checked again at
    /// commit. `value` has [`crate::HashOptions::value_words`] words. A full shard is split, if
    /// possible in a transaction of its own, which stays even if `tx` aborts.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`] beyond [`crate::HashOptions::key_bytes`], rounded up to words;
    /// nothing has changed then. Otherwise as [`Transaction::patch`] and [`Transaction::alloc`].
    pub async fn insert(
        &self,
        tx: &mut Transaction,
        bytes: &[u8],
        value: &[u64],
    ) -> Result<Insert, IndexError> {
        let key = self.key(bytes)?;
        let mut route = Route::Copies;
        for _ in 0..MAX_STEPS {
            let spot = self.locate(tx, key.hash, route).await?;
            match self.key_for(bytes, &spot) {
                // A stale root may be of a table with shorter keys.
                Err(_) if route != Route::Snapshot && tx.machine().is_far(self.root) => {
                    route = Route::Snapshot;
                    continue;
                }
                fits => fits?,
            }
            let looked = match self.look(tx, &spot, &key, start_of_value).await {
                Ok(None) if route == Route::Snapshot => return Err(IndexError::Stop(NO_HOME)),
                Err(Stop::Damaged) if route != Route::Snapshot => HomeRead::Stale,
                looked => looked?.map_or(HomeRead::Stale, |(look, _)| look),
            };
            route = route.next(tx.machine(), self.root);
            match looked {
                HomeRead::Found(value) => return Ok(Insert::Exists(value)),
                HomeRead::Stale => continue,
                HomeRead::Absent {
                    free: true,
                    away: false,
                    ..
                } => {
                    let op = op::encode(Code::Insert, &key, self.root, spot.index, value);
                    if tx.patch(spot.home, &TABLE, &op).await?.is_ok() {
                        return Ok(Insert::Done);
                    }
                    continue;
                }
                HomeRead::Absent { .. } => {}
            }
            if let Some(done) = self.insert_crowded(tx, &spot, &key, value).await? {
                return Ok(done);
            }
        }
        Err(IndexError::Stop(Stop::Retry(AbortReason::NodeConflict)))
    }

    /// Inserts a key whose home has no free slot, or has keys elsewhere. Returns `None` if the
    /// shard was split and the search must start again.
    fn insert_crowded<'a>(
        &'a self,
        tx: &'a mut Transaction,
        spot: &'a HomeLocation,
        key: &'a Key<'a>,
        value: &'a [u64],
    ) -> Work<'a, Result<Option<Insert>, Stop>> {
        Box::pin(async move {
            let shape = spot.root.shape;
            let (home_image, home) = self.copy(tx, spot.home).await?;
            // The home is written at this version in the end, so an absent key stays absent.
            let look = |bucket: Bucket<'_, '_>| {
                (
                    bucket.is_home(key.hash, spot.index),
                    bucket.find(key).is_some(),
                )
            };
            if image::with(&home_image, self.root, look) != Some((true, false)) {
                return Ok(None);
            }
            if image::with(&home_image, self.root, |bucket| bucket.may_be_away(key)) == Some(true) {
                let chain = image::chain(&home_image);
                match self
                    .find_away(tx, spot, chain, key, &mut start_of_value)
                    .await?
                {
                    Err(HomeChanged) => return Ok(None),
                    Ok(Some((there, _, _))) => return Ok(Some(Insert::Exists(there))),
                    Ok(None) => {}
                }
            }
            let pair = image::pair(shape, key, value);
            let last = (spot.index + 1 + PROBES).min(spot.root.buckets);
            let (mut images, mut copies) = (vec![home_image], vec![home]);
            for index in spot.index + 1..=last {
                if image::free_slot(&images[images.len() - 1], shape).is_some() {
                    break;
                }
                let (image, copied) = self.copy(tx, spot.root.bucket(spot.first, index)).await?;
                images.push(image);
                copies.push(copied);
            }
            let mut window = Window::new(shape, spot.root.buckets, spot.index, images);
            if window.place(0, &pair) {
                (0..window.moves).for_each(|_| count(Event::Displacement));
                for (i, copied) in copies
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| window.changed[*i])
                {
                    self.put_back(tx, copied, &window.images[i]).await?;
                }
                return Ok(Some(Insert::Done));
            }
            if grow::wanted(self, tx, spot).await? && grow::grow(self, tx, spot).await? {
                return Ok(None);
            }
            self.insert_chained(tx, spot, &copies[0], &mut window.images[0], &pair)
                .await?;
            Ok(Some(Insert::Done))
        })
    }

    /// Puts a pair into the overflow chain of a home.
    async fn insert_chained(
        &self,
        tx: &mut Transaction,
        spot: &HomeLocation,
        home: &ObjectSnapshot,
        image: &mut [u64],
        pair: &Pair,
    ) -> Result<(), Stop> {
        let shape = spot.root.shape.block();
        let head = image::chain(image);
        if image::versions(image).away == u16::MAX {
            return Err(Stop::TooLarge("a hash bucket overflows"));
        }
        image::add_away(image, pair.first().copied().unwrap_or(0));
        let mut versions = image::versions(image);
        versions.chain = versions.chain.wrapping_add(1);
        image::set_versions(image, versions);
        if !head.is_null() {
            let (mut block, copied) = self.copy(tx, head.addr).await?;
            if let Some(slot) = image::free_slot(&block, shape) {
                image::put(&mut block, shape, slot, pair);
                self.put_back(tx, &copied, &block).await?;
                return self.put_back(tx, home, image).await;
            }
        }
        count(Event::BlockAdded);
        let new = tx
            .alloc(shape.words(), ObjectLocation::Object(home.at))
            .await?;
        let prefix = image::with(image, self.root, |bucket| bucket.prefix()).unwrap_or(0);
        tx.write_new(
            new,
            &image::block(spot.root.shape, self.root, prefix, spot.index, head, pair),
        )?;
        image::set_chain(image, new);
        self.put_back(tx, home, image).await
    }

    /// Replaces the value of a key. Returns `false` if the key is absent; its absence joins the
    /// read set. Two transactions that replace the value of one key do not conflict for that reason
    /// alone: a caller that depends on the value before reads it in `tx`.
    ///
    /// # Errors
    /// As [`Transaction::patch`].
    pub async fn replace(
        &self,
        tx: &mut Transaction,
        bytes: &[u8],
        value: &[u64],
    ) -> Result<bool, Stop> {
        match Key::new(bytes) {
            Some(key) => self.update(tx, &key, value).await,
            None => Ok(false),
        }
    }

    async fn update(
        &self,
        tx: &mut Transaction,
        key: &Key<'_>,
        value: &[u64],
    ) -> Result<bool, Stop> {
        for _ in 0..MAX_STEPS {
            let (spot, found) = self.find(tx, key, |_, _| ()).await?;
            let Some(((), place, _)) = found else {
                return Ok(false);
            };
            let at = match place {
                KeyLocation::Home => spot.home,
                KeyLocation::Next => spot.next(),
                KeyLocation::Block(at) => at,
            };
            let op = op::encode(Code::Update, key, self.root, spot.index, value);
            if tx.patch(at, &TABLE, &op).await?.is_ok() {
                return Ok(true);
            }
        }
        Err(Stop::Retry(AbortReason::NodeConflict))
    }

    /// Removes a key. Returns `false` if it is absent; its absence joins the read set.
    ///
    /// # Errors
    /// As [`Transaction::patch`] and [`Transaction::free`].
    pub async fn remove(&self, tx: &mut Transaction, bytes: &[u8]) -> Result<bool, Stop> {
        match Key::new(bytes) {
            Some(key) => self.remove_key(tx, &key).await,
            None => Ok(false),
        }
    }

    async fn remove_key(&self, tx: &mut Transaction, key: &Key<'_>) -> Result<bool, Stop> {
        for _ in 0..MAX_STEPS {
            let (spot, found) = self
                .find(tx, key, |bucket, _| bucket.chain().is_null())
                .await?;
            let Some((no_chain, place, _)) = found else {
                return Ok(false);
            };
            if place == KeyLocation::Home && no_chain {
                let op = op::encode(Code::Remove, key, self.root, spot.index, &[]);
                match tx.patch(spot.home, &TABLE, &op).await? {
                    Ok(()) => return Ok(true),
                    Err(_) => continue,
                }
            }
            if self.remove_crowded(tx, &spot, key, place).await? {
                return Ok(true);
            }
        }
        Err(Stop::Retry(AbortReason::NodeConflict))
    }

    /// Removes a key outside its home, or one whose home has an overflow chain: the chain's newest
    /// pair takes the free slot. Returns `false` if pairs have moved meanwhile.
    fn remove_crowded<'a>(
        &'a self,
        tx: &'a mut Transaction,
        spot: &'a HomeLocation,
        key: &'a Key<'a>,
        place: KeyLocation,
    ) -> Work<'a, Result<bool, Stop>> {
        Box::pin(async move {
            let (shape, block_shape) = (spot.root.shape, spot.root.shape.block());
            let (home_image, home) = self.copy(tx, spot.home).await?;
            let mut window = Window::new(shape, spot.root.buckets, spot.index, vec![home_image]);
            let mut copies = vec![home];
            let other = match place {
                KeyLocation::Home => None,
                KeyLocation::Next => Some(spot.next()),
                KeyLocation::Block(at) => Some(at),
            };
            if let Some(at) = other {
                let (image, copied) = self.copy(tx, at).await?;
                window.images.push(image);
                window.changed.push(false);
                copies.push(copied);
            }
            let holder = window.images.len() - 1;
            let holder_shape = if let KeyLocation::Block(_) = place {
                block_shape
            } else {
                shape
            };
            let found =
                image::with(&window.images[holder], self.root, |bucket| bucket.find(key)).flatten();
            let Some(slot) = found else { return Ok(false) };
            let mut returned = image::take(&mut window.images[holder], holder_shape, slot)
                .first()
                .copied();
            if place == KeyLocation::Home {
                returned = None;
            }

            // The newest block gives its last pair to the free slot, unless that slot is in the
            // newest block.
            let head = image::chain(&window.images[0]);
            let mut freed = None;
            if !head.is_null() {
                let in_head = place == KeyLocation::Block(head.addr);
                let (mut block, copied) = if in_head {
                    let before = std::mem::take(&mut copies[holder].before);
                    (
                        std::mem::take(&mut window.images[holder]),
                        ObjectSnapshot {
                            at: head.addr,
                            before,
                        },
                    )
                } else {
                    self.copy(tx, head.addr).await?
                };
                if !in_head && let Some(last) = image::last_used(&block, block_shape) {
                    let pair = image::take(&mut block, block_shape, last);
                    image::put(&mut window.images[holder], holder_shape, slot, &pair);
                    if place == KeyLocation::Home {
                        returned = pair.first().copied();
                    }
                }
                if image::last_used(&block, block_shape).is_none() {
                    image::set_chain(&mut window.images[0], image::chain(&block));
                    freed = Some(head.addr);
                }
                self.put_back(tx, &copied, &block).await?;
                if in_head {
                    window.images.pop();
                    copies.pop();
                }
            }
            // The removed key is no longer outside its home, or a key from the chain is in its home
            // now.
            if let Some(tag) = returned {
                image::remove_away(&mut window.images[0], tag);
            }
            let mut versions = image::versions(&window.images[0]);
            if !head.is_null() {
                versions.chain = versions.chain.wrapping_add(1);
            }
            image::set_versions(&mut window.images[0], versions);
            if place == KeyLocation::Next {
                window.tie(0);
            }
            for (copied, image) in copies.iter().zip(&window.images) {
                self.put_back(tx, copied, image).await?;
            }
            if let Some(block) = freed {
                count(Event::BlockFreed);
                release(tx, block).await?;
            }
            Ok(true)
        })
    }

    /// Copies a bucket or block as the transaction sees it.
    pub(crate) async fn copy(
        &self,
        tx: &mut Transaction,
        at: Addr,
    ) -> Result<(Vec<u64>, ObjectSnapshot), Stop> {
        let table = self.root;
        if tx.has_patches() {
            self.re_route_patches(tx, at).await?;
        }
        let mut image = Vec::new();
        let read = |view: &View<'_>| {
            let words =
                Bucket::open(view, table).map_or(0, |bucket| bucket.shape.words().min(view.len()));
            image.clear();
            image.resize(words, 0);
            view.copy(0, &mut image);
            words > 0
        };
        match tx.view(at, None, read).await? {
            Some((true, _)) => {
                let before = image.clone();
                Ok((image, ObjectSnapshot { at, before }))
            }
            _ => Err(Stop::Retry(AbortReason::ReadConflict)),
        }
    }

    /// Overwrites a copied object if it is unchanged since the copy. From then on the commit
    /// protocol protects it.
    pub(crate) async fn put_back(
        &self,
        tx: &mut Transaction,
        copied: &ObjectSnapshot,
        image: &[u64],
    ) -> Result<(), Stop> {
        let write = |now: &mut [u64]| {
            let same = now.get(..copied.before.len()) == Some(&copied.before[..]);
            if same && let Some(place) = now.get_mut(..image.len()) {
                place.copy_from_slice(image);
            }
            same
        };
        match tx.update(copied.at, write).await {
            Ok(true) => Ok(()),
            // It existed when it was copied, so another transaction has freed it since.
            Ok(false) | Err(Stop::Damaged) => Err(Stop::Retry(AbortReason::WriteConflict)),
            Err(stop) => Err(stop),
        }
    }
}

/// Frees an object that was just read.
pub(crate) async fn release(tx: &mut Transaction, at: Addr) -> Result<(), Stop> {
    match tx.free(at).await {
        // It existed, so another transaction has freed it since.
        Err(Stop::Damaged) => Err(Stop::Retry(AbortReason::WriteConflict)),
        done => done,
    }
}

/// Takes the transaction's pending patches of a bucket and makes them again in the right buckets.
pub(crate) fn reroute(tx: &mut Transaction, addr: Addr) -> RerouteFuture<'_> {
    Box::pin(async move {
        let taken = tx.take_patches(addr);
        for words in taken.ops() {
            let lost = Stop::Retry(AbortReason::NodeConflict);
            let Some(op) = op::decode(words).filter(|op| op.code != Code::Grow) else {
                return Err(lost);
            };
            let table = HashTable::open(op.root);
            let done = match op.code {
                Code::Insert => {
                    let mut bytes = Vec::new();
                    op.key.append_bytes(&mut bytes);
                    match table.insert(tx, &bytes, op.value).await {
                        Ok(found) => found == Insert::Done,
                        Err(IndexError::Stop(stop)) => return Err(stop),
                        Err(IndexError::KeyTooLong { .. }) => false,
                    }
                }
                Code::Update => table.update(tx, &op.key, op.value).await?,
                Code::Remove => table.remove_key(tx, &op.key).await?,
                Code::Grow => false,
            };
            if !done {
                return Err(lost);
            }
        }
        tx.made_anew(taken);
        Ok(())
    })
}
