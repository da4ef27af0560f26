//! Everything that the others do wrong, done right, and the corners of what is allowed.
#![deny(warnings, missing_docs, unreachable_pub)]

use mainstay::prelude::*;
use serde::{Deserialize, Serialize};

/// An argument that is private, although the interface is not.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    sku: String,
}

/// An interface for a service.
#[interface]
pub(crate) trait Shop {
    /// Takes anything that is owned and serializable.
    async fn order(&self, orders: Vec<Order>, r#type: Option<(u8, String)>) -> Result<Order>;

    /// Names of methods may be those of keywords.
    async fn r#move(&self) -> Result<()>;

    /// What all proxies can do has names that leave this one alone.
    async fn delete(&self) -> Result<()>;

    /// There if the configuration says so, and not if it does not.
    #[cfg(all())]
    async fn there(&self, number: u8) -> Result<u8>;

    /// One that would make it an interface for actors alone.
    #[cfg(any())]
    async fn not_there(&mut self, of_no_type: Nothing) -> Result<Nothing>;
}

/// An interface for an actor.
#[interface]
pub(crate) trait Counter {
    /// Runs alone.
    async fn add(&mut self, n: i64) -> Result<i64>;
}

#[derive(Service)]
#[service(implements(Shop), partitions = "named(eu, us)", persistence = "none", name = "shop", run)]
struct ShopService {
    #[service(name = "orders")]
    stored: Dictionary<u64, Order>,
    #[service(collection)]
    aliased: Alias,
    waiting: Queue<Order>,
    jobs: ConcurrentQueue<Order>,
    plain: u8,
    state: StateManager,
    context: ServiceContext,
}

type Alias = Dictionary<String, u64>;

impl Shop for ShopService {
    async fn order(&self, mut orders: Vec<Order>, _: Option<(u8, String)>) -> Result<Order> {
        let _ = (&self.stored, &self.aliased, &self.waiting, &self.jobs, self.plain, &self.state, &self.context);
        orders.pop().ok_or_else(|| Error::invalid("nothing is ordered"))
    }

    async fn r#move(&self) -> Result<()> {
        Ok(())
    }

    async fn delete(&self) -> Result<()> {
        Ok(())
    }

    async fn there(&self, number: u8) -> Result<u8> {
        Ok(number)
    }
}

impl ShopService {
    async fn run(&self, ctx: ServiceContext) -> Result<()> {
        ctx.cancelled().await;
        Ok(())
    }
}

#[derive(Service)]
struct Idle;

#[interface]
trait Audit {
    async fn audit(&self) -> Result<Vec<String>>;
}

#[derive(Actor)]
#[actor(implements(Counter, Audit), persistence = "volatile", partitions = 4, name = "counter")]
struct CounterActor {
    count: State<i64>,
    #[actor(name = "orders")]
    renamed: State<Vec<u8>>,
    #[actor(state)]
    aliased: Kept,
    #[actor(default)]
    own: own::Context,
    r#type: State<String>,
    plain: Option<Vec<u8>>,
    ctx: Context,
}

type Kept = State<Option<String>>;

mod own {
    #[derive(Default)]
    pub(crate) struct Context;
}

impl Counter for CounterActor {
    async fn add(&mut self, n: i64) -> Result<i64> {
        let _ = (&self.renamed, &self.aliased, &self.own, &self.r#type, &self.plain, &self.ctx);
        *self.count += n;
        Ok(*self.count)
    }
}

impl Audit for CounterActor {
    async fn audit(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

impl Lifecycle for CounterActor {}

#[derive(Actor)]
struct Silent;

#[derive(Worker)]
#[worker(implements(Counter, Audit), min = 0, max = 2, waiting_max = 10, idle_ms = 1_000, name = "adder")]
struct Adder {
    ctx: WorkerContext,
    sum: i64,
}

impl Counter for Adder {
    async fn add(&mut self, n: i64) -> Result<i64> {
        self.sum += n;
        Ok(self.sum)
    }
}

impl Audit for Adder {
    async fn audit(&self) -> Result<Vec<String>> {
        Ok(vec![self.ctx.worker_name().to_owned()])
    }
}

#[derive(Worker)]
struct Lazy;

fn main() {
    async fn inside_of_a_function(node: &Node) -> Result<()> {
        #[interface]
        trait Local {
            async fn hello(&self) -> Result<String>;
        }
        let local: LocalRef = node.service(5)?;
        local.hello().await?;
        let shop: ShopRef = node.service("a text")?;
        shop.order(vec![Order { sku: "chair".into() }], None).await?;
        shop.r#move().await?;
        shop.delete().await?;
        shop.there(1).await?;
        let shop: ShopRef = shop.with_timeout(std::time::Duration::from_secs(1)).idempotent("key").clone();
        shop.delete_actor().await?;
        Ok(())
    }
    let _ = inside_of_a_function;
    let _ = |counter: CounterRef| async move { counter.add(1).await };
    let _ = Node::builder().service::<ShopService>().service::<Idle>();
    let _ = Node::builder().actor::<CounterActor>().actor::<Silent>().worker::<Adder>().worker::<Lazy>();
}
