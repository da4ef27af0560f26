//! A rate, or a number of things at once, kept by all nodes together.
