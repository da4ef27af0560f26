use std::collections::BTreeMap;

use super::{Canonical, List, Node};

/// For each element of a new list, which element of the old one it is, if that can be told.
///
/// 1. Elements whose known parts are equal are the same. Among several equal ones, the first of the old is the first of
///    the new and so on, if there are as many of them as before, or if it makes no difference.
/// 2. If those that were found stand in the same order as before, then between two neighbours of them (or an end of the
///    list) as many elements as before are the same ones in the same places: they were changed where they stand.
/// 3. Any other is a new element.
pub(super) fn matches(old: &List, new: &[Canonical]) -> Vec<Option<usize>> {
    if old.positional {
        let same = old.known.len() == new.len();
        return (0..new.len()).map(|index| same.then_some(index)).collect();
    }
    let mut found = equal(old, new);
    let order: Vec<usize> = found.iter().flatten().copied().collect();
    if order.is_sorted() {
        fill_gaps(&mut found, old.known.len());
    }
    found
}

fn equal(old: &List, new: &[Canonical]) -> Vec<Option<usize>> {
    let mut groups: BTreeMap<&[u8], (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (index, known) in old.known.iter().enumerate() {
        groups.entry(known).or_default().0.push(index);
    }
    for (index, known) in new.iter().enumerate() {
        groups.entry(known).or_default().1.push(index);
    }
    let mut found = vec![None; new.len()];
    for (before, after) in groups.values() {
        if before.len() == after.len() || all_alike(before, &old.inside) {
            for (before, after) in before.iter().zip(after) {
                found[*after] = Some(*before);
            }
        }
    }
    found
}

fn all_alike(indices: &[usize], inside: &BTreeMap<usize, Node>) -> bool {
    indices.windows(2).all(|pair| inside.get(&pair[0]) == inside.get(&pair[1]))
}

fn fill_gaps(found: &mut [Option<usize>], old_count: usize) {
    // The first places, old and new, that are not settled yet.
    let (mut old_from, mut new_from) = (0, 0);
    for new_to in 0..=found.len() {
        let old_to = match found.get(new_to) {
            Some(None) => continue,
            Some(Some(old_to)) => *old_to,
            None => old_count,
        };
        if old_to - old_from == new_to - new_from {
            for step in 0..new_to - new_from {
                found[new_from + step] = Some(old_from + step);
            }
        }
        (old_from, new_from) = (old_to + 1, new_to + 1);
    }
}
