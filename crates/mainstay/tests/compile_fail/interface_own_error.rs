use mainstay::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Refused;

#[interface]
trait Shop {
    async fn buy(&self) -> Result<(), Refused>;
}

#[interface]
trait Desk {
    async fn count(&self) -> u64;
}

fn main() {}
