//! The join endpoint: a place that all machines can access, such as a directory, where joining
//! machines leave messages for the CM.
//!
//! ```text
//!  joiner                            place                        CM, now and then
//!    │── HELLO, JOIN ──► 00c3….ask ──────────────────────────────────► taken, removed
//!    │◄──────────────── 00c3….answer ◄── CHALLENGE, ACCEPTED, REFUSED ──│
//! ```
//!
//! An outsider cannot use the fabric and does not know the CM. Its messages wait for the machine
//! that is the CM.
//!
//! *Invariants.* A message is stored completely or not at all. At most one message is stored in
//! each direction at a time, and it is taken once.
//!
//! *Failure.* Files that are not messages are removed. An outsider that gets no answer, because the
//! CM has failed, tries again under another number.

use std::io;
use std::sync::Arc;

use fencepost_fabric::{Disk, MachineId, Random};
use thiserror::Error;

use super::message::{DiskOffer, JoinMessage, JoinRequest};
use super::secret::{ClusterSecret, Nonce};
use super::{JoinRefusal, Joiner, Outsider, Progress};
use crate::codec::Wire;
use crate::configuration::Configuration;
use crate::store::file;

const ASK: &str = "ask";
const ANSWER: &str = "answer";
/// More than the bytes of the largest configuration.
const MAX_BYTES: u64 = 1 << 20;

/// A store of join messages, each under a name.
pub trait JoinMessageStore: Send + Sync {
    /// Takes the messages whose names end with `end`. Returns at once; messages that arrive later
    /// are left for the next call.
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)>;

    /// Stores a message.
    ///
    /// # Errors
    /// If the message is known not to be stored.
    fn leave(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Removes a message, if it is stored.
    fn remove(&self, name: &str);
}

/// A directory with one file for each message.
struct Directory(Arc<dyn Disk>);

impl JoinMessageStore for Directory {
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)> {
        // After an error the caller looks again later.
        let names = self.0.list().unwrap_or_default();
        let messages = names.into_iter().filter(|name| name.ends_with(end));
        let messages = messages.filter_map(|name| {
            let bytes = file::load(&*self.0, &name, MAX_BYTES);
            if !matches!(bytes, Ok(None)) {
                self.remove(&name);
            }
            Some((name, bytes.ok()??))
        });
        messages.collect()
    }

    fn leave(&self, name: &str, content: &[u8]) -> io::Result<()> {
        file::replace(&*self.0, name, content)
    }

    fn remove(&self, name: &str) {
        let _ = self.0.remove(name);
    }
}

/// The join endpoint of a cluster, as one process uses it.
pub struct JoinEndpoint {
    messages: Arc<dyn JoinMessageStore>,
    secret: ClusterSecret,
}

/// The reason why a machine has not become a member.
#[derive(Debug, Error)]
pub enum NotAdmitted {
    /// The CM refused the join.
    #[error(transparent)]
    Refused(#[from] JoinRefusal),
    /// The answering machine does not know the secret.
    #[error("the answering machine does not know the cluster's secret")]
    Impostor,
    /// The directory cannot be used.
    #[error("the directory of the cluster: {0}")]
    Disk(#[from] io::Error),
}

/// The outcome of a join attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinOutcome {
    /// The machine is a member with this id in this configuration.
    Joined(MachineId, Configuration),
    /// The machine must write this offer to its disk, then try again.
    Offered(DiskOffer),
}

/// An attempt of a machine to join.
pub struct JoinAttempt {
    endpoint: Arc<JoinEndpoint>,
    outsider: Outsider,
    joiner: Joiner,
}

impl JoinEndpoint {
    /// Returns the join endpoint in a directory that is used for nothing else, of a cluster with
    /// this secret.
    pub fn new(disk: Arc<dyn Disk>, secret: ClusterSecret) -> JoinEndpoint {
        JoinEndpoint::at(Arc::new(Directory(disk)), secret)
    }

    /// Returns the join endpoint whose messages are stored in `messages`.
    pub fn at(messages: Arc<dyn JoinMessageStore>, secret: ClusterSecret) -> JoinEndpoint {
        JoinEndpoint { messages, secret }
    }

    /// Returns the secret that the cluster's machines share.
    pub fn secret(&self) -> &ClusterSecret {
        &self.secret
    }

    /// Takes the stored requests, for the CM.
    pub fn requests(&self) -> Vec<(Outsider, JoinMessage)> {
        let messages = self.messages.take_all(&format!(".{ASK}")).into_iter();
        let messages = messages.filter_map(|(name, bytes)| {
            let (number, _) = name.split_once('.')?;
            let number = u64::from_str_radix(number, 16).ok()?;
            Some((Outsider(number), JoinMessage::decode(&bytes).ok()?))
        });
        messages.collect()
    }

    /// Stores an answer. An answer that cannot be stored is lost, and the joiner tries again.
    pub fn answer(&self, outsider: Outsider, message: &JoinMessage) {
        let _ = self.leave(outsider, ANSWER, message);
    }

