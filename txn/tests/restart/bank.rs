//! Many concurrent clients move amounts between accounts of all machines, and power is lost at any
//! time.
//!
//! The number of a client determines its transfers, and each transfer increments the client's own
//! counter object. So the counters determine the balances of all accounts: a transfer has taken
//! effect completely or not at all. If a transfer was reported to its client, it survives. Clients
//! end at random points, and start again.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_fabric::CrashLoss;
use fencepost_fabric::random::Random;
use fencepost_txn::{Addr, Mode, Outcome, Stop, Timestamp};

use crate::disk::Disks;
use crate::host::Machines;

const ACCOUNTS: usize = 9;
const CLIENTS: usize = 6;
const OPENING: u64 = 1000;

/// The objects: accounts, some of them long, and the clients' counters.
#[derive(Clone)]
struct Bank {
    accounts: Vec<Addr>,
    counts: Vec<Addr>,
}

impl Bank {
    fn open(machines: &Machines) -> Bank {
        let account = |at: usize| machines.object(at % 3, [2, 90][at % 2], OPENING);
        Bank {
            accounts: (0..ACCOUNTS).map(account).collect(),
            counts: (0..CLIENTS)
                .map(|at| machines.object(at % 3, 1, 0))
                .collect(),
        }
    }

    /// Returns the transfer number `count` of a client: the source, the target and the amount.
    fn transfer(client: usize, count: u64) -> (usize, usize, u64) {
        let mut random = Random::new((client as u64) << 32 | count);
        let from = random.below(ACCOUNTS as u64) as usize;
        let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
        (from, to, random.below(10))
    }

    /// Returns the first word of an object, read by a machine.
    fn value(machines: &Machines, at: usize, addr: Addr) -> u64 {
        machines.words(at, addr).expect("there")[0]
    }

    /// Checks that the state is consistent, and contains all transfers reported to clients.
    fn check(&self, machines: &Machines, reported: &[u64]) {
        let mut balances = [OPENING; ACCOUNTS];
        for (client, reported) in reported.iter().enumerate() {
            let count = Bank::value(machines, client % 3, self.counts[client]);
            assert!(count >= *reported, "what client {client} was told is gone");
            assert!(count <= reported + 1, "client {client} has done less");
            for count in 0..count {
                let (from, to, amount) = Bank::transfer(client, count);
                balances[from] = balances[from].wrapping_sub(amount);
                balances[to] = balances[to].wrapping_add(amount);
            }
        }
        for (account, balance) in balances.into_iter().enumerate() {
            let there = Bank::value(machines, account % 3, self.accounts[account]);
            assert_eq!(there, balance, "account {account}");
        }
        machines.check();
    }
}

/// Runs one transfer until it commits.
async fn transfer(machines: &Machines, bank: &Bank, client: usize, count: u64) {
    loop {
        let mut tx = machines.begin(client % 3, Mode::ReadWrite);
        let (from, to, amount) = Bank::transfer(client, count);
        let done = async {
            let mut counted = Vec::new();
            tx.read(bank.counts[client], &mut counted).await?;
            if counted[0] > count {
                // The future was dropped after the transfer had taken effect.
                return Ok(Outcome::Committed(Timestamp::ZERO));
            }
            let add = |by: u64| move |image: &mut [u64]| image[0] = image[0].wrapping_add(by);
            tx.update(bank.accounts[from], add(amount.wrapping_neg()))
                .await?;
            tx.update(bank.accounts[to], add(amount)).await?;
            tx.update(bank.counts[client], |image| image[0] = count + 1)
                .await?;
            tx.commit().await
        };
        match done.await {
            Ok(Outcome::Committed(_)) => return,
            Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_)) => {}
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

async fn run(machines: Rc<Machines>, bank: Bank, client: usize, reported: Rc<Cell<u64>>) {
    loop {
        transfer(&machines, &bank, client, reported.get()).await;
        reported.set(reported.get() + 1);
    }
}

#[test]
fn power_is_lost_under_load() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let disks = Disks::new([2, 3, 1][seed as usize % 3]);
        let machines = Rc::new(disks.begin());
        let bank = Bank::open(&machines);
        let reported: Vec<Rc<Cell<u64>>> = (0..CLIENTS).map(|_| Rc::default()).collect();
        let client = |at: usize| {
            let run = run(
                Rc::clone(&machines),
                bank.clone(),
                at,
                Rc::clone(&reported[at]),
            );
            Box::pin(run) as Pin<Box<dyn Future<Output = ()>>>
        };
        let mut clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for _ in 0..12 {
            let slow = &disks.disks[random.below(3) as usize];
            slow.set_sync_delay(Duration::from_micros(random.below(6000)));
            let all = || reported.iter().map(|reported| reported.get()).sum::<u64>();
            let (mut polls, least) = (random.below(400) + 50, all() + 4);
            while polls > 0 || all() < least {
                polls = polls.saturating_sub(1);
                let next = random.below(CLIENTS as u64) as usize;
                if polls > 0 && random.below(40) == 0 {
                    // The client ends at a random point and starts again. The number of ends is
                    // limited, because the abandoned commits stay in the logs.
                    clients[next] = client(next);
                }
                let mut context = Context::from_waker(Waker::noop());
                assert_eq!(clients[next].as_mut().poll(&mut context), Poll::Pending);
                machines.drive_all();
                std::thread::yield_now();
            }
            let loss = [CrashLoss::All, CrashLoss::Some][random.below(2) as usize];
            let left = disks.left(loss);
            let then: Vec<u64> = reported.iter().map(|reported| reported.get()).collect();
            bank.check(&left.begin(), &then);
            slow.set_sync_delay(Duration::ZERO);
        }
    }
}
