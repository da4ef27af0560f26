use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::node::NodeBuilder;
use mainstay::prelude::*;
use tokio::time::Instant;

use super::book::{Book, dead_name, item_name};
use super::waiters::{QueueWaiter, Waiters};
use super::writing::{Desk, WriteOutcome, Writing, blames_items, writer_of};
use super::{DeadLetter, DurableQueue, DurableSettings, DurableStatus, DurableWriter, Numbered};
use crate::batch::write_time::in_time;
use crate::metric::QueueMetrics;
use crate::owner::counter::Counter;
use crate::owner::{Fence, FenceLineage, Holder, Opening};
use crate::settings::{QUEUES, in_force};

/// The reminder that is set while items wait.
const LOOK_AFTER: &str = "look after";

/// The timer until a write is tried again, or until the first item has waited long enough.
const WRITE: &str = "write";

/// The longest text of an error that is stored.
const ERROR_BYTES_MAX: usize = 1 << 10;

/// A line of items that are stored at once and written in batches: see the [module](super).
#[derive(Actor)]
#[actor(implements(DurableQueue<W>), name = W::NAME)]
pub struct DurableBatch<W: DurableWriter> {
    book: State<Book>,
    /// Up to where everything was written outside; `None` before the first write.
    mark: State<Option<W::Mark>>,
    /// The token of the last opening: raised in a turn that is durable before the opening begins.
    fence: State<Fence>,
    /// The line of tokens that it belongs to, and what numbers are told apart by that another lineage has given too.
    #[actor(name = "life")]
    lineage: State<FenceLineage>,
    /// What is known of tokens that are not on record.
    counter: Counter,
    /// The numbers of items that were set aside, each of which is an entry of its own.
    dead: State<Vec<u64>>,
    writer: Provided<W>,
    settings: DurableSettings,
    /// What is open.
    desk: Desk<W>,
    /// The write that is under way, if it still is.
    under_way: Weak<()>,
    /// How many items a write has at most while the one is looked for that cannot be written.
    window: u64,
    /// Up to where somebody does not want to wait for more.
    hurry: u64,
    failures: u32,
    last_error: Option<String>,
    is_stuck: bool,
    /// Before which a write that failed is not tried again.
    rests_until: Option<Instant>,
    /// How long the reminder waits, as far as this activation has set it.
    looked_after: Duration,
    waiters: Waiters,
    #[open(Ok(QueueMetrics::of(W::NAME)))]
    metrics: QueueMetrics,
    /// When the write that is under way has begun.
    begun: Option<Instant>,
    ctx: Context,
}

impl<W: DurableWriter> DurableBatch<W> {
    /// Adds the lines of a writer to a node, which provides it to them.
    ///
    /// Operators can set how they batch in `[governance.queues.NAME]`, by the name of the writer.
    pub fn serve(node: NodeBuilder, writer: W) -> NodeBuilder {
        let node = writer.sections(node).section_named(QUEUES, W::NAME, writer.settings());
        node.provide(writer).actor::<Self>()
    }

    /// The same for a writer that the node was given already, because it has other uses as well.
    pub fn serve_provided(node: NodeBuilder) -> NodeBuilder {
        node.sections(QUEUES).actor::<Self>()
    }

    /// Takes items, and sees to it that they are written in time. Returns the number of the first.
    fn take(&mut self, items: Vec<W::Item>) -> Result<u64> {
        // What is in memory of earlier items would be gone through at the end of this turn.
        self.ctx.state_mut().clear_cache();
        let (first, was_empty) = (self.book.next, self.book.waiting() == 0);
        let bytes: u64 = items.iter().map(|item| self.writer.size(item) as u64).sum();
        self.refuse_if_full(items.len() as u64, bytes)?;
        let count = items.len() as u64;
        for (number, item) in (first..).zip(items) {
            self.ctx.state_mut().set(&item_name(number), item)?;
        }
        let book = &mut *self.book;
        book.next += count;
        book.bytes += bytes;
        self.metrics.waiting.set(self.book.waiting());
        if was_empty && count > 0 {
            let DurableSettings { linger, look_after, .. } = self.settings;
            self.look_after(linger.max(look_after))?;
            if !linger.is_zero() {
                self.ctx.set_timer(WRITE, linger, None, Self::write_now)?;
            }
        }
        self.write_if_due()?;
        Ok(first)
    }

