use mainstay_core::{Error, Result};
use mainstay_replica::Order;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Dictionary;
use crate::collection::Handle;
use crate::layout;
use crate::lock::LockMode;
use crate::transaction::Transaction;

impl<K, V> Dictionary<K, V>
where
    K: Serialize + DeserializeOwned + Send + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// How many keys there are, in the snapshot that enumerations of this transaction see and with its own changes. Takes
    /// the same short time however many there are.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn len(&self, tx: &mut Transaction) -> Result<u64> {
        self.handle.enter(tx, LockMode::Shared).await?;
        self.handle.len(tx)
    }

    /// Whether there are no keys; as [`len`](Dictionary::len).
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub async fn is_empty(&self, tx: &mut Transaction) -> Result<bool> {
        Ok(self.len(tx).await? == 0)
    }
}

impl Handle {
    /// The number of entries that the transaction sees.
    pub(crate) fn len(&self, tx: &mut Transaction) -> Result<u64> {
        let (snapshot, now) = tx.snapshot()?;
        let id = self.known.id;
        let mut stored = 0;
        if !tx.writes.is_cleared(id) {
            if let Some(bytes) = snapshot.get(&layout::length(id))? {
                let bytes: std::result::Result<[u8; 8], _> = bytes.as_ref().try_into();
                let bytes = bytes.map_err(|_| Error::corrupt(format!("the length of {} is damaged", self.known)))?;
                stored = i64::from_le_bytes(bytes);
            }
            // Those that have expired and are not yet removed; few, because that happens all the time. What this
            // transaction has put in their place it counts itself.
            for place in snapshot.scan(layout::expired(id, now), Order::Ascending)? {
                let (place, _) = place?;
                let entry = layout::parse_expiry(&place).map(|(_, key)| key);
                stored -= i64::from(entry.is_some_and(|key| tx.writes.entry(&key).is_none()));
            }
        }
        let own = tx.writes.of(id);
        let own_expired = own.filter(|(_, write)| write.new.as_ref().is_some_and(|new| new.has_expired(now))).count();
        let length = stored + tx.writes.length_change(id) - own_expired as i64;
        u64::try_from(length).map_err(|_| Error::corrupt(format!("the length of {} is {length}", self.known)))
    }
}
