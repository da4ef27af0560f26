//! The bytes of what an actor stores: each record starts with its version. The page for people is
//! `docs/internals/actor-state.md`.

use std::fmt;

use bytes::Bytes;
use mainstay_core::contract::Fingerprint;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{ActorId, Error, RESTORE, Result};
use mainstay_replica::Batch;
use smallvec::SmallVec;

use super::name::Kind;
use super::{Answer, CatchUp, CronSchedule, LaneAnswer, Published, Reminder, Schedule};
use crate::formats;

/// The first version of a reminder that tells how long it waits; it always does. Since [`REMINDER_WITH_FLAGS`], if it does.
const REMINDER_WAITING: u8 = 2;

/// The first version of a reminder with a flag for how long it waits, and a length before its payload.
const REMINDER_WITH_FLAGS: u8 = 3;

/// The first version of an answer with its interface and its arguments; it always has them. Since [`ANSWER_WITH_FLAGS`], if it
/// does.
const ANSWER_OF_CALL: u8 = 2;

/// The first version of an answer with a flag for its interface and arguments, and a length before its reply.
const ANSWER_WITH_FLAGS: u8 = 3;

/// The schedules of a reminder.
mod schedule {
    pub(super) const ONCE: u8 = 0;
    pub(super) const EVERY: u8 = 1;
    pub(super) const CRON: u8 = 2;
}

/// The ways of a reminder to catch up.
mod catch_up {
    pub(super) const ONCE: u8 = 0;
    pub(super) const ALL: u8 = 1;
    pub(super) const SKIP: u8 = 2;
}

/// Where the time of a record stands by which it is in an index: in all versions.
const REMINDER_TIME_AT: usize = 3;
const ANSWER_TIME_AT: usize = 1;
const LANE_TIME_AT: usize = 1;

/// How long what stands before a payload may be to need no allocation.
const HEAD_BYTES_IN_PLACE: usize = 80;

type Head = SmallVec<[u8; HEAD_BYTES_IN_PLACE]>;

/// Whose record it is, for those who are told that it is damaged.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: Kind,
    pub(super) id: &'a ActorId,
    pub(super) name: &'a str,
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, name } = self;
        write!(f, "{kind} {name:?} of actor {id}")
    }
}

