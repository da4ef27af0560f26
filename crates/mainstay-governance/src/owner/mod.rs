//! One owner of the real thing: a file, a connection, an account.