    /// Has the actor woken after a while, and then again and again, until nothing waits: also after a restart.
    fn look_after(&mut self, wait: Duration) -> Result<()> {
        self.looked_after = wait;
        self.ctx.remind(LOOK_AFTER).after(wait).every(wait.max(self.settings.look_after)).set().map(drop)
    }

    fn refuse_if_full(&self, items: u64, bytes: u64) -> Result<()> {
        let DurableSettings { waiting_items_max, waiting_bytes_max, .. } = self.settings;
        if items > waiting_items_max {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{items} items at once are more than may ever wait in {}({}): append them in parts, or set \
                     waiting_items_max, which is {waiting_items_max}, higher",
                    W::NAME,
                    self.ctx.id()
                ),
            ));
        }
        let is_full = self.book.waiting() + items > waiting_items_max
            || (self.book.waiting() > 0 && self.book.bytes + bytes > waiting_bytes_max);
        if !is_full {
            return Ok(());
        }
        let text = format!(
            "{}({}) has {} items of {} bytes waiting, and no room for {items} more: slow down and retry{}",
            W::NAME,
            self.ctx.id(),
            self.book.waiting(),
            self.book.bytes,
            self.last_error.as_ref().map(|error| format!("; the last write failed: {error}")).unwrap_or_default()
        );
        Err(Error::new(ErrorKind::Overloaded, text))
    }

    /// Begins a write if a batch is full, or does not have to be.
    fn write_if_due(&mut self) -> Result<()> {
        let DurableSettings { items_max, bytes_max, linger, .. } = self.settings;
        let is_due = linger.is_zero()
            || self.book.waiting() >= items_max
            || self.book.bytes >= bytes_max
            || self.book.first < self.hurry
            || self.window < items_max;
        if is_due { self.write() } else { Ok(()) }
    }

    /// The timer: what is there has waited long enough, or a write that failed has.
    async fn write_now(&mut self) -> Result<()> {
        self.hurry = self.book.next;
        self.write()
    }

    /// Begins a write, unless one is under way, there is nothing to write, or it is to rest.
    fn write(&mut self) -> Result<()> {
        let is_resting = self.rests_until.is_some_and(|until| until > Instant::now());
        if self.book.waiting() == 0 || self.under_way.strong_count() > 0 || is_resting {
            return Ok(());
        }
        let key = self.key()?.to_owned();
        let is_open = self.desk.try_lock().is_ok_and(|desk| desk.is_some());
        if !is_open {
            // The write begins when this turn is durable: nobody opens with a token that another could have.
            (*self.fence, *self.lineage) = self.counter.next(*self.fence, *self.lineage)?;
        }
        let (items, bytes) = self.batch()?;
        let holder = Holder::actor(W::NAME, self.ctx.id());
        let writing = Writing {
            writer: self.writer.share(),
            desk: self.desk.clone(),
            opening: Opening::new(key, *self.fence).held_by(holder).in_lineage(*self.lineage),
            mark: (*self.mark).clone(),
            items,
            bytes,
            time_max: self.settings.write_time_max,
            token: Arc::new(()),
        };
        self.under_way = Arc::downgrade(&writing.token);
        self.begun = Some(Instant::now());
        self.ctx.then(writing.run(), Self::landed)
    }

    /// Its id, which names what it writes to. Of ids that are no text some would read alike: 5 and "5" are two lines.
    fn key(&self) -> Result<&str> {
        let id = self.ctx.id();
        id.as_text().ok_or_else(|| {
            Error::invalid(format!(
                "{}({id}) is no queue: the id of a queue is the key of what it writes to, a text, such as {:?}",
                W::NAME,
                id.to_string()
            ))
        })
    }

    /// The next batch: the oldest items, as many as may be.
    fn batch(&self) -> Result<(Vec<Numbered<W::Item>>, u64)> {
        let end = self.book.first + self.book.waiting().min(self.window);
        let (mut items, mut bytes) = (Vec::new(), 0);
        for number in self.book.first..end {
            let item = self.ctx.state().get::<W::Item>(&item_name(number))?;
            let size = self.writer.size(&item) as u64;
            if !items.is_empty() && bytes + size > self.settings.bytes_max {
                break;
            }
            bytes += size;
            items.push(Numbered { lineage: *self.lineage, number, item });
        }
        Ok((items, bytes))
    }

    /// A write has ended: what was written leaves the line, in the commit that keeps its mark.
    async fn landed(&mut self, outcome: WriteOutcome<W>) -> Result<()> {
        let WriteOutcome { result, items, bytes, token } = outcome;
        let took = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.metrics.written(items.len(), result.is_ok(), took);
        match result {
            Ok(mark) => {
                *self.mark = Some(mark);
                self.rests_until = None;
                self.failures = 0;
                self.last_error = None;
                self.is_stuck = false;
                self.remove(&items, bytes, None)?;
                self.window = self.window.saturating_mul(2).clamp(1, self.settings.items_max);
            }
            Err(error) => match &items[..] {
                _ if Fence::remembered(&error).is_some() => {
                    self.counter.hear(&error);
                    self.rest(&error)?;
                }
                [_, _, ..] if blames_items(&error) => self.window = items.len() as u64 / 2,
                [one] if blames_items(&error) && self.dead.len() < self.settings.dead_letters_max => {
                    self.set_aside(one, bytes, &error)?;
                }
                _ => self.rest(&error)?,
            },
        }
        // From here on the next one may begin.
        drop(token);
        self.write_if_due()
    }

    /// Takes items out of the line, and tells whoever waits for them.
    fn remove(&mut self, items: &[Numbered<W::Item>], bytes: u64, set_aside: Option<(u64, &Error)>) -> Result<()> {
        let Some(last) = items.last() else { return Ok(()) };
        for Numbered { number, .. } in items {
            self.ctx.state_mut().try_remove(&item_name(*number))?;
        }
        let book = &mut *self.book;
        book.first = last.number + 1;
        // Items that an earlier version of the writer has counted otherwise leave nothing behind.
        book.bytes = if book.waiting() == 0 { 0 } else { book.bytes.saturating_sub(bytes) };
        book.batches += u64::from(set_aside.is_none());
        self.metrics.waiting.set(self.book.waiting());
        self.waiters.leave(self.book.first, set_aside);
        if self.book.waiting() == 0 {
            self.ctx.cancel_reminder(LOOK_AFTER)?;
            self.ctx.cancel_timer(WRITE);
            return Ok(());
        }
        let DurableSettings { linger, look_after, .. } = self.settings;
        if self.looked_after > linger.max(look_after) {
            self.look_after(linger.max(look_after))?;
        }
        if !linger.is_zero() {
            self.ctx.set_timer(WRITE, linger, None, Self::write_now)?;
        }
        Ok(())
    }

    /// Takes an item out of the line that cannot be written.
    fn set_aside(&mut self, numbered: &Numbered<W::Item>, bytes: u64, error: &Error) -> Result<()> {
        let Numbered { number, item, .. } = numbered;
        tracing::error!(line = W::NAME, id = %self.ctx.id(), number, ?error, "an item cannot be written and is set aside");
        let letter = DeadLetter { number: *number, item: W::Item::clone(item), error: shortened(error) };
        self.ctx.state_mut().set(&dead_name(*number), letter)?;
        self.dead.push(*number);
        self.remove(std::slice::from_ref(numbered), bytes, Some((*number, error)))
    }

    fn dead_letter(&self, number: u64) -> Result<Arc<DeadLetter<W::Item>>> {
        self.ctx.state().get(&dead_name(number))
    }

    /// Waits before the next try: the writer has failed for a reason of its own, or there is no room to set more aside.
    fn rest(&mut self, error: &Error) -> Result<()> {
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(shortened(error));
        self.is_stuck = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Fatal | ErrorKind::UnknownVersion);
        let wait = self.settings.retry.backoff(self.failures);
        let (failures, wait_ms) = (self.failures, wait.as_millis() as u64);
        tracing::warn!(line = W::NAME, id = %self.ctx.id(), failures, wait_ms, ?error, "a batch was not written");
        self.rests_until = Some(Instant::now() + wait);
        self.ctx.set_timer(WRITE, wait, None, Self::write_now)?;
        if wait > self.looked_after {
            // A line that does not move for a long time is not looked after more often than it is tried.
            self.look_after(wait)?;
        }
        Ok(())
    }
}

