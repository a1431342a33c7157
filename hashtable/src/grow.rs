//! Growth: a full shard is split in two by one more bit of the hash, while the other shards stay in
//! use.
//!
//! The split is a transaction of its own, unless the user's transaction depends on the shard. In
//! that case the user's transaction splits the shard as it sees it, and an abort undoes the split.
//! Half of the pairs move to a new shard, whose buckets are again consecutive. All pairs are placed
//! again, so most overflow chains disappear. The directory doubles when a shard needs more bits
//! than the directory has. A reader of an older snapshot reads the directory of its snapshot, and
//! so the shard before the split.

use std::collections::BTreeMap;

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{AbortReason, Mode, NodeKind, ObjectLocation, Outcome, Stop, Transaction};

use crate::counters::{Event, count};
use crate::hash;
use crate::image::{self, Pair};
use crate::kind::TABLE;
use crate::layout::{Bucket, DIRECTORY_HEADER, DIRECTORY_MAGIC, Root, Shape};
use crate::op;
use crate::place::Window;
use crate::table::{HashTable, HomeLocation, MAX_DEPTH, directory_image};
use crate::write::{self, ObjectSnapshot};

/// Share of slots in use, in percent, from which a shard grows when there is no slot for a key.
const GROW_PERCENT: usize = 95;
/// Most attempts of a split that loses races with writers.
const ATTEMPTS: usize = 100;

/// A shard of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard {
    pub(crate) first: Addr,
    pub(crate) depth: u8,
    pub(crate) prefix: u64,
}

impl HashTable {
    /// Returns the root and all shards, as the transaction sees them.
    pub(crate) async fn shards(&self, tx: &mut Transaction) -> Result<(Root, Vec<Shard>), Stop> {
        let kind = if tx.mode() == Mode::ReadOnly {
            None
        } else {
            Some(&TABLE as &'static dyn NodeKind)
        };
        let root = tx
            .view(self.root, kind, Root::open)
            .await?
            .and_then(|(root, _)| root)
            .ok_or(Stop::Damaged)?;
        let mut entries = vec![0; 1 << root.depth.min(32)];
        let read = |view: &View<'_>| {
            view.copy(DIRECTORY_HEADER, &mut entries);
            view.word(0) >> 48 == DIRECTORY_MAGIC
        };
        let seen = tx.view(root.directory, kind, read).await?;
        if !seen.is_some_and(|(whole, _)| whole) {
            return Err(Stop::Retry(AbortReason::RefreshFailed));
        }
        let mut shards = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            let shard = self.shard(tx, Addr::from_raw(*entry)).await?;
            if shard.prefix == i as u64 {
                shards.push(shard);
            }
        }
        Ok((root, shards))
    }

    pub(crate) async fn shard(&self, tx: &mut Transaction, first: Addr) -> Result<Shard, Stop> {
        let table = self.root;
        let read = |view: &View<'_>| {
            Bucket::open(view, table).map(|bucket| (bucket.depth, bucket.prefix()))
        };
        let seen = tx
            .view(first, None, read)
            .await?
            .and_then(|(shard, _)| shard);
        let (depth, prefix) = seen.ok_or(Stop::Retry(AbortReason::RefreshFailed))?;
        Ok(Shard {
            first,
            depth,
            prefix,
        })
    }
}

/// Returns whether a shard is so full that it should grow instead of getting another overflow
/// block.
pub(crate) async fn wanted(
    table: &HashTable,
    tx: &mut Transaction,
    spot: &HomeLocation,
) -> Result<bool, Stop> {
    let mut used = 0;
    let root = table.root;
    for index in 0..=spot.root.buckets {
        let at = spot.root.bucket(spot.first, index);
        let seen = tx
            .view(at, None, |view| {
                Bucket::open(view, root).map_or(0, |bucket| bucket.used())
            })
            .await?;
        used += seen.map_or(0, |(used, _)| used);
    }
    Ok(used * 100 >= spot.root.buckets * spot.root.shape.slots * GROW_PERCENT)
}

