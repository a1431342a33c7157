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
            answers::what_was_written_is_visible
            answers::a_peer_that_is_gone_answers_lost
            answers::what_is_under_way_when_a_peer_goes_ends
            answers::a_completion_may_be_dropped
            refused::a_place_that_is_not_there
            refused::a_length_that_no_memory_has
            refused::whoever_is_not_the_writer
            refused::a_segment_that_is_there_and_one_that_was_withdrawn
            refused::a_segment_that_is_provided_anew_is_found_once_the_one_before_is_forgotten
            membership::a_machine_that_is_no_member_is_not_posted_to
            membership::a_machine_that_a_peer_does_not_count_reaches_nothing
            membership::a_machine_that_was_removed_reaches_nothing
            membership::removing_a_member_ends_what_is_posted_to_it
            membership::the_ring_of_a_lost_member_is_drained_and_made_anew
            membership::this_machine_is_always_a_member
            membership::a_machine_reaches_itself
            membership::events_tell_of_connections
            bells::a_write_rings_the_bell_of_its_lane
            loss::nothing_posted_before_reaches_the_memory_after
            rings::records_arrive_in_order_and_whole
            rings::a_full_ring_refuses_until_the_receiver_has_released
            rings::both_directions_of_a_pair
        }
    };
}

/// The tests that need threads.
macro_rules! of_threads {
    ($kind:ty) => {
        tests! { $kind:
            order::each_thread_keeps_its_order
            atomicity::swaps_lose_nothing
            atomicity::words_are_whole
            atomicity::who_sees_the_first_word_sees_the_others
            atomicity::a_read_is_of_one_moment_where_the_first_word_says_so
            membership::members_change_while_others_post
            bells::who_waits_at_the_bell_of_leases_is_woken
            rings::parked_pollers_are_woken
            rings::a_slow_receiver_slows_its_senders
        }
    };
}

mod local {
    of_one_thread!(crate::kind::Local);
    of_threads!(crate::kind::Local);
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
