use mainstay::prelude::*;

struct Connection;

#[derive(Actor)]
struct Plain {
    connection: Connection,
}

#[derive(Actor)]
struct Stored {
    connection: State<Connection>,
    #[actor(state)]
    number: u8,
}

#[derive(Actor)]
struct Clashes {
    first: Context,
    second: Context,
    count: State<u8>,
    #[actor(name = "count")]
    total: State<u8>,
}

#[derive(Actor)]
struct Names {
    #[actor(name = "context")]
    context: Context,
    #[actor(name = "number")]
    number: u8,
    #[actor(default, name = "plain")]
    plain: u8,
    #[actor(state, default)]
    both: State<u8>,
    #[actor(stored)]
    unknown: State<u8>,
}

#[derive(Actor)]
struct Pair(State<u8>, State<u8>);

#[derive(Actor)]
struct Generic<T> {
    value: State<T>,
}

#[derive(Actor)]
enum Choice {
    One,
}

fn main() {}
