//! Bytes of an input, taken as decisions: how a target that knows a structure makes it out of any bytes.

/// What is left of an input. Behind its end there are zeros, so that every input says something.
#[derive(Debug, Clone)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// All of an input.
    #[must_use]
    pub fn new(rest: &'a [u8]) -> Bytes<'a> {
        Bytes { rest }
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next bytes, fewer at the end.
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// The next two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next eight bytes.
    pub fn number(&mut self) -> u64 {
        let mut number = [0; 8];
        let bytes = self.take(8);
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    }

    /// The next byte, as a number below `bound`, which is at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    /// Whether the next byte is one of those that come once in so many.
    pub fn one_in(&mut self, count: u8) -> bool {
        self.byte().is_multiple_of(count)
    }

    /// The next two bytes, as a place below `bound`; 0 if that is 0.
    pub fn place(&mut self, bound: usize) -> usize {
        usize::from(self.short()) % bound.max(1)
    }

    /// One of some.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'s, T>(&mut self, some: &'s [T]) -> &'s T {
        &some[self.below(some.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_end_there_are_zeros() {
        let mut bytes = Bytes::new(&[1, 2, 3]);
        assert_eq!((bytes.byte(), bytes.short()), (1, 0x0302));
        assert!(bytes.is_empty());
        assert_eq!((bytes.number(), bytes.below(7), bytes.place(0)), (0, 0, 0));
    }
}
