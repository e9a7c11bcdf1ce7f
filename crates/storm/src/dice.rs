//! Chance from a seed: the same seed gives each client the same choices.

/// A sequence of choices (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The choices of a client with this name.
    pub fn new(seed: u64, name: &str) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix))
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `from` up to, but not including, `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.roll() % (to - from)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.roll() % 100 < chance
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let at = (count > 0).then(|| self.roll() % count)?;
        all.get(usize::try_from(at).unwrap_or(0))
    }

    /// A UUID of ours.
    pub fn uuid(&mut self) -> uuid::Uuid {
        let high = u128::from(self.roll()) << 64;
        uuid::Builder::from_random_bytes((high | u128::from(self.roll())).to_be_bytes()).into_uuid()
    }
}
