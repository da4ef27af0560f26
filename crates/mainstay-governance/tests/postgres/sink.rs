//! The sink: what is in the table after all that can happen to a batch.

use mainstay::{Error, ErrorKind, Result};
use mainstay_governance::owner::{Fence, Opening, Resource as _};
use mainstay_governance::sink::postgres::{PostgresSession, PostgresTable, Row, Values};
use serde::{Deserialize, Serialize};

use crate::shared::{Database, TIME_MAX};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    id: i64,
    text: Option<String>,
}

impl Row for Note {
    const SERVICE: &'static str = "notes";
    const COLUMNS: &'static [&'static str] = &["id", "text"];

    fn put(&self, values: &mut Values<'_>) {
        values.push(&self.id).push(&self.text);
    }
}

fn note(id: i64) -> Note {
    Note { id, text: Some(format!("note {id}")) }
}

fn notes(ids: std::ops::Range<i64>) -> Vec<Note> {
    ids.map(note).collect()
}

const NOTES: &str = "CREATE TABLE notes (id bigint PRIMARY KEY, text text CHECK (text <> 'poison'), \
                     place serial UNIQUE)";

/// Both ways to write, with their table made.
async fn both(name: &str) -> (Database, [PostgresTable<Note>; 2]) {
    let database = Database::new(name).await;
    database.run(NOTES).await;
    let plain = PostgresTable::new(&database.app, "notes").unwrap();
    let keyed = PostgresTable::new(&database.app, "notes").unwrap().once_by(&["id"]).unwrap();
    (database, [plain, keyed])
}

fn opening(fence: u64) -> Opening {
    Opening::of_member("main", 3, Fence::new(fence))
}

async fn open(table: &PostgresTable<Note>, fence: u64) -> PostgresSession {
    table.open(&opening(fence)).await.unwrap()
}

async fn refused(table: &PostgresTable<Note>, session: &mut PostgresSession, rows: Vec<Note>) -> Error {
    table.run(session, rows).await.unwrap_err()
}

async fn stored(database: &Database) -> Vec<Note> {
    let rows = database.admin.query("SELECT id, text FROM notes ORDER BY place", &[]).await.unwrap();
    rows.iter().map(|row| Note { id: row.get(0), text: row.get(1) }).collect()
}

#[tokio::test]
async fn any_text_arrives_as_it_is_and_rows_keep_their_order() {
    let (database, tables) = both("texts").await;
    let texts = [
        "",
        "'; DROP TABLE notes; --",
        "a\tb\\N\nc\r\n\\.",
        "\"quoted\", {brace}",
        "NULL",
        "grüße 🐘",
        &"x".repeat(100_000),
    ];
    for (base, table) in (0_i64..).step_by(1_000).zip(&tables) {
        let mut rows: Vec<Note> =
            (base..).zip(texts).map(|(id, text)| Note { id, text: Some(text.to_owned()) }).collect();
        rows.insert(3, Note { id: base + 500, text: None });
        rows.extend((base + 600..base + 900).rev().map(note));
        let mut session = open(table, 1 + base.unsigned_abs()).await;
        assert_eq!(table.run(&mut session, rows.clone()).await.unwrap().len(), rows.len());
        assert_eq!(stored(&database).await, rows);
        database.run("DELETE FROM notes").await;
        table.close(session).await;
    }
}

#[tokio::test]
async fn rows_with_a_key_are_there_once_however_often_they_come() {
    let (database, [_, keyed]) = both("once").await;
    let mut session = open(&keyed, 1).await;
    keyed.run(&mut session, notes(0..10)).await.unwrap();
    let changed = Note { id: 3, text: Some("another".to_owned()) };
    let again = [vec![changed], notes(5..15), notes(12..20)].concat();
    assert_eq!(keyed.run(&mut session, again).await.unwrap().len(), 19, "one answer for each");
    assert_eq!(stored(&database).await, notes(0..20));
}

