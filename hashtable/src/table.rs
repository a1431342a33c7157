//! The table: creation, the location of a key's home, and lookups in a transaction.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{
    AbortReason, Machine, Mode, NodeKind, ObjectLocation, ReadEntry, Stop, Transaction, Work,
    slot_bytes,
};

use crate::counters::{Event, count};
use crate::error::IndexError;
use crate::image;
use crate::kind::{self, TABLE};
use crate::layout::{
    Bucket, DIRECTORY_HEADER, DIRECTORY_MAGIC, FLAG_GUARD_HITS, Key, MAX_KEY_BYTES,
    MAX_VALUE_WORDS, ROOT_WORDS, Root, Shape, Versions, shard_of,
};
use crate::write;

/// Most steps of a search that races with growth.
pub(crate) const MAX_STEPS: usize = 1000;
/// Most blocks of an overflow chain that are followed.
pub(crate) const MAX_CHAIN: usize = 10_000;
/// Most bits of the directory's index.
pub(crate) const MAX_DEPTH: u8 = 16;
/// Share of slots in use, in percent, for which the initial size of a table is planned.
const PLANNED_PERCENT: usize = 90;

/// Number of shards from which a table is planned with larger shards, and their number of homes.
const MANY_SHARDS: usize = 16;
const LARGE_SHARD: usize = 1024;

/// The options of a new table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashOptions {
    /// Length in bytes of the longest key; every slot has space for it.
    pub key_bytes: usize,
    /// Words of a value; every slot has space for it.
    pub value_words: usize,
    /// Slots of a bucket: H/2 of NSDI'14 §3.6. Changed to be between 2 and 32.
    pub slots: usize,
    /// Homes of a shard; a table grows by splitting shards. One shard must fit a block of 1 MiB. A
    /// table that is planned for many keys has larger shards, so that no shard gets much more than
    /// its share.
    pub shard_buckets: usize,
    /// Number of keys for which the initial size is planned.
    pub capacity: usize,
    /// Whether a found value joins the read set. Required if the value is the data; not if it is a
    /// pointer to an object that joins the read set itself.
    pub guard_hits: bool,
    /// The place of the table; it also grows on that machine.
    pub near: ObjectLocation,
}

impl Default for HashOptions {
    fn default() -> Self {
        Self {
            key_bytes: 32,
            value_words: 2,
            slots: 4,
            shard_buckets: 128,
            capacity: 0,
            guard_hits: false,
            near: ObjectLocation::Own,
        }
    }
}

/// Most bytes of a bucket that are prefetched before it is read.
pub(crate) const PREFETCH_BYTES: usize = 512;

/// An unordered index. The handle is the address of its root and can be copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashTable {
    pub(crate) root: Addr,
}

/// The error if there is no bucket for a key although only the snapshot was used to find it.
pub(crate) const NO_HOME: Stop = Stop::Retry(AbortReason::RefreshFailed);

/// A way to find a key's home, from the cheapest to the most reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// By copies of another machine's root and directory, which may be stale: the bucket shows
    /// whether it is the right one.
    Copies,
    /// By new copies of both, which replace the stale ones.
    NewCopies,
    /// By the root and the directory as the transaction sees them.
    Snapshot,
}

impl Route {
    /// Returns the route to take after this one has led to a wrong place in the table at `root`.
    pub(crate) fn next(self, machine: &Machine, root: Addr) -> Route {
        match self {
            Route::Copies if machine.is_far(root) => Route::NewCopies,
            _ => Route::Snapshot,
        }
    }
}

/// The location of a key's home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HomeLocation {
    pub(crate) root: Root,
    /// Address of the first bucket of the shard.
    pub(crate) first: Addr,
    pub(crate) index: usize,
    pub(crate) home: Addr,
}

impl HomeLocation {
    /// Returns the location in the shard whose first bucket is `first`.
    #[inline]
    pub(crate) fn of(root: Root, first: Addr, hash: u64) -> HomeLocation {
        let index = root.home(hash);
        let home = root.bucket(first, index);
        HomeLocation {
            root,
            first,
            index,
            home,
        }
    }

