//! What the leader of the group does besides: those who vote are the machines of the configuration, and the CM does not lead
//! where somebody else can.
//!
//! A machine that joins votes once it answers, and has the log; one that is out does not vote from the next round on. Between a
//! change of the configuration and that of the group the majorities of both are needed to go on: of two that vote none may
//! fail. So who joins is ready for its clients only once that is over ([`super::RaftStore::votes`]), and whoever leads
//! brings to its end what another leader, or an earlier round, has begun.
//!
//! The CM is what the others have to replace when it fails; were it the leader, too, they would have to elect another one first.
//! A leader cannot name its heir: it lets the others stand for election by saying nothing for a while.
//!
//! *Failure.* What does not work now is tried again in the next round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::network::WHOEVER;
use super::types::{Ask, Here, NodeId, Place, Told};
use crate::configuration::{Configuration, Machine};

/// Fewer that vote could not do without the one that is to be elected.
const ENOUGH_VOTERS: usize = 3;
/// Heartbeats for which a leader is silent so that another one is elected, and after which it tries that again.
const SILENT: u32 = 4;
const AGAIN: u32 = 40;
/// Between two looks at the configuration.
const LOOK: Duration = Duration::from_millis(20);

/// Looks after the group for as long as the store is there.
pub(super) async fn look_after(shared: Arc<Shared>) {
    let mut silent_since = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let leads = shared.raft.current_leader().await == Some(shared.me);
        let current = shared.current().filter(|_| leads);
        let Some(current) = current else {
            silent_since = None;
            shared.be_silent(false);
            continue;
        };
        let manager = current.cm().0 == shared.place.machine;
        let may_part = manager && shared.voters().len() >= ENOUGH_VOTERS;
        match silent_since.filter(|_| may_part) {
            None => silent_since = may_part.then(Instant::now),
            Some(since) if since.elapsed() > AGAIN * shared.pace => silent_since = None,
            Some(_) => {}
        }
        let silent = |since: Instant| since.elapsed() < SILENT * shared.pace;
        shared.be_silent(silent_since.is_some_and(silent));
        if !shared.follow(&current).await {
            tokio::time::sleep(shared.pace).await;
        }
    }
}

impl Shared {
    /// Those who vote.
    pub fn voters(&self) -> BTreeMap<NodeId, Place> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let place = |life: NodeId| {
            let place = membership.get_node(&life).cloned();
            (life, place.unwrap_or_default())
        };
        membership.voter_ids().map(place).collect()
    }

    /// Whether the majorities of two groups are needed, of which one is to go.
    fn is_between_groups(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        membership.get_joint_config().len() > 1
    }

    /// Whether this machine votes in a group that is not being changed. While it is, the majority of those before is needed,
    /// too: they could still be stopped by the loss of one.
    pub fn votes(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let stored = &metrics.membership_config;
        let agreed = *stored.log_id() <= metrics.last_applied;
        match &stored.membership().get_joint_config()[..] {
            [voters] => agreed && voters.contains(&self.me),
            _ => false,
        }
    }

    /// Why this machine does not vote yet, if it does not.
    pub fn waits_for(&self) -> Option<String> {
        if self.votes() {
            return None;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let name = |life: &NodeId| match membership.get_node(life) {
            Some(place) => format!("m{}", place.machine),
            None => format!("{life:x}"),
        };
        let group = |lives: &BTreeSet<NodeId>| {
            let names: Vec<String> = lives.iter().map(name).collect();
            names.join(", ")
        };
        let groups: Vec<String> = membership.get_joint_config().iter().map(group).collect();
        let leader = metrics.current_leader.as_ref();
        let leader = leader.map_or_else(|| "nobody".to_owned(), name);
        let why = match groups.is_empty() {
            true => "nobody has told it of the others".to_owned(),
            false => format!("{} vote, {leader} leads", groups.join(" and ")),
        };
        Some(format!(
            "the store of the machines does not count on this one: {why}"
        ))
    }

    /// Lets others stand for election, as if this machine had failed.
    fn be_silent(&self, silent: bool) {
        let config = self.raft.runtime_config();
        config.heartbeat(!silent);
        config.elect(!silent);
    }

    /// Makes the machines of the configuration those who vote, as far as they answer; whether all do.
    async fn follow(&self, current: &Configuration) -> bool {
        let voters = self.voters();
        let is_of = |place: &Place, machine: &Machine| place.machine == machine.id.0;
        let mut next: BTreeMap<NodeId, Place> = voters.clone();
        next.retain(|_, place| current.machines().iter().any(|m| is_of(place, m)));
        let news = current.machines().iter();
        let news = news.filter(|machine| !voters.values().any(|place| is_of(place, machine)));
        for machine in news {
            let place = Place {
                machine: machine.id.0,
                address: machine.address.to_string(),
            };
            if let Some(Here { life, .. }) = self.who(&place.address, place.machine).await {
                // A learner first, so that the group waits for nobody who has to catch up.
                let learner = self.raft.add_learner(life, place.clone(), true);
                let learnt = tokio::time::timeout(self.patience, learner).await;
                if matches!(learnt, Ok(Ok(_))) {
                    next.insert(life, place);
                }
            }
        }
        let all = next.len() == current.machines().len();
        // Between two groups those of both vote, which may be those that are to.
        let changes = next != voters || self.is_between_groups();
        if changes && !next.is_empty() {
            let next: BTreeSet<NodeId> = next.into_keys().collect();
            let changing = self.raft.change_membership(next, false);
            // Whether it has changed is seen in the next round.
            let _ = tokio::time::timeout(self.patience, changing).await;
        }
        all
    }

    /// The machine at an address, if it is that one.
    async fn who(&self, address: &str, machine: u32) -> Option<Here> {
        let told = self.network.ask(WHOEVER, address, Ask::Who).await.ok()?;
        match told {
            Told::Here(here) if here.machine == machine => Some(here),
            _ => None,
        }
    }
}
