use mainstay::prelude::*;

#[interface]
trait Shop {
    async fn open(&self) -> Result<()>;
}

#[derive(Service)]
#[service(implements(Shop))]
struct NotAShop {}

#[derive(Service)]
#[service(run)]
struct NotRunning {}

#[derive(Service)]
#[service(run)]
struct NotAsync {}

impl NotAsync {
    fn run(&self, _: ServiceContext) -> Result<()> {
        Ok(())
    }
}

struct NotAService;

fn main() {
    let _ = Node::builder().service::<NotAService>();
}
