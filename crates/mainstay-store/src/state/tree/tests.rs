use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

impl<V: Content> Node<V> {
    /// How high it is and how many leaves it has; fails if it is not as it must be.
    pub(super) fn check(&self) -> (usize, usize) {
        match self {
            Node::Leaf(leaf) => {
                assert!(leaf.len() <= leaf::LEAF_ENTRIES_MAX);
                (0, 1)
            }
            Node::Branch(branch) => branch.check(),
        }
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries(tree: &Tree<Value>, bounds: Bounds<'_>, order: Order) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    tree.visit(bounds, order, |key, value| {
        entries.push((key.to_vec(), value.to_bytes().unwrap().to_vec()));
        ControlFlow::Continue(())
    });
    entries
}

fn assert_same(tree: &Tree<Value>, model: &Model) {
    tree.root.check();
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(entries(tree, (Bound::Unbounded, Bound::Unbounded), Order::Ascending), all);
    for (key, value) in model {
        assert_eq!(tree.get(key).map(|value| value.to_bytes().unwrap()).as_deref(), Some(&value[..]));
    }
}

fn put(tree: &mut Tree<Value>, model: &mut Model, key: &[u8], value: &[u8]) {
    let before = tree.insert(Key::from(key), Value::from(value));
    assert_eq!(before.map(|value| value.to_bytes().unwrap().to_vec()), model.insert(key.to_vec(), value.to_vec()));
}

fn remove(tree: &mut Tree<Value>, model: &mut Model, key: &[u8]) {
    assert_eq!(tree.remove(key).map(|value| value.to_bytes().unwrap().to_vec()), model.remove(key));
}

#[derive(Debug, Clone)]
enum Step {
    Put(u16, u8),
    Remove(u16),
    /// Removes this many keys from one on, so that nodes become sparse.
    RemoveMany(u16, u16),
    Snapshot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..6000_u16, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => (0..6000_u16).prop_map(Step::Remove),
        1 => (0..6000_u16, 0..800_u16).prop_map(|(key, count)| Step::RemoveMany(key, count)),
        1 => Just(Step::Snapshot),
    ];
    proptest::collection::vec(step, 0..1500)
}

fn key(number: u16) -> Vec<u8> {
    // Short and long ones, with much in common.
    format!("{}/{number:05}", "k".repeat(usize::from(number % 3) * 20)).into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn it_is_an_ordered_map_and_its_clones_do_not_change(steps in steps(), filled in 0..6000_u16) {
        let (mut tree, mut model) = (Tree::default(), Model::new());
        for number in 0..filled {
            put(&mut tree, &mut model, &key(number.wrapping_mul(7919) % 6000), b"first");
        }
        let mut snapshots = Vec::new();
        for step in steps {
            match step {
                Step::Put(number, value) => put(&mut tree, &mut model, &key(number), &[value; 30][..value as usize % 31]),
                Step::Remove(number) => remove(&mut tree, &mut model, &key(number)),
                Step::RemoveMany(first, count) => {
                    (first..first + count).for_each(|number| remove(&mut tree, &mut model, &key(number)));
                }
                Step::Snapshot if snapshots.len() < 5 => snapshots.push((tree.clone(), model.clone())),
                Step::Snapshot => {}
            }
        }
        assert_same(&tree, &model);
        snapshots.iter().for_each(|(tree, model)| assert_same(tree, model));
    }

    #[test]
    fn a_range_is_what_lies_between_its_bounds(count in 0..3000_u16, a in 0..3000_u16, b in 0..3000_u16) {
        let (mut tree, mut model) = (Tree::default(), Model::new());
        // Every second one, so that bounds are also met where there is no key.
        (0..count).for_each(|number| put(&mut tree, &mut model, &(number * 2).to_be_bytes(), b"value"));
        let (start, end) = (a.min(b).to_be_bytes(), a.max(b).to_be_bytes());
        for from in [Bound::Included(&start[..]), Bound::Excluded(&start[..]), Bound::Unbounded] {
            for to in [Bound::Included(&end[..]), Bound::Excluded(&end[..]), Bound::Unbounded] {
                let own = |bound: Bound<&[u8]>| bound.map(Bytes::copy_from_slice);
                let range = KeyRange { start: own(from), end: own(to) };
                let within = |key: &[u8]| range.contains(key);
                let mut expected: Vec<_> =
                    model.iter().filter(|(key, _)| within(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
                prop_assert_eq!(&entries(&tree, (from, to), Order::Ascending), &expected);
                expected.reverse();
                prop_assert_eq!(&entries(&tree, (from, to), Order::Descending), &expected);
            }
        }
    }
}

#[test]
fn keys_in_order_leave_full_leaves_and_what_is_removed_leaves_few() {
    const COUNT: u32 = 20_000;
    let (mut tree, mut model) = (Tree::default(), Model::new());
    (0..COUNT).for_each(|number| put(&mut tree, &mut model, &number.to_be_bytes(), b""));
    let (height, leaves) = tree.root.check();
    assert_eq!((height, leaves), (2, (COUNT as usize).div_ceil(leaf::LEAF_ENTRIES_MAX)));
    assert_same(&tree, &model);
    // Only one in sixteen stays.
    (0..COUNT)
        .filter(|number| number % 16 != 0)
        .for_each(|number| remove(&mut tree, &mut model, &number.to_be_bytes()));
    let (_, sparse) = tree.root.check();
    assert!(sparse * 8 < leaves * 2, "{sparse} leaves of {leaves} for a sixteenth of the keys");
    assert_same(&tree, &model);
    (0..COUNT).for_each(|number| remove(&mut tree, &mut model, &number.to_be_bytes()));
    assert_eq!(tree.root.check(), (0, 1));
    assert_same(&tree, &model);
}

#[test]
fn keys_in_order_leave_full_leaves_also_before_and_between_others() {
    const COUNT: u32 = 20_000;
    let (mut tree, mut model) = (Tree::default(), Model::new());
    // What lies behind each of them was there first.
    for last in [&b"a~"[..], b"b~", b"c~"] {
        put(&mut tree, &mut model, last, b"");
    }
    for number in 0..COUNT {
        for start in [b'a', b'b'] {
            put(&mut tree, &mut model, &[&[start][..], &number.to_be_bytes()].concat(), b"");
        }
    }
    let full = (2 * COUNT as usize).div_ceil(leaf::LEAF_ENTRIES_MAX);
    let (height, leaves) = tree.root.check();
    assert_eq!(height, 2);
    assert!(leaves < full + full / 16, "{leaves} leaves, {full} would be full");
    assert_same(&tree, &model);
}

#[test]
fn keys_against_their_order_behind_a_full_leaf_fill_leaves_by_half_at_least() {
    let (mut tree, mut model) = (Tree::default(), Model::new());
    (0..1000_u32).for_each(|number| put(&mut tree, &mut model, &number.to_be_bytes(), b""));
    (1000..10_000_u32).rev().for_each(|number| put(&mut tree, &mut model, &number.to_be_bytes(), b""));
    assert!(tree.root.check().1 <= 2 * 10_000 / leaf::LEAF_ENTRIES_MAX);
    assert_same(&tree, &model);
}

#[test]
fn keys_against_their_order_fill_leaves_by_half_at_least() {
    let (mut tree, mut model) = (Tree::default(), Model::new());
    (0..10_000_u32).rev().for_each(|number| put(&mut tree, &mut model, &number.to_be_bytes(), b""));
    assert!(tree.root.check().1 <= 2 * 10_000 / leaf::LEAF_ENTRIES_MAX);
    assert_same(&tree, &model);
}
