//! The invariants of every kind of fabric, tested for each kind.
//!
//! ```text
//! kind.rs          starts and ends the machines of a kind, and waits for them
//! order.rs         FAB-3            atomicity.rs   FAB-1, FAB-2
//! answers.rs       FAB-4            refused.rs     FAB-6, places that do not exist
//! membership.rs    FAB-5            loss.rs        a machine ends and restarts
//! bells.rs         the bell of each lane
//! certificates.rs  certificates for TLS    tls.rs  refused certificates
//! rings.rs         RING-1, RING-2, BELL-1, back-pressure
//! ```
//! Tests that need threads have their own list, because some kinds have no threads.

mod answers;
mod atomicity;
mod bells;
mod certificates;
mod kind;
mod loss;
mod membership;
mod order;
mod refused;
mod rings;
mod tls;

/// Makes one `#[test]` of each listed function of the suite.
macro_rules! tests {
    ($kind:ty: $($file:ident :: $test:ident)*) => {
        $(#[test]
        fn $test() {
            crate::$file::$test(&<$kind as crate::kind::Kind>::new());
        })*
    };
}

/// The tests that one thread can run.
macro_rules! of_one_thread {
    ($kind:ty) => {
        tests! { $kind:
            order::every_answer_is_that_of_the_operations_posted_before
            order::two_machines_do_not_disturb_each_other
            answers::written_words_are_visible
            answers::ended_peer_answers_lost
            answers::operations_end_when_their_peer_ends
            answers::completion_may_be_dropped
            refused::missing_place_is_refused
            refused::impossible_length_is_refused
            refused::write_by_non_writer_is_refused
            refused::duplicate_and_withdrawn_segment_are_refused
            refused::replaced_segment_is_found_after_old_one_is_forgotten
            membership::post_to_non_member_is_refused
            membership::machine_unknown_to_peer_reaches_nothing
            membership::removed_machine_reaches_nothing
            membership::removing_member_ends_posted_operations
            membership::ring_of_lost_member_is_drained_and_recreated
            membership::this_machine_is_always_a_member
            membership::machine_reaches_itself
            membership::events_tell_of_connections
            bells::write_rings_bell_of_its_lane
            loss::nothing_posted_before_reaches_the_memory_after
            rings::records_arrive_in_order_and_whole
            rings::full_ring_refuses_until_release
            rings::both_directions_of_a_pair
        }
    };
}

/// The tests that need threads.
macro_rules! of_threads {
    ($kind:ty) => {
        tests! { $kind:
            order::thread_keeps_its_order
            atomicity::swaps_lose_nothing
            atomicity::words_are_whole
            atomicity::visible_first_word_implies_later_words
            atomicity::read_with_stable_first_word_is_not_torn
            membership::members_change_while_others_post
            bells::waiter_at_lease_bell_is_woken
            rings::parked_pollers_are_woken
            rings::slow_receiver_slows_its_senders
        }
    };
}

mod local {
    of_one_thread!(crate::kind::LocalKind);
    of_threads!(crate::kind::LocalKind);
}

mod shm {
    of_one_thread!(crate::kind::Shm);
    of_threads!(crate::kind::Shm);
}

mod tcp {
    of_one_thread!(crate::kind::Tcp);
    of_threads!(crate::kind::Tcp);
}

mod tcp_in_tls {
    of_one_thread!(crate::kind::TcpInTls);
    of_threads!(crate::kind::TcpInTls);
}

/// This kind has no threads.
mod sim {
    of_one_thread!(crate::kind::Sim);
}
