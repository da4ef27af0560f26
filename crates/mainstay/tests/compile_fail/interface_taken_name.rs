use mainstay::prelude::*;

#[interface]
trait Shop {
    async fn delete_actor(&mut self) -> Result<()>;
    async fn with_timeout(&self, seconds: u64) -> Result<()>;
    async fn idempotent(&self) -> Result<()>;
    async fn events(&self) -> Result<Vec<String>>;
    async fn caller(&self) -> Result<String>;
    async fn from_caller(&self) -> Result<()>;
    async fn clone(&self) -> Result<()>;
    async fn save(&mut self) -> Result<()>;
    async fn activate(&mut self) -> Result<()>;
    async fn deactivate(&mut self) -> Result<()>;
    async fn before_turn(&self) -> Result<()>;
    async fn after_turn(&self) -> Result<()>;
    async fn r#remind(&mut self) -> Result<()>;
    async fn __hidden(&self) -> Result<()>;
    async fn of(&self) -> Result<()>;
    async fn of_service(&self) -> Result<()>;
    async fn of_worker(&self) -> Result<()>;
}

fn main() {}
