//! Users that move between the two resources while traffic runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainstay::governance::resolve::{PhysicalResource, Resolver};
use mainstay::prelude::*;

use crate::event::{RESOURCES, USERS, user_name, user_number};
use crate::output::Output;
use crate::traffic::Traffic;

/// How long to wait between two moves.
const PAUSE: Duration = Duration::from_millis(600);

/// How often is looked whether it is time.
const LOOK: Duration = Duration::from_millis(20);

/// How much of the traffic may pass without a move.
const SHARE: u64 = 12;

/// Where each user lives, as far as the demo has been told: to hold the system to its word.
#[derive(Debug)]
pub struct Homes {
    /// The version in the upper bits, whether a move is under way in the second lowest, and the place in the lowest.
    users: Vec<AtomicU64>,
}

impl Homes {
    /// Asks where everybody lives. Who is new gets a place.
    ///
    /// # Errors
    /// Those of the resolver.
    pub async fn ask(users: &Resolver) -> Result<Self> {
        let known = users.resources().await?;
        for name in RESOURCES {
            if !known.iter().any(|(resource, _)| resource.name == name) {
                users.add_resource(PhysicalResource::new(name).at(format!("csv/{name}"))).await?;
            }
        }
        let mut homes = Vec::new();
        for number in 0..USERS {
            let resolution = users.resolve(user_name(number)).await?;
            let place = RESOURCES.iter().position(|name| *name == resolution.resource.name);
            homes.push(AtomicU64::new(place.unwrap_or_default() as u64));
        }
        Ok(Self { users: homes })
    }

    /// What is known of a user: equal before and after something only if the user did not move in between.
    pub fn sight(&self, user: &str) -> u64 {
        user_number(user).map_or(MOVING, |number| self.users[number].load(Ordering::SeqCst))
    }

    /// The place of a user that was seen like this; `None` if a move was under way.
    pub fn place(sight: u64) -> Option<u8> {
        (sight & MOVING == 0).then_some((sight & 1) as u8)
    }

    /// How many users live on each resource.
    pub fn counts(&self) -> [u64; 2] {
        let west = self.users.iter().filter(|home| home.load(Ordering::SeqCst) & 1 == 1).count() as u64;
        [USERS - west, west]
    }
}

/// The bit of a user who is being moved.
const MOVING: u64 = 2;

/// Moves a user now and then, until traffic ends. Returns how many were moved.
///
/// # Errors
/// Those of the resolver that do not pass.
pub async fn keep_moving(users: &Resolver, traffic: &Traffic, output: &Output) -> Result<u64> {
    let (mut moves, mut last, mut last_sent) = (0, Instant::now(), 0);
    loop {
        if traffic.is_over() {
            return Ok(moves);
        }
        let sent = traffic.sent();
        let is_time = last.elapsed() >= PAUSE || (sent - last_sent) * SHARE >= traffic.total().max(1);
        if !is_time && moves > 0 {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let number = moves * 37 % USERS;
        match move_one(users, &traffic.homes, number).await {
            Ok((from, to, took)) => {
                let name = user_name(number);
                let text = format!("{name} moved from {from} to {to} while traffic ran ({took:.1?}, {sent} events in)");
                output.note(&text);
                moves += 1;
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error),
        }
        (last, last_sent) = (Instant::now(), sent);
    }
}

async fn move_one(users: &Resolver, homes: &Homes, number: u64) -> Result<(&'static str, &'static str, Duration)> {
    let home = &homes.users[number as usize];
    let before = home.fetch_or(MOVING, Ordering::SeqCst);
    let from = (before & 1) as usize;
    let (from, to, place) = (RESOURCES[from], RESOURCES[1 - from], 1 - from as u64);
    let begun = Instant::now();
    users.move_entity(user_name(number), to).await?;
    // From here on nothing begins for this user on the old resource.
    home.store((before & !3) + 4 + place, Ordering::SeqCst);
    Ok((from, to, begun.elapsed()))
}