/// Splits the shard of a spot. Returns `false` if the shard cannot grow any more, is too large for
/// a transaction, or other transactions win every race.
pub(crate) async fn grow(
    table: &HashTable,
    tx: &mut Transaction,
    spot: &HomeLocation,
) -> Result<bool, Stop> {
    // A split by another transaction would make this one fail if it has changed or guarded objects
    // there.
    let end = spot.root.bucket(spot.first, spot.root.buckets + 1);
    let mut own = tx.owns(table.root) || tx.guards_between(spot.first, end);
    for index in 0..=spot.root.buckets {
        let seen = tx
            .view(spot.root.bucket(spot.first, index), None, |_| ())
            .await?;
        own |= seen.is_some_and(|((), seen)| seen.is_own());
    }
    if own {
        return split(table, tx, spot.first).await;
    }
    let mut doubts = 0;
    for _ in 0..ATTEMPTS {
        let mut system = tx.system();
        let stop = match split(table, &mut system, spot.first).await {
            Ok(false) => return Ok(false),
            Ok(true) => match system.commit().await {
                Ok(Outcome::Committed(_)) => {
                    // On the old snapshot the shard would be as full as before.
                    tx.refresh().await?;
                    return Ok(true);
                }
                Ok(Outcome::Aborted(_)) => continue,
                // The shard is on another machine, which may be able to split it itself.
                Err(Stop::TooLarge(_)) => return Ok(false),
                Err(stop) => stop,
            },
            Err(stop) => stop,
        };
        if !matches!(stop, Stop::Retry(_)) {
            tx.doubt_system(stop, doubts).await?;
            doubts += 1;
        }
    }
    Ok(false)
}

/// The contents of a shard.
struct Content {
    copies: Vec<ObjectSnapshot>,
    blocks: Vec<ObjectSnapshot>,
    /// Pairs with the hashes of their keys.
    pairs: Vec<(u64, Pair)>,
}

async fn split(table: &HashTable, tx: &mut Transaction, first: Addr) -> Result<bool, Stop> {
    let seen = tx.view(table.root, None, Root::open).await?;
    let (root, root_seen) = match seen {
        Some((Some(root), seen)) => (root, seen),
        _ => return Err(Stop::Damaged),
    };
    let shard = table.shard(tx, first).await?;
    if shard.depth >= MAX_DEPTH {
        return Ok(false);
    }
    let content = gather(table, tx, &root, first).await?;
    let mut directory = root.directory;
    if shard.depth == root.depth {
        tx.guard(root_seen);
        directory = double(table, tx, &root).await?;
    }
    let bit = 1u64 << shard.depth;
    let near = ObjectLocation::Object(table.root);
    let upper_first = tx
        .alloc_run(root.shape.words(), root.buckets + 1, near)
        .await?;
    for upper in [false, true] {
        let prefix = shard.prefix | if upper { bit } else { 0 };
        let pairs = content
            .pairs
            .iter()
            .filter(|(hash, _)| (hash & bit != 0) == upper);
        let (window, crowded) = fill(table.root, &root, shard.depth + 1, prefix, pairs);
        let mut chains = chain_up(table.root, tx, &root, first, prefix, crowded).await?;
        for (index, mut image) in window.images.into_iter().enumerate() {
            if let Some((at, tags)) = chains.remove(&index) {
                image::set_chain(&mut image, at);
                tags.iter()
                    .for_each(|tag| image::add_away(&mut image, *tag));
            }
            let mut versions = image::versions(&image);
            let copied = &content.copies[index];
            let then = image::versions(&copied.before);
            // Both versions of a pair of neighbours change by the same amount, and no version is
            // repeated.
            versions.forward = versions.forward.wrapping_add(then.forward).wrapping_add(1);
            versions.backward = versions
                .backward
                .wrapping_add(then.backward)
                .wrapping_add(1);
            versions.chain = then.chain.wrapping_add(1);
            image::set_versions(&mut image, versions);
            if upper {
                let ptr = FatPtr {
                    addr: root.bucket(upper_first.addr, index),
                    ..upper_first
                };
                tx.write_new(ptr, &image)?;
            } else {
                table.put_back(tx, copied, &image).await?;
            }
        }
    }
    for block in content.blocks {
        // The block is freed only at the version from which its pairs were taken.
        table.put_back(tx, &block, &block.before).await?;
        write::release(tx, block.at).await?;
    }
    let op = op::encode_grow(
        table.root,
        shard.prefix | bit,
        shard.depth,
        first,
        upper_first.addr,
    );
    if tx.patch(directory, &TABLE, &op).await?.is_err() {
        return Err(Stop::Retry(AbortReason::NodeConflict));
    }
    count(Event::ShardGrown);
    Ok(true)
}

