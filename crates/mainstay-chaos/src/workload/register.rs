//! A value that is read, written, and replaced if it is what the caller expects.

use mainstay::prelude::*;

/// One register.
#[interface]
pub trait Register {
    /// What it holds; 0 if it was never written.
    async fn read(&self) -> Result<u64>;

    /// Has it hold a value.
    async fn write(&mut self, value: u64) -> Result<()>;

    /// Has it hold a value if it holds the expected one, and says what it held before.
    async fn swap(&mut self, expected: u64, value: u64) -> Result<u64>;
}

/// The actor: its id is the number of the register.
#[derive(Actor)]
#[actor(implements(Register), persistence = "persisted")]
pub struct RegisterActor {
    value: State<u64>,
}

impl Register for RegisterActor {
    async fn read(&self) -> Result<u64> {
        Ok(*self.value)
    }

    async fn write(&mut self, value: u64) -> Result<()> {
        *self.value = value;
        Ok(())
    }

    async fn swap(&mut self, expected: u64, value: u64) -> Result<u64> {
        let before = *self.value;
        if before == expected {
            *self.value = value;
        }
        Ok(before)
    }
}
