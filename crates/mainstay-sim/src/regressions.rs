/// The seeds that have failed, one in a line with what it showed.
const SEEDS: &str = include_str!("../regressions.txt");

/// A seed that has failed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regression {
    /// The seed.
    pub seed: u64,
    /// What it showed then.
    pub showed: &'static str,
}

/// The seeds that have failed once. A seed means another run whenever the order of events changes, so that a defect is kept
/// out by the test that came with its mending; these are run all the same, as they cost nothing.
pub fn regressions() -> impl Iterator<Item = Regression> {
    let lines = SEEDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| {
        let (seed, showed) = line.split_once(char::is_whitespace)?;
        Some(Regression { seed: seed.parse().ok()?, showed: showed.trim() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_is_no_comment_is_a_seed_and_what_it_showed() {
        let lines = SEEDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        let all: Vec<Regression> = regressions().collect();
        assert_eq!(all.len(), lines, "a line cannot be read");
        assert!(all.iter().any(|regression| regression.seed == 1267));
        assert!(all.iter().all(|regression| regression.showed.len() > 10), "{all:?}");
    }
}
