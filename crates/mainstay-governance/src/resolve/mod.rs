//! Which resource an entity lives on, and how it moves.
