use crate::class::Class;

/// How much of a class a receiver takes in at a time: messages that were sent to it and that its handler has not let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// So many messages.
    pub messages: u32,
    /// Of so many bytes together.
    pub bytes: u64,
}

impl Window {
    /// What a receiver grants unless told otherwise.
    ///
    /// The bytes are at least twice the largest message, so that what the receiver has not given back yet (an eighth at most)
    /// never keeps a message from being sent for ever.
    pub const fn default_of(class: Class) -> Self {
        let bytes = 2 * class.message_bytes_max() as u64;
        let messages = match class {
            Class::Heartbeat => 1024,
            Class::Log => 1024,
            // Answers are not granted: each of them was asked for.
            Class::Reply => return Self { messages: 0, bytes: 0 },
            Class::Call => 4096,
            Class::Event => 4096,
            Class::Bulk => 64,
        };
        match class {
            Class::Heartbeat => Self { messages, bytes: 1 << 20 },
            Class::Event => Self { messages, bytes: 8 << 20 },
            _ => Self { messages, bytes },
        }
    }

    /// Is there room for one more message?
    pub(crate) fn has_room(self, used: Window, bytes: u64) -> bool {
        used.messages < self.messages && used.bytes.saturating_add(bytes) <= self.bytes
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages = self.messages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn remove(&mut self, other: Window) {
        self.messages = self.messages.saturating_sub(other.messages);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    /// Is this so much of a window that it is worth a frame to give it back?
    pub(crate) fn is_due(self, of: Window) -> bool {
        self.messages > of.messages / 8 || self.bytes > of.bytes / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_message_fits_although_an_eighth_is_not_given_back() {
        for class in Class::ALL.into_iter().filter(|class| *class != Class::Reply) {
            let window = Window::default_of(class);
            let used = Window { messages: window.messages / 8, bytes: window.bytes / 8 };
            assert!(!used.is_due(window) && window.has_room(used, class.message_bytes_max() as u64), "{class}");
        }
    }

    #[test]
    fn room_ends_with_messages_or_bytes() {
        let window = Window { messages: 2, bytes: 10 };
        let mut used = Window::default();
        assert!(window.has_room(used, 10) && !window.has_room(used, 11));
        used.add(4);
        assert!(window.has_room(used, 6) && !window.has_room(used, 7));
        used.add(0);
        assert!(!window.has_room(used, 0));
        used.remove(Window { messages: 1, bytes: 4 });
        assert!(window.has_room(used, 10));
    }
}
