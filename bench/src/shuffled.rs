/// An order of keys that is the same in every run and looks like none: caches help nobody more than they would in
/// earnest.
#[derive(Debug, Clone)]
pub(crate) struct Shuffled {
    state: u64,
    first: usize,
    count: usize,
}

impl Shuffled {
    /// Numbers below a count, in an order of each caller's own.
    pub(crate) fn of_all(caller: usize, count: usize) -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15 ^ (caller as u64 + 1), first: 0, count }
    }

    /// Numbers among those of one caller, when the keys are dealt out to several.
    pub(crate) fn of_caller(caller: usize, callers: usize, keys: usize) -> Self {
        let count = (keys / callers).max(1);
        Self { first: caller * count, ..Self::of_all(caller, count) }
    }

    /// How many keys there are to go round.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn next(&mut self) -> usize {
        // The shifts of a xorshift generator.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        // The upper half of the product: as even as a remainder, and nearly free.
        self.first + ((u128::from(self.state) * self.count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_never_share_a_key() {
        for caller in 0..3 {
            let mut order = Shuffled::of_caller(caller, 3, 90);
            let numbers: Vec<usize> = (0..1000).map(|_| order.next()).collect();
            assert!(numbers.iter().all(|number| number / 30 == caller));
            assert!((caller * 30..caller * 30 + 30).all(|number| numbers.contains(&number)));
        }
    }

    #[test]
    fn everything_is_reached_in_another_order_by_each() {
        let orders = [0, 1].map(|caller| {
            let mut order = Shuffled::of_all(caller, 30);
            (0..1000).map(|_| order.next()).collect::<Vec<_>>()
        });
        assert_ne!(orders[0], orders[1]);
        assert!(orders.iter().all(|order| (0..30).all(|number| order.contains(&number))));
    }
}