/// The text of an error and its causes, as far as it is stored.
fn shortened(error: &Error) -> String {
    let mut text = format!("{error:?}");
    let end = (0..=ERROR_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
    text
}

impl<W: DurableWriter> Lifecycle for DurableBatch<W> {
    async fn activate(&mut self) -> Result<()> {
        self.key()?;
        let services = self.ctx.services();
        self.writer.configure(&*services.provided()?)?;
        self.settings = in_force(services, QUEUES, W::NAME, self.writer.settings())?;
        self.settings.check().map_err(|error| error.about(format_args!("the lines of {} cannot be", W::NAME)))?;
        self.window = self.settings.items_max;
        self.metrics.waiting.set(self.book.waiting());
        Ok(())
    }

    async fn deactivate(&mut self) {
        if let Err(error) = self.write_out().await {
            tracing::warn!(line = W::NAME, id = %self.ctx.id(), ?error, "a line leaves memory and could not be written");
        }
    }
}

impl<W: DurableWriter> DurableBatch<W> {
    /// Writes what is there on the way out. It stays in the line, because nothing can be saved any more, and is recognized
    /// when it is written again.
    async fn write_out(&mut self) -> Result<()> {
        let mut desk = self.desk.lock().await;
        // Without an open handle there is none to be had: its token could not be saved.
        let Some(mut handle) = desk.take() else { return Ok(()) };
        let DurableSettings { writes_when_leaving: writes, write_time_max: limit, .. } = self.settings;
        let mut written = Ok(());
        if let Some(mut mark) = (*self.mark).clone().filter(|_| writes) {
            while self.book.waiting() > 0 && written.is_ok() {
                let (items, _) = self.batch()?;
                match in_time(limit, writer_of::<W>, self.writer.write(&mut handle, &mark, &items)).await {
                    Ok(behind) => mark = behind,
                    Err(error) => written = Err(error),
                }
                self.book.first += items.len() as u64;
            }
        }
        let closing = async {
            self.writer.close(handle).await;
            Ok(())
        };
        let closed = in_time(limit, writer_of::<W>, closing).await;
        written.and(closed)
    }
}

impl<W: DurableWriter> Remindable for DurableBatch<W> {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.write_now().await
    }
}

