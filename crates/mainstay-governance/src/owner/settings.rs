use std::time::Duration;

use mainstay::service::Services;
use mainstay::{Error, Result};

use crate::owner::{Backoff, Resource};
use crate::settings::{OWNERS, in_force};

/// How the owner of a resource behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerSettings {
    /// How long opening may take before it counts as failed.
    pub open_time_max: Duration,
    /// How long a job may take before it is given up, and the handle with it.
    pub job_time_max: Duration,
    /// How long closing may take before the handle is just dropped. To be shorter than the `deactivation_grace` of actors.
    pub close_time_max: Duration,
    /// How often an open handle is checked; `None` for never.
    pub check_interval: Option<Duration>,
    /// How long a check may take before it counts as failed.
    pub check_time_max: Duration,
    /// The pauses after openings that have failed.
    pub backoff: Backoff,
    /// With a period the resource stays open although nobody uses it, and is opened again after a restart: its owner wakes
    /// itself that often, which is to be more often than the `idle_timeout` of actors. `None` lets an idle owner leave memory
    /// and close it.
    pub stay_open: Option<Duration>,
}

/// How the owners of a resource behave on a node, which tells the resource what else operators have set of it.
///
/// # Errors
/// `Invalid` if an owner cannot behave like this.
pub(crate) fn owner_settings<R: Resource>(resource: &R, services: &Services) -> Result<OwnerSettings> {
    resource.configure(&*services.provided()?)?;
    let settings = in_force(services, OWNERS, R::NAME, resource.owner_settings())?;
    settings.check()?;
    Ok(settings)
}

impl Default for OwnerSettings {
    fn default() -> Self {
        Self {
            open_time_max: Duration::from_secs(10),
            job_time_max: Duration::from_secs(30),
            close_time_max: Duration::from_secs(3),
            check_interval: Some(Duration::from_secs(30)),
            check_time_max: Duration::from_secs(5),
            backoff: Backoff::default(),
            stay_open: None,
        }
    }
}

impl OwnerSettings {
    /// Says whether an owner can behave like this.
    ///
    /// # Errors
    /// `Invalid`, naming the setting and what it may be.
    pub fn check(&self) -> Result<()> {
        let durations = [
            ("open_time_max", Some(self.open_time_max)),
            ("job_time_max", Some(self.job_time_max)),
            ("close_time_max", Some(self.close_time_max)),
            ("check_interval", self.check_interval),
            ("check_time_max", Some(self.check_time_max)),
            ("stay_open", self.stay_open),
        ];
        if let Some((name, _)) = durations.iter().find(|(_, length)| length.is_some_and(|length| length.is_zero())) {
            return Err(Error::invalid(format!("{name} of an owner is zero: give it at least a millisecond")));
        }
        self.backoff.check("backoff")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_a_length_of_zero_is_named() {
        OwnerSettings::default().check().unwrap();
        let settings = OwnerSettings { check_interval: Some(Duration::ZERO), ..OwnerSettings::default() };
        assert!(settings.check().unwrap_err().to_string().starts_with("check_interval of an owner is zero"));
        let backoff = Backoff::new(Duration::ZERO, Backoff::LIMIT);
        let settings = OwnerSettings { backoff, ..OwnerSettings::default() };
        assert!(settings.check().unwrap_err().to_string().starts_with("backoff.first is"));
    }
}
