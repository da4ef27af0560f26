use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::margin;

/// A lease as the actor counts it that has granted it.
#[derive(Debug)]
pub(crate) struct GrantedLease<T> {
    /// What it is for.
    pub(crate) of: T,
    length: Duration,
    expires: Instant,
}

impl<T> GrantedLease<T> {
    pub(crate) fn new(of: T, length: Duration, now: Instant) -> Self {
        Self { of, length, expires: now + length + margin(length) }
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.expires <= now
    }

    /// Lets it run on for its length at least: the actor stood still, and its holder may not have been heard.
    pub(crate) fn extend(&mut self, now: Instant) {
        self.expires = self.expires.max(now + self.length + margin(self.length));
    }
}

/// The leases that an actor has granted, by their holders or by their numbers.
#[derive(Debug)]
pub(crate) struct LeaseTable<K, T> {
    leases: BTreeMap<K, GrantedLease<T>>,
}

impl<K, T> Default for LeaseTable<K, T> {
    fn default() -> Self {
        Self { leases: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, T> LeaseTable<K, T> {
    pub(crate) fn grant(&mut self, key: K, of: T, length: Duration, now: Instant) {
        self.leases.insert(key, GrantedLease::new(of, length, now));
    }

    /// Lets a lease begin anew, with its length or another.
    pub(crate) fn renew<Q: Ord + ?Sized>(&mut self, key: &Q, length: Option<Duration>, now: Instant) -> Option<&mut T>
    where
        K: Borrow<Q>,
    {
        let lease = self.leases.get_mut(key)?;
        lease.length = length.unwrap_or(lease.length);
        lease.expires = now + lease.length + margin(lease.length);
        Some(&mut lease.of)
    }

    /// Lets all run on, because the actor stood still.
    pub(crate) fn extend(&mut self, now: Instant) {
        self.leases.values_mut().for_each(|lease| lease.extend(now));
    }

    pub(crate) fn release<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        self.leases.remove(key).map(|lease| lease.of)
    }

    /// Ends the leases that have run out: each with the moment at which it did, the earliest first.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(Instant, K, T)> {
        if self.next_expiry().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let is_over = |_: &K, lease: &mut GrantedLease<T>| lease.is_over(now);
        let over = self.leases.extract_if(.., is_over);
        let mut over: Vec<_> = over.map(|(key, lease)| (lease.expires, key, lease.of)).collect();
        over.sort_by_key(|(expires, ..)| *expires);
        over
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.leases.values().map(|lease| lease.expires).min()
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        self.leases.get(key).map(|lease| &lease.of)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut T>
    where
        K: Borrow<Q>,
    {
        self.leases.get_mut(key).map(|lease| &mut lease.of)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.leases.values().map(|lease| &lease.of)
    }

    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn leases_end_a_quarter_late_and_the_earliest_first() {
        let now = Instant::now();
        let mut table = LeaseTable::default();
        table.grant("long", 1, 8 * SECOND, now);
        table.grant("short", 2, 4 * SECOND, now);
        assert_eq!(table.next_expiry(), Some(now + 5 * SECOND));
        assert!(table.expire(now + 4 * SECOND).is_empty());
        let over = table.expire(now + 10 * SECOND);
        assert_eq!(over, [(now + 5 * SECOND, "short", 2), (now + 10 * SECOND, "long", 1)]);
        assert_eq!((table.len(), table.next_expiry()), (0, None));
    }

    #[test]
    fn a_renewal_begins_anew_and_a_standstill_ends_no_lease() {
        let now = Instant::now();
        let mut table = LeaseTable::default();
        for holder in ["renewed", "silent", "longer"] {
            table.grant(holder, (), 4 * SECOND, now);
        }
        assert!(table.renew("renewed", None, now + SECOND).is_some());
        assert!(table.renew("longer", Some(8 * SECOND), now + SECOND).is_some());
        assert!(table.renew("unknown", None, now).is_none());
        assert_eq!(table.expire(now + 5 * SECOND), [(now + 5 * SECOND, "silent", ())]);
        table.extend(now + 60 * SECOND);
        assert_eq!(table.expire(now + 65 * SECOND), [(now + 65 * SECOND, "renewed", ())]);
        assert_eq!(table.next_expiry(), Some(now + 70 * SECOND));
        assert_eq!((table.release("longer"), table.release("longer")), (Some(()), None));
    }
}
