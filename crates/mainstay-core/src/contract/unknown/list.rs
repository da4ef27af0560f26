use std::collections::BTreeMap;

use super::print::Print;
use super::{List, Node, Order};

/// For each element of a new list, which element of the old one it is, if that can be told.
///
/// 1. Elements whose known parts are equal are the same. Among several equal ones, the first of the old is the first of
///    the new and so on, if there are as many of them as before, or if it makes no difference. Of those that are left,
///    elements that differ only in the order of lists inside them (which may be sets) are the same in the same way.
/// 2. If those that were found stand in the same order as before, then between two neighbours of them (or an end of the
///    list) as many elements as before are the same ones in the same places: they were changed where they stand. A set
///    has no places.
/// 3. Any other is a new element.
pub(super) fn matches(old: &List, new: &[Print]) -> Vec<Option<usize>> {
    if old.order == Order::Places {
        let same = old.known.len() == new.len();
        return (0..new.len()).map(|index| same.then_some(index)).collect();
    }
    let mut found = vec![None; new.len()];
    equal(old, new, &mut found, |print| *print);
    if found.contains(&None) {
        equal(old, new, &mut found, |print| print.loose);
    }
    let order: Vec<usize> = found.iter().flatten().copied().collect();
    if old.order == Order::Sequence && order.is_sorted() {
        fill_gaps(&mut found, old.known.len());
    }
    found
}

/// Adds to `found` the elements that have no partner yet and whose `part` is equal.
fn equal<P: Ord>(old: &List, new: &[Print], found: &mut [Option<usize>], part: impl Fn(&Print) -> P) {
    let mut is_taken = vec![false; old.known.len()];
    found.iter().flatten().for_each(|index| is_taken[*index] = true);
    let mut groups: BTreeMap<P, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (index, known) in old.known.iter().enumerate().filter(|(index, _)| !is_taken[*index]) {
        groups.entry(part(known)).or_default().0.push(index);
    }
    for (index, known) in new.iter().enumerate().filter(|(index, _)| found[*index].is_none()) {
        groups.entry(part(known)).or_default().1.push(index);
    }
    for (before, after) in groups.values() {
        if before.len() == after.len() || all_alike(before, &old.inside) {
            for (before, after) in before.iter().zip(after) {
                found[*after] = Some(*before);
            }
        }
    }
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
