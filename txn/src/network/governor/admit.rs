//! Machines that join: the CM looks who is at the door, and has those who know the secret in the next configuration.
//!
//! ```text
//! door ─► Admission ─► reconfiguration with one machine more ─► Wished ─► answer
//! ```
//! What they say to each other is in [`fencepost_cluster::join`]. A machine that has joined is told its configuration as
//! all others are; it serves once all regions are active in it.

use std::sync::atomic::Ordering;

use fencepost_cluster::Swapped;
use fencepost_cluster::join::{Admission, Admitted, JoinMessage, Nonce, Stranger};

use super::{Governor, Input, State};
use crate::network::Network;
use crate::network::disk::Disk;

/// Nanoseconds between two looks at the door.
const EVERY_NS: u64 = 20_000_000;
/// When the next look is, while somebody looks.
const NEVER: u64 = u64::MAX;

impl Network {
    /// Looks who is at the door, if this machine is the CM and it is time.
    pub(in crate::network) fn look_at_door(&self) {
        let Some(governor) = self.governor.as_ref() else {
            return;
        };
        let Some(door) = &governor.door else {
            return;
        };
        if self.configured.cm() != self.me {
            return;
        }
        let (now, due) = (
            governor.clock.now_ns(),
            governor.door_at.load(Ordering::Relaxed),
        );
        let relaxed = Ordering::Relaxed;
        // Nobody else looks meanwhile, however long it takes: a letter is taken once.
        let mine = || {
            governor
                .door_at
                .compare_exchange(due, NEVER, Ordering::Acquire, relaxed)
        };
        if now < due || mine().is_err() {
            return;
        }
        for (stranger, message) in door.letters() {
            self.inbox.push(Input::Stranger(stranger, message));
        }
        let next = governor.clock.now_ns().saturating_add(EVERY_NS);
        governor.door_at.store(next, Ordering::Release);
    }

    /// Takes a letter of somebody who wants to join.
    pub(super) fn admit(
        &self,
        governor: &Governor,
        state: &mut State,
        stranger: Stranger,
        message: JoinMessage,
    ) {
        let (Some(door), Some(admission)) = (&governor.door, &mut state.admission) else {
            return;
        };
        let data = self.disk.as_ref().map(Disk::data);
        admission.keep(data, state.reconfiguration.is_in_force());
        let fresh = Nonce::draw(&mut state.random);
        match admission.receive(stranger, message, fresh) {
            Admitted::Answer(answer) => door.answer(stranger, &answer),
            Admitted::Store { new, .. } => {
                let joiner = new.machines().last();
                let joiner = joiner.expect("CONFIG-1: a configuration has machines");
                let (address, domain) = (joiner.address.clone(), joiner.domain.clone());
                let now = governor.clock.now_ns();
                match state.reconfiguration.add(now, address, domain) {
                    Ok(actions) => state.actions.extend(actions),
                    Err(_) => self.wished(governor, state, false),
                }
            }
            Admitted::Nothing => {}
        }
    }

    /// The wish for a further machine is in the store, or is not fulfilled: who waits for that is told.
    pub(super) fn wished(&self, governor: &Governor, state: &mut State, stored: bool) {
        let (Some(door), Some(admission)) = (&governor.door, &mut state.admission) else {
            return;
        };
        if let Some((stranger, answer)) = admission.stored(stored.then_some(Swapped::Won)) {
            door.answer(stranger, &answer);
        }
    }
}

/// How the machine lets others in, where there is a door.
pub(super) fn admission(options: &crate::network::NetworkOptions) -> Option<Admission> {
    let door = options.door.as_ref()?;
    let (me, secret) = (options.fabric.me(), door.secret().clone());
    Some(Admission::new(me, secret, options.configuration.clone()))
}
