//! One task, or one thread, that batches from a channel: what somebody writes who needs it for one table or one file, and
//! needs neither fencing nor retries, limits by bytes, or to be found from another node.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use mainstay_core::task;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, Statement};

use super::super::callers::{Submit, Written, write};
use super::super::row::Event;
use super::super::{BATCH_ROWS_MAX, WAITING_ROWS_MAX};
use crate::load::Load;
use crate::outcome::Outcome;

/// An event, and who waits for it.
type Order = (Event, oneshot::Sender<()>);

#[derive(Clone)]
struct Channel(mpsc::Sender<Order>);

impl Submit for Channel {
    async fn submit(&self, event: Event) -> Outcome<()> {
        let (answer, answered) = oneshot::channel();
        self.0.send((event, answer)).await?;
        Ok(answered.await?)
    }
}

fn answer(orders: &mut Vec<Order>) {
    for (_, waiting) in orders.drain(..) {
        // Whoever has gone away misses nothing.
        let _ = waiting.send(());
    }
}

/// Rows into a table, by one connection.
pub(in super::super) async fn postgres(load: Load, client: Client) -> Outcome<Written> {
    let statement = "INSERT INTO events (id, caller, text) SELECT * FROM unnest($1::bigint[], $2::int[], $3::text[]) ON \
                     CONFLICT (id) DO NOTHING";
    let statement = client.prepare(statement).await?;
    let (orders, ordered) = mpsc::channel(WAITING_ROWS_MAX);
    let task = task::spawn(insert(client, statement, ordered));
    let written = write(load, &Channel(orders)).await;
    // First the task's own error, because it explains the callers'.
    task.await??;
    written
}

async fn insert(client: Client, statement: Statement, mut ordered: mpsc::Receiver<Order>) -> Outcome<()> {
    let mut orders = Vec::with_capacity(BATCH_ROWS_MAX);
    while ordered.recv_many(&mut orders, BATCH_ROWS_MAX).await > 0 {
        let ids: Vec<i64> = orders.iter().map(|(event, _)| event.id).collect();
        let callers: Vec<i32> = orders.iter().map(|(event, _)| event.caller).collect();
        let texts: Vec<&str> = orders.iter().map(|(event, _)| event.text.as_str()).collect();
        client.execute(&statement, &[&ids, &callers, &texts]).await?;
        answer(&mut orders);
    }
    Ok(())
}

/// Rows into a file, by one thread.
pub(in super::super) async fn csv(load: Load, file: &Path) -> Outcome<Written> {
    let file = File::options().append(true).create(true).open(file)?;
    let (orders, ordered) = mpsc::channel(WAITING_ROWS_MAX);
    let thread = std::thread::Builder::new().name("csv by hand".to_owned()).spawn(move || append(file, ordered))?;
    let written = write(load, &Channel(orders)).await;
    thread.join().map_err(|_| "the thread panicked")??;
    written
}

fn append(mut file: File, mut ordered: mpsc::Receiver<Order>) -> Outcome<()> {
    let mut orders = Vec::with_capacity(BATCH_ROWS_MAX);
    let mut is_first = true;
    while ordered.blocking_recv_many(&mut orders, BATCH_ROWS_MAX) > 0 {
        let mut rows = csv::WriterBuilder::new().has_headers(std::mem::take(&mut is_first)).from_writer(Vec::new());
        for (event, _) in &orders {
            rows.serialize(event)?;
        }
        file.write_all(&rows.into_inner()?)?;
        file.sync_data()?;
        answer(&mut orders);
    }
    Ok(())
}
