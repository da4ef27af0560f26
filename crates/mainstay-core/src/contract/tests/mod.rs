//! Tests of the whole module, through its public functions.

mod buffered;
mod changes;
mod errors;
mod fuzz;
mod limits;
mod lists;
mod normalised;
mod plain_enums;
mod readable;
mod round_trip;
mod sample;
mod unknown;
mod unknown_enums;
