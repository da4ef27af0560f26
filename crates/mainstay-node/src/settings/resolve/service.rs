use mainstay_core::Level;
use mainstay_core::partitioning::Partitioning;

use super::{Declared, Defaults, check_actors, check_states, follow};
use crate::settings::actor_keys::ACTOR_KEYS;
use crate::settings::assignment::{Assignment, Scope};
use crate::settings::effective::{ServiceSettings, Setting, Sourced};
use crate::settings::form::Raw;
use crate::settings::key;
use crate::settings::origin::Origin;
use crate::settings::placement::{
    self, PARTITIONS, PERSISTENCE, PLACEMENT_KEYS, REPLICAS_MIN, REPLICAS_TARGET, Replicas,
};
use crate::settings::problem::Problem;
use crate::settings::state_keys::{STATE_KEYS, is_state_key};
use crate::settings::value::Value;

/// How many partitions a service has unless told otherwise.
const PARTITIONS_DEFAULT: u32 = 10;

/// What was said about replicas, as far as anything was.
#[derive(Debug, Default, Clone)]
pub(super) struct ReplicaWishes {
    min: Option<Sourced<u32>>,
    target: Option<Sourced<u32>>,
}

impl ReplicaWishes {
    pub(super) fn take(&mut self, assignment: &Assignment) -> Result<(), Problem> {
        let value = placed(assignment)?;
        if let Value::Count(count) = value {
            // Within the bounds of its form, which are small.
            let wish = Sourced { value: u32::try_from(count).unwrap_or(u32::MAX), origin: assignment.origin.clone() };
            match assignment.key.as_str() {
                REPLICAS_MIN => self.min = Some(wish),
                _ => self.target = Some(wish),
            }
        }
        Ok(())
    }

    /// What was said, or what goes without saying for a level.
    fn effective(&self, level: Level) -> (Sourced<u32>, Sourced<u32>) {
        let default = |value| Sourced { value, origin: Origin::Default };
        let target = self.target.clone().unwrap_or_else(|| default(Replicas::target_default(level)));
        let min = self.min.clone().unwrap_or_else(|| default(Replicas::min_default(target.value)));
        (min, target)
    }

    pub(super) fn check_defaults(&self) -> Option<Problem> {
        self.check("defaults", Level::Persisted)
    }

    fn check(&self, section: &str, level: Level) -> Option<Problem> {
        let (min, target) = self.effective(level);
        let text = Replicas { min: min.value, target: target.value }.check(level).err()?;
        let place = if min.origin == Origin::Default { target.origin } else { min.origin };
        Some(Problem { place, text: format!("{section}: {text}") })
    }

    pub(super) fn entries(&self, scope: &Scope) -> Vec<Setting> {
        self.entries_of(scope, Level::Persisted)
    }

    fn entries_of(&self, scope: &Scope, level: Level) -> Vec<Setting> {
        let (min, target) = self.effective(level);
        let shown = [(REPLICAS_MIN, min), (REPLICAS_TARGET, target)].map(|(key, wish)| Setting {
            key: scope.full(key),
            value: Value::Count(u64::from(wish.value)),
            origin: wish.origin,
        });
        shown.into()
    }

    /// What was said for one type, over what was said for all.
    fn over(self, defaults: &Self, level: Level) -> Self {
        if level == Level::None {
            // What is said for all is not meant for what one node keeps alone.
            return self;
        }
        let min = match self.target {
            // The least that was meant for another target says nothing about this one.
            Some(_) => self.min,
            None => self.min.or_else(|| defaults.min.clone()),
        };
        Self { min, target: self.target.or_else(|| defaults.target.clone()) }
    }
}

