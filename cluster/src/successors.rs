//! Consistent hashing: the machines on a circle, and the successors of each.
//!
//! *Invariants.* The position of a machine on the circle is a function of its id alone. It is the
//! same on every machine and in every version of the program. When a machine leaves, only the lists
//! of successors that contain it change.

use fencepost_fabric::MachineId;

/// Returns 64 well mixed bits of a number (the finaliser of SplitMix64).
pub fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the other machines in their order on the circle after `machine`, which need not be one
/// of `machines`.
pub fn successors(
    machine: MachineId,
    machines: impl IntoIterator<Item = MachineId>,
) -> Vec<MachineId> {
    let start = mix(u64::from(machine.0));
    let others = machines.into_iter().filter(|other| *other != machine);
    let mut others: Vec<MachineId> = others.collect();
    // The mixing is one to one, so no two machines have the same position.
    others.sort_by_key(|other| mix(u64::from(other.0)).wrapping_sub(start));
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(ids: impl IntoIterator<Item = u32>) -> Vec<MachineId> {
        ids.into_iter().map(MachineId).collect()
    }

    #[test]
    fn leaving_machine_keeps_order_of_others() {
        let all = machines(1..=9);
        for &machine in &all {
            let before = successors(machine, all.iter().copied());
            assert_eq!(before.len(), 8);
            for &removed in before.iter() {
                let left = all.iter().copied().filter(|m| *m != removed);
                let mut expected = before.clone();
                expected.retain(|m| *m != removed);
                assert_eq!(successors(machine, left), expected);
            }
        }
    }

    #[test]
    fn successor_order_is_stable() {
        assert_eq!(
            successors(MachineId(1), machines(1..=5)),
            machines([2, 3, 5, 4])
        );
    }
}
