//! An actor that does to its dynamic state what it is told.

use std::collections::BTreeMap;

use mainstay::prelude::*;
use serde::{Deserialize, Serialize};

/// Something to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Op {
    Get(String),
    TryGet(String),
    Contains(String),
    Names,
    Set(String, i64),
    Add(String, i64),
    TryAdd(String, i64),
    GetOrAdd(String, i64),
    /// Keeps the larger one.
    AddOrUpdate(String, i64),
    Remove(String),
    TryRemove(String),
    ClearCache,
    /// By way of the context.
    Save,
    /// By way of the actor.
    SaveAll,
    GetText(String),
    SetText(String, String),
    ReadField,
    Field(i64),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Seen {
    Done,
    Flag(bool),
    Value(Option<i64>),
    Text(String),
    Names(Vec<String>),
    NotFound,
    Conflict,
    SaveFailed,
}

/// How the turn ends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum End {
    Succeed,
    Fail,
    Panic,
}

#[interface]
pub(super) trait Scripted {
    /// Does what it is told in one turn. What is missing or there already is seen, and does not end it.
    async fn run(&mut self, ops: Vec<Op>, end: End) -> Result<Vec<Seen>>;
    /// The same, and the first error ends it.
    async fn fail_with(&mut self, ops: Vec<Op>) -> Result<Vec<Seen>>;
    /// All that there is, and the field.
    async fn look(&self) -> Result<(BTreeMap<String, i64>, i64)>;
}

pub(super) use ScriptedRef as DrawerRef;

#[derive(Actor)]
#[actor(implements(Scripted))]
pub(super) struct Drawer {
    field: State<i64>,
    ctx: Context,
}

impl Drawer {
    async fn act(&mut self, op: Op) -> Result<Seen> {
        let is_save = matches!(op, Op::Save | Op::SaveAll);
        let result = self.try_act(op).await;
        match result.as_ref().map_err(Error::kind) {
            Err(_) if is_save => Ok(Seen::SaveFailed),
            Err(ErrorKind::NotFound) => Ok(Seen::NotFound),
            Err(ErrorKind::Conflict) => Ok(Seen::Conflict),
            _ => result,
        }
    }

    async fn try_act(&mut self, op: Op) -> Result<Seen> {
        Ok(match op {
            Op::Get(name) => Seen::Value(Some(*self.ctx.state().get(&name)?)),
            Op::TryGet(name) => Seen::Value(self.ctx.state().try_get(&name)?.map(|value| *value)),
            Op::Contains(name) => Seen::Flag(self.ctx.state().contains(&name)?),
            Op::Names => Seen::Names(self.ctx.state().names()?),
            Op::Set(name, value) => done(self.ctx.state_mut().set(&name, value))?,
            Op::Add(name, value) => done(self.ctx.state_mut().add(&name, value))?,
            Op::TryAdd(name, value) => Seen::Flag(self.ctx.state_mut().try_add(&name, value)?),
            Op::GetOrAdd(name, value) => Seen::Value(Some(*self.ctx.state_mut().get_or_add(&name, value)?)),
            Op::AddOrUpdate(name, value) => {
                let value = self.ctx.state_mut().add_or_update(&name, value, |earlier| value.max(*earlier))?;
                Seen::Value(Some(*value))
            }
            Op::Remove(name) => done(self.ctx.state_mut().remove(&name))?,
            Op::TryRemove(name) => Seen::Flag(self.ctx.state_mut().try_remove(&name)?),
            Op::ClearCache => {
                self.ctx.state_mut().clear_cache();
                Seen::Done
            }
            Op::Save => done(self.ctx.state_mut().save().await)?,
            Op::SaveAll => done(self.save().await)?,
            Op::GetText(name) => Seen::Text(self.ctx.state().get::<String>(&name)?.to_string()),
            Op::SetText(name, text) => done(self.ctx.state_mut().set(&name, text))?,
            Op::ReadField => Seen::Value(Some(*self.field)),
            Op::Field(value) => {
                *self.field = value;
                Seen::Done
            }
        })
    }
}

fn done(result: Result<()>) -> Result<Seen> {
    result.map(|()| Seen::Done)
}

impl Scripted for Drawer {
    async fn run(&mut self, ops: Vec<Op>, end: End) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for op in ops {
            seen.push(self.act(op).await?);
        }
        match end {
            End::Succeed => Ok(seen),
            End::Fail => Err(Error::invalid("as told")),
            End::Panic => panic!("as told"),
        }
    }

    async fn fail_with(&mut self, ops: Vec<Op>) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for op in ops {
            seen.push(self.try_act(op).await?);
        }
        Ok(seen)
    }

    async fn look(&self) -> Result<(BTreeMap<String, i64>, i64)> {
        let state = self.ctx.state();
        let values = state.names()?.into_iter().map(|name| {
            let value = *state.get(&name)?;
            Ok((name, value))
        });
        Ok((values.collect::<Result<_>>()?, *self.field))
    }
}
