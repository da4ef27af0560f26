use std::marker::PhantomData;

use crate::owner::Resource;

/// The longest name that is put together here. A longer one is cut, and refused by the node as one that is there twice.
const NAME_BYTES_MAX: usize = 256;

/// The names of the services behind a pool: that of the resource with an ending. They are constants because a service is
/// known by one.
pub(crate) struct Names<R>(PhantomData<R>);

impl<R: Resource> Names<R> {
    const MEMBER_BYTES: [u8; NAME_BYTES_MAX] = joined(R::NAME, ".member");
    const COORDINATOR_BYTES: [u8; NAME_BYTES_MAX] = joined(R::NAME, ".pool");

    /// The service of the members.
    pub(crate) const MEMBER: &'static str = text(&Self::MEMBER_BYTES);

    /// The service of the coordinators.
    pub(crate) const COORDINATOR: &'static str = text(&Self::COORDINATOR_BYTES);
}

/// The bytes of both, and zeros.
const fn joined(name: &str, ending: &str) -> [u8; NAME_BYTES_MAX] {
    let mut bytes = [0; NAME_BYTES_MAX];
    let (name, ending) = (name.as_bytes(), ending.as_bytes());
    let mut at = 0;
    while at < name.len() + ending.len() && at < NAME_BYTES_MAX {
        bytes[at] = if at < name.len() { name[at] } else { ending[at - name.len()] };
        at += 1;
    }
    bytes
}

/// The text before the zeros.
const fn text(bytes: &'static [u8; NAME_BYTES_MAX]) -> &'static str {
    let mut length = 0;
    while length < NAME_BYTES_MAX && bytes[length] != 0 {
        length += 1;
    }
    match std::str::from_utf8(bytes.split_at(length).0) {
        Ok(text) => text,
        // A name that is cut within a letter. Nobody has one so long, and the node refuses an empty one.
        Err(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Opening;
    use mainstay::Result;

    struct Database;

    impl Resource for Database {
        const NAME: &'static str = "database é";
        type Handle = ();
        type Job = ();
        type Reply = ();

        async fn open(&self, _: &Opening) -> Result<()> {
            Ok(())
        }

        async fn run(&self, (): &mut (), (): ()) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn services_are_named_after_the_resource() {
        assert_eq!(Names::<Database>::MEMBER, "database é.member");
        assert_eq!(Names::<Database>::COORDINATOR, "database é.pool");
    }
}