/// A row that a failed statement has left behind takes a place on the page, and one that was looked for first takes none.
#[tokio::test]
async fn keys_that_are_there_are_looked_for_first_only_while_there_were_some() {
    let (database, [_, keyed]) = both("suspicion").await;
    let mut session = open(&keyed, 1).await;
    let place = async |id: i64| {
        database.count(&format!("SELECT ((ctid::text::point)[1])::bigint FROM notes WHERE id = {id}")).await
    };
    for id in 0..65 {
        keyed.run(&mut session, vec![note(id)]).await.unwrap();
    }
    assert_eq!(place(64).await, 65);
    // Without looking both rows are written in vain, and then one again.
    keyed.run(&mut session, vec![note(65), note(7)]).await.unwrap();
    assert_eq!(place(65).await, 68);
    keyed.run(&mut session, vec![note(66), note(7), note(67), note(66)]).await.unwrap();
    assert_eq!((place(66).await, place(67).await), (69, 70));
    assert_eq!(stored(&database).await, notes(0..68));
    for id in 68..140 {
        keyed.run(&mut session, vec![note(id)]).await.unwrap();
    }
    // The key of somebody else: to look for ours first does not help.
    database.run("CREATE UNIQUE INDEX texts ON notes (text)").await;
    let (before, twin) = (stored(&database).await, Note { id: 999, text: Some("note 3".to_owned()) });
    let error = refused(&keyed, &mut session, vec![note(140), twin]).await;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("\"texts\""), "{error}");
    assert_eq!(stored(&database).await, before);
    keyed.run(&mut session, notes(130..150)).await.unwrap();
    assert_eq!(stored(&database).await, notes(0..150));
}

#[tokio::test]
async fn a_row_that_cannot_be_written_takes_its_batch_along_and_the_session_goes_on() {
    let (database, tables) = both("poison").await;
    for (fence, table) in (1..).zip(&tables) {
        let mut session = open(table, fence).await;
        for (text, state) in [("poison", "23514"), ("nul\0", "22021")] {
            let poison = Note { id: 5, text: Some(text.to_owned()) };
            let rows = [notes(0..5), vec![poison], notes(6..9)].concat();
            let error = refused(table, &mut session, rows).await;
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            assert!(error.to_string().contains(state), "{error}");
            assert!(!table.breaks(&error));
        }
        assert_eq!(stored(&database).await, []);
        table.run(&mut session, notes(0..9)).await.unwrap();
        assert_eq!(stored(&database).await, notes(0..9));
        database.run("DELETE FROM notes").await;
    }
}

#[tokio::test]
async fn without_a_key_a_row_that_is_there_is_a_conflict() {
    let (database, [plain, _]) = both("conflict").await;
    let mut session = open(&plain, 1).await;
    plain.run(&mut session, notes(0..3)).await.unwrap();
    let error = refused(&plain, &mut session, notes(2..5)).await;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("\"notes_pkey\""), "{error}");
    assert_eq!(stored(&database).await, notes(0..3));
}

