//! The joiner's side: says hello, answers the challenge, and checks who welcomes it.

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::message::{JoinMessage, JoinRequest, Offer};
use super::secret::{ClusterSecret, Nonce, Nonces};
use crate::configuration::Configuration;

/// One try to join, over one connection.
#[derive(Debug)]
pub struct Joiner {
    secret: ClusterSecret,
    request: JoinRequest,
    nonce: Nonce,
    /// Both nonces, from the challenge on.
    nonces: Option<Nonces>,
}

/// What a message from the other side means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send this.
    Send(JoinMessage),
    /// This machine is a member.
    Joined {
        /// Of this configuration.
        configuration: Configuration,
        /// Under this name.
        machine: MachineId,
    },
    /// It is to write this down and to come again; the try is over.
    Offered(Offer),
    /// It is not, and the try is over.
    Refused(JoinRefusal),
    /// The other side does not know the secret, or welcomes somebody else: end the connection.
    Impostor,
    /// It was out of turn.
    Nothing,
}

impl Joiner {
    /// A try with `request`, and the HELLO that begins it; `nonce` is for this try alone.
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

    /// Takes a message of the other side.
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

    /// Whether `machine` is this one, in the cluster that it asked for.
    fn is_welcomed(&self, configuration: &Configuration, machine: MachineId) -> bool {
        let ours = self.request.cluster.unwrap_or(configuration.cluster());
        let member = configuration.machine(machine);
        configuration.cluster() == ours
            && member.is_some_and(|member| member.address == self.request.address)
    }
}
