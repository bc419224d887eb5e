//! Chance that can be had again: numbers from a seed that a test prints.

use std::time::{SystemTime, UNIX_EPOCH};

/// The variable that sets the seed.
pub const SEED: &str = "WEIR_CHAOS_SEED";

/// A source of numbers. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    /// Dice with the seed in [`SEED`], or another one each time. Prints it.
    ///
    /// # Panics
    /// [`SEED`] holds no number.
    pub fn from_environment() -> Self {
        let seed = if let Ok(text) = std::env::var(SEED) {
            text.parse().unwrap_or_else(|_| panic!("{SEED} must be a number"))
        } else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            now.as_secs() ^ u64::from(now.subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
        };
        println!("the seed is {seed}; {SEED}={seed} runs it again");
        Self { seed, state: seed }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next number (SplitMix64: short, and good enough for tests).
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or_default();
            items.swap(last, other);
        }
    }
}