    /// Starts an attempt to join.
    ///
    /// # Errors
    /// If the message cannot be stored.
    pub fn begin_join(
        self: &Arc<Self>,
        request: JoinRequest,
        random: &mut Random,
    ) -> Result<JoinAttempt, NotAdmitted> {
        let outsider = Outsider(random.next_u64());
        let (joiner, hello) = Joiner::new(self.secret.clone(), request, Nonce::draw(random));
        self.leave(outsider, ASK, &hello)?;
        Ok(JoinAttempt {
            endpoint: Arc::clone(self),
            outsider,
            joiner,
        })
    }

    fn leave(&self, to: Outsider, kind: &str, message: &JoinMessage) -> io::Result<()> {
        self.messages.leave(&name(to, kind), &message.encode())
    }

    fn take(&self, of: Outsider, kind: &str) -> Option<JoinMessage> {
        let (_, content) = self.messages.take_all(&name(of, kind)).pop()?;
        JoinMessage::decode(&content).ok()
    }
}

fn name(outsider: Outsider, kind: &str) -> String {
    format!("{:016x}.{kind}", outsider.0)
}

impl JoinAttempt {
    /// Looks for an answer and continues the attempt. After an outcome the attempt is over.
    ///
    /// # Errors
    /// [`NotAdmitted`]; the attempt is over then, too.
    pub fn hear(&mut self) -> Result<Option<JoinOutcome>, NotAdmitted> {
        let Some(answer) = self.endpoint.take(self.outsider, ANSWER) else {
            return Ok(None);
        };
        match self.joiner.receive(answer) {
            Progress::Send(message) => {
                self.endpoint.leave(self.outsider, ASK, &message)?;
                Ok(None)
            }
            Progress::Joined {
                configuration,
                machine,
            } => Ok(Some(JoinOutcome::Joined(machine, configuration))),
            Progress::Offered(offer) => Ok(Some(JoinOutcome::Offered(offer))),
            Progress::Refused(why) => Err(why.into()),
            Progress::Impostor => Err(NotAdmitted::Impostor),
            Progress::Nothing => Ok(None),
        }
    }
}

impl Drop for JoinAttempt {
    fn drop(&mut self) {
        for kind in [ASK, ANSWER] {
            // Mostly the message has already been taken.
            self.endpoint.messages.remove(&name(self.outsider, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::SimDisk;

    use super::*;
    use crate::join::{Admission, AdmissionAction, DurableData, PROTOCOL_VERSION};
    use crate::store::SwapOutcome;
    use crate::testing::{address, domain, machines};

    fn test_endpoint(disk: &Arc<dyn Disk>, secret: &str) -> Arc<JoinEndpoint> {
        let secret = ClusterSecret::new(secret.as_bytes()).expect("long enough");
        Arc::new(JoinEndpoint::new(Arc::clone(disk), secret))
    }

    fn request(n: u32) -> JoinRequest {
        JoinRequest {
            version: PROTOCOL_VERSION,
            cluster: None,
            address: address(n),
            domain: domain(n),
            keeps: DurableData::Nothing,
        }
    }

    /// Handles the stored requests once, as the CM.
    fn serve(endpoint: &JoinEndpoint, admission: &mut Admission, random: &mut Random) {
        for (outsider, message) in endpoint.requests() {
            match admission.receive(outsider, message, Nonce::draw(random)) {
                AdmissionAction::Answer(answer) => endpoint.answer(outsider, &answer),
                AdmissionAction::Store { .. } => {
                    let stored = admission.stored(Some(SwapOutcome::Won));
                    let (outsider, answer) = stored.expect("a join request waits");
                    endpoint.answer(outsider, &answer);
                }
                AdmissionAction::Nothing => {}
            }
        }
    }

    #[test]
    fn outsider_with_secret_joins_and_leaves_no_messages() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let (ours, theirs) = (
            test_endpoint(&disk, "a secret of all of us"),
            test_endpoint(&disk, "another secret of some"),
        );
        let mut random = Random::new(7);
        let three = machines(3);
        let mut admission = Admission::new(three.cm(), ours.secret().clone(), three.clone());
        let mut attempt = ours.begin_join(request(4), &mut random).expect("left");
        let mut other = theirs.begin_join(request(5), &mut random).expect("left");
        let (mut joined, mut refused) = (None, None);
        for _ in 0..4 {
            serve(&ours, &mut admission, &mut random);
            if joined.is_none() {
                joined = attempt.hear().expect("nothing is wrong");
            }
            if refused.is_none() {
                refused = other.hear().err();
            }
        }
        let Some(JoinOutcome::Joined(machine, configuration)) = joined else {
            panic!("it is a member");
        };
        assert_eq!(machine, three.next_machine());
        assert!(configuration.has(machine) && configuration.id() == three.id().next());
        assert!(matches!(
            refused,
            Some(NotAdmitted::Refused(JoinRefusal::WrongSecret))
        ));
        drop((attempt, other));
        assert_eq!(disk.list().expect("a list"), [""; 0]);
    }

    #[test]
    fn malformed_join_message_is_discarded() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let endpoint = test_endpoint(&disk, "a secret of all of us");
        for (name, bytes) in [
            ("00000000000000ff.ask", &[9u8; 40][..]),
            ("x.ask", &[]),
            ("7.tmp", &[]),
        ] {
            file::replace(&*disk, name, bytes).expect("written");
        }
        assert_eq!(endpoint.requests(), []);
        assert_eq!(disk.list().expect("a list"), ["7.tmp"]);
    }
}
