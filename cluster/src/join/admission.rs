//! The member's side: challenges strangers, checks what they say, and adds them to the
//! configuration.
//!
//! *Invariants.* At most one join is being stored, and at most [`MAX_STRANGERS`] challenges are
//! open; a challenge is gone with the first JOIN that answers it.

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::message::{DiskData, JoinMessage, JoinRequest, Keeps, Offer, PROTOCOL_VERSION};
use super::secret::{ClusterSecret, Nonce, Nonces, Proof};
use crate::configuration::{Configuration, ConfigurationError};
use crate::few::FewMap;
use crate::ids::ConfigurationId;
use crate::store::Swapped;

/// Challenges that are open at one time at most.
pub const MAX_STRANGERS: usize = 64;

/// A connection on which somebody speaks who is no member, as the fabric numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stranger(pub u64);

/// What a message of a stranger leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// This answer to it.
    Answer(JoinMessage),
    /// This compare-and-swap, whose outcome goes to [`Admission::stored`].
    Store {
        /// The configuration that is to be the current one.
        expected: ConfigurationId,
        /// The one with the new machine.
        new: Configuration,
    },
    /// Nothing: it was out of turn.
    Nothing,
}

/// How a member lets others in; it is their CM that does, and the others say who that is.
#[derive(Debug)]
pub struct Admission {
    me: MachineId,
    secret: ClusterSecret,
    configuration: Configuration,
    /// What the members have on their disks, where they have some.
    data: Option<DiskData>,
    /// Whether the configuration is in force.
    in_force: bool,
    challenged: FewMap<Stranger, Nonces>,
    storing: Option<Storing>,
}

#[derive(Debug)]
struct Storing {
    stranger: Stranger,
    nonces: Nonces,
    new: Configuration,
    machine: MachineId,
}

impl Admission {
    /// The admission at the member `me` of `configuration`.
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

    /// What the members have on their disks, where they have some; and whether the configuration is in force.
    pub fn keep(&mut self, data: Option<DiskData>, in_force: bool) {
        (self.data, self.in_force) = (data, in_force);
    }

    /// The current configuration, as far as it is known here.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Whether no stranger is being dealt with.
    pub fn is_idle(&self) -> bool {
        self.challenged.is_empty() && self.storing.is_none()
    }

    /// Applies a configuration that came about in another way.
    pub fn apply(&mut self, configuration: Configuration) {
        if configuration.id() > self.configuration.id() {
            self.configuration = configuration;
        }
    }

    /// A stranger's connection has ended. A join that is being stored goes on.
    pub fn gone(&mut self, stranger: Stranger) {
        self.challenged.remove(&stranger);
    }

    /// Takes a message of a stranger; `fresh` is used up if the answer is a challenge.
    pub fn receive(&mut self, stranger: Stranger, message: JoinMessage, fresh: Nonce) -> Admitted {
        match message {
            JoinMessage::Hello { version, nonce } => {
                Admitted::Answer(self.hello(stranger, version, nonce, fresh))
            }
            JoinMessage::Join { request, proof } => {
                let Some(nonces) = self.challenged.remove(&stranger) else {
                    return Admitted::Nothing;
                };
                match self.join(stranger, nonces, &request, &proof) {
                    Ok(admitted) => admitted,
                    Err(why) => Admitted::Answer(JoinMessage::Refused { why }),
                }
            }
            _ => Admitted::Nothing,
        }
    }

    fn hello(&mut self, stranger: Stranger, theirs: u16, joiner: Nonce, cm: Nonce) -> JoinMessage {
        self.challenged.remove(&stranger);
        let ours = PROTOCOL_VERSION;
        if theirs != ours {
            let why = JoinRefusal::Version { theirs, ours };
            return JoinMessage::Refused { why };
        }
        if self.challenged.len() == MAX_STRANGERS {
            let why = JoinRefusal::Busy;
            return JoinMessage::Refused { why };
        }
        self.challenged.insert(stranger, Nonces { joiner, cm });
        JoinMessage::Challenge { nonce: cm }
    }

    fn join(
        &mut self,
        stranger: Stranger,
        nonces: Nonces,
        request: &JoinRequest,
        proof: &Proof,
    ) -> Result<Admitted, JoinRefusal> {
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
            (None, Keeps::Nothing) => Some(machine),
            (Some(_), Keeps::Disk { written }) => written,
            _ => return Err(JoinRefusal::OtherTier),
        };
        if let Some(data) = self.data.filter(|_| written != Some(machine)) {
            if !self.in_force {
                return Err(JoinRefusal::Busy);
            }
            let offer = Offer {
                machine,
                configuration: self.configuration.clone(),
                data,
            };
            let proof = self.secret.prove_offer(nonces, &offer);
            return Ok(Admitted::Answer(JoinMessage::Offered { offer, proof }));
        }
        self.storing = Some(Storing {
            stranger,
            nonces,
            new: new.clone(),
            machine,
        });
        let expected = self.configuration.id();
        Ok(Admitted::Store { expected, new })
    }

    /// The outcome of the compare-and-swap, `None` when the store failed; gives the answer to the
    /// stranger who waits for it.
    pub fn stored(&mut self, swapped: Option<Swapped>) -> Option<(Stranger, JoinMessage)> {
        let Storing {
            stranger,
            nonces,
            new,
            machine,
        } = self.storing.take()?;
        if swapped != Some(Swapped::Won) {
            let why = JoinRefusal::Busy;
            return Some((stranger, JoinMessage::Refused { why }));
        }
        let proof = self.secret.prove_welcome(nonces, &new, machine);
        self.apply(new.clone());
        let accepted = JoinMessage::Accepted {
            configuration: new,
            machine,
            proof,
        };
        Some((stranger, accepted))
    }
}
