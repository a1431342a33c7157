//! Where machines that want to join leave their letters: a place that all machines see, such as a directory.
//!
//! ```text
//!  joiner                            place                        CM, now and then
//!    │── HELLO, JOIN ──► 00c3….ask ──────────────────────────────────► taken, removed
//!    │◄──────────────── 00c3….answer ◄── CHALLENGE, ACCEPTED, REFUSED ──│
//! ```
//! Who is no member cannot be reached over the fabric, and does not know who the CM is. Letters wait for whoever is.
//!
//! *Invariants.* A letter is there as a whole or not at all; there is one each way at a time, and it is taken once.
//!
//! *Failure.* What is no letter is thrown away. Who gets no answer, because the CM has failed, knocks again under another
//! number.

use std::io;
use std::sync::Arc;

use fencepost_fabric::{Disk, MachineId, Random};
use thiserror::Error;

use super::message::{JoinMessage, JoinRequest, Offer};
use super::secret::{ClusterSecret, Nonce};
use super::{JoinRefusal, Joiner, Progress, Stranger};
use crate::codec::Wire;
use crate::configuration::Configuration;
use crate::store::file;

const ASK: &str = "ask";
const ANSWER: &str = "answer";
/// More than the largest configuration takes.
const MAX_BYTES: u64 = 1 << 20;

/// Where letters lie, each under a name.
pub trait Letterbox: Send + Sync {
    /// Takes the letters that have come and whose names end so. Nobody is waited for: some may come later.
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)>;

    /// Leaves a letter.
    ///
    /// # Errors
    /// Where it is known that it cannot be left.
    fn leave(&self, name: &str, letter: &[u8]) -> io::Result<()>;

    /// Removes a letter, if it is there.
    fn remove(&self, name: &str);
}

/// A directory of letters.
struct Directory(Arc<dyn Disk>);

impl Letterbox for Directory {
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)> {
        // It is looked again.
        let names = self.0.list().unwrap_or_default();
        let letters = names.into_iter().filter(|name| name.ends_with(end));
        let letters = letters.filter_map(|name| {
            let bytes = file::load(&*self.0, &name, MAX_BYTES);
            if !matches!(bytes, Ok(None)) {
                self.remove(&name);
            }
            Some((name, bytes.ok()??))
        });
        letters.collect()
    }

    fn leave(&self, name: &str, letter: &[u8]) -> io::Result<()> {
        file::replace(&*self.0, name, letter)
    }

    fn remove(&self, name: &str) {
        let _ = self.0.remove(name);
    }
}

/// The door of a cluster, as one process has it.
pub struct Door {
    letters: Arc<dyn Letterbox>,
    secret: ClusterSecret,
}

/// Why a machine has not become a member.
#[derive(Debug, Error)]
pub enum NotAdmitted {
    /// The CM says so.
    #[error(transparent)]
    Refused(#[from] JoinRefusal),
    /// Who answers does not know the secret.
    #[error("whoever answers does not know the cluster's secret")]
    Impostor,
    /// The directory cannot be used.
    #[error("the directory of the cluster: {0}")]
    Disk(#[from] io::Error),
}

/// What a machine hears at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is a member, under this name, of this configuration.
    Joined(MachineId, Configuration),
    /// It is to write this on its disk, and to knock again.
    Offered(Offer),
}

/// A machine at the door.
pub struct Knock {
    door: Arc<Door>,
    stranger: Stranger,
    joiner: Joiner,
}

impl Door {
    /// The door in a directory that is for nothing else, of a cluster that has this secret.
    pub fn new(disk: Arc<dyn Disk>, secret: ClusterSecret) -> Door {
        Door::at(Arc::new(Directory(disk)), secret)
    }

    /// The door whose letters lie there.
    pub fn at(letters: Arc<dyn Letterbox>, secret: ClusterSecret) -> Door {
        Door { letters, secret }
    }

    /// What the cluster's machines know.
    pub fn secret(&self) -> &ClusterSecret {
        &self.secret
    }

    /// Takes the letters that have come, for the CM.
    pub fn letters(&self) -> Vec<(Stranger, JoinMessage)> {
        let letters = self.letters.take_all(&format!(".{ASK}")).into_iter();
        let letters = letters.filter_map(|(name, bytes)| {
            let (number, _) = name.split_once('.')?;
            let number = u64::from_str_radix(number, 16).ok()?;
            Some((Stranger(number), JoinMessage::decode(&bytes).ok()?))
        });
        letters.collect()
    }

    /// Leaves an answer. One that cannot be left is as good as none.
    pub fn answer(&self, stranger: Stranger, message: &JoinMessage) {
        let _ = self.leave(stranger, ANSWER, message);
    }

