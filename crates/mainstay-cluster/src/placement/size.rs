/// The most voters of the control set: enough for two nodes that fail at once, and more make every change slower.
pub(super) const CONTROL_VOTERS_MAX: usize = 5;

/// How many replicas of a set vote, where there are so many replicas of a target. All of them if the target is reached; else an
/// odd number, because a second voter of two makes a set fail more often than one alone.
pub(super) fn voters_of(replicas: usize, target: usize) -> usize {
    match replicas {
        0 => 0,
        reached if reached >= target => target.max(1),
        even if even % 2 == 0 => even - 1,
        odd => odd,
    }
}
