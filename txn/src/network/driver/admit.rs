//! Joining machines: the CM reads requests at the join endpoint, and adds each machine that knows
//! the secret to the next configuration.
//!
//! ```text
//! join endpoint ─► Admission ─► reconfiguration with one machine more ─► Wished ─► answer
//! ```
//! [`fencepost_cluster::join`] describes the messages. A joined machine is told its configuration
//! like all others; it serves once all regions are active in it.

use std::sync::atomic::Ordering;

use fencepost_cluster::SwapOutcome;
use fencepost_cluster::join::{Admission, AdmissionAction, JoinMessage, Nonce, Outsider};

use super::{Input, ReconfigurationDriver, State};
use crate::network::Network;
use crate::network::disk::Disk;

/// Nanoseconds between two checks of the join endpoint.
const EVERY_NS: u64 = 20_000_000;
/// The time of the next check while a thread is checking.
const NEVER: u64 = u64::MAX;

impl Network {
    /// Checks the join endpoint, if this machine is the CM and a check is due.
    pub(in crate::network) fn serve_join_requests(&self) {
        let Some(driver) = self.driver.as_ref() else {
            return;
        };
        let Some(join_endpoint) = &driver.join_endpoint else {
            return;
        };
        if self.configured.cm() != self.me {
            return;
        }
        let (now, due) = (
            driver.clock.now_ns(),
            driver.endpoint_check_at.load(Ordering::Relaxed),
        );
        let relaxed = Ordering::Relaxed;
        // No other thread checks meanwhile, however long it takes: a request is taken once.
        let mine = || {
            driver
                .endpoint_check_at
                .compare_exchange(due, NEVER, Ordering::Acquire, relaxed)
        };
        if now < due || mine().is_err() {
            return;
        }
        for (outsider, message) in join_endpoint.requests() {
            self.inbox.push(Input::JoinRequest(outsider, message));
        }
        let next = driver.clock.now_ns().saturating_add(EVERY_NS);
        driver.endpoint_check_at.store(next, Ordering::Release);
    }

    /// Handles a request of a machine that wants to join.
    pub(super) fn admit(
        &self,
        driver: &ReconfigurationDriver,
        state: &mut State,
        outsider: Outsider,
        message: JoinMessage,
    ) {
        let (Some(join_endpoint), Some(admission)) = (&driver.join_endpoint, &mut state.admission)
        else {
            return;
        };
        let data = self.disk.as_ref().map(Disk::data);
        admission.keep(data, state.reconfiguration.is_in_force());
        let fresh = Nonce::draw(&mut state.random);
        match admission.receive(outsider, message, fresh) {
            AdmissionAction::Answer(answer) => join_endpoint.answer(outsider, &answer),
            AdmissionAction::Store { new, .. } => {
                let joiner = new.machines().last();
                let joiner = joiner.expect("CONFIG-1: a configuration has machines");
                let (address, domain) = (joiner.address.clone(), joiner.domain.clone());
                let now = driver.clock.now_ns();
                match state.reconfiguration.add(now, address, domain) {
                    Ok(actions) => state.actions.extend(actions),
                    Err(_) => self.wished(driver, state, false),
                }
            }
            AdmissionAction::Nothing => {}
        }
    }

    /// Answers a joining machine: the configuration with it is in the store, or its request failed.
    pub(super) fn wished(&self, driver: &ReconfigurationDriver, state: &mut State, stored: bool) {
        let (Some(join_endpoint), Some(admission)) = (&driver.join_endpoint, &mut state.admission)
        else {
            return;
        };
        if let Some((outsider, answer)) = admission.stored(stored.then_some(SwapOutcome::Won)) {
            join_endpoint.answer(outsider, &answer);
        }
    }
}

/// Returns the state for admitting machines, if this machine has a join endpoint.
pub(super) fn admission(options: &crate::network::NetworkOptions) -> Option<Admission> {
    let endpoint = options.join_endpoint.as_ref()?;
    let (me, secret) = (options.fabric.me(), endpoint.secret().clone());
    Some(Admission::new(me, secret, options.configuration.clone()))
}
