use mainstay::partitioning::hash;
use mainstay::{ActorId, Error, ErrorKind, Result};

/// What is looked for: a user, a device, an account. A number, a uuid or a text of up to [`ENTITY_BYTES_MAX`] bytes.
pub type Entity = ActorId;

/// The longest text that can name an entity. Every holder of its resolution keeps it in memory.
pub const ENTITY_BYTES_MAX: usize = 256;

/// Refuses what cannot name an entity.
pub(super) fn checked(entity: Entity) -> Result<Entity> {
    match entity.as_text() {
        Some(text) if text.len() > ENTITY_BYTES_MAX => Err(Error::new(
            ErrorKind::TooLarge,
            format!("entity of {} bytes exceeds ENTITY_BYTES_MAX of {ENTITY_BYTES_MAX}: use a hash of it", text.len()),
        )),
        _ => Ok(entity),
    }
}

/// The name under which a shard stores where an entity is.
pub(super) fn stored_name(entity: &Entity) -> String {
    match entity {
        Entity::Number(number) => format!("n{number}"),
        Entity::Uuid(uuid) => format!("u{uuid}"),
        Entity::Text(text) => format!("t{text}"),
    }
}

/// Which of so many an entity belongs to, spread evenly, whatever the numbers have in common. `purpose` makes the choices
/// for different purposes independent of each other. Zero if there is nothing to choose from.
pub(super) fn spread(entity: &Entity, purpose: &str, count: usize) -> usize {
    let place = hash(format!("{purpose}/{}", stored_name(entity)).as_bytes());
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    place.checked_rem_euclid(count).and_then(|index| usize::try_from(index).ok()).unwrap_or(0)
}
