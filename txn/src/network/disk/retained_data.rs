//! The data that a machine's disk had before its eviction, in memory of its own.
//!
//! Transactions in doubt are not part of it.

use std::sync::Arc;

use fencepost_cluster::few::FewSet;
use fencepost_storage::region::Regions;
use fencepost_storage::{PrivateBacking, RegionId};

use super::log_content::LogContent;
use super::replay;
use crate::network::retained_data::RetainedData;
use crate::options::{DurableStorage, OpenError};
use crate::start::{self, Directory, ROOT_BLOCK};

/// Loads the regions that the machine had completely before it became another machine; `None` if
/// there is nothing to use.
pub fn load(
    durable: &DurableStorage,
    directory: &Directory,
    left: &LogContent,
    region_bytes: usize,
) -> Option<RetainedData> {
    let (before, until) = (left.before.as_ref()?, left.joined?);
    let (begun, holdings) = (before.begun.as_ref()?, before.holdings.as_ref()?);
    let cluster = left.begun.as_ref().map(|begun| begun.cluster);
    if cluster != Some(begun.cluster) || begun.region_bytes != region_bytes as u64 {
        return None;
    }
    let whole = holdings.held.values().filter(|held| held.whole);
    let whole: FewSet<RegionId> = whole.map(|held| held.mapping.region).collect();
    let regions = Regions::with(region_bytes, Arc::new(PrivateBacking));
    let load = || -> Result<(), OpenError> {
        for region in &whole {
            regions.reserve(*region, false)?;
            regions.keep(*region);
            if *region == ROOT_BLOCK.region {
                start::make_root_backup(&regions)?;
            }
        }
        let own = |region: RegionId| whole.contains(&region);
        if before.joined.is_none() {
            directory.load(&regions, &own)?;
        }
        let mut log = directory.log(durable)?;
        replay::before(&mut log, &regions, &own, (before.joined, until))
    };
    load().ok().map(|()| RetainedData::replayed(regions))
}