#[tokio::test]
async fn a_stale_token_writes_nothing() {
    let (database, tables) = both("stale").await;
    for (fence, table) in [(10, &tables[0]), (20, &tables[1])] {
        let mut session = open(table, fence).await;
        table.check(&mut session).await.unwrap();
        // As another owner does that cannot end this session, because it belongs to somebody else.
        database.run(&format!("UPDATE mainstay_fences SET fence = {}", fence + 1)).await;
        let error = refused(table, &mut session, notes(0..3)).await;
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error:?}");
        let expected = format!("token {fence} is stale, because {} has been seen", fence + 1);
        assert!(error.to_string().contains(&expected), "{error}");
        assert!(table.breaks(&error));
        assert!(matches!(table.check(&mut session).await.unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
        assert!(matches!(table.open(&opening(fence)).await.unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
        assert_eq!(stored(&database).await, []);
        open(table, fence + 2).await;
    }
    database.run("DELETE FROM mainstay_fences").await;
}

/// Whoever has raised the token may rely on it: nothing is written with the one before after that.
#[tokio::test]
async fn a_token_cannot_be_raised_while_a_batch_is_written_with_it() {
    /// Where rows wait on their way into the table, so that their batch has looked at its token and is not committed.
    const HELD_BACK: &str = "CREATE FUNCTION held_back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM \
                             pg_advisory_xact_lock_shared(7); RETURN NEW; END $$; CREATE TRIGGER held_back BEFORE INSERT \
                             ON notes FOR EACH ROW EXECUTE FUNCTION held_back()";
    const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted AND \
                           database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let (database, tables) = both("held").await;
    database.run(HELD_BACK).await;
    for (fence, table) in [(10, &tables[0]), (20, &tables[1])] {
        let mut session = open(table, fence).await;
        let barrier = database.another().await;
        barrier.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
        let another = database.another().await;
        let pid: i32 = another.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let waits = format!("SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted");
        let raise = format!("UPDATE mainstay_fences SET fence = {}", fence + 1);

        let mut batch = Box::pin(table.run(&mut session, notes(0..3)));
        tokio::select! {
            _ = &mut batch => panic!("its rows are held back"),
            () = database.until_any(WAITING) => {}
        }
        // As another owner does that cannot end this session, because it belongs to somebody else.
        let mut raised = Box::pin(another.batch_execute(&raise));
        tokio::select! {
            biased;
            _ = &mut batch => panic!("its rows are held back"),
            raised = &mut raised => panic!("raised while a batch is being written with the token: {raised:?}"),
            () = database.until_any(&waits) => {}
        }
        barrier.batch_execute("SELECT pg_advisory_unlock(7)").await.unwrap();
        batch.await.unwrap();
        raised.await.unwrap();
        assert_eq!(stored(&database).await, notes(0..3));
        let error = refused(table, &mut session, notes(3..6)).await;
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error:?}");
        assert_eq!(stored(&database).await, notes(0..3));
        database.run("DELETE FROM notes").await;
    }
}

#[tokio::test]
async fn a_token_that_the_database_has_lost_is_not_a_licence() {
    let (database, tables) = both("lost").await;
    for (fence, table) in (1..).zip(&tables) {
        let mut session = open(table, fence).await;
        database.run("DELETE FROM mainstay_fences").await;
        let error = refused(table, &mut session, notes(0..3)).await;
        assert_eq!(error.kind(), ErrorKind::Fatal, "{error:?}");
        assert_eq!(stored(&database).await, []);
    }
}

#[tokio::test]
async fn a_new_opening_ends_the_session_before_and_only_that() {
    let (database, [_, keyed]) = both("evicted").await;
    let mut first = open(&keyed, 1).await;
    let mut other = keyed.open(&Opening::of_member("main", 4, Fence::new(1))).await.unwrap();
    let mut second = open(&keyed, 2).await;
    database.until_sessions(2).await;
    let error = refused(&keyed, &mut first, notes(0..3)).await;
    assert!(error.is_retryable() && keyed.breaks(&error), "{error:?}");
    keyed.run(&mut second, notes(0..3)).await.unwrap();
    keyed.run(&mut other, notes(3..6)).await.unwrap();
    assert_eq!(stored(&database).await, notes(0..6));
}

/// The owner of `main/3` and member 3 of the pool `main` have one key, and are two.
#[tokio::test]
async fn an_owner_and_a_member_of_a_pool_do_not_end_each_others_sessions() {
    let (database, [_, keyed]) = both("apart").await;
    let mut member = open(&keyed, 1).await;
    let mut owner = keyed.open(&Opening::new("main/3", Fence::new(2))).await.unwrap();
    keyed.run(&mut member, notes(0..3)).await.unwrap();
    keyed.run(&mut owner, notes(3..6)).await.unwrap();
    assert_eq!(database.sessions().await, 2);
    assert_eq!(stored(&database).await, notes(0..6));
}

/// A token that was seen is that of another, who may still be writing with it.
#[tokio::test]
async fn an_opening_with_a_token_that_was_seen_is_refused_and_told_which() {
    let (_database, [_, keyed]) = both("seen").await;
    let mut first = open(&keyed, 5).await;
    let error = keyed.open(&opening(5)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error:?}");
    assert_eq!(Fence::remembered(&error), Some(Fence::new(5)));
    keyed.run(&mut first, notes(0..1)).await.unwrap();
    open(&keyed, 6).await;
}

#[tokio::test]
async fn openings_at_the_same_time_make_the_table_of_tokens_once() {
    let (database, [_, keyed]) = both("making").await;
    let opening = async |member| keyed.open(&Opening::of_member("main", member, Fence::new(1))).await;
    let opened = futures_util::future::join_all((0..8).map(opening)).await;
    let sessions: Vec<_> = opened.into_iter().collect::<Result<_>>().unwrap();
    assert_eq!(database.count("SELECT count(*) FROM mainstay_fences").await, 8);
    drop(sessions);
}

#[tokio::test]
async fn a_session_shows_whose_it_is_and_is_gone_when_closed_or_dropped() {
    let (database, [plain, _]) = both("gone").await;
    for fence in 1..20 {
        let session = open(&plain, fence).await;
        // Of this database alone: the tests beside this one name theirs alike.
        let named = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = \
             'notes/main/3 #{fence}'"
        );
        assert_eq!(database.count(&named).await, 1);
        plain.close(session).await;
        assert_eq!(database.sessions().await, 0, "closed is closed at once");
    }
    let session = open(&plain, 20).await;
    drop(session);
    database.until_sessions(0).await;
}

#[tokio::test]
async fn the_server_notices_that_a_client_is_gone_while_it_works_for_it() {
    let (database, [_, keyed]) = both("noticed").await;
    let mut session = open(&keyed, 1).await;
    let lock = database.lock("notes").await;
    let mut batch = Box::pin(async move { keyed.run(&mut session, notes(0..3)).await });
    tokio::select! {
        _ = &mut batch => panic!("the table is locked"),
        () = database.until_waiting("notes") => {}
    }
    // Where there is no runtime, nobody is left to see the session out: as in a process that has died.
    std::thread::scope(|scope| scope.spawn(|| drop(batch)).join()).unwrap();
    database.until_sessions(0).await;
    drop(lock);
    assert_eq!(stored(&database).await, [], "nobody waits for the batch any more");
}

#[tokio::test]
async fn what_is_given_up_is_gone_before_the_next_opening_and_never_one_too_many() {
    let (database, tables) = both("givenup").await;
    plain_and_closed(&tables[0]).await;
    database.set_limit(1).await;
    let mut fence = 1;
    for table in &tables {
        for locked in ["mainstay_fences", "notes"] {
            // The server is busy with what waits for this, and so would not notice for long that nobody wants it any more.
            let lock = database.lock(locked).await;
            fence += 1;
            let work = async {
                let mut session = open(table, fence).await;
                table.run(&mut session, notes(0..3)).await
            };
            tokio::select! {
                _ = work => panic!("{locked} is locked"),
                () = database.until_waiting(locked) => {}
            }
            table.gone(&opening(fence)).await;
            assert_eq!(database.sessions().await, 0, "{locked} is locked, and nobody waits for it");
            drop(lock);
        }
        // A batch that is given up is as good as an opening.
        fence += 1;
        let mut session = open(table, fence).await;
        let lock = database.lock("notes").await;
        tokio::select! {
            _ = table.run(&mut session, notes(0..3)) => panic!("the table is locked"),
            () = database.until_waiting("notes") => {}
        }
        table.close(session).await;
        assert_eq!(database.sessions().await, 0, "closed is closed");
        drop(lock);
        fence += 1;
        table.close(open(table, fence).await).await;
    }
    assert_eq!(stored(&database).await, []);
}

#[tokio::test]
async fn an_opening_can_be_given_up_at_any_moment() {
    let (database, [_, keyed]) = both("anymoment").await;
    database.set_limit(1).await;
    for (fence, moment) in (1..).step_by(2).zip((0..300).step_by(20)) {
        let moment = async {
            for _ in 0..moment {
                tokio::task::yield_now().await;
            }
        };
        let first = opening(fence);
        tokio::select! {
            biased;
            opened = keyed.open(&first) => drop(opened.unwrap()),
            () = moment => {}
        }
        // One more would be refused.
        drop(open(&keyed, fence + 1).await);
    }
    keyed.gone(&opening(0)).await;
    assert_eq!(database.sessions().await, 0);
}

async fn plain_and_closed(table: &PostgresTable<Note>) {
    table.close(open(table, 1).await).await;
}

#[tokio::test]
async fn a_session_that_the_server_ends_is_to_be_opened_again_and_nothing_is_lost_or_doubled() {
    let (database, tables) = both("ended").await;
    for (fence, table) in [(1, &tables[0]), (3, &tables[1])] {
        let mut session = open(table, fence).await;
        database.run("SELECT pg_terminate_backend(backend) FROM mainstay_fences").await;
        database.until_sessions(0).await;
        let error = refused(table, &mut session, notes(0..3)).await;
        assert_eq!(error.kind(), ErrorKind::Retry, "nothing was committed yet: {error:?}");
        assert!(table.breaks(&error));
        assert!(table.check(&mut session).await.is_err());
        table.close(session).await;
        let mut session = open(table, fence + 1).await;
        table.run(&mut session, notes(0..3)).await.unwrap();
        assert_eq!(stored(&database).await, notes(0..3));
        database.run("DELETE FROM notes").await;
    }
}

#[tokio::test]
async fn too_many_connections_may_pass() {
    let (database, [plain, _]) = both("crowded").await;
    database.set_limit(1).await;
    let session = open(&plain, 1).await;
    let error = plain.open(&Opening::new("another", Fence::new(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
    assert!(error.to_string().contains("53300"), "{error}");
    plain.close(session).await;
    // The one that was turned away counts until the server is done with it.
    let opened = async {
        loop {
            match plain.open(&Opening::new("another", Fence::new(1))).await {
                Err(error) if error.kind() == ErrorKind::Retry => tokio::task::yield_now().await,
                opened => return opened.unwrap(),
            }
        }
    };
    let session = tokio::time::timeout(TIME_MAX, opened).await.expect("the server is never done with it");
    plain.close(session).await;
}

#[derive(Debug, Serialize, Deserialize)]
struct Odd {
    id: i64,
    pushes: usize,
}

impl Row for Odd {
    const SERVICE: &'static str = "odd";
    const COLUMNS: &'static [&'static str] = &["a \"strange\" id"];

    fn put(&self, values: &mut Values<'_>) {
        for _ in 0..self.pushes {
            values.push(&self.id);
        }
    }
}

#[tokio::test]
async fn names_are_quoted_and_what_does_not_fit_is_named() {
    let database = Database::new("odd").await;
    database.run(r#"CREATE SCHEMA "my schema"; CREATE TABLE "my schema"."T;""1" ("a ""strange"" id" bigint)"#).await;
    let table = PostgresTable::<Odd>::new(&database.app, "T;\"1").unwrap().in_schema("my schema").unwrap();
    let mut session = table.open(&opening(1)).await.unwrap();
    table.run(&mut session, vec![Odd { id: 7, pushes: 1 }]).await.unwrap();
    assert_eq!(database.count(r#"SELECT "a ""strange"" id" FROM "my schema"."T;""1""#).await, 7);
    for pushes in [0, 2] {
        let error = table.run(&mut session, vec![Odd { id: 7, pushes }]).await.unwrap_err();
        assert!(error.to_string().contains(&format!("pushed {pushes} values")), "{error}");
    }

    database.run(r#"ALTER TABLE "my schema"."T;""1" ALTER "a ""strange"" id" TYPE text"#).await;
    let mut session = table.open(&opening(2)).await.unwrap();
    let error = table.run(&mut session, vec![Odd { id: 7, pushes: 1 }]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("row 0 of 1") && error.to_string().contains("takes text"), "{error}");
}

#[tokio::test]
async fn a_table_that_is_not_as_told_is_found_out_when_opened() {
    let database = Database::new("untold").await;
    let open = async |fence, table: PostgresTable<Note>| table.open(&opening(fence)).await.unwrap_err();
    let plain = || PostgresTable::<Note>::new(&database.app, "notes").unwrap();
    let error = open(1, plain()).await;
    assert!(error.kind() == ErrorKind::Fatal && error.to_string().contains("42P01"), "no table: {error:?}");
    database.run("CREATE TABLE notes (id bigint, text text[])").await;
    let error = open(2, plain().once_by(&["id"]).unwrap()).await;
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("is an array"), "{error:?}");
    database.run("ALTER TABLE notes ALTER text TYPE text").await;
    let error = open(3, plain().once_by(&["id"]).unwrap()).await;
    assert!(error.kind() == ErrorKind::Fatal && error.to_string().contains("42P10"), "no unique index: {error:?}");
    assert_eq!(plain().once_by(&["place"]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(PostgresTable::<Note>::new("host=x nonsense", "notes").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(PostgresTable::<Note>::new(&database.app, "").unwrap_err().kind(), ErrorKind::Invalid);
}
