use mainstay_core::ErrorKind;
use mainstay_core::format::Format;
use mainstay_core::format::golden::{Golden, damaged, longer};
use proptest::prelude::*;

use super::*;

const ID: ActorId = ActorId::Number(7);

fn owner(kind: Kind) -> Owner<'static> {
    Owner { kind, id: &ID, name: "the name" }
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let cron = prop_oneof![Just("@daily"), Just("30 8 * * MON-FRI"), Just("*/5 * * * * *")];
    prop_oneof![
        Just(Schedule::Once),
        (0..1_000_000_u64, 1..1_000_000_000_u32).prop_map(|(s, nanos)| Schedule::Every(Duration::new(s, nanos))),
        cron.prop_map(|text| Schedule::Cron(CronSchedule::parse(text).unwrap())),
    ]
}

fn reminders() -> impl Strategy<Value = Reminder> {
    let catch_up = prop_oneof![Just(CatchUp::Once), Just(CatchUp::All), Just(CatchUp::Skip)];
    let payload = prop::collection::vec(any::<u8>(), 0..50);
    (payload, schedules(), catch_up, any::<[u64; 3]>(), any::<u32>(), any::<Option<u32>>()).prop_map(
        |(payload, schedule, catch_up, [due, planned, fired], failures, wait)| Reminder {
            name: "the name".into(),
            payload: payload.into(),
            schedule,
            catch_up,
            due: WallTime::from_millis(due),
            planned: WallTime::from_millis(planned),
            failures,
            fired,
            wait: wait.map(|millis| Duration::from_millis(millis.into())),
        },
    )
}

fn answers() -> impl Strategy<Value = Answer> {
    let call = prop::option::of((any::<String>(), any::<[u8; 16]>()));
    (call, any::<String>(), prop::collection::vec(any::<u8>(), 0..50), any::<u64>()).prop_map(
        |(call, method, reply, expires)| {
            let (interface, arguments) = call.map(|(name, bytes)| (name, Fingerprint::from_bytes(bytes))).unzip();
            Answer { interface, method, arguments, reply: reply.into(), expires: WallTime::from_millis(expires) }
        },
    )
}

fn stored_reminder(reminder: &Reminder) -> Vec<u8> {
    [&reminder_head(reminder)[..], &reminder.payload].concat()
}

fn stored_answer(answer: &Answer) -> Vec<u8> {
    [&answer_head(answer)[..], &answer.reply].concat()
}

/// Every error names the actor and the entry.
fn check_error(error: &Error, kind: Kind) {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownVersion), "{error:?}");
    assert!(error.to_string().contains(&format!("{kind} \"the name\" of actor 7")), "{error}");
}

