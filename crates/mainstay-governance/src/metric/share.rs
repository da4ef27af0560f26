use metrics::Gauge;

/// The part that one object has in a gauge which several share. It is taken out when the object goes, in whatever way.
pub(crate) struct Share {
    gauge: Gauge,
    value: u64,
}

impl Share {
    pub(crate) fn of(gauge: Gauge) -> Self {
        Self { gauge, value: 0 }
    }

    /// Says what the part is now.
    pub(crate) fn set(&mut self, value: u64) {
        match value.checked_sub(self.value) {
            Some(0) => {}
            Some(more) => self.gauge.increment(more as f64),
            None => self.gauge.decrement((self.value - value) as f64),
        }
        self.value = value;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
