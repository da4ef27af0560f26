use std::fmt::Display;

use mainstay::{Error, ErrorKind};

/// Says what to do where a part of this crate is opened on a node that was built without it: the actors behind it have names
/// that nobody outside knows. `part` is the module, and `serve` the call that adds it to a node. Other errors stay as they are.
pub(crate) fn unserved(opened: impl Display, part: &str, serve: &str) -> impl FnOnce(Error) -> Error {
    move |error| match error.kind() {
        ErrorKind::NotFound => {
            let text = format!("{opened} needs the actors of `{part}`; build the node with `{serve}`");
            Error::new(ErrorKind::NotFound, text).with_source(error)
        }
        _ => error,
    }
}
