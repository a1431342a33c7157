//! Calls between machines over three fabrics: memory of one process with threads, connections, and
//! a simulated network.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fencepost_fabric::{
    Fabric, HostClock, LocalNetwork, MachineId, Member, MonotonicClock, SimKnobs, SimNet,
    TcpConfig, TcpFabric,
};
use fencepost_txn::network::call::{Answer, CallError, MESSAGE_BYTES_MAX};
use fencepost_txn::network::{Configuration, NetworkOptions, PostKind, Replication};
use fencepost_txn::{Machine, MachineOptions};
use parking_lot::Mutex;
use pollster::block_on;

const A: MachineId = MachineId(1);
const B: MachineId = MachineId(2);
const SERVICE: u8 = 7;
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Local,
    Tcp,
    Sim,
}

/// Requests that wait for an answer, with the handles to answer them.
type PendingCalls = Mutex<Vec<(Vec<u8>, Answer)>>;

/// Two connected machines.
struct Pair {
    a: Arc<Machine>,
    b: Arc<Machine>,
    /// The simulated network, which makes progress only when it is driven.
    sim: Option<SimNet>,
}

fn open(fabric: Arc<dyn Fabric>, sim: Option<&SimNet>) -> Arc<Machine> {
    let clock: Arc<dyn MonotonicClock> = match sim {
        Some(net) => Arc::new(net.clone()),
        None => Arc::new(HostClock),
    };
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        network: Some(NetworkOptions {
            clock,
            driven: sim.is_some(),
            ..NetworkOptions::of(
                fabric,
                Configuration::of_process(2).expect("machines"),
                Replication::exactly(1),
            )
        }),
        ..MachineOptions::default()
    })
    .expect("opens")
}

impl Pair {
    fn new(kind: Kind) -> Pair {
        let (local, sim) = (LocalNetwork::new(), SimNet::new(3, SimKnobs::default()));
        let join = |id: MachineId| -> (Arc<dyn Fabric>, Member) {
            let mut address = String::new();
            let fabric: Arc<dyn Fabric> = match kind {
                Kind::Local => Arc::new(local.join(id).expect("new")),
                Kind::Sim => Arc::new(sim.join(id).expect("new")),
                Kind::Tcp => {
                    let fabric = TcpFabric::start(&TcpConfig {
                        me: id,
                        cluster: 1,
                        secret: b"of the calls".to_vec(),
                        listen: "127.0.0.1:0".into(),
                        tls: None,
                        silence: None,
                    });
                    let fabric = fabric.expect("a free port");
                    address = fabric.address().to_string();
                    Arc::new(fabric)
                }
            };
            (fabric, Member { id, address })
        };
        let (a, b) = (join(A), join(B));
        for fabric in [&a.0, &b.0] {
            fabric
                .set_members(&[a.1.clone(), b.1.clone()])
                .expect("a member");
        }
        let sim = matches!(kind, Kind::Sim).then_some(sim);
        let pair = Pair {
            a: open(a.0, sim.as_ref()),
            b: open(b.0, sim.as_ref()),
            sim,
        };
        pair.until(|| pair.end(pair.a.is_complete()) && pair.end(pair.b.is_complete()));
        pair
    }

    /// Runs a future to its end, and returns its result.
    fn end<T>(&self, future: impl Future<Output = T>) -> T {
        let Some(net) = &self.sim else {
            return block_on(future);
        };
        let mut future = pin!(future);
        for _ in 0..10_000_000 {
            if let Poll::Ready(value) = future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                return value;
            }
            self.drive(net);
        }
        panic!("nothing comes of it");
    }

    fn drive(&self, net: &SimNet) {
        net.step();
        self.a.drive();
        self.b.drive();
    }

    /// Waits until a condition holds.
    fn until(&self, mut so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !so() {
            match &self.sim {
                Some(net) => self.drive(net),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(began.elapsed() < TIME_LIMIT, "it never is");
        }
    }

    fn at_rest(&self) {
        self.until(|| self.a.is_at_rest() && self.b.is_at_rest());
    }

    /// Makes machine b answer each request with its bytes reversed.
    fn serve_backwards(&self) {
        self.b.serve(
            SERVICE,
            Arc::new(|from, mut request: Vec<u8>, answer: Answer| {
                assert_eq!(from, A);
                request.reverse();
                answer.send(&request);
            }),
        );
    }

    /// Makes machine b keep its requests without answering them.
    fn serve_later(&self) -> Arc<PendingCalls> {
        let kept: Arc<PendingCalls> = Arc::default();
        let keep = Arc::clone(&kept);
        self.b.serve(
            SERVICE,
            Arc::new(move |_, request, answer| keep.lock().push((request, answer))),
        );
        kept
    }
}

fn bytes(many: usize) -> Vec<u8> {
    (0..many)
        .map(|byte| (byte * 7 + byte / 256) as u8)
        .collect()
}

fn over_all(test: impl Fn(&Pair)) {
    for kind in [Kind::Local, Kind::Tcp, Kind::Sim] {
        eprintln!("over {kind:?}");
        test(&Pair::new(kind));
    }
}

#[test]
fn requests_and_answers_of_all_lengths_come_whole() {
    over_all(|pair| {
        pair.serve_backwards();
        for many in [0, 1, 8, 1000, 16_384, 16_385, 3_000_000] {
            let request = bytes(many);
            let mut answer = pair
                .end(pair.a.call(B, SERVICE, &request))
                .expect("answers");
            answer.reverse();
            assert!(answer == request, "{many} bytes");
        }
        let traffic = [&pair.a, &pair.b].map(|machine| machine.traffic());
        let calls =
            traffic.map(|posted| (posted.of(PostKind::Request), posted.of(PostKind::Answer)));
        assert_eq!(calls, [(7, 0), (0, 7)]);
        pair.at_rest();
    });
}

