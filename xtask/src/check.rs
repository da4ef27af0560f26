//! `cargo xtask check`.

use clap::{Args, ValueEnum};

use crate::command::Outcome;
use crate::report::Report;
use crate::stage::Stage;
use crate::tally::Tally;

/// What to check. All stages run in order, and the first that fails ends the check.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Runs this stage alone; may be given several times
    #[arg(long, value_name = "STAGE")]
    only: Vec<Stage>,
}

impl Check {
    /// Runs the stages, prints a summary and ends with the count of tests on a line of its own.
    pub(crate) fn run(&self) -> Outcome {
        let mut report = Report::default();
        let mut tally = Tally::default();
        let mut outcome = Ok(());
        for stage in self.stages() {
            outcome = report.stage(stage, || stage.run(&mut tally));
            if outcome.is_err() {
                break;
            }
        }
        report.print_summary();
        if report.has(Stage::Test) {
            println!("{tally}");
        }
        outcome
    }

    fn stages(&self) -> Vec<Stage> {
        let wanted = |stage: &Stage| self.only.is_empty() || self.only.contains(stage);
        Stage::value_variants().iter().copied().filter(wanted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stages_run_from_the_quickest_to_the_slowest() {
        let check = Check { only: Vec::new() };
        assert_eq!(
            check.stages(),
            [Stage::Format, Stage::Lint, Stage::Docs, Stage::Deps, Stage::Build, Stage::Test, Stage::Simulation]
        );
    }

    #[test]
    fn chosen_stages_run_once_each_and_in_the_same_order() {
        let check = Check { only: vec![Stage::Test, Stage::Format, Stage::Test] };
        assert_eq!(check.stages(), [Stage::Format, Stage::Test]);
    }
}