    /// Asks to be let in.
    ///
    /// # Errors
    /// Where the letter cannot be left.
    pub fn knock(
        self: &Arc<Self>,
        request: JoinRequest,
        random: &mut Random,
    ) -> Result<Knock, NotAdmitted> {
        let stranger = Stranger(random.next_u64());
        let (joiner, hello) = Joiner::new(self.secret.clone(), request, Nonce::draw(random));
        self.leave(stranger, ASK, &hello)?;
        Ok(Knock {
            door: Arc::clone(self),
            stranger,
            joiner,
        })
    }

    fn leave(&self, to: Stranger, kind: &str, message: &JoinMessage) -> io::Result<()> {
        self.letters.leave(&name(to, kind), &message.encode())
    }

    fn take(&self, of: Stranger, kind: &str) -> Option<JoinMessage> {
        let (_, letter) = self.letters.take_all(&name(of, kind)).pop()?;
        JoinMessage::decode(&letter).ok()
    }
}

fn name(stranger: Stranger, kind: &str) -> String {
    format!("{:016x}.{kind}", stranger.0)
}

impl Knock {
    /// Looks for an answer, after which nothing more comes of this.
    ///
    /// # Errors
    /// [`NotAdmitted`]; then nothing more comes of this.
    pub fn hear(&mut self) -> Result<Option<Heard>, NotAdmitted> {
        let Some(answer) = self.door.take(self.stranger, ANSWER) else {
            return Ok(None);
        };
        match self.joiner.receive(answer) {
            Progress::Send(message) => {
                self.door.leave(self.stranger, ASK, &message)?;
                Ok(None)
            }
            Progress::Joined {
                configuration,
                machine,
            } => Ok(Some(Heard::Joined(machine, configuration))),
            Progress::Offered(offer) => Ok(Some(Heard::Offered(offer))),
            Progress::Refused(why) => Err(why.into()),
            Progress::Impostor => Err(NotAdmitted::Impostor),
            Progress::Nothing => Ok(None),
        }
    }
}

impl Drop for Knock {
    fn drop(&mut self) {
        for kind in [ASK, ANSWER] {
            // Mostly it has been taken.
            self.door.letters.remove(&name(self.stranger, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::SimDisk;

    use super::*;
    use crate::join::{Admission, Admitted, Keeps, PROTOCOL_VERSION};
    use crate::store::Swapped;
    use crate::testing::{address, domain, machines};

    fn door(disk: &Arc<dyn Disk>, secret: &str) -> Arc<Door> {
        let secret = ClusterSecret::new(secret.as_bytes()).expect("long enough");
        Arc::new(Door::new(Arc::clone(disk), secret))
    }

    fn request(n: u32) -> JoinRequest {
        JoinRequest {
            version: PROTOCOL_VERSION,
            cluster: None,
            address: address(n),
            domain: domain(n),
            keeps: Keeps::Nothing,
        }
    }

    /// The CM looks at its door once.
    fn serve(door: &Door, admission: &mut Admission, random: &mut Random) {
        for (stranger, message) in door.letters() {
            match admission.receive(stranger, message, Nonce::draw(random)) {
                Admitted::Answer(answer) => door.answer(stranger, &answer),
                Admitted::Store { .. } => {
                    let stored = admission.stored(Some(Swapped::Won));
                    let (stranger, answer) = stored.expect("somebody waits");
                    door.answer(stranger, &answer);
                }
                Admitted::Nothing => {}
            }
        }
    }

    #[test]
    fn who_knows_the_secret_gets_in_and_leaves_nothing_behind() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let (ours, theirs) = (
            door(&disk, "a secret of all of us"),
            door(&disk, "another secret of some"),
        );
        let mut random = Random::new(7);
        let three = machines(3);
        let mut admission = Admission::new(three.cm(), ours.secret().clone(), three.clone());
        let mut knock = ours.knock(request(4), &mut random).expect("left");
        let mut other = theirs.knock(request(5), &mut random).expect("left");
        let (mut joined, mut refused) = (None, None);
        for _ in 0..4 {
            serve(&ours, &mut admission, &mut random);
            if joined.is_none() {
                joined = knock.hear().expect("nothing is wrong");
            }
            if refused.is_none() {
                refused = other.hear().err();
            }
        }
        let Some(Heard::Joined(machine, configuration)) = joined else {
            panic!("it is a member");
        };
        assert_eq!(machine, three.next_machine());
        assert!(configuration.has(machine) && configuration.id() == three.id().next());
        assert!(matches!(
            refused,
            Some(NotAdmitted::Refused(JoinRefusal::WrongSecret))
        ));
        drop((knock, other));
        assert_eq!(disk.list().expect("a list"), [""; 0]);
    }

    #[test]
    fn what_is_no_letter_is_thrown_away() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let door = door(&disk, "a secret of all of us");
        for (name, bytes) in [
            ("00000000000000ff.ask", &[9u8; 40][..]),
            ("x.ask", &[]),
            ("7.tmp", &[]),
        ] {
            file::replace(&*disk, name, bytes).expect("written");
        }
        assert_eq!(door.letters(), []);
        assert_eq!(disk.list().expect("a list"), ["7.tmp"]);
    }
}