impl Owner<'_> {
    fn damaged(self, why: &str) -> Error {
        Error::corrupt(format!("{self} is damaged ({why}): {RESTORE}"))
    }

    /// The version of a record; another than those that are read is refused.
    fn version(self, record: &[u8]) -> Result<u8> {
        let format = match self.kind {
            Kind::State => formats::STATE,
            Kind::Reminder => formats::REMINDER,
            Kind::Answer => formats::ANSWER,
            Kind::Event => formats::EVENT_COUNT,
            Kind::Lane => formats::LANE,
        };
        let Some(version) = record.first() else { return Err(self.damaged("it is empty")) };
        format.check_of(*version, self)
    }

    /// The value of a state, which shares its bytes with the record.
    pub(super) fn state(self, record: Bytes) -> Result<Bytes> {
        self.version(&record)?;
        Ok(record.slice(1..))
    }

    /// The reminder of a record.
    pub(super) fn reminder(self, record: &Bytes) -> Result<Reminder> {
        let version = self.version(record)?;
        let mut reader = Reader { owner: self, record, at: 1 };
        let [schedule, catch_up] = reader.take("its schedule")?;
        let catch_up = match catch_up {
            catch_up::ONCE => CatchUp::Once,
            catch_up::ALL => CatchUp::All,
            catch_up::SKIP => CatchUp::Skip,
            _ => return Err(self.damaged("there is no such way to catch up")),
        };
        let [due, planned] = [reader.time("its due time")?, reader.time("its planned time")?];
        let failures = u32::from_be_bytes(reader.take("the number of its failures")?);
        let fired = u64::from_be_bytes(reader.take("the number of its runs")?);
        let waits = match version {
            REMINDER_WITH_FLAGS.. => reader.flag("whether it waits")?,
            version => version == REMINDER_WAITING,
        };
        let wait = if waits { Some(reader.duration("how long it waits")?) } else { None };
        let schedule = match schedule {
            schedule::ONCE => Schedule::Once,
            schedule::EVERY => Schedule::Every(reader.duration("its period")?),
            schedule::CRON => {
                let [version] = reader.take("its cron expression")?;
                formats::CRON.check_of(version, format_args!("the cron expression of {self}"))?;
                let text = reader.text("its cron expression")?;
                Schedule::Cron(
                    CronSchedule::parse(text)
                        .map_err(|error| self.damaged("its cron expression is not understood").with_source(error))?,
                )
            }
            _ => return Err(self.damaged("there is no such schedule")),
        };
        let payload = reader.last("its payload", version >= REMINDER_WITH_FLAGS, record)?;
        let name = self.name.to_owned();
        let reminder = Reminder { name, payload, schedule, catch_up, due, planned, failures, fired, wait };
        reminder.check().map_err(|error| self.damaged("it is over a limit").with_source(error))?;
        Ok(reminder)
    }

    /// The answer of a record.
    pub(super) fn answer(self, record: &Bytes) -> Result<Answer> {
        let version = self.version(record)?;
        let mut reader = Reader { owner: self, record, at: ANSWER_TIME_AT };
        let expires = reader.time("its time of expiry")?;
        let (mut interface, mut arguments) = (None, None);
        let tells_call = match version {
            ANSWER_WITH_FLAGS.. => reader.flag("whether it tells its call")?,
            version => version == ANSWER_OF_CALL,
        };
        if tells_call {
            arguments = Some(Fingerprint::from_bytes(reader.take("its arguments")?));
            interface = Some(reader.text("the name of its interface")?.to_owned());
        }
        let method = reader.text("the name of its method")?.to_owned();
        let reply = reader.last("its reply", version >= ANSWER_WITH_FLAGS, record)?;
        Ok(Answer { interface, method, arguments, reply, expires })
    }

    /// The last answer in a lane of a record.
    pub(super) fn lane(self, record: &Bytes) -> Result<LaneAnswer> {
        self.version(record)?;
        let mut reader = Reader { owner: self, record, at: LANE_TIME_AT };
        let expires = reader.time("its time of expiry")?;
        let number = u64::from_be_bytes(reader.take("the number of its call")?);
        let reply = reader.last("its reply", true, record)?;
        Ok(LaneAnswer { number, reply, expires })
    }

    /// The count of a record.
    pub(super) fn published(self, record: &[u8]) -> Result<Published> {
        self.version(record)?;
        let mut reader = Reader { owner: self, record, at: 1 };
        let life = u64::from_be_bytes(reader.take("its life")?);
        let count = u64::from_be_bytes(reader.take("its count")?);
        Ok(Published { life, count })
    }

    /// The time under which a record is to be found in the index of its kind, without the rest; `None` for a kind that
    /// has no index.
    pub(super) fn time(self, record: &[u8]) -> Result<Option<WallTime>> {
        self.version(record)?;
        let at = match self.kind {
            Kind::State | Kind::Event => return Ok(None),
            Kind::Reminder => REMINDER_TIME_AT,
            Kind::Answer => ANSWER_TIME_AT,
            Kind::Lane => LANE_TIME_AT,
        };
        Reader { owner: self, record, at }.time("its time").map(Some)
    }
}

/// Takes a record apart from the front.
struct Reader<'a> {
    owner: Owner<'a>,
    record: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take<const BYTES: usize>(&mut self, what: &str) -> Result<[u8; BYTES]> {
        let rest = self.record.get(self.at..).unwrap_or_default();
        let Some((taken, _)) = rest.split_first_chunk() else { return Err(self.ends(what)) };
        self.at += BYTES;
        Ok(*taken)
    }

    fn time(&mut self, what: &str) -> Result<WallTime> {
        self.take(what).map(|millis| WallTime::from_millis(u64::from_be_bytes(millis)))
    }

    /// A length of time, in seconds and nanoseconds.
    fn duration(&mut self, what: &str) -> Result<Duration> {
        let seconds = u64::from_be_bytes(self.take(what)?);
        let nanos = u32::from_be_bytes(self.take(what)?);
        if nanos >= 1_000_000_000 {
            return Err(self.owner.damaged(&format!("{what} is none")));
        }
        Ok(Duration::new(seconds, nanos))
    }

    /// A text behind its length.
    fn text(&mut self, what: &str) -> Result<&'a str> {
        let length = usize::from(u16::from_be_bytes(self.take(what)?));
        let bytes = self.record.get(self.at..self.at + length).ok_or_else(|| self.ends(what))?;
        self.at += length;
        std::str::from_utf8(bytes).map_err(|_| self.owner.damaged(&format!("{what} is no text")))
    }

    fn flag(&mut self, what: &str) -> Result<bool> {
        match self.take(what)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.owner.damaged(&format!("{what} is neither"))),
        }
    }

    /// The last field, which shares its bytes with the record: behind its length, or in earlier versions all that is left. What
    /// follows is skipped: it is of a later program.
    fn last(&mut self, what: &str, has_length: bool, record: &Bytes) -> Result<Bytes> {
        if !has_length {
            return Ok(record.slice(self.at..));
        }
        let length = u32::from_be_bytes(self.take(what)?) as usize;
        let end = self.at.checked_add(length).filter(|end| *end <= record.len()).ok_or_else(|| self.ends(what))?;
        Ok(record.slice(self.at..end))
    }

    fn ends(&self, what: &str) -> Error {
        self.owner.damaged(&format!("it ends before {what}"))
    }
}

