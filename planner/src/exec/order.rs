//! Stable sorting in pieces: a statement that sorts many rows yields to other tasks meanwhile.
//!
//! ```text
//! indexes ─► runs of RUN, each sorted without a pause ─► merged in pairs, element by element
//! ```

use std::cmp::Ordering;

use fencepost_sql::error::SqlError;

use super::cx::Cx;

/// The number of indexes that are sorted without a pause.
const RUN: usize = 512;

/// Sorts `order` stably by `compare`.
///
/// # Errors
/// As [`Cx::pause`].
pub async fn sort_indexes<F>(
    order: &mut Vec<u32>,
    cx: &mut Cx<'_>,
    compare: F,
) -> Result<(), SqlError>
where
    F: Fn(u32, u32) -> Ordering + Send + Sync,
{
    for run in order.chunks_mut(RUN) {
        run.sort_by(|a, b| compare(*a, *b));
        cx.pause().await?;
    }
    let mut merged = Vec::new();
    let mut width = RUN;
    while width < order.len() {
        merged.clear();
        merged.reserve(order.len());
        for pair in order.chunks(width * 2) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge((left, right), &mut merged, cx, &compare).await?;
        }
        std::mem::swap(order, &mut merged);
        width *= 2;
    }
    Ok(())
}

/// Appends two sorted runs to `merged`, in order. Of equal elements, those of the left run come
/// first.
async fn merge<F>(
    (mut left, mut right): (&[u32], &[u32]),
    merged: &mut Vec<u32>,
    cx: &mut Cx<'_>,
    compare: &F,
) -> Result<(), SqlError>
where
    F: Fn(u32, u32) -> Ordering + Send + Sync,
{
    let is_apart = match (left.last(), right.first()) {
        (Some(left), Some(right)) => compare(*left, *right).is_le(),
        _ => true,
    };
    while !is_apart && let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
        if cx.is_due() {
            cx.pause().await?;
        }
        if compare(*a, *b).is_le() {
            merged.push(*a);
            left = left_rest;
        } else {
            merged.push(*b);
            right = right_rest;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    cx.breathe().await
}