proptest! {
    #[test]
    fn what_is_stored_is_read_again(reminder in reminders(), answer in answers()) {
        let bytes = Bytes::from(stored_reminder(&reminder));
        prop_assert_eq!(owner(Kind::Reminder).time(&bytes).unwrap(), Some(reminder.due));
        prop_assert_eq!(owner(Kind::Reminder).reminder(&bytes).unwrap(), reminder);
        let bytes = Bytes::from(stored_answer(&answer));
        prop_assert_eq!(owner(Kind::Answer).time(&bytes).unwrap(), Some(answer.expires));
        prop_assert_eq!(owner(Kind::Answer).answer(&bytes).unwrap(), answer);
    }

    #[test]
    fn damage_is_an_error_with_a_name_and_never_a_panic(
        reminder in reminders(),
        answer in answers(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        for (kind, stored) in [(Kind::Reminder, stored_reminder(&reminder)), (Kind::Answer, stored_answer(&answer))] {
            let mut flipped = stored.clone();
            flipped[at.index(stored.len())] ^= flip;
            for bytes in [flipped, stored[..at.index(stored.len())].to_vec()] {
                let bytes = Bytes::from(bytes);
                let error = match kind {
                    Kind::Reminder => owner(kind).reminder(&bytes).err(),
                    _ => owner(kind).answer(&bytes).err(),
                };
                if let Some(error) = error {
                    check_error(&error, kind);
                }
                if let Err(error) = owner(kind).time(&bytes) {
                    check_error(&error, kind);
                }
            }
        }
    }
}

fn weekly() -> Reminder {
    let schedule = Schedule::Cron(CronSchedule::parse("@weekly").unwrap());
    let at = WallTime::from_millis;
    let (payload, catch_up) = (Bytes::from_static(b"p"), CatchUp::Skip);
    let (name, due, planned) = ("the name".into(), at(1), at(2));
    Reminder { name, payload, schedule, catch_up, due, planned, failures: 3, fired: 4, wait: None }
}

fn golden() -> Golden {
    Golden::of(env!("CARGO_MANIFEST_DIR"))
}

/// A reminder of each schedule, by the name of its file.
fn kept_reminders() -> [(&'static str, Reminder); 4] {
    let every = Reminder { schedule: Schedule::Every(Duration::new(5, 6)), catch_up: CatchUp::All, ..weekly() };
    let once = Reminder { schedule: Schedule::Once, catch_up: CatchUp::Once, ..weekly() };
    let waiting = Reminder { wait: Some(Duration::new(7, 8)), ..once.clone() };
    [("reminder-cron", weekly()), ("reminder-every", every), ("reminder-once", once), ("reminder-waiting", waiting)]
}

fn kept_answers() -> [(&'static str, Answer); 2] {
    let (interface, arguments) = (Some("Till".into()), Some(Fingerprint::from_bytes([7; 16])));
    let (reply, expires) = (Bytes::from_static(b"r"), WallTime::from_millis(9));
    let call = Answer { interface, method: "m".into(), arguments, reply, expires };
    let method = Answer { interface: None, arguments: None, ..call.clone() };
    [("answer-of-call", call), ("answer-of-method", method)]
}

fn kept_lane() -> LaneAnswer {
    LaneAnswer { number: 7, reply: Bytes::from_static(b"r"), expires: WallTime::from_millis(9) }
}

fn stored_lane(answer: &LaneAnswer) -> Vec<u8> {
    [&lane_head(answer)[..], &answer.reply].concat()
}

#[test]
fn the_answer_in_a_lane_is_read_as_it_is_written() {
    let stored = stored_lane(&kept_lane());
    golden().check("lane", &formats::LANE, &stored);
    for bytes in [stored.clone(), longer(&stored), golden().read("lane", 1)] {
        let bytes = Bytes::from(bytes);
        assert_eq!(owner(Kind::Lane).time(&bytes).unwrap(), Some(kept_lane().expires));
        assert_eq!(owner(Kind::Lane).lane(&bytes).unwrap(), kept_lane());
    }
    for (what, bytes) in damaged(&stored) {
        let is_cut = bytes.len() < stored.len();
        match owner(Kind::Lane).lane(&bytes.into()) {
            Ok(_) => assert!(!is_cut, "{what}"),
            Err(error) => check_error(&error, Kind::Lane),
        }
    }
}

#[test]
fn golden_records_are_what_is_written() {
    for (name, reminder) in kept_reminders() {
        golden().check(name, &formats::REMINDER, &stored_reminder(&reminder));
    }
    for (name, answer) in kept_answers() {
        golden().check(name, &formats::ANSWER, &stored_answer(&answer));
    }
}

/// Versions 1 and 2 wrote what the other did not have to.
#[test]
fn golden_records_of_earlier_versions_are_read() {
    let versions = [("reminder-cron", 1), ("reminder-every", 1), ("reminder-once", 1), ("reminder-waiting", 2)];
    for ((name, reminder), (kept, version)) in kept_reminders().into_iter().zip(versions) {
        let bytes = Bytes::from(golden().read(kept, version));
        assert_eq!((name, bytes[0]), (kept, version));
        assert_eq!(owner(Kind::Reminder).time(&bytes).unwrap(), Some(reminder.due));
        assert_eq!(owner(Kind::Reminder).reminder(&bytes).unwrap(), reminder);
    }
    for ((name, answer), (kept, version)) in
        kept_answers().into_iter().zip([("answer-of-call", 2), ("answer-of-method", 1)])
    {
        let bytes = Bytes::from(golden().read(kept, version));
        assert_eq!((name, bytes[0]), (kept, version));
        assert_eq!(owner(Kind::Answer).time(&bytes).unwrap(), Some(answer.expires));
        assert_eq!(owner(Kind::Answer).answer(&bytes).unwrap(), answer);
    }
}

#[test]
fn what_a_later_program_says_behind_a_record_is_skipped() {
    for (_, reminder) in kept_reminders() {
        let bytes = longer(&stored_reminder(&reminder)).into();
        assert_eq!(owner(Kind::Reminder).reminder(&bytes).unwrap(), reminder);
    }
    for (_, answer) in kept_answers() {
        assert_eq!(owner(Kind::Answer).answer(&longer(&stored_answer(&answer)).into()).unwrap(), answer);
    }
    check_known(&ID, &longer(&[formats::KNOWN.written()])).unwrap();
}

#[test]
fn no_damage_of_a_record_makes_its_reader_panic_and_none_is_cut_off_unseen() {
    for (_, reminder) in kept_reminders() {
        let stored = stored_reminder(&reminder);
        for (what, bytes) in damaged(&stored) {
            let is_cut = bytes.len() < stored.len();
            match owner(Kind::Reminder).reminder(&bytes.into()) {
                Ok(_) => assert!(!is_cut, "{what}"),
                Err(error) => check_error(&error, Kind::Reminder),
            }
        }
    }
    for (_, answer) in kept_answers() {
        let stored = stored_answer(&answer);
        for (what, bytes) in damaged(&stored) {
            let is_cut = bytes.len() < stored.len();
            match owner(Kind::Answer).answer(&bytes.into()) {
                Ok(_) => assert!(!is_cut, "{what}"),
                Err(error) => check_error(&error, Kind::Answer),
            }
        }
    }
}

#[test]
fn a_record_of_a_later_program_is_refused_by_name_and_versions() {
    let later = |format: Format| Bytes::from(vec![format.newest() + 1; 40]);
    let told = [
        (Kind::State, formats::STATE, owner(Kind::State).state(later(formats::STATE)).unwrap_err()),
        (Kind::Reminder, formats::REMINDER, owner(Kind::Reminder).reminder(&later(formats::REMINDER)).unwrap_err()),
        (Kind::Answer, formats::ANSWER, owner(Kind::Answer).answer(&later(formats::ANSWER)).unwrap_err()),
        (Kind::Lane, formats::LANE, owner(Kind::Lane).lane(&later(formats::LANE)).unwrap_err()),
        (Kind::Event, formats::EVENT_COUNT, owner(Kind::Event).published(&later(formats::EVENT_COUNT)).unwrap_err()),
    ];
    for (kind, format, error) in told {
        check_error(&error, kind);
        assert_eq!(error.kind(), ErrorKind::UnknownVersion);
        let versions = [format!("format version {}", format.newest() + 1), format!("reads {format}")];
        assert!(versions.iter().all(|version| error.to_string().contains(version)), "{error}");
    }
}

#[test]
fn each_damaged_field_is_told() {
    let with_byte = |at: usize, byte: u8| {
        let mut bytes = stored_reminder(&weekly());
        bytes[at] = byte;
        let error = owner(Kind::Reminder).reminder(&bytes.into()).unwrap_err();
        check_error(&error, Kind::Reminder);
        error.kind()
    };
    assert_eq!(with_byte(0, 4), ErrorKind::UnknownVersion);
    assert_eq!(with_byte(1, 3), ErrorKind::Corrupt);
    assert_eq!(with_byte(2, 3), ErrorKind::Corrupt);
    // The version and the text of the expression, and a length beyond the end.
    assert_eq!(with_byte(31, 2), ErrorKind::Corrupt, "a flag");
    assert_eq!(with_byte(32, 2), ErrorKind::UnknownVersion);
    assert_eq!(with_byte(33, 1), ErrorKind::Corrupt);
    assert_eq!(with_byte(35, b'!'), ErrorKind::Corrupt);
    assert_eq!(with_byte(35, 0xff), ErrorKind::Corrupt);

    // A period of nothing, and one with more than a second of nanoseconds.
    let mut reminder = weekly();
    reminder.schedule = Schedule::Every(Duration::ZERO);
    let mut bytes = stored_reminder(&reminder);
    check_error(&owner(Kind::Reminder).reminder(&bytes.clone().into()).unwrap_err(), Kind::Reminder);
    bytes[40] = 0xff;
    check_error(&owner(Kind::Reminder).reminder(&bytes.into()).unwrap_err(), Kind::Reminder);

    for (bytes, kind) in [(vec![], ErrorKind::Corrupt), (vec![9, 1, 2], ErrorKind::UnknownVersion)] {
        let error = owner(Kind::State).state(bytes.clone().into()).unwrap_err();
        check_error(&error, Kind::State);
        assert_eq!(error.kind(), kind);
        assert_eq!(check_known(&ID, &bytes[..bytes.len().min(1)]).unwrap_err().kind(), kind);
    }
    check_known(&ID, &[formats::KNOWN.written()]).unwrap();
}

#[test]
fn the_value_of_a_state_shares_its_bytes_with_the_record() {
    let record = Bytes::from(vec![formats::STATE.written(), 5, 6, 7]);
    let value = owner(Kind::State).state(record.clone()).unwrap();
    assert_eq!(&value[..], [5, 6, 7]);
    assert_eq!(value.as_ptr(), record[1..].as_ptr());
}

#[test]
fn a_count_of_events_is_seventeen_bytes_and_what_a_later_program_adds() {
    let record =
        [[formats::EVENT_COUNT.written(), 0, 0, 0, 0, 0, 0, 0, 7, 0].as_slice(), &[0, 0, 0, 0, 0, 1, 2]].concat();
    assert_eq!(owner(Kind::Event).published(&record).unwrap(), Published { life: 7, count: 258 });
    for length in 0..record.len() {
        check_error(&owner(Kind::Event).published(&record[..length]).unwrap_err(), Kind::Event);
    }
    assert_eq!(owner(Kind::Event).published(&longer(&record)).unwrap(), Published { life: 7, count: 258 });
    golden().check("event-count", &formats::EVENT_COUNT, &record);
    let error = owner(Kind::Event).published(&[2; 17]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
}