    /// Returns the address of the bucket after the home.
    #[inline]
    pub(crate) fn next(&self) -> Addr {
        self.root.bucket(self.first, self.index + 1)
    }

    /// Prefetches the home into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, machine: &Machine) {
        let bytes = self.root.stride.min(PREFETCH_BYTES);
        machine.regions().prefetch(self.home, bytes);
    }
}

/// The result of reading the home.
pub(crate) enum HomeRead<T> {
    Found(T),
    /// The key is not in the home; `away` says whether it may be elsewhere.
    Absent {
        versions: Versions,
        chain: FatPtr,
        free: bool,
        away: bool,
    },
    /// This is not the home: the shard was split meanwhile.
    Stale,
}

/// The home may have changed since it was read: the transaction's own patches were re-routed.
pub(crate) struct HomeChanged;

/// The object in which a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    Home,
    Next,
    Block(Addr),
}

impl HashTable {
    /// Creates an empty table for pointer values with keys up to 32 bytes. Other transactions see
    /// it after the commit; the caller stores [`Self::root`] in an object that they find.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub async fn create(tx: &mut Transaction) -> Result<HashTable, Stop> {
        Self::create_with(tx, &HashOptions::default()).await
    }

    /// Creates an empty table.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] if an option is outside its limits; otherwise as [`Transaction::alloc`].
    pub fn create_with<'a>(
        tx: &'a mut Transaction,
        options: &'a HashOptions,
    ) -> Work<'a, Result<HashTable, Stop>> {
        Box::pin(async move {
            if options.key_bytes > MAX_KEY_BYTES
                || options.value_words > MAX_VALUE_WORDS
                || options.value_words == 0
            {
                return Err(Stop::TooLarge(
                    "keys of a hash table have at most 256 bytes, values 1 to 128 words",
                ));
            }
            let shape = Shape {
                slots: options.slots.clamp(2, 32),
                key_words: options.key_bytes.max(8).div_ceil(8),
                value_words: options.value_words,
            };
            let stride = slot_bytes(shape.words())?;
            let most = ((1 << 20) / stride).saturating_sub(1).max(1);
            let (depth, buckets) = plan(options, shape, most);
            let root_ptr = tx.alloc(ROOT_WORDS, options.near).await?;
            let near = ObjectLocation::Object(root_ptr.addr);
            let directory = tx.alloc(DIRECTORY_HEADER + (1 << depth), near).await?;
            let flags = if options.guard_hits {
                FLAG_GUARD_HITS
            } else {
                0
            };
            let root = Root {
                depth,
                shape,
                flags,
                directory: directory.addr,
                buckets,
                stride,
            };
            let mut entries = directory_image(depth, root_ptr.addr);
            for prefix in 0..1usize << depth {
                let first = new_shard(tx, &root, root_ptr.addr, (depth, prefix as u64)).await?;
                entries[DIRECTORY_HEADER + prefix] = first.raw();
            }
            tx.write_new(directory, &entries)?;
            tx.write_new(root_ptr, &root.to_words(root_ptr.addr))?;
            Ok(HashTable {
                root: root_ptr.addr,
            })
        })
    }

    /// Returns the table whose root is at `root`. Reads nothing: the first operation finds whether
    /// a table is there.
    pub const fn open(root: Addr) -> HashTable {
        HashTable { root }
    }

    /// Returns whether `view` shows a bucket or an overflow block of this table; for reports.
    pub fn owns(&self, view: &View<'_>) -> bool {
        Bucket::open(view, self.root).is_some()
    }

    /// Returns the address of the root, which never moves.
    pub const fn root(&self) -> Addr {
        self.root
    }

    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> Result<Key<'a>, IndexError> {
        Key::new(bytes).ok_or(IndexError::KeyTooLong {
            length: bytes.len(),
            limit: MAX_KEY_BYTES,
        })
    }

    /// Finds the home of a hash. By [`Route::Snapshot`] a read-only transaction gets the location
    /// in its snapshot; any other transaction gets the present one.
    pub(crate) async fn locate(
        &self,
        tx: &mut Transaction,
        hash: u64,
        route: Route,
    ) -> Result<HomeLocation, Stop> {
        if route != Route::Snapshot
            && tx.machine().is_far(self.root)
            && let Some(spot) = self.locate_by_copies(tx.machine(), hash, route).await?
        {
            return Ok(spot);
        }
        let kind = if tx.mode() == Mode::ReadOnly {
            None
        } else {
            Some(&TABLE as &'static dyn NodeKind)
        };
        for _ in 0..MAX_STEPS {
            let seen = tx.view(self.root, kind, Root::open).await?;
            let root = seen.and_then(|(root, _)| root).ok_or(Stop::Damaged)?;
            let table = self.root;
            let shard = tx
                .view(root.directory, kind, |view| shard_of(view, table, hash))
                .await?;
            if let Some((Some(first), _)) = shard {
                let spot = HomeLocation::of(root, first, hash);
                spot.prefetch(tx.machine());
                return Ok(spot);
            }
        }
        Err(Stop::Retry(AbortReason::RefreshFailed))
    }

    /// Finds the home of a hash by copies of the root and the directory, if they belong together. A
    /// copy that is not a root or directory of this table is of an earlier object in the slot, and
    /// is replaced.
    fn locate_by_copies<'a>(
        &'a self,
        machine: &'a Machine,
        hash: u64,
        route: Route,
    ) -> Work<'a, Result<Option<HomeLocation>, Stop>> {
        Box::pin(async move {
            let table = self.root;
            let look = |view: &View<'_>| {
                let root = Root::open(view);
                (root, root.is_some())
            };
            let shard = |view: &View<'_>| {
                let first = shard_of(view, table, hash);
                (first, first.is_some())
            };
            for fresh in [route == Route::NewCopies, true] {
                let root = machine.view_copy(table, fresh, look).await?;
                let Some(Some(root)) = root else {
                    continue;
                };
                let first = machine.view_copy(root.directory, fresh, shard).await?;
                if let Some(Some(first)) = first {
                    return Ok(Some(HomeLocation::of(root, first, hash)));
                }
            }
            Ok(None)
        })
    }

    /// Reads the home of a key. Returns `None` if there is no bucket; if copies have led there, the
    /// caller must search again.
    pub(crate) async fn look<T: Send>(
        &self,
        tx: &mut Transaction,
        spot: &HomeLocation,
        key: &Key<'_>,
        mut found: impl FnMut(&Bucket<'_, '_>, usize) -> T + Send,
    ) -> Result<Option<(HomeRead<T>, ReadEntry)>, Stop> {
        let (table, index) = (self.root, spot.index);
        if tx.has_patches() {
            self.re_route_patches(tx, spot.home).await?;
        }
        let seen = tx
            .view(spot.home, None, |view| {
                let is_home = |bucket: &Bucket<'_, '_>| {
                    bucket.is_home(key.hash, index) && bucket.fits(&spot.root)
                };
                let Some(bucket) = Bucket::open(view, table).filter(is_home) else {
                    return HomeRead::Stale;
                };
                match bucket.find(key) {
                    Some(slot) => HomeRead::Found(found(&bucket, slot)),
                    None => HomeRead::Absent {
                        versions: bucket.versions(),
                        chain: bucket.chain(),
                        free: bucket.free_slot().is_some(),
                        away: bucket.may_be_away(key),
                    },
                }
            })
            .await?;
        Ok(seen)
    }

    /// Finds a key. If the key is absent, or not in its home, the home joins the read set.
    pub(crate) async fn find<T: Send>(
        &self,
        tx: &mut Transaction,
        key: &Key<'_>,
        mut found: impl FnMut(&Bucket<'_, '_>, usize) -> T + Send,
    ) -> Result<(HomeLocation, Option<(T, KeyLocation, ReadEntry)>), Stop> {
        let mut route = Route::Copies;
        for _ in 0..MAX_STEPS {
            let snapshot = tx.read_timestamp();
            let spot = self.locate(tx, key.hash, route).await?;
            let looked = match self.look(tx, &spot, key, &mut found).await {
                Ok(None) if route == Route::Snapshot => return Err(NO_HOME),
                // Copies may lead to a block that no longer exists.
                Err(Stop::Damaged) if route != Route::Snapshot => None,
                looked => looked?,
            };
            // Copies that have not led to the home are not used again.
            route = route.next(tx.machine(), self.root);
            let Some(looked) = looked else { continue };
            let (away, chain) = match looked {
                (HomeRead::Found(value), seen) => {
                    return Ok((spot, Some((value, KeyLocation::Home, seen))));
                }
                (HomeRead::Stale, _) => continue,
                (
                    HomeRead::Absent {
                        versions,
                        chain,
                        away,
                        ..
                    },
                    seen,
                ) => {
                    // Before anything else is read: the further reads depend on the home.
                    if tx.mode() == Mode::ReadWrite {
                        tx.guard_keys(
                            seen,
                            &TABLE,
                            &kind::note(key, self.root, &spot.root, versions, None),
                        );
                    }
                    (away, chain)
                }
            };
            if !away {
                return Ok((spot, None));
            }
            match self.find_away(tx, &spot, chain, key, &mut found).await? {
                // The transaction's own patches may have been re-routed meanwhile.
                Err(HomeChanged) => continue,
                Ok(_) if tx.has_patches() && tx.read_timestamp() != snapshot => continue,
                Ok(found) => return Ok((spot, found)),
            }
        }
        Err(Stop::Retry(AbortReason::RefreshFailed))
    }

    /// Finds a key in the bucket after its home and in the home's overflow chain. The home's
    /// version protects its absence there.
    pub(crate) async fn find_away<T: Send>(
        &self,
        tx: &mut Transaction,
        spot: &HomeLocation,
        mut chain: FatPtr,
        key: &Key<'_>,
        found: &mut (impl FnMut(&Bucket<'_, '_>, usize) -> T + Send),
    ) -> Result<Result<Option<(T, KeyLocation, ReadEntry)>, HomeChanged>, Stop> {
        let next = spot.next();
        if tx.has_patches() && self.re_route_patches(tx, next).await? {
            return Ok(Err(HomeChanged));
        }
        if let Some((value, seen)) = self.search(tx, next, key, found).await? {
            return Ok(Ok(Some((value, KeyLocation::Next, seen))));
        }
        for _ in 0..MAX_CHAIN {
            if chain.is_null() {
                return Ok(Ok(None));
            }
            if tx.has_patches() && self.re_route_patches(tx, chain.addr).await? {
                return Ok(Err(HomeChanged));
            }
            count(Event::BlockRead);
            match self.search(tx, chain.addr, key, found).await? {
                Some((value, seen)) => {
                    return Ok(Ok(Some((value, KeyLocation::Block(chain.addr), seen))));
                }
                None => chain = self.next_block(tx, chain.addr).await?,
            }
        }
        Err(Stop::Damaged)
    }

    /// Re-routes pending patches of this transaction that a refresh could not apply, before the
    /// object is read or overwritten. The transaction must have patches. Returns whether there were
    /// any to re-route.
    pub(crate) async fn re_route_patches(
        &self,
        tx: &mut Transaction,
        at: Addr,
    ) -> Result<bool, Stop> {
        if tx.patch_is_stale(at).await? != Some(true) {
            return Ok(false);
        }
        write::reroute(tx, at).await?;
        Ok(true)
    }

    /// Searches for a key in a bucket or block that is not its home.
    async fn search<T: Send>(
        &self,
        tx: &mut Transaction,
        at: Addr,
        key: &Key<'_>,
        found: &mut (impl FnMut(&Bucket<'_, '_>, usize) -> T + Send),
    ) -> Result<Option<(T, ReadEntry)>, Stop> {
        let table = self.root;
        let look = |view: &View<'_>| {
            let bucket = Bucket::open(view, table)?;
            bucket.find(key).map(|slot| found(&bucket, slot))
        };
        Ok(match tx.view(at, None, look).await? {
            Some((Some(value), seen)) => Some((value, seen)),
            _ => None,
        })
    }

    pub(crate) async fn next_block(&self, tx: &mut Transaction, at: Addr) -> Result<FatPtr, Stop> {
        let table = self.root;
        let next = tx
            .view(at, None, |view| {
                Bucket::open(view, table).map(|block| block.chain())
            })
            .await?;
        next.and_then(|(next, _)| next)
            .ok_or(Stop::Retry(AbortReason::ReadConflict))
    }

    /// Returns the value of a key, if values are two words (fat pointers). The absence of the key
    /// joins the read set; a found value does so as [`HashOptions::guard_hits`] says.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] also if no table is at the root.
    pub async fn get(&self, tx: &mut Transaction, key: &[u8]) -> Result<Option<[u64; 2]>, Stop> {
        let mut value = [0; 2];
        Ok(self.get_into(tx, key, &mut value).await?.then_some(value))
    }

    /// Copies the value of a key to `out`, as many words as both have. Returns `false` if the key
    /// is absent; its absence joins the read set. Reads as [`Self::get`] does.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_into(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        out: &mut [u64],
    ) -> Result<bool, Stop> {
        let Some(key) = Key::new(key) else {
            return Ok(false);
        };
        count(Event::Lookup);
        let guarding = tx.mode() == Mode::ReadWrite;
        let take = |bucket: &Bucket<'_, '_>, slot: usize| {
            bucket.value(slot, out);
            if guarding { bucket.value_hash(slot) } else { 0 }
        };
        let (spot, found) = self.find(tx, &key, take).await?;
        let Some((hash, _, seen)) = found else {
            return Ok(false);
        };
        if guarding && spot.root.flags & FLAG_GUARD_HITS != 0 {
            let note = kind::note(&key, self.root, &spot.root, Versions::default(), Some(hash));
            tx.guard_keys(seen, &TABLE, &note);
        }
        Ok(true)
    }
}

