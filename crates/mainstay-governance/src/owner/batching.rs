use mainstay::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::BatchWriter;
use crate::owner::{OwnerRef, Resource};

/// Batches for a resource that has one owner, where a job is a batch.
impl<T, O, R> BatchWriter<T, O> for OwnerRef<R>
where
    T: Clone + Send + Sync + 'static,
    O: Serialize + DeserializeOwned + Send + Sync + 'static,
    R: Resource<Job = Vec<T>, Reply = Vec<O>>,
{
    async fn write(&self, items: &[T]) -> Result<Vec<O>> {
        self.run(items.to_vec()).await
    }

    async fn write_once(&self, items: Vec<T>) -> Result<Vec<O>> {
        self.run(items).await
    }
}
