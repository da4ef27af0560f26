use mainstay::prelude::*;

#[interface(name = "")]
trait Nameless {
    async fn look(&self) -> Result<()>;
}

#[interface(name = "a b", name = "c")]
trait Twice {
    async fn look(&self) -> Result<()>;
}

#[interface]
trait Till {
    #[method(title = "pay")]
    async fn pay(&self) -> Result<()>;
    #[method(repeatable)]
    async fn take(&mut self) -> Result<()>;
    #[method(name = "refund")]
    async fn give_back(&self, #[argument(optional)] amount: u64) -> Result<()>;
    async fn refund(&self, #[argument(name = "to")] from: u64, to: u64) -> Result<()>;
    async fn at_most_once(&self) -> Result<()>;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct WithoutDefault;

#[interface]
trait Defaults {
    async fn without(&self, #[argument(default)] what: WithoutDefault) -> Result<()>;
    async fn of_another_type(&self, #[argument(default = "text")] number: u64) -> Result<()>;
}

fn main() {}
