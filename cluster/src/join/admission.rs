//! The member's side of a join: it challenges outsiders, checks their requests, and adds them to
//! the configuration.
//!
//! *Invariants.* At most one join is being stored, and at most [`MAX_OUTSIDERS`] challenges are
//! open. The first JOIN that answers a challenge removes it.

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::message::{
    DiskData, DiskOffer, DurableData, JoinMessage, JoinRequest, PROTOCOL_VERSION,
};
use super::secret::{ClusterSecret, Nonce, Nonces, SecretProof};
use crate::configuration::{Configuration, ConfigurationError};
use crate::few::FewMap;
use crate::ids::ConfigurationId;
use crate::store::SwapOutcome;

/// The largest number of open challenges.
pub const MAX_OUTSIDERS: usize = 64;

/// A connection with an outsider (a machine that is not a member), numbered by the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outsider(pub u64);

/// The result of an outsider's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionAction {
    /// Send this answer to the outsider.
    Answer(JoinMessage),
    /// Carry out this compare-and-swap and pass its outcome to [`Admission::stored`].
    Store {
        /// The configuration that must be the current one.
        expected: ConfigurationId,
        /// The configuration with the new machine.
        new: Configuration,
    },
    /// Nothing to do: the message was not expected in this state.
    Nothing,
}

/// The state of a member that admits machines. Only the CM admits them; other members answer with
/// the CM's address.
#[derive(Debug)]
pub struct Admission {
    me: MachineId,
    secret: ClusterSecret,
    configuration: Configuration,
    /// The members' data on disk, if they keep data on disks.
    data: Option<DiskData>,
    /// Whether the configuration is in force.
    in_force: bool,
    challenged: FewMap<Outsider, Nonces>,
    storing: Option<PendingAdmission>,
}

#[derive(Debug)]
struct PendingAdmission {
    outsider: Outsider,
    nonces: Nonces,
    new: Configuration,
    machine: MachineId,
}

impl Admission {
    /// Returns the admission at the member `me` of `configuration`.
    pub fn new(me: MachineId, secret: ClusterSecret, configuration: Configuration) -> Self {
        Self {
            me,
            secret,
            configuration,
            data: None,
            in_force: true,
            challenged: FewMap::new(),
            storing: None,
        }
    }

    /// Sets the members' data on disk, if any, and whether the configuration is in force.
    pub fn keep(&mut self, data: Option<DiskData>, in_force: bool) {
        (self.data, self.in_force) = (data, in_force);
    }

    /// Returns the newest configuration that this member knows.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns whether no join is in progress.
    pub fn is_idle(&self) -> bool {
        self.challenged.is_empty() && self.storing.is_none()
    }

    /// Applies a configuration that a reconfiguration made, if it is newer.
    pub fn apply(&mut self, configuration: Configuration) {
        if configuration.id() > self.configuration.id() {
            self.configuration = configuration;
        }
    }

    /// Removes the challenge of an outsider whose connection has ended. A join that is being stored
    /// continues.
    pub fn disconnected(&mut self, outsider: Outsider) {
        self.challenged.remove(&outsider);
    }

    /// Handles a message of an outsider; `fresh` is consumed if the answer is a challenge.
    pub fn receive(
        &mut self,
        outsider: Outsider,
        message: JoinMessage,
        fresh: Nonce,
    ) -> AdmissionAction {
        match message {
            JoinMessage::Hello { version, nonce } => {
                AdmissionAction::Answer(self.hello(outsider, version, nonce, fresh))
            }
            JoinMessage::Join { request, proof } => {
                let Some(nonces) = self.challenged.remove(&outsider) else {
                    return AdmissionAction::Nothing;
                };
                match self.join(outsider, nonces, &request, &proof) {
                    Ok(admitted) => admitted,
                    Err(why) => AdmissionAction::Answer(JoinMessage::Refused { why }),
                }
            }
            _ => AdmissionAction::Nothing,
        }
    }

    fn hello(&mut self, outsider: Outsider, theirs: u16, joiner: Nonce, cm: Nonce) -> JoinMessage {
        self.challenged.remove(&outsider);
        let ours = PROTOCOL_VERSION;
        if theirs != ours {
            let why = JoinRefusal::Version { theirs, ours };
            return JoinMessage::Refused { why };
        }
        if self.challenged.len() == MAX_OUTSIDERS {
            let why = JoinRefusal::Busy;
            return JoinMessage::Refused { why };
        }
        self.challenged.insert(outsider, Nonces { joiner, cm });
        JoinMessage::Challenge { nonce: cm }
    }

    fn join(
        &mut self,
        outsider: Outsider,
        nonces: Nonces,
        request: &JoinRequest,
        proof: &SecretProof,
    ) -> Result<AdmissionAction, JoinRefusal> {
        if !self.secret.has_proved_request(nonces, request, proof) {
            return Err(JoinRefusal::WrongSecret);
        }
        let (theirs, ours) = (request.version, PROTOCOL_VERSION);
        if theirs != ours {
            return Err(JoinRefusal::Version { theirs, ours });
        }
        let ours = self.configuration.cluster();
        if let Some(theirs) = request.cluster.filter(|theirs| *theirs != ours) {
            return Err(JoinRefusal::OtherCluster { theirs, ours });
        }
        if self.configuration.cm() != self.me {
            let manager = self.configuration.manager().address.clone();
            return Err(JoinRefusal::NotManager { manager });
        }
        if self.storing.is_some() {
            return Err(JoinRefusal::Busy);
        }
        let joined = self
            .configuration
            .with_machine(request.address.clone(), request.domain.clone());
        let (new, machine) = joined.map_err(|error| match error {
            ConfigurationError::AddressTwice(_) => JoinRefusal::AddressInUse,
            _ => JoinRefusal::Full,
        })?;
        let written = match (self.data, request.keeps) {
            (None, DurableData::Nothing) => Some(machine),
            (Some(_), DurableData::Disk { written }) => written,
            _ => return Err(JoinRefusal::OtherTier),
        };
        if let Some(data) = self.data.filter(|_| written != Some(machine)) {
            if !self.in_force {
                return Err(JoinRefusal::Busy);
            }
            let offer = DiskOffer {
                machine,
                configuration: self.configuration.clone(),
                data,
            };
            let proof = self.secret.prove_offer(nonces, &offer);
            return Ok(AdmissionAction::Answer(JoinMessage::Offered {
                offer,
                proof,
            }));
        }
        self.storing = Some(PendingAdmission {
            outsider,
            nonces,
            new: new.clone(),
            machine,
        });
        let expected = self.configuration.id();
        Ok(AdmissionAction::Store { expected, new })
    }

    /// Takes the outcome of the compare-and-swap, `None` if the store failed. Returns the answer
    /// for the waiting outsider.
    pub fn stored(&mut self, swapped: Option<SwapOutcome>) -> Option<(Outsider, JoinMessage)> {
        let PendingAdmission {
            outsider,
            nonces,
            new,
            machine,
        } = self.storing.take()?;
        if swapped != Some(SwapOutcome::Won) {
            let why = JoinRefusal::Busy;
            return Some((outsider, JoinMessage::Refused { why }));
        }
        let proof = self.secret.prove_welcome(nonces, &new, machine);
        self.apply(new.clone());
        let accepted = JoinMessage::Accepted {
            configuration: new,
            machine,
            proof,
        };
        Some((outsider, accepted))
    }
}
