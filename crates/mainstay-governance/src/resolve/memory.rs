use std::collections::HashMap;
use std::hash::Hash;

/// What was used lately, up to a bound: in two generations, of which the older is dropped as a whole when the younger is
/// full. What is used moves to the younger one.
pub(super) struct Memory<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    generation_max: usize,
}

impl<K: Hash + Eq + Clone, V: Copy> Memory<K, V> {
    /// Keeps up to so many.
    pub(super) fn new(entries_max: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation_max: (entries_max / 2).max(1) }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value);
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.generation_max && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bound_and_keeps_what_is_used() {
        let mut memory = Memory::new(100);
        memory.insert(-1, -1);
        for n in 0..10_000 {
            memory.insert(n, n);
            assert_eq!(memory.get(&-1), Some(-1));
            assert!(memory.young.len() + memory.old.len() <= 100);
        }
        assert_eq!((memory.get(&9_999), memory.get(&0)), (Some(9_999), None));
    }

    #[test]
    fn what_was_removed_or_replaced_does_not_come_back_from_the_older_generation() {
        let mut memory = Memory::new(4);
        memory.insert("a", 1);
        memory.insert("b", 1);
        memory.insert("c", 1);
        memory.insert("a", 2);
        assert_eq!(memory.get(&"a"), Some(2));
        memory.remove(&"a");
        assert_eq!(memory.get(&"a"), None);
        memory.clear();
        assert_eq!(memory.get(&"b"), None);
    }
}
