use mainstay::Result;

use crate::batch::BatchWriter;
use crate::owner::Resource;
use crate::pool::ResourcePool;

/// Batches for a pool of a resource whose jobs are batches: as many are written at once as the pool has members.
impl<T, O, R> BatchWriter<T, O> for ResourcePool<R>
where
    T: Clone + Send + Sync + 'static,
    O: Send + Sync + 'static,
    R: Resource<Job = Vec<T>, Reply = Vec<O>>,
{
    async fn write(&self, items: &[T]) -> Result<Vec<O>> {
        self.run(items.to_vec()).await
    }

    async fn write_once(&self, items: Vec<T>) -> Result<Vec<O>> {
        self.run(items).await
    }
}
