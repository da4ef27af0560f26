//! The bytes of what an actor stores: each record starts with its version. The page for people is
//! `docs/internals/actor-state.md`.

use bytes::Bytes;
use mainstay_core::contract::Fingerprint;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{ActorId, Error, ErrorKind, RESTORE, Result};
use mainstay_replica::Batch;
use smallvec::SmallVec;

use super::name::Kind;
use super::{Answer, CatchUp, CronSchedule, Published, Reminder, Schedule};

/// The version of every kind of record but the answer of a call.
pub(super) const VERSION: u8 = 1;

/// The version of a reminder that was set by how long it waits, which it tells.
const WAITING_VERSION: u8 = 2;

/// The version of an answer with its interface and its arguments. Those of [`VERSION`] have none of these, and are read.
const ANSWER_VERSION: u8 = 2;

/// The version of the notation of cron expressions.
const CRON_VERSION: u8 = 1;

const ONCE: u8 = 0;
const EVERY: u8 = 1;
const CRON: u8 = 2;

/// How long what stands before a payload may be to need no allocation.
const HEAD_BYTES_IN_PLACE: usize = 64;

type Head = SmallVec<[u8; HEAD_BYTES_IN_PLACE]>;

/// Whose record it is, for those who are told that it is damaged.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: Kind,
    pub(super) id: &'a ActorId,
    pub(super) name: &'a str,
}

