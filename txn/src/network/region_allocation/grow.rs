//! Allocation of a further region for a machine that has used up its own: one request at a time,
//! for all waiters.

use fencepost_cluster::PlacementError;
use fencepost_cluster::allocation::{
    AllocationError, RegionMessage, RequestId, RequestedPlacement,
};
use fencepost_fabric::{Completer, Completion, FabricError, MachineId};
use fencepost_storage::lanes::{Lane, LaneResources};
use fencepost_storage::{Addr, OutOfMemory};

use super::super::Network;
use super::{Deliveries, State};
use crate::machine::Machine;
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

/// Attempts of a waiter to allocate from a new region before other transactions have used all of
/// it.
pub(in crate::network) const ROUNDS: u32 = 64;

/// A request for a region.
pub(super) struct RegionRequest {
    request: RequestId,
    wish: RequestedPlacement,
    pub waiting: Vec<Completer<bool>>,
}

impl State {
    /// Sends a request for a region, with its initial waiters.
    fn ask(
        &mut self,
        wish: RequestedPlacement,
        waiting: Vec<Completer<bool>>,
    ) -> (MachineId, RegionMessage) {
        let (request, cm, message) = self.cache.allocate(wish);
        self.growing = Some(RegionRequest {
            request,
            wish,
            waiting,
        });
        (cm, message)
    }

    fn answered(&mut self, request: RequestId) -> Option<RegionRequest> {
        self.growing.take_if(|growing| growing.request == request)
    }

    /// Tells the waiters that the region exists.
    pub(super) fn grown(&mut self, request: RequestId, deliveries: &mut Deliveries) {
        let growing = self.answered(request).into_iter();
        let waiting = growing.flat_map(|growing| growing.waiting);
        deliveries
            .answers
            .extend(waiting.map(|waiting| (waiting, true)));
    }

    /// Handles a refused request. Returns the request to send instead, if any. If the refusing
    /// machine is unreachable and will be replaced, the waiters retry: memory is not exhausted, and
    /// placement near the region is kept.
    pub(super) fn not_grown(
        &mut self,
        request: RequestId,
        why: AllocationError,
        deliveries: &mut Deliveries,
    ) -> Option<(MachineId, RegionMessage)> {
        let RegionRequest { wish, waiting, .. } = self.answered(request)?;
        if why == AllocationError::Unreachable && self.replaces {
            deliveries.unanswered.extend(waiting);
            return None;
        }
        let elsewhere = matches!(
            why,
            AllocationError::NoSuchRegion(_)
                | AllocationError::Unreachable
                | AllocationError::Placement(PlacementError::GroupUnavailable { .. })
        );
        if wish.near.is_some() && elsewhere {
            return Some(self.ask(RequestedPlacement { near: None, ..wish }, waiting));
        }
        let answers = waiting.into_iter().map(|waiting| (waiting, false));
        deliveries.answers.extend(answers);
        None
    }
}

impl Network {
    /// Requests another region of this machine, near `near` if that is one of its own. Completes
    /// with whether the region was allocated.
    pub fn grow(&self, machine: &Machine, near: Addr) -> Completion<bool> {
        let regions = machine.regions();
        let own = !near.is_null() && regions.is_own(near);
        let near = own.then(|| near.region()).or_else(|| regions.newest());
        let primary = Some(self.me);
        self.ask_for_region(machine, RequestedPlacement { near, primary })
    }

    /// Requests region 0 at the CM, once.
    pub(super) fn create_root_region(&self, machine: &Machine) {
        let first = self.with_state(|state, _| !std::mem::replace(&mut state.root_requested, true));
        if first {
            let (near, primary) = (None, Some(self.me));
            drop(self.ask_for_region(machine, RequestedPlacement { near, primary }));
        }
    }

    fn ask_for_region(&self, machine: &Machine, wish: RequestedPlacement) -> Completion<bool> {
        self.with_state(|state, deliveries| {
            if state.lost.contains(&state.cm) {
                return Completion::done(Err(FabricError::Lost));
            }
            let (completer, grown) = Completion::pending();
            match &mut state.growing {
                Some(growing) => growing.waiting.push(completer),
                None => {
                    let (cm, message) = state.ask(wish, vec![completer]);
                    state.send(&mut self.host(machine), cm, message, deliveries);
                }
            }
            grown
        })
    }
}

/// A function that allocates slots from a lane.
type AllocateSlots<'a> =
    &'a (dyn Fn(&mut Lane, LaneResources<'_>) -> Result<Addr, OutOfMemory> + Sync);

impl Transaction {
    /// Allocates slots of this machine, after it has got another region, if no block is left for
    /// them.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`] if no region can be allocated; [`Stop::Retry`] if the CM cannot be
    /// reached.
    #[cold]
    pub(crate) fn take_of_new_region<'a>(
        &'a self,
        lane: usize,
        near: Addr,
        take: AllocateSlots<'a>,
    ) -> Work<'a, Result<Addr, Stop>> {
        Box::pin(async move {
            let machine = self.machine();
            let Some(network) = machine.network() else {
                return Err(Stop::OutOfMemory);
            };
            network.expect_root()?;
            let regions = machine.regions();
            for _ in 0..ROUNDS {
                if regions.is_full() {
                    let grown = network.grow(machine, near);
                    match network.answered(self.machine(), grown).await {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(_) => return Err(Stop::Retry(AbortReason::Unreachable)),
                    }
                }
                let there = regions.count();
                if let Ok(addr) = machine.take_slots(lane, take) {
                    return Ok(addr);
                }
                // The failure does not come from a missing region.
                if !regions.is_full() && regions.count() == there {
                    break;
                }
            }
            Err(Stop::OutOfMemory)
        })
    }
}
