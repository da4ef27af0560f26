/// Which sample is tried wherever there are several: a walk through all combinations, the last choice first.
///
/// A visitor can be asked only once, so another sample means another run from the start, in which the choices before it are
/// made again.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// What was chosen, of how many.
    made: Vec<(usize, usize)>,
    /// How many of them the current run has come to.
    at: usize,
}

impl Choices {
    /// One of `count` samples; nothing if there are none.
    pub(super) fn choose(&mut self, count: usize) -> Option<usize> {
        let last = count.checked_sub(1)?;
        if self.at == self.made.len() {
            self.made.push((0, count));
        }
        let (choice, _) = self.made[self.at];
        self.at += 1;
        // A type whose code does not ask for the same things every time could have fewer here now.
        Some(choice.min(last))
    }

    /// Goes to the next combination; false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, count)) = self.made.pop() {
            if choice + 1 < count {
                self.made.push((choice + 1, count));
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_comes_once_and_the_last_choice_changes_first() {
        let mut choices = Choices::default();
        let mut seen = Vec::new();
        loop {
            // The second choice exists only after the first sample of the first one.
            let first = choices.choose(3).unwrap();
            let second = (first != 1).then(|| choices.choose(2).unwrap());
            seen.push((first, second));
            if !choices.advance() {
                break;
            }
        }
        assert_eq!(seen, [(0, Some(0)), (0, Some(1)), (1, None), (2, Some(0)), (2, Some(1))]);
        assert_eq!(choices.choose(0), None);
    }
}
