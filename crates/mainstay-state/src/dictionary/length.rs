use mainstay_core::{Error, Result};
use mainstay_replica::Order;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Dictionary;
use crate::collection::Handle;
use crate::entry;
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
        let is_cleared = tx.writes.is_cleared(id);
        let mut length = 0;
        if !is_cleared {
            if let Some(bytes) = snapshot.get(&layout::length(id))? {
                let bytes: std::result::Result<[u8; 8], _> = bytes.as_ref().try_into();
                let bytes = bytes.map_err(|_| Error::corrupt(format!("the length of {} is damaged", self.known)))?;
                length = i64::from_le_bytes(bytes);
            }
            // Those that have expired and are not yet removed; few, because that happens all the time.
            for place in snapshot.scan(layout::expired(id, now), Order::Ascending)? {
                length -= i64::from(layout::parse_expiry(&place?.0).is_some());
            }
        }
        // What others have made of a key since the snapshot does not count: it is held against the snapshot, not against
        // what was committed when this transaction changed it.
        for (key, write) in tx.writes.of(id) {
            let before = if is_cleared { None } else { snapshot.get(key)? };
            let expires = before.as_deref().map(entry::expiry_of).transpose()?;
            let was_there = expires.is_some_and(|expires| expires.is_none_or(|at| at > now));
            let is_there = write.new.as_ref().is_some_and(|new| !new.has_expired(now));
            length += i64::from(is_there) - i64::from(was_there);
        }
        u64::try_from(length).map_err(|_| Error::corrupt(format!("the length of {} is {length}", self.known)))
    }
}
