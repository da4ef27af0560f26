use mainstay::prelude::*;

#[interface]
trait Work {
    async fn work(&mut self) -> Result<()>;
}

#[derive(Worker)]
#[worker(implements(Work))]
struct Idle;

struct Connection;

#[derive(Worker)]
struct Connected {
    connection: Connection,
}

#[derive(Worker)]
struct Settings {
    #[worker(default)]
    field: u8,
}

#[derive(Worker)]
#[worker(max = 0)]
struct None;

#[derive(Worker)]
#[worker(min = 5, max = 4)]
struct Crossed;

#[derive(Worker)]
#[worker(idle = "60s")]
struct Unknown;

#[derive(Worker)]
struct Pair(u8, u8);

struct NotAWorker;

fn main() {
    let _ = Node::builder().worker::<NotAWorker>();
}
