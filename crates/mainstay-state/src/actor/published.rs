/// How many events of a type an actor has published: the number of the last one.
///
/// It is stored with the actor, and deleted with it; the next actor of the same id counts from one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Tells the counts of one id apart: drawn at random when the first event is counted.
    pub life: u64,
    /// How many there were.
    pub count: u64,
}
