use mainstay::prelude::*;

struct Connection;

impl Connection {
    async fn open(_: &Context) -> Result<Self> {
        Ok(Self)
    }
}

#[derive(Actor)]
struct NotSaid {
    #[open]
    first: Connection,
    #[open()]
    second: Connection,
    #[open = "Connection::open(&ctx)"]
    third: Connection,
}

#[derive(Actor)]
struct SaidTwice {
    #[open(Connection::open(&ctx).await)]
    #[open(Connection::open(&ctx).await)]
    connection: Connection,
    #[open(Connection::open(&ctx).await)]
    #[actor(default)]
    other: Connection,
}

#[derive(Actor)]
struct Given {
    #[open(Ok(State::default()))]
    count: State<u64>,
    #[open(Connection::open(&ctx).await)]
    ctx: Connection,
}

#[derive(Actor)]
struct NotAwaited {
    #[open(Connection::open(&ctx))]
    connection: Connection,
}

#[derive(Actor)]
struct NotAResult {
    #[open(5)]
    number: u64,
}

#[derive(Actor)]
struct OfAnotherType {
    #[open(Connection::open(&ctx).await)]
    number: u64,
}

fn main() {}
