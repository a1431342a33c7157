//! The additional tasks of the Raft leader. It makes the machines of the configuration the voters,
//! and it lets another machine lead if it is the CM.
//!
//! A joining machine becomes a voter once it answers and has the log. An evicted machine stops
//! being a voter in the next round. During a change of the voters the majorities of both groups are
//! needed: of two voters none may fail. So a joining machine is ready for clients only after the
//! change ([`super::RaftStore::votes`]). The present leader completes a change that another leader,
//! or an earlier round, has begun.
//!
//! The other machines must replace the CM when it fails. If the CM were the Raft leader, too, they
//! would first have to elect another leader. A leader cannot name its successor: it stays silent
//! for a while, so that another machine stands for election.
//!
//! *Failure.* A failed step is tried again in the next round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::network::ANY_NODE;
use super::types::{MemberAddress, NodeDescription, NodeId, RaftRequest, Reply};
use crate::configuration::{Configuration, Machine};

/// The smallest number of voters with which leadership is moved. With fewer voters the group needs
/// every one of them, so another leader is no gain.
const ENOUGH_VOTERS: usize = 3;
/// `SILENT`: the number of heartbeats for which a leader is silent so that another machine is
/// elected. `AGAIN`: the number after which it tries again.
const SILENT: u32 = 4;
const AGAIN: u32 = 40;
/// The interval between two reads of the configuration.
const LOOK: Duration = Duration::from_millis(20);

/// Maintains the group as long as the store exists.
pub(super) async fn look_after(shared: Arc<Shared>) {
    let mut silent_since = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let is_leader = shared.raft.current_leader().await == Some(shared.me);
        let current = shared.current().filter(|_| is_leader);
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
    /// Returns the voters.
    pub fn voters(&self) -> BTreeMap<NodeId, MemberAddress> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let place = |incarnation: NodeId| {
            let place = membership.get_node(&incarnation).cloned();
            (incarnation, place.unwrap_or_default())
        };
        membership.voter_ids().map(place).collect()
    }

    /// Returns whether a change of the voters is in progress, so that two majorities are needed.
    fn is_between_groups(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        membership.get_joint_config().len() > 1
    }

    /// Returns whether this machine is a voter and no change of the voters is in progress. During a
    /// change the majority of the old group is needed, too, and the loss of one machine could
    /// prevent it.
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

    /// Returns why this machine is not a voter yet; `None` if it is.
    pub fn waits_for(&self) -> Option<String> {
        if self.votes() {
            return None;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let name = |incarnation: &NodeId| match membership.get_node(incarnation) {
            Some(place) => format!("m{}", place.machine),
            None => format!("{incarnation:x}"),
        };
        let group = |incarnations: &BTreeSet<NodeId>| {
            let names: Vec<String> = incarnations.iter().map(name).collect();
            names.join(", ")
        };
        let groups: Vec<String> = membership.get_joint_config().iter().map(group).collect();
        let leader = metrics.current_leader.as_ref();
        let leader = leader.map_or_else(|| "no machine".to_owned(), name);
        let why = match groups.is_empty() {
            true => "no machine has told it of the others".to_owned(),
            false => format!("{} vote, {leader} leads", groups.join(" and ")),
        };
        Some(format!(
            "the store of the machines does not count on this one: {why}"
        ))
    }

    /// Sets whether this leader is silent, so that the others elect a leader as if it had failed.
    fn be_silent(&self, silent: bool) {
        let config = self.raft.runtime_config();
        config.heartbeat(!silent);
        config.elect(!silent);
    }

    /// Makes the machines of the configuration the voters, as far as they answer. Returns whether
    /// all do.
    async fn follow(&self, current: &Configuration) -> bool {
        let voters = self.voters();
        let is_of = |place: &MemberAddress, machine: &Machine| place.machine == machine.id.0;
        let mut next: BTreeMap<NodeId, MemberAddress> = voters.clone();
        next.retain(|_, place| current.machines().iter().any(|m| is_of(place, m)));
        let news = current.machines().iter();
        let news = news.filter(|machine| !voters.values().any(|place| is_of(place, machine)));
        for machine in news {
            let place = MemberAddress {
                machine: machine.id.0,
                address: machine.address.to_string(),
            };
            if let Some(NodeDescription { incarnation, .. }) =
                self.who(&place.address, place.machine).await
            {
                // The machine first becomes a learner, so that the group does not wait for a
                // machine that is catching up.
                let learner = self.raft.add_learner(incarnation, place.clone(), true);
                let learnt = tokio::time::timeout(self.patience, learner).await;
                if matches!(learnt, Ok(Ok(_))) {
                    next.insert(incarnation, place);
                }
            }
        }
        let all = next.len() == current.machines().len();
        // During a change both groups vote, and together they may already be the wanted voters.
        let changes = next != voters || self.is_between_groups();
        if changes && !next.is_empty() {
            let next: BTreeSet<NodeId> = next.into_keys().collect();
            let changing = self.raft.change_membership(next, false);
            // The next round reads whether the change has succeeded.
            let _ = tokio::time::timeout(self.patience, changing).await;
        }
        all
    }

    /// Asks the machine at an address for its description; `None` if it is another machine.
    async fn who(&self, address: &str, machine: u32) -> Option<NodeDescription> {
        let reply = self
            .network
            .ask(ANY_NODE, address, RaftRequest::Who)
            .await
            .ok()?;
        match reply {
            Reply::Description(description) if description.machine == machine => Some(description),
            _ => None,
        }
    }
}
