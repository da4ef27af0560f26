//! Rates and numbers of things at once, kept by all nodes together.