impl<W: DurableWriter> DurableQueue<W> for DurableBatch<W> {
    async fn append(&mut self, item: W::Item) -> Result<u64> {
        self.take(vec![item])
    }

    async fn append_all(&mut self, items: Vec<W::Item>) -> Result<u64> {
        self.take(items)
    }

    async fn append_and_wait(&mut self, item: W::Item) -> Result<Deferred<u64>> {
        let number = self.take(vec![item])?;
        let (answer, responder) = deferred();
        self.waiters.add(number, QueueWaiter::Number(responder))?;
        Ok(answer)
    }

    async fn written(&mut self, number: u64) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        if number >= self.book.next {
            let text =
                format!("item {number} is not in {}({}): its next is {}", W::NAME, self.ctx.id(), self.book.next);
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        if number >= self.book.first {
            self.waiters.add(number, QueueWaiter::Item(responder))?;
        } else if self.dead.contains(&number) {
            let error = &self.dead_letter(number)?.error;
            return Err(Error::invalid(format!("item {number} was set aside, because it cannot be written: {error}")));
        } else {
            responder.respond(Ok(()));
        }
        Ok(answer)
    }

    async fn flush(&mut self) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        if self.book.waiting() == 0 {
            responder.respond(Ok(()));
        } else {
            self.waiters.add(self.book.next - 1, QueueWaiter::Line(responder))?;
            self.write_now().await?;
        }
        Ok(answer)
    }

    async fn status(&self) -> Result<DurableStatus> {
        Ok(DurableStatus {
            waiting: self.book.waiting(),
            waiting_bytes: self.book.bytes,
            next: self.book.next,
            batches: self.book.batches,
            dead_letters: self.dead.len() as u64,
            failures: self.failures,
            last_error: self.last_error.clone(),
            is_stuck: self.is_stuck,
        })
    }

    async fn dead_letters(&self) -> Result<Vec<DeadLetter<W::Item>>> {
        self.dead.iter().map(|number| Ok((*self.dead_letter(*number)?).clone())).collect()
    }

    async fn take_dead_letter(&mut self, number: u64) -> Result<DeadLetter<W::Item>> {
        let letter = (*self.dead_letter(number)?).clone();
        self.dead.retain(|dead| *dead != number);
        self.ctx.state_mut().remove(&dead_name(number))?;
        Ok(letter)
    }
}