/// Says that an actor is known.
pub(super) fn put_known(batch: &mut Batch, key: &[u8]) {
    batch.put(key, &[formats::KNOWN.written()]);
}

/// Refuses a record of an actor that is of another version.
pub(super) fn check_known(id: &ActorId, record: &[u8]) -> Result<()> {
    match record.first() {
        Some(version) => formats::KNOWN.check_of(*version, format_args!("the record of actor {id}")).map(|_| ()),
        None => Err(Error::corrupt(format!("the record of actor {id} is damaged (it is empty): {RESTORE}"))),
    }
}

/// Sets a state.
pub(super) fn put_state(batch: &mut Batch, key: &[u8], value: &[u8]) {
    batch.put_parts(&[key], &[&[formats::STATE.written()], value]);
}

/// Sets a reminder.
pub(super) fn put_reminder(batch: &mut Batch, key: &[u8], reminder: &Reminder) {
    batch.put_parts(&[key], &[&reminder_head(reminder), &reminder.payload]);
}

/// Sets an answer.
pub(super) fn put_answer(batch: &mut Batch, key: &[u8], answer: &Answer) {
    batch.put_parts(&[key], &[&answer_head(answer), &answer.reply]);
}

/// Sets the last answer in a lane.
pub(super) fn put_lane(batch: &mut Batch, key: &[u8], answer: &LaneAnswer) {
    batch.put_parts(&[key], &[&lane_head(answer), &answer.reply]);
}

/// Sets the count of the events of a type.
pub(super) fn put_published(batch: &mut Batch, key: &[u8], published: Published) {
    batch.put_parts(
        &[key],
        &[&[formats::EVENT_COUNT.written()], &published.life.to_be_bytes(), &published.count.to_be_bytes()],
    );
}

fn reminder_head(reminder: &Reminder) -> Head {
    let mut head = Head::new();
    let schedule = match reminder.schedule {
        Schedule::Once => schedule::ONCE,
        Schedule::Every(_) => schedule::EVERY,
        Schedule::Cron(_) => schedule::CRON,
    };
    let catch_up = match reminder.catch_up {
        CatchUp::Once => catch_up::ONCE,
        CatchUp::All => catch_up::ALL,
        CatchUp::Skip => catch_up::SKIP,
    };
    head.extend_from_slice(&[formats::REMINDER.written(), schedule, catch_up]);
    head.extend_from_slice(&reminder.due.as_millis().to_be_bytes());
    head.extend_from_slice(&reminder.planned.as_millis().to_be_bytes());
    head.extend_from_slice(&reminder.failures.to_be_bytes());
    head.extend_from_slice(&reminder.fired.to_be_bytes());
    head.push(reminder.wait.is_some().into());
    if let Some(wait) = reminder.wait {
        push_duration(&mut head, wait);
    }
    match &reminder.schedule {
        Schedule::Once => {}
        Schedule::Every(period) => push_duration(&mut head, *period),
        Schedule::Cron(cron) => {
            head.push(formats::CRON.written());
            push_text(&mut head, cron.as_str());
        }
    }
    push_length(&mut head, &reminder.payload);
    head
}

fn answer_head(answer: &Answer) -> Head {
    let mut head = Head::new();
    let call = answer.interface.as_ref().zip(answer.arguments);
    head.push(formats::ANSWER.written());
    head.extend_from_slice(&answer.expires.as_millis().to_be_bytes());
    head.push(call.is_some().into());
    if let Some((interface, arguments)) = call {
        head.extend_from_slice(&arguments.to_bytes());
        push_text(&mut head, interface);
    }
    push_text(&mut head, &answer.method);
    push_length(&mut head, &answer.reply);
    head
}

fn lane_head(answer: &LaneAnswer) -> Head {
    let mut head = Head::new();
    head.push(formats::LANE.written());
    head.extend_from_slice(&answer.expires.as_millis().to_be_bytes());
    head.extend_from_slice(&answer.number.to_be_bytes());
    push_length(&mut head, &answer.reply);
    head
}

/// The length of what follows the head. It has been checked against a limit that is far below what this has room for.
fn push_length(head: &mut Head, bytes: &[u8]) {
    head.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
}

fn push_duration(head: &mut Head, duration: Duration) {
    head.extend_from_slice(&duration.as_secs().to_be_bytes());
    head.extend_from_slice(&duration.subsec_nanos().to_be_bytes());
}

/// A text behind its length. What gets here has been checked against a limit that is far below what the length has room for.
fn push_text(head: &mut Head, text: &str) {
    head.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    head.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests;
