//! Which database serves a user, by arithmetic alone.
//!
//! The original keeps the first answer in one static, and so gives it to everybody; it uses the region for the database as
//! well, and gives users with negative ids a database that does not exist. A pure function needs no cache.

const DATABASES_PER_SERVER: i64 = 4;

fn connection_string(user: i64, region: u32) -> String {
    format!("Server=SERVER_{region};Database=DB_{}", user.rem_euclid(DATABASES_PER_SERVER))
}

#[test]
fn every_user_has_a_database_of_their_own_region() {
    assert_eq!(connection_string(6, 1), "Server=SERVER_1;Database=DB_2");
    assert_eq!(connection_string(7, 2), "Server=SERVER_2;Database=DB_3");
    assert_eq!(connection_string(-1, 2), "Server=SERVER_2;Database=DB_3");
    assert_eq!(connection_string(i64::MIN, 0), "Server=SERVER_0;Database=DB_0");
}
