//! The tests of every kind of store, with several handles to one store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use fencepost_cluster::{
    Address, ClusterId, ConfigStore, Configuration, ConfigurationId, FailureDomain, StoreError,
    SwapOutcome,
};
use pollster::block_on;

/// The handles of several writers to one store.
pub type Handles = Vec<Arc<dyn ConfigStore>>;

pub fn founded(cluster: u128, host: &str) -> Configuration {
    let (address, domain) = place(host);
    Configuration::founded(ClusterId(cluster), address, domain)
}

/// Returns `before` with one more machine, at `host`.
pub fn joined(before: &Configuration, host: &str) -> Configuration {
    let (address, domain) = place(host);
    let joined = before.with_machine(address, domain);
    joined.expect("the address is new").0
}

fn place(host: &str) -> (Address, FailureDomain) {
    let address = Address::new(host).expect("hosts are names");
    (address, FailureDomain::new("rack").expect("it is a name"))
}

/// Checks all invariants, on an empty store.
pub fn check_store_invariants(handles: &Handles) {
    begins_empty_and_takes_configurations_in_order(&*handles[0]);
    keeps_to_one_cluster(&*handles[0]);
    races_have_one_winner_and_readers_never_go_back(handles);
}

fn read(store: &dyn ConfigStore) -> Option<Configuration> {
    block_on(store.read()).expect("the store is well")
}

fn begins_empty_and_takes_configurations_in_order(store: &dyn ConfigStore) {
    assert_eq!(read(store), None);
    let first = founded(1, "first");
    let second = joined(&first, "second");
    let swap = |expected, new| block_on(store.compare_and_swap(expected, new));
    let ended = |expected, new| swap(expected, new).expect("the store is well");
    let third = joined(&second, "third");
    let skipped = swap(Some(first.id()), &third);
    assert!(matches!(skipped, Err(StoreError::OutOfOrder(id)) if id == third.id()));
    assert_eq!(ended(Some(first.id()), &second), SwapOutcome::Lost);
    assert_eq!(read(store), None, "nothing of it is kept");
    assert_eq!(ended(None, &first), SwapOutcome::Won);
    assert_eq!(
        ended(None, &first),
        SwapOutcome::Lost,
        "there has been a first one"
    );
    assert_eq!(ended(Some(first.id()), &second), SwapOutcome::Won);
    assert!(matches!(
        swap(Some(second.id()), &second),
        Err(StoreError::OutOfOrder(_))
    ));
    assert_eq!(ended(Some(first.id()), &second), SwapOutcome::Lost);
    assert_eq!(read(store), Some(second));
}

fn keeps_to_one_cluster(store: &dyn ConfigStore) {
    let stored = read(store);
    let first = founded(2, "stranger");
    let outsider = block_on(store.compare_and_swap(None, &first));
    assert!(matches!(
        outsider,
        Err(StoreError::OtherCluster {
            theirs: ClusterId(1),
            ours: ClusterId(2)
        })
    ));
    assert_eq!(read(store), stored);
}

/// Checks STORE-1 and STORE-2: in each round all writers try to replace the same configuration.
fn races_have_one_winner_and_readers_never_go_back(handles: &Handles) {
    const ROUNDS: u64 = 12;
    let start = read(&*handles[0]).expect("there is a configuration");
    let (barrier, done) = (Barrier::new(handles.len()), AtomicBool::new(false));
    let (wins, seen) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| ids_until(&*handles[0], &done));
        let writers: Vec<_> = (0..)
            .zip(handles)
            .map(|(n, store)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let rounds = 0..ROUNDS;
                    rounds
                        .map(|round| race(&**store, barrier, n, round))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        (ended, reader.join())
    });
    let wins = wins
        .into_iter()
        .flat_map(|rounds| rounds.expect("the writer is well"));
    let wins: Vec<Configuration> = wins
        .filter_map(|round| round.expect("the store is well"))
        .collect();
    let ids: BTreeSet<ConfigurationId> = wins.iter().map(Configuration::id).collect();
    assert_eq!(wins.len() as u64, ROUNDS, "one winner a round");
    assert_eq!(ids.len() as u64, ROUNDS, "a round has one winner");
    let seen = seen.expect("the reader is well");
    assert!(seen.is_sorted(), "a reader never goes back: {seen:?}");
    for store in handles {
        let read = read(&**store).expect("it stays there");
        assert_eq!(read.id(), ConfigurationId(start.id().0 + ROUNDS));
        assert!(wins.contains(&read), "what is read is what won");
    }
}

/// Returns the configuration with which one writer wins a round. All machines read before any
/// writes, and all write before any reads again. Errors are reported at the end, so that no thread
/// waits for ever.
fn race(
    store: &dyn ConfigStore,
    barrier: &Barrier,
    writer: usize,
    round: u64,
) -> Result<Option<Configuration>, StoreError> {
    let current = block_on(store.read());
    barrier.wait();
    let swapped = current.and_then(|current| {
        let current = current.expect("it stays there");
        let new = joined(&current, &format!("writer-{writer}-{round}"));
        let swapped = block_on(store.compare_and_swap(Some(current.id()), &new))?;
        Ok((swapped == SwapOutcome::Won).then_some(new))
    });
    barrier.wait();
    swapped
}

fn ids_until(store: &dyn ConfigStore, done: &AtomicBool) -> Vec<ConfigurationId> {
    let mut seen = Vec::new();
    while !done.load(Ordering::Acquire) {
        let read = read(store).expect("it stays there");
        seen.push(read.id());
    }
    seen
}
