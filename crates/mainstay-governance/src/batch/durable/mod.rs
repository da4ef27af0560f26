//! The durable variant.
