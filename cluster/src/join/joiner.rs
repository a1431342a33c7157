//! The joiner's side of a join: it sends HELLO, answers the challenge, and checks that the answer
//! is from the cluster.

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::message::{DiskOffer, JoinMessage, JoinRequest};
use super::secret::{ClusterSecret, Nonce, Nonces};
use crate::configuration::Configuration;

/// One attempt to join, over one connection.
#[derive(Debug)]
pub struct Joiner {
    secret: ClusterSecret,
    request: JoinRequest,
    nonce: Nonce,
    /// The nonces of both sides, set when the challenge arrives.
    nonces: Option<Nonces>,
}

/// The meaning of a message from the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send this message.
    Send(JoinMessage),
    /// This machine is a member.
    Joined {
        /// The configuration that contains this machine.
        configuration: Configuration,
        /// The id of this machine.
        machine: MachineId,
    },
    /// The machine must write this offer to its disk, then try again; the attempt is over.
    Offered(DiskOffer),
    /// The join was refused; the attempt is over.
    Refused(JoinRefusal),
    /// The other side does not know the secret, or its answer is for another machine: end the
    /// connection.
    Impostor,
    /// The message was not expected in this state.
    Nothing,
}

impl Joiner {
    /// Starts an attempt with `request`, and returns its HELLO; `nonce` is for this attempt alone.
    pub fn new(secret: ClusterSecret, request: JoinRequest, nonce: Nonce) -> (Self, JoinMessage) {
        let version = request.version;
        let joiner = Self {
            secret,
            request,
            nonce,
            nonces: None,
        };
        (joiner, JoinMessage::Hello { version, nonce })
    }

    /// Handles a message of the other side.
    pub fn receive(&mut self, message: JoinMessage) -> Progress {
        match (message, self.nonces) {
            (JoinMessage::Challenge { nonce }, None) => {
                let (joiner, cm) = (self.nonce, nonce);
                let nonces = Nonces { joiner, cm };
                self.nonces = Some(nonces);
                let request = self.request.clone();
                let proof = self.secret.prove_request(nonces, &request);
                Progress::Send(JoinMessage::Join { request, proof })
            }
            (JoinMessage::Refused { why }, _) => Progress::Refused(why),
            (
                JoinMessage::Accepted {
                    configuration,
                    machine,
                    proof,
                },
                Some(nonces),
            ) => {
                let secret = &self.secret;
                let proved = secret.has_proved_welcome(nonces, &configuration, machine, &proof);
                if proved && self.is_welcomed(&configuration, machine) {
                    return Progress::Joined {
                        configuration,
                        machine,
                    };
                }
                Progress::Impostor
            }
            (JoinMessage::Offered { offer, proof }, Some(nonces)) => {
                let proved = self.secret.has_proved_offer(nonces, &offer, &proof);
                let ours = self
                    .request
                    .cluster
                    .unwrap_or(offer.configuration.cluster());
                match proved && offer.configuration.cluster() == ours {
                    true => Progress::Offered(offer),
                    false => Progress::Impostor,
                }
            }
            _ => Progress::Nothing,
        }
    }

    /// Returns whether `machine` is this machine, in the cluster that it asked for.
    fn is_welcomed(&self, configuration: &Configuration, machine: MachineId) -> bool {
        let ours = self.request.cluster.unwrap_or(configuration.cluster());
        let member = configuration.machine(machine);
        configuration.cluster() == ours
            && member.is_some_and(|member| member.address == self.request.address)
    }
}
