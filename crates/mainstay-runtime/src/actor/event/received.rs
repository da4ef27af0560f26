/// An event as a subscriber gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received<E> {
    /// The event.
    pub event: E,
    /// How many events of this type the actor has published between the last one that this subscriber got, or its
    /// subscription, and this one: it was slow, or the actor's partition was elsewhere.
    pub missed: u64,
    /// The number of the event among those of its type that the actor has published, from one.
    pub sequence: u64,
}
