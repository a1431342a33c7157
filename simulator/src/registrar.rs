//! A machine's access to the configuration store, which ends when the machine crashes.

use std::future::pending;
use std::sync::Arc;

use fencepost_cluster::store::Answer;
use fencepost_cluster::{ConfigurationId, SwapOutcome};
use fencepost_fabric::{MachineId, TapVerdict};
use fencepost_txn::network::{ConfigStore, Configuration, LocalStore};

use crate::faults::{CrashPoints, SWAP};

/// The configuration store as one machine uses it.
pub struct Registrar {
    store: Arc<LocalStore>,
    machine: MachineId,
    trips: CrashPoints,
}

impl Registrar {
    /// Returns a machine's access to the shared store.
    pub fn of(store: &Arc<LocalStore>, machine: MachineId, trips: &CrashPoints) -> Arc<Registrar> {
        Arc::new(Registrar {
            store: Arc::clone(store),
            machine,
            trips: trips.clone(),
        })
    }

    fn is_dead(&self) -> bool {
        self.trips.crash_state(self.machine).has_crashed()
    }
}

impl ConfigStore for Registrar {
    fn read(&self) -> Answer<'_, Option<Configuration>> {
        match self.is_dead() {
            true => Box::pin(pending()),
            false => self.store.read(),
        }
    }

    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, SwapOutcome> {
        Box::pin(async move {
            let tapped = match self.is_dead() {
                true => Some(TapVerdict::CrashesBefore),
                false => self.trips.take(self.machine, SWAP),
            };
            if tapped != Some(TapVerdict::CrashesBefore) {
                let swapped = self.store.compare_and_swap(expected, new).await;
                if tapped.is_none() {
                    return swapped;
                }
            }
            self.trips.crash_state(self.machine).crash();
            pending().await
        })
    }
}
