//! The actions of the simulated machines, and the checks of their results.

use std::sync::Arc;

use fencepost_cluster::MachineId;

use super::commits::Txn;
use super::world::{Node, Record, World, content};
use crate::record::TxnId;
use crate::recovery::{Action, Decision, Evidence, ReplicaEvidence};

impl World {
    pub fn act(&mut self, id: MachineId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(to, message) => self.send(id, to, &message),
                Action::Keep { seen, content } => self.keep(id, seen, content),
                Action::Lock { region, id: txn } => self.lock(id, region, txn),
                Action::Active(region) => {
                    self.check_active(id, region);
                    self.nodes.get_mut(&id).unwrap().active.insert(region);
                }
                Action::RegionsActive => {
                    let own = self.mappings.iter().filter(|(_, r)| r.primary() == id);
                    let own: Vec<u32> = own.map(|(region, _)| *region).collect();
                    let node = self.nodes.get_mut(&id).unwrap();
                    let again = std::mem::replace(&mut node.all_active, true);
                    let current = node.begun == self.configuration.0;
                    if current && (again || own.iter().any(|r| !node.active.contains(r))) {
                        self.wrong("REGIONS-ACTIVE twice, or too early");
                    }
                }
                Action::Commit(seen) => self.record_decision(id, seen, Decision::Commit),
                Action::Abort(seen) => self.record_decision(id, seen, Decision::Abort),
                Action::Truncate { id: txn } => self.truncate(id, txn),
                Action::Decided { id: txn, decision } => self.decide(id, txn, decision),
            }
        }
    }

    fn keep(&mut self, id: MachineId, seen: ReplicaEvidence, sent: Option<Arc<[u64]>>) {
        let key = (seen.id, seen.region);
        let node = self.nodes.get_mut(&id).unwrap();
        let record = node.records.entry(key).or_insert_with(|| Record {
            seen: seen.clone(),
            content: None,
        });
        record.seen.evidence = record.seen.evidence.and(seen.evidence);
        record.seen.w = record.seen.w.or(seen.w);
        if record.content.is_none() {
            record.content = sent;
        }
        let with = record.seen.evidence.any_of(Evidence::CONTENT);
        let right = Some(content(seen.id, seen.region));
        if record.content != right.filter(|_| with) {
            self.wrong(format!("{id} has a wrong content of {key:?}"));
        }
    }

    fn lock(&mut self, id: MachineId, region: u32, txn: TxnId) {
        let node = self.nodes.get_mut(&id).unwrap();
        let has = node
            .records
            .get(&(txn, region))
            .is_some_and(|r| r.content.is_some());
        // An object that has the version is not locked.
        if !node
            .data
            .get(&region)
            .is_some_and(|data| data.contains(&txn))
        {
            node.locks.insert((txn, region));
        }
        if !has {
            self.wrong(format!("{id} locks what it does not know"));
        }
    }

    /// Checks that every write known to any replica is locked, unless it was applied, or the
    /// transaction was aborted.
    fn check_active(&mut self, id: MachineId, region: u32) {
        let node = &self.nodes[&id];
        if node.begun != self.configuration.0 {
            return;
        }
        let replicas = &self.mappings[&region];
        let others: Vec<_> = replicas.all().map(|m| &self.nodes[&m]).collect();
        let of_region = others.iter().flat_map(|node| node.records.values());
        let mut unlocked = of_region.filter(|record| {
            let (txn, evidence) = (record.seen.id, record.seen.evidence);
            let given_up = others.iter().any(|node| {
                let record = node.records.get(&(txn, region));
                record.is_some_and(|r| r.seen.evidence.any_of(Evidence::ABORT_RECOVERY))
            });
            record.seen.region == region
                && evidence.any_of(Evidence::CONTENT)
                && !given_up
                && !node.locks.contains(&(txn, region))
                && !node
                    .data
                    .get(&region)
                    .is_some_and(|data| data.contains(&txn))
        });
        if let Some(record) = unlocked.next() {
            let wrong = format!("{:?} is not locked in {region}", record.seen);
            drop(unlocked);
            self.wrong(wrong);
        }
    }

    fn record_decision(&mut self, id: MachineId, seen: ReplicaEvidence, decision: Decision) {
        if self.decided.get(&seen.id) != Some(&decision) {
            self.wrong(format!("{id} is told a decision that no machine made"));
        }
        let key = (seen.id, seen.region);
        let node = self.nodes.get_mut(&id).unwrap();
        node.locks.remove(&key);
        let record = node.records.entry(key).or_insert_with(|| Record {
            seen: seen.clone(),
            content: None,
        });
        record.seen.evidence = record.seen.evidence.and(seen.evidence);
        record.seen.w = record.seen.w.or(seen.w);
        // There is no content to apply where the other replicas have truncated the transaction.
        if decision == Decision::Commit && record.content.is_some() {
            node.data.entry(seen.region).or_default().insert(seen.id);
        }
    }

    fn truncate(&mut self, id: MachineId, txn: TxnId) {
        let written = self.txn(txn).written.clone();
        let node = self.nodes.get_mut(&id).unwrap();
        node.records.retain(|(of, _), _| *of != txn);
        for region in written.iter() {
            if node.regions.contains(region) {
                node.truncated.insert((txn, *region));
            }
        }
    }

    fn txn(&self, id: TxnId) -> &Txn {
        self.txns
            .iter()
            .find(|txn| txn.id == id)
            .expect("it was begun")
    }

    fn decide(&mut self, at: MachineId, id: TxnId, decision: Decision) {
        let txn = self.txn(id).clone();
        let before = self.decided.insert(id, decision);
        self.counts.decided_again += u64::from(before.is_some());
        match decision {
            Decision::Commit => self.counts.commits += 1,
            Decision::Abort => self.counts.aborts += 1,
        }
        if before.is_some_and(|before| before != decision) {
            self.wrong(format!("{txn:?} is decided again, otherwise: {decision:?}"));
        }
        if txn.shown && decision == Decision::Abort {
            self.wrong(format!("{txn:?} was shown and is aborted"));
        }
        if txn.reported == Some(false) && decision == Decision::Commit {
            self.wrong(format!("{txn:?} was given up and is committed"));
        }
        if at.0 == id.machine {
            let at = self.txns.iter().position(|txn| txn.id == id).unwrap();
            let reported = &mut self.txns[at].reported;
            reported.get_or_insert(decision == Decision::Commit);
        }
    }

    /// Copies the primary's data to one new replica.
    pub fn fill_one(&mut self) {
        let lacking: Vec<_> = self.new.difference(&self.filled).copied().collect();
        if lacking.is_empty() {
            return;
        }
        let (machine, region) = self.pick(&lacking);
        if self.nodes.contains_key(&machine) {
            self.fill(machine, region);
        }
    }

    fn fill(&mut self, machine: MachineId, region: u32) {
        let configuration = self.configuration.0;
        let primary = &self.nodes[&self.mappings[&region].primary()];
        let began = |node: &Node| node.begun == configuration;
        if !primary.active.contains(&region) || !began(primary) || !began(&self.nodes[&machine]) {
            return;
        }
        let data = primary.data.get(&region).cloned().unwrap_or_default();
        let node = self.nodes.get_mut(&machine).unwrap();
        node.data.entry(region).or_default().extend(data);
        self.filled.insert((machine, region));
    }

    /// Checks that no state is left, that all replicas agree, and that every report to a client was
    /// right.
    pub fn check_end(&mut self) {
        if self.wrong.is_some() {
            return;
        }
        for (machine, region) in self.new.clone() {
            if self.nodes.contains_key(&machine) && !self.filled.contains(&(machine, region)) {
                self.fill(machine, region);
            }
        }
        for (id, node) in &self.nodes {
            if !node.records.is_empty() || !node.locks.is_empty() || !node.all_active {
                return self.wrong(format!("{id} has something left"));
            }
        }
        for txn in self.txns.clone() {
            let committed = txn.written.iter().flat_map(|region| {
                self.mappings[region].all().map(|machine| {
                    let data = self.nodes[&machine].data.get(region);
                    data.is_some_and(|data| data.contains(&txn.id))
                })
            });
            let committed: Vec<bool> = committed.collect();
            let first = committed[0];
            if committed.contains(&!first) {
                return self.wrong(format!("replicas disagree about {txn:?}"));
            }
            let decided = self.decided.get(&txn.id).copied();
            let said = [
                txn.shown.then_some(true),
                txn.reported,
                decided.map(|decision| decision == Decision::Commit),
            ];
            if said.into_iter().flatten().any(|said| said != first) {
                return self.wrong(format!("{txn:?} has committed: {first}"));
            }
            let coordinator = MachineId(txn.id.machine);
            if self.nodes.contains_key(&coordinator) && txn.reported.is_none() {
                return self.wrong(format!("no machine tells {coordinator} about {txn:?}"));
            }
            if !txn.over {
                self.counts.shown += u64::from(txn.shown);
                self.counts.gave_up += u64::from(txn.reported == Some(false) && decided.is_none());
            }
        }
        // The next transactions start from a clean state; truncated ones need not be remembered.
        self.txns.iter_mut().for_each(|txn| txn.over = true);
        self.nodes
            .values_mut()
            .for_each(|node| node.truncated.clear());
        self.new.clear();
    }
}