/// Returns the depth of the directory and the buckets of a shard for a capacity.
fn plan(options: &HashOptions, shape: Shape, most: usize) -> (u8, usize) {
    let wanted = options
        .capacity
        .saturating_mul(100)
        .div_ceil(PLANNED_PERCENT * shape.slots);
    let large = LARGE_SHARD.min(wanted / MANY_SHARDS);
    let per_shard = options.shard_buckets.max(large).clamp(1, most);
    let mut depth = 0;
    while depth < MAX_DEPTH && wanted.div_ceil(1 << depth) > per_shard {
        depth += 1;
    }
    if depth == 0 {
        (0, per_shard)
    } else {
        (depth, wanted.div_ceil(1 << depth).clamp(1, most))
    }
}

/// Returns a directory of empty entries.
pub(crate) fn directory_image(depth: u8, root: Addr) -> Vec<u64> {
    let mut image = vec![0; DIRECTORY_HEADER + (1 << depth)];
    image[0] = (DIRECTORY_MAGIC << 48) | (u64::from(depth) << 40);
    image[1] = root.raw();
    image
}

/// Allocates the empty buckets of a shard in consecutive slots.
async fn new_shard(
    tx: &mut Transaction,
    root: &Root,
    table: Addr,
    (depth, prefix): (u8, u64),
) -> Result<Addr, Stop> {
    let (words, near) = (root.shape.words(), ObjectLocation::Object(table));
    let first = tx.alloc_run(words, root.buckets + 1, near).await?;
    for index in 0..=root.buckets {
        let ptr = FatPtr {
            addr: root.bucket(first.addr, index),
            ..first
        };
        tx.write_new(ptr, &image::bucket(root, table, depth, prefix, index))?;
    }
    Ok(first.addr)
}
