//! A list that is empty at nearly all radios, and then takes one word.

/// A list that is allocated when the first entry is added.
#[derive(Debug)]
pub(super) struct Rare<T>(
    #[expect(clippy::box_collection, reason = "an empty list should take no more than a word")]
    Option<Box<Vec<T>>>,
);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Rare<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| list)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(super) fn push(&mut self, entry: T) {
        self.0.get_or_insert_default().push(entry);
    }

    /// Removes and returns the first entry, if there is one.
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let list = self.0.as_mut().filter(|list| !list.is_empty())?;
        Some(list.remove(0))
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Some(list) = &mut self.0 {
            list.retain(keep);
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(list) = &mut self.0 {
            list.clear();
        }
    }
}
