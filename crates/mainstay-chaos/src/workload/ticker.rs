//! A reminder that counts, and says so if it comes out of turn.

use std::time::Duration;

use mainstay::actor::CatchUp;
use mainstay::prelude::*;

use crate::action::Ticks;

/// How often the reminder fires.
pub const PERIOD: Duration = Duration::from_millis(500);

const REMINDER: &str = "tick";

/// One ticker.
#[interface]
pub trait Ticker {
    /// Sets the reminder if it was never set, and says what it has counted.
    async fn ticks(&mut self) -> Result<Ticks>;
}

/// The actor: its id is the number of the ticker.
#[derive(Actor)]
#[actor(implements(Ticker), persistence = "persisted")]
pub struct TickerActor {
    is_set: State<bool>,
    ticks: State<Ticks>,
    ctx: Context,
}

impl Ticker for TickerActor {
    async fn ticks(&mut self) -> Result<Ticks> {
        if !*self.is_set {
            // None is left out: after a failover those that were missed come one after the other.
            self.ctx.remind(REMINDER).every(PERIOD).catch_up(CatchUp::All).set()?;
            *self.is_set = true;
        }
        Ok(*self.ticks)
    }
}

impl Remindable for TickerActor {
    async fn remind(&mut self, reminder: Reminder) -> Result<()> {
        let planned_ms = reminder.planned.as_millis();
        let expected_ms = self.ticks.planned_ms + PERIOD.as_millis() as u64;
        let is_first = self.ticks.count == 0;
        self.ticks.miscounted += u64::from(reminder.fired != self.ticks.count);
        self.ticks.misplanned += u64::from(!is_first && planned_ms != expected_ms);
        self.ticks.count += 1;
        self.ticks.planned_ms = planned_ms;
        Ok(())
    }
}