impl Owner<'_> {
    fn damaged(self, why: &str) -> Error {
        let Self { kind, id, name } = self;
        Error::corrupt(format!("{kind} {name:?} of actor {id} is damaged ({why}): {RESTORE}"))
    }

    fn unknown(self, what: &str, version: u8) -> Error {
        let Self { kind, id, name } = self;
        Error::new(
            ErrorKind::UnknownVersion,
            format!(
                "{kind} {name:?} of actor {id} has {what} {version}, which this build does not read: use the one that wrote it"
            ),
        )
    }

    /// Refuses a record of another version.
    fn check_version(self, record: &[u8]) -> Result<()> {
        match record.first() {
            Some(&VERSION) => Ok(()),
            Some(&ANSWER_VERSION) if self.kind == Kind::Answer => Ok(()),
            Some(&version) => Err(self.unknown("version", version)),
            None => Err(self.damaged("it is empty")),
        }
    }

    /// The same for a reminder, of which there are two.
    fn check_reminder_version(self, record: &[u8]) -> Result<()> {
        match record.first() {
            Some(&WAITING_VERSION) => Ok(()),
            _ => self.check_version(record),
        }
    }

    /// The value of a state, which shares its bytes with the record.
    pub(super) fn state(self, record: Bytes) -> Result<Bytes> {
        self.check_version(&record)?;
        Ok(record.slice(1..))
    }

    /// The reminder of a record.
    pub(super) fn reminder(self, record: &Bytes) -> Result<Reminder> {
        self.check_reminder_version(record)?;
        let mut reader = Reader { owner: self, record, at: 1 };
        let [schedule, catch_up] = reader.take("its schedule")?;
        let catch_up = match catch_up {
            0 => CatchUp::Once,
            1 => CatchUp::All,
            2 => CatchUp::Skip,
            _ => return Err(self.damaged("there is no such way to catch up")),
        };
        let [due, planned] = [reader.time("its due time")?, reader.time("its planned time")?];
        let failures = u32::from_be_bytes(reader.take("the number of its failures")?);
        let fired = u64::from_be_bytes(reader.take("the number of its runs")?);
        let wait = match record.first() {
            Some(&WAITING_VERSION) => Some(reader.duration("how long it waits")?),
            _ => None,
        };
        let schedule = match schedule {
            ONCE => Schedule::Once,
            EVERY => Schedule::Every(reader.duration("its period")?),
            CRON => {
                let [version] = reader.take("its cron expression")?;
                if version != CRON_VERSION {
                    return Err(self.unknown("a cron expression of version", version));
                }
                let text = reader.text("its cron expression")?;
                Schedule::Cron(
                    CronSchedule::parse(text)
                        .map_err(|error| self.damaged("its cron expression is not understood").with_source(error))?,
                )
            }
            _ => return Err(self.damaged("there is no such schedule")),
        };
        let payload = record.slice(reader.at..);
        let name = self.name.to_owned();
        let reminder = Reminder { name, payload, schedule, catch_up, due, planned, failures, fired, wait };
        reminder.check().map_err(|error| self.damaged("it is over a limit").with_source(error))?;
        Ok(reminder)
    }

    /// The answer of a record.
    pub(super) fn answer(self, record: &Bytes) -> Result<Answer> {
        self.check_version(record)?;
        let mut reader = Reader { owner: self, record, at: 1 };
        let expires = reader.time("its time of expiry")?;
        let (mut interface, mut arguments) = (None, None);
        if record.first() == Some(&ANSWER_VERSION) {
            arguments = Some(Fingerprint::from_bytes(reader.take("its arguments")?));
            interface = Some(reader.text("the name of its interface")?.to_owned());
        }
        let method = reader.text("the name of its method")?.to_owned();
        Ok(Answer { interface, method, arguments, reply: record.slice(reader.at..), expires })
    }

    /// The count of a record.
    pub(super) fn published(self, record: &[u8]) -> Result<Published> {
        self.check_version(record)?;
        let mut reader = Reader { owner: self, record, at: 1 };
        let life = u64::from_be_bytes(reader.take("its life")?);
        let count = u64::from_be_bytes(reader.take("its count")?);
        if reader.at != record.len() {
            return Err(self.damaged("it has more than its count"));
        }
        Ok(Published { life, count })
    }

    /// The time under which a record is to be found in the index of its kind, without the rest; `None` for a kind that
    /// has no index.
    pub(super) fn time(self, record: &[u8]) -> Result<Option<WallTime>> {
        match self.kind {
            Kind::Reminder => self.check_reminder_version(record)?,
            _ => self.check_version(record)?,
        }
        let at = match self.kind {
            Kind::State | Kind::Event => return Ok(None),
            Kind::Reminder => 3,
            Kind::Answer => 1,
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

    fn ends(&self, what: &str) -> Error {
        self.owner.damaged(&format!("it ends before {what}"))
    }
}

/// Says that an actor is known.
pub(super) fn put_known(batch: &mut Batch, key: &[u8]) {
    batch.put(key, &[VERSION]);
}

/// Refuses a record of an actor that is of another version.
pub(super) fn check_known(id: &ActorId, record: &[u8]) -> Result<()> {
    match record {
        [VERSION] => Ok(()),
        [version] => Err(Error::new(
            ErrorKind::UnknownVersion,
            format!(
                "the record of actor {id} has version {version}, which this build does not read: use the one that wrote it"
            ),
        )),
        _ => Err(Error::corrupt(format!("the record of actor {id} is damaged: {RESTORE}"))),
    }
}

/// Sets a state.
pub(super) fn put_state(batch: &mut Batch, key: &[u8], value: &[u8]) {
    batch.put_parts(&[key], &[&[VERSION], value]);
}

/// Sets a reminder.
pub(super) fn put_reminder(batch: &mut Batch, key: &[u8], reminder: &Reminder) {
    batch.put_parts(&[key], &[&reminder_head(reminder), &reminder.payload]);
}

/// Sets an answer.
pub(super) fn put_answer(batch: &mut Batch, key: &[u8], answer: &Answer) {
    batch.put_parts(&[key], &[&answer_head(answer), &answer.reply]);
}

/// Sets the count of the events of a type.
pub(super) fn put_published(batch: &mut Batch, key: &[u8], published: Published) {
    batch.put_parts(&[key], &[&[VERSION], &published.life.to_be_bytes(), &published.count.to_be_bytes()]);
}

fn reminder_head(reminder: &Reminder) -> Head {
    let mut head = Head::new();
    let schedule = match reminder.schedule {
        Schedule::Once => ONCE,
        Schedule::Every(_) => EVERY,
        Schedule::Cron(_) => CRON,
    };
    let catch_up = match reminder.catch_up {
        CatchUp::Once => 0,
        CatchUp::All => 1,
        CatchUp::Skip => 2,
    };
    let version = if reminder.wait.is_some() { WAITING_VERSION } else { VERSION };
    head.extend_from_slice(&[version, schedule, catch_up]);
    head.extend_from_slice(&reminder.due.as_millis().to_be_bytes());
    head.extend_from_slice(&reminder.planned.as_millis().to_be_bytes());
    head.extend_from_slice(&reminder.failures.to_be_bytes());
    head.extend_from_slice(&reminder.fired.to_be_bytes());
    if let Some(wait) = reminder.wait {
        push_duration(&mut head, wait);
    }
    match &reminder.schedule {
        Schedule::Once => {}
        Schedule::Every(period) => push_duration(&mut head, *period),
        Schedule::Cron(cron) => {
            head.push(CRON_VERSION);
            push_text(&mut head, cron.as_str());
        }
    }
    head
}

fn answer_head(answer: &Answer) -> Head {
    let mut head = Head::new();
    let call = answer.interface.as_ref().zip(answer.arguments);
    head.push(if call.is_some() { ANSWER_VERSION } else { VERSION });
    head.extend_from_slice(&answer.expires.as_millis().to_be_bytes());
    if let Some((interface, arguments)) = call {
        head.extend_from_slice(&arguments.to_bytes());
        push_text(&mut head, interface);
    }
    push_text(&mut head, &answer.method);
    head
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
