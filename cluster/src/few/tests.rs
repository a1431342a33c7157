//! Compares [`FewMap`] and [`FewSet`] with the standard library's B-trees.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use proptest::prelude::*;

use super::{FewMap, FewSet};

proptest! {
    #[test]
    fn few_map_matches_btree_map(
        steps in prop::collection::vec((0u8..8, 0u16..24, any::<u16>()), 0..80),
    ) {
        let (mut map, mut model) = (FewMap::new(), BTreeMap::new());
        for (what, key, value) in steps {
            match what {
                0..3 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                3 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                4 => {
                    *map.entry(key).or_insert(value) ^= 1;
                    *model.entry(key).or_insert(value) ^= 1;
                }
                5 => prop_assert_eq!(map.get_mut(&key), model.get_mut(&key)),
                6 => {
                    map.retain(|k, v| (*k ^ *v) & 3 > 0);
                    model.retain(|k, v| (*k ^ *v) & 3 > 0);
                }
                _ => {
                    let ends = (Bound::Excluded(key), Bound::Included(key + value % 8));
                    let keys = key..key + value % 8;
                    prop_assert!(map.range(keys.clone()).eq(model.range(keys)));
                    prop_assert!(map.range(..=key).eq(model.range(..=key)));
                    if value % 8 > 0 {
                        prop_assert!(map.range(ends).eq(model.range(ends)));
                    }
                }
            }
            prop_assert!(map.iter().eq(&model) && map.len() == model.len());
            prop_assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
            prop_assert_eq!(map.get(&key), model.get(&key));
            prop_assert_eq!(map.contains_key(&key), model.contains_key(&key));
        }
        prop_assert_eq!(format!("{map:?}"), format!("{model:?}"));
        prop_assert!(map.into_iter().eq(model));
    }

    #[test]
    fn few_set_matches_btree_set(steps in prop::collection::vec((0u8..5, 0u16..24), 0..80)) {
        let (mut set, mut model) = (FewSet::new(), BTreeSet::new());
        let (mut before, mut model_before) = (FewSet::new(), BTreeSet::new());
        for (what, element) in steps {
            match what {
                0..3 => prop_assert_eq!(set.insert(element), model.insert(element)),
                3 => prop_assert_eq!(set.remove(&element), model.remove(&element)),
                _ => {
                    set.retain(|there| there % 3 != element % 3);
                    model.retain(|there| there % 3 != element % 3);
                    (before, model_before) = (set.clone(), model.clone());
                }
            }
            prop_assert!(set.iter().eq(&model) && set.len() == model.len());
            prop_assert_eq!(set.contains(&element), model.contains(&element));
            prop_assert_eq!((set.first(), set.last()), (model.first(), model.last()));
            prop_assert_eq!(before.is_subset(&set), model_before.is_subset(&model));
        }
        prop_assert_eq!(format!("{set:?}"), format!("{model:?}"));
        prop_assert!(set.into_iter().eq(model));
    }
}
