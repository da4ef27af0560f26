//! What is read often, close by.
