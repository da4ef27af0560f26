use mainstay::prelude::*;

struct Connection;

#[derive(Service)]
struct Shop {
    connection: Connection,
}

#[derive(Service)]
struct Pair(u8, u8);

#[derive(Service)]
struct Generic<T> {
    value: T,
}

#[derive(Service)]
enum Choice {
    One,
}

fn main() {}