/// The effective settings of a type, and how they are shown.
pub(super) fn service(
    declared: &Declared,
    wishes: &[Assignment],
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> (ServiceSettings, Vec<Setting>) {
    let scope = Scope::Service(declared.name.clone());
    let section = format!("services.{}", declared.name);
    let by_code = |is_default: bool| if is_default { Origin::Default } else { Origin::Attribute };
    let mut level = Sourced { value: declared.level, origin: by_code(declared.level == Level::Persisted) };
    let uncut = Partitioning::uniform(PARTITIONS_DEFAULT);
    let mut partitioning =
        Sourced { value: declared.partitioning.clone(), origin: by_code(declared.partitioning == uncut) };
    let mut replicas = ReplicaWishes::default();
    let mut actor = declared.actor.map(|adjust| {
        let mut actor = defaults.actors.clone();
        actor.change(Origin::Attribute, &[], adjust);
        actor
    });
    let mut state = actor.is_none().then(|| defaults.states.clone());
    let wrong = |wish: &Assignment, of: &str, is: &str| {
        let text = format!("{} is a setting of {of}, and {} is {is}: remove it", wish.name(), declared.name);
        Err(Problem { place: wish.origin.clone(), text })
    };
    for wish in wishes {
        let taken = match (wish.key.as_str(), &mut actor) {
            ("", _) => section_alone(wish),
            (PERSISTENCE, _) => placed(wish).map(|value| {
                if let Value::Level(value) = value {
                    level = Sourced { value, origin: wish.origin.clone() };
                }
            }),
            (PARTITIONS, _) => recut(declared, wish).map(|value| {
                partitioning = Sourced { value, origin: wish.origin.clone() };
            }),
            (REPLICAS_MIN | REPLICAS_TARGET, _) => replicas.take(wish),
            (key, Some(_)) if is_state_key(key) => wrong(wish, "services", "an actor type"),
            (_, Some(actor)) => actor.assign(wish, &PLACEMENT_KEYS),
            (key, None) if ACTOR_KEYS.iter().any(|known| known.name == key) => wrong(wish, "actors", "a service"),
            (_, None) => state.as_mut().map_or(Ok(()), |state| state.assign(wish, &PLACEMENT_KEYS)),
        };
        problems.extend(taken.err());
    }
    let replicas = replicas.over(&defaults.replicas, level.value);
    problems.extend(replicas.check(&section, level.value));
    if let Some(actor) = &mut actor {
        follow(actor);
    }
    problems.extend(actor.as_ref().and_then(|actor| check_actors(&section, actor)));
    problems.extend(state.as_ref().and_then(|state| check_states(&section, state)));

    let mut shown = vec![
        Setting { key: scope.full(PERSISTENCE), value: Value::Level(level.value), origin: level.origin.clone() },
        Setting {
            key: scope.full(PARTITIONS),
            value: Value::Partitioning(partitioning.value.clone()),
            origin: partitioning.origin.clone(),
        },
    ];
    shown.extend(replicas.entries_of(&scope, level.value));
    shown.extend(actor.iter().flat_map(|actor| actor.entries(&scope)));
    shown.extend(state.iter().flat_map(|state| state.entries(&scope)));
    let (min, target) = replicas.effective(level.value);
    let settings = ServiceSettings {
        name: declared.name.clone(),
        level,
        partitioning,
        replicas: Replicas { min: min.value, target: target.value },
        actor: actor.map(|actor| actor.value),
        state: state.map(|state| state.value),
    };
    (settings, shown)
}

/// What a file says about a type that is not known here: checked as far as it can be, and shown as it is.
pub(super) fn foreign_service(
    name: &str,
    wishes: &[Assignment],
    defaults: &Defaults,
    problems: &mut Vec<Problem>,
) -> Vec<Setting> {
    let (mut actor, mut state) = (defaults.actors.clone(), defaults.states.clone());
    let others: Vec<_> = state.names().chain(PLACEMENT_KEYS).collect();
    let (mut level, mut replicas, mut shown) = (Level::Persisted, ReplicaWishes::default(), Vec::new());
    for wish in wishes {
        let taken = match wish.key.as_str() {
            "" => section_alone(wish).map(|()| None),
            REPLICAS_MIN | REPLICAS_TARGET => replicas.take(wish).and_then(|()| placed(wish)).map(Some),
            PERSISTENCE | PARTITIONS => placed(wish).map(Some),
            key if is_state_key(key) => {
                let known = STATE_KEYS.iter().find(|known| known.name == key);
                state.assign(wish, &[]).map(|()| known.map(|known| (known.get)(&state.value)))
            }
            key => {
                let taken = actor.assign(wish, &others);
                let known = ACTOR_KEYS.iter().find(|known| known.name == key);
                taken.map(|()| known.map(|known| (known.get)(&actor.value)))
            }
        };
        match taken {
            Err(problem) => problems.push(problem),
            Ok(None) => {}
            Ok(Some(value)) => {
                if let Value::Level(given) = value {
                    level = given;
                }
                shown.push(Setting { key: wish.name(), value, origin: wish.origin.clone() });
            }
        }
    }
    problems.extend(replicas.check(&format!("services.{name}"), level));
    follow(&mut actor);
    // What contradicts a default is left to the node, which knows what the attribute of the type has in its place. What is wrong
    // with the defaults is said once, for them.
    let is_said = |key: &&str| wishes.iter().any(|wish| wish.key == **key);
    let section = format!("services.{name}");
    let of_actor = check_actors(&section, &actor).filter(|problem| {
        let named = actor.named_in(&problem.text);
        named.iter().all(|key| actor.is_said(key)) && named.iter().any(is_said)
    });
    let of_state = check_states(&section, &state).filter(|problem| {
        let named = state.named_in(&problem.text);
        named.iter().any(is_said)
    });
    problems.extend(of_actor.into_iter().chain(of_state));
    shown
}

/// Reads a setting that says where state is.
fn placed(wish: &Assignment) -> Result<Value, Problem> {
    let problem = |text| Problem { place: wish.origin.clone(), text };
    match placement::form(&wish.key) {
        Some(form) => key::read(&form, &wish.name(), &wish.raw).map_err(problem),
        None => Err(problem(format!("unknown key {:?}", wish.name()))),
    }
}

/// Another number of partitions, where a number is what says how a service is cut.
fn recut(declared: &Declared, wish: &Assignment) -> Result<Partitioning, Problem> {
    let problem = |text| Problem { place: wish.origin.clone(), text };
    let value = placed(wish)?;
    match (&declared.partitioning, value) {
        (Partitioning::Uniform { low, high, .. }, Value::Count(count)) => {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let recut = Partitioning::uniform_between(count, *low, *high);
            recut.check().map_err(|error| problem(format!("{}: {error}", wish.name())))?;
            Ok(recut)
        }
        (other, _) => Err(problem(format!(
            "{} is a number, and the code of {} cuts it as {other}, which its callers rely on: remove it",
            wish.name(),
            declared.name
        ))),
    }
}

/// A section without content is fine, a value in its place is not.
pub(in crate::settings) fn section_alone(wish: &Assignment) -> Result<(), Problem> {
    if wish.raw == Raw::Other("empty table") {
        return Ok(());
    }
    let name = wish.name();
    let text = format!("{} is a section and not a setting: write [{0}]", name.trim_end_matches('.'));
    Err(Problem { place: wish.origin.clone(), text })
}