/// Reads a whole shard.
async fn gather(
    table: &HashTable,
    tx: &mut Transaction,
    root: &Root,
    first: Addr,
) -> Result<Content, Stop> {
    let mut content = Content {
        copies: Vec::new(),
        blocks: Vec::new(),
        pairs: Vec::new(),
    };
    for index in 0..=root.buckets {
        let (image, copied) = table.copy(tx, root.bucket(first, index)).await?;
        unload(table.root, root.shape, &image, &mut content.pairs);
        let mut block = image::chain(&image);
        content.copies.push(copied);
        while !block.is_null() {
            let (image, copied) = table.copy(tx, block.addr).await?;
            unload(table.root, root.shape.block(), &image, &mut content.pairs);
            content.blocks.push(copied);
            block = image::chain(&image);
        }
    }
    Ok(content)
}

/// Adds the pairs of an image to `pairs`.
fn unload(root: Addr, shape: Shape, image: &[u64], pairs: &mut Vec<(u64, Pair)>) {
    let mut key = Vec::new();
    let view = View::Own(image);
    let Some(bucket) = Bucket::open(&view, root) else {
        return;
    };
    for slot in (0..shape.slots).filter(|slot| !bucket.is_free(*slot)) {
        key.clear();
        bucket.append_key(slot, &mut key);
        pairs.push((hash::hash(&key), image::pair_at(image, shape, slot)));
    }
}

/// Places pairs in a new shard. Returns the shard's images, and the pairs without a slot with the
/// indexes of their homes.
fn fill<'a>(
    table: Addr,
    root: &Root,
    depth: u8,
    prefix: u64,
    pairs: impl Iterator<Item = &'a (u64, Pair)>,
) -> (Window, Vec<(usize, &'a Pair)>) {
    let images = (0..=root.buckets)
        .map(|index| image::bucket(root, table, depth, prefix, index))
        .collect();
    let mut window = Window::new(root.shape, root.buckets, 0, images);
    let mut crowded = Vec::new();
    for (hash, pair) in pairs {
        let home = root.home(*hash);
        if !window.place(home, pair) {
            crowded.push((home, pair));
        }
    }
    (window, crowded)
}

/// Overflow chains by home, with the tags of their keys.
type Chains = BTreeMap<usize, (FatPtr, Vec<u64>)>;

/// Puts pairs without a slot into new overflow chains.
async fn chain_up(
    table: Addr,
    tx: &mut Transaction,
    root: &Root,
    near: Addr,
    prefix: u64,
    crowded: Vec<(usize, &Pair)>,
) -> Result<Chains, Stop> {
    let shape = root.shape.block();
    let mut chains = Chains::new();
    for (home, pair) in crowded {
        let (head, tags) = chains.entry(home).or_default();
        let new = tx
            .alloc(shape.words(), ObjectLocation::Object(near))
            .await?;
        tx.write_new(
            new,
            &image::block(root.shape, table, prefix, home, *head, pair),
        )?;
        *head = new;
        tags.extend(pair.first());
    }
    Ok(chains)
}

/// Replaces the directory by one of twice the size.
async fn double(table: &HashTable, tx: &mut Transaction, root: &Root) -> Result<Addr, Stop> {
    let half = 1usize << root.depth;
    let mut image = directory_image(root.depth + 1, table.root);
    let seen = tx
        .view(root.directory, None, |view| {
            view.copy(
                DIRECTORY_HEADER,
                &mut image[DIRECTORY_HEADER..DIRECTORY_HEADER + half],
            );
            view.word(0) >> 48 == DIRECTORY_MAGIC
        })
        .await?;
    match seen {
        Some((true, seen)) => tx.guard(seen),
        _ => return Err(Stop::Retry(AbortReason::ReadConflict)),
    }
    image.copy_within(
        DIRECTORY_HEADER..DIRECTORY_HEADER + half,
        DIRECTORY_HEADER + half,
    );
    let new = tx
        .alloc(image.len(), ObjectLocation::Object(table.root))
        .await?;
    tx.write_new(new, &image)?;
    write::release(tx, root.directory).await?;
    let grown = Root {
        depth: root.depth + 1,
        directory: new.addr,
        ..*root
    };
    tx.write(table.root, &grown.to_words(table.root)).await?;
    Ok(new.addr)
}