#[test]
fn too_long_request_or_answer_is_refused() {
    let pair = Pair::new(Kind::Local);
    pair.b.serve(
        SERVICE,
        Arc::new(|_, request: Vec<u8>, answer: Answer| {
            answer.send(&bytes(MESSAGE_BYTES_MAX + request.len()));
        }),
    );
    let call = |request: &[u8]| pair.end(pair.a.call(B, SERVICE, request));
    let too_long = bytes(MESSAGE_BYTES_MAX + 1);
    assert_eq!(call(&too_long), Err(CallError::TooLong));
    assert_eq!(call(&[1]), Err(CallError::AnswerTooLong));
    assert_eq!(call(&[]).map(|answer| answer.len()), Ok(MESSAGE_BYTES_MAX));
    pair.at_rest();
}

#[test]
fn call_without_service_or_answer_fails() {
    over_all(|pair| {
        let call = |to| pair.end(pair.a.call(to, SERVICE, b"?"));
        assert_eq!(call(B), Err(CallError::NoService));
        pair.b.serve(SERVICE, Arc::new(|_, _, answer| drop(answer)));
        assert_eq!(call(B), Err(CallError::NotAnswered));
        assert_eq!(call(MachineId(9)), Err(CallError::Unreachable));
        assert_eq!(call(A), Err(CallError::Unreachable));
        pair.at_rest();
    });
}

#[test]
fn calls_beyond_limit_wait_and_all_are_answered() {
    const CALLS: usize = 3000;
    over_all(|pair| {
        let kept = pair.serve_later();
        let mut calls: Vec<_> = (0..CALLS)
            .map(|call| Some(Box::pin(pair.a.call(B, SERVICE, &bytes(call % 9000)))))
            .collect();
        let mut left = CALLS;
        let mut most = 0;
        pair.until(|| {
            most = most.max(kept.lock().len());
            // Answered in reverse order.
            for (request, answer) in kept.lock().drain(..).rev() {
                answer.send(&request);
            }
            for (number, slot) in calls.iter_mut().enumerate() {
                let Some(call) = slot else { continue };
                let mut cx = Context::from_waker(Waker::noop());
                if let Poll::Ready(answer) = call.as_mut().poll(&mut cx) {
                    assert!(answer.expect("is answered") == bytes(number % 9000));
                    *slot = None;
                    left -= 1;
                }
            }
            left == 0
        });
        assert!((1..=1024).contains(&most), "{most} at once");
        pair.at_rest();
    });
}

#[test]
fn answer_to_dropped_call_is_discarded() {
    over_all(|pair| {
        let kept = pair.serve_later();
        let dropped = pair.a.call(B, SERVICE, b"dropped");
        let awaited = pair.a.call(B, SERVICE, b"awaited");
        pair.until(|| kept.lock().len() == 2);
        drop(dropped);
        assert!(!pair.a.is_at_rest(), "it is not answered yet");
        for (request, answer) in kept.lock().drain(..) {
            answer.send(&request);
        }
        assert_eq!(pair.end(awaited).as_deref(), Ok(&b"awaited"[..]));
        pair.at_rest();
        assert_eq!(
            pair.end(pair.a.call(B, 9, b"?")),
            Err(CallError::NoService),
            "the line goes on"
        );
    });
}

#[test]
fn answers_may_come_from_any_thread_and_both_ask_at_once() {
    for kind in [Kind::Local, Kind::Tcp] {
        let pair = Pair::new(kind);
        for machine in [&pair.a, &pair.b] {
            machine.serve(
                SERVICE,
                Arc::new(|_, request: Vec<u8>, answer: Answer| {
                    std::thread::spawn(move || answer.send(&request));
                }),
            );
        }
        std::thread::scope(|scope| {
            for (from, to) in [(&pair.a, B), (&pair.b, A)] {
                for thread in 0..2 {
                    scope.spawn(move || {
                        for round in 0..100 {
                            let request = bytes(round * 131 + thread);
                            let answer = block_on(from.call(to, SERVICE, &request));
                            assert!(answer.expect("is answered") == request);
                        }
                    });
                }
            }
        });
        pair.at_rest();
    }
}

#[test]
fn calls_to_a_machine_that_closes_end() {
    over_all(|pair| {
        let kept = pair.serve_later();
        let call = pair.a.call(B, SERVICE, b"?");
        pair.until(|| kept.lock().len() == 1);
        pair.b.close().expect("closes");
        assert_eq!(pair.end(call), Err(CallError::Lost));
        let again = pair.end(pair.a.call(B, SERVICE, b"?"));
        assert_eq!(again, Err(CallError::Unreachable));
        // These answers come too late, and are ignored.
        for (request, answer) in kept.lock().drain(..) {
            answer.send(&request);
        }
    });
}

#[test]
fn calls_of_both_machines_end_where_a_connection_breaks() {
    let pair = Pair::new(Kind::Sim);
    let net = pair.sim.as_ref().expect("simulated");
    let kept = pair.serve_later();
    pair.a.serve(
        SERVICE,
        Arc::new(|_, request, answer| answer.send(&request)),
    );
    let call = pair.a.call(B, SERVICE, b"?");
    pair.until(|| kept.lock().len() == 1);
    net.break_connection(B, A);
    // The answer cannot arrive any more, although the connection broke at b's side.
    assert_eq!(pair.end(call), Err(CallError::Lost));
    let (to_a, to_b) = (pair.b.call(A, SERVICE, b"?"), pair.a.call(B, SERVICE, b"?"));
    assert_eq!(pair.end(to_a), Err(CallError::Unreachable));
    assert_eq!(pair.end(to_b), Err(CallError::Unreachable));
}
