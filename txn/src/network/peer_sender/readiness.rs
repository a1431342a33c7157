//! Readiness of a peer: whether it has its receiving ends, whether it is lost, and whether a
//! connection to it was lost (LINK-3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost_fabric::{Completion, Place, SegmentId};

use super::{LOG, MESSAGES, PeerSender};
use crate::fault::{self, Fault};
use crate::network::call::CALLS;

/// All rings to a peer.
const LANES: [u16; 3] = [LOG, MESSAGES, CALLS];

impl PeerSender {
    /// Returns whether the peer can be written to. Waits for its receiving ends if necessary.
    pub async fn is_up(&self) -> bool {
        if !self.ready.load(Ordering::Acquire) {
            for lane in LANES {
                if self.look(lane).await.is_err() {
                    return false;
                }
            }
            self.begin();
        }
        !self.broken.load(Ordering::Relaxed)
    }

    /// Marks the peer as ready and sends everything that waited for that.
    fn begin(&self) {
        let mut log = self.log.lock();
        if !self.is_ready() {
            let losses = self.losses.load(Ordering::Acquire);
            self.losses_before.store(losses, Ordering::Release);
        }
        // Under the lock: a caller that stages a record later also flushes it.
        self.ready.store(true, Ordering::Release);
        drop(log.ring.flush());
        drop(log);
        self.pay();
    }

    /// Returns the flag that tells whether the peer has its receiving ends, for its channel of
    /// calls.
    pub fn ready(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ready)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns whether the peer is not ready yet and is to be probed.
    pub fn is_awaited(&self) -> bool {
        !self.is_ready() && !self.broken.load(Ordering::Relaxed)
    }

    /// Reads the peer's end of a ring.
    fn look(&self, lane: u16) -> Completion<Box<[u64]>> {
        let end = Place {
            machine: self.peer,
            segment: SegmentId::new(SegmentId::RING, lane, self.fabric.me().0),
            word: 0,
        };
        self.fabric.read(end, 1)
    }

    /// Does the same as [`Self::is_up`] without waiting: begins or continues to probe, and may
    /// return `true` later.
    pub fn probe(&self) -> bool {
        if !self.ready.load(Ordering::Acquire) {
            let mut probing = self.probing.lock();
            if probing.is_empty() {
                probing.extend(LANES.map(|lane| self.look(lane)));
            }
            while let Some(look) = probing.last_mut() {
                match look.take() {
                    None => return false,
                    Some(Ok(_)) => drop(probing.pop()),
                    Some(Err(_)) => {
                        probing.clear();
                        return false;
                    }
                }
            }
            drop(probing);
            self.begin();
        }
        self.was_up()
    }

    /// Returns whether no connection was lost since the first write to the peer (LINK-3). If so
    /// after an ack, the peer will see the record that it acknowledged.
    pub fn is_whole(&self) -> bool {
        let losses = self.losses.load(Ordering::Acquire);
        losses == self.losses_before.load(Ordering::Acquire)
            || fault::injected(Fault::TrustAcksBehindHoles)
    }

    /// Returns whether the peer was reachable at the last write.
    pub fn was_up(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.broken.load(Ordering::Relaxed)
    }

    /// Marks the peer as lost: no further write to it arrives.
    pub fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::ring::{self, RingReader};
    use fencepost_fabric::{Fabric, FabricError, MachineId, Member, SimKnobs, SimNet, TapVerdict};

    use super::*;
    use crate::record;

    const A: MachineId = MachineId(1);
    const B: MachineId = MachineId(2);
    const WORDS: usize = 1 << 10;

    /// Reads the new records of the log and returns the first word of each ABORT.
    fn seen(log: &mut RingReader) -> Vec<u64> {
        let (mut seen, mut record) = (Vec::new(), Vec::new());
        while let Ok(Some((tag, held_record))) = log.next(&mut record) {
            if tag == record::ABORT {
                seen.push(record[0]);
            }
            log.release(held_record);
        }
        seen
    }

    #[test]
    fn acknowledgement_behind_gap_does_not_count() {
        let net = SimNet::new(1, SimKnobs::default());
        let members = [A, B].map(|id| Member {
            id,
            address: String::new(),
        });
        let [a, b] = [A, B].map(|id| {
            let fabric: Arc<dyn Fabric> = Arc::new(net.join(id).expect("new"));
            fabric.set_members(&members).expect("a member");
            fabric
        });
        let ends = LANES.map(|lane| ring::receive(&b, A, lane, WORDS).expect("memory"));
        let [mut log, ..] = ends;
        let run = || while net.step().is_some() {};
        run();
        let (counting, numbers) = (Arc::default(), Arc::default());
        let sender = PeerSender::new(&a, &counting, B, WORDS, &numbers).expect("memory");
        while !sender.probe() {
            net.step().expect("its answer comes");
        }
        let append = |number| {
            sender
                .append_unpromised(record::ABORT, &[number])
                .expect("room")
        };
        let mut before = append(1);
        run();
        assert_eq!((before.take(), seen(&mut log)), (Some(Ok(())), vec![1]));
        assert!(sender.is_whole());
        let breaks = Arc::new(AtomicBool::new(true));
        net.tap(Box::new(move |_, _, _| {
            match breaks.swap(false, Ordering::Relaxed) {
                true => TapVerdict::Breaks,
                false => TapVerdict::Goes,
            }
        }));
        let mut lost = append(2);
        run();
        assert_eq!(lost.take(), Some(Err(FabricError::Lost)));
        let mut after = append(3);
        run();
        assert_eq!(after.take(), Some(Ok(())), "the memory has it");
        assert_eq!(seen(&mut log), [0; 0], "the peer receives no record");
        assert!(!sender.is_whole(), "LINK-3");
    }
}
