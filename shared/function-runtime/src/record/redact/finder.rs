//! Texts that are looked for, all of them in one pass over a text: by their first bytes.
//!
//! Invariant: one that is added is found from then on. Nothing has to be made anew of all, as an automaton would, when secrets are
//! learnt call by call.

use std::collections::HashMap;

/// A shorter text is not searched for: it would tear ordinary words apart.
pub const SHORTEST: usize = 6;
/// So many bits there are for each form, of which it takes [`STRIDE`].
const BITS: usize = 32;
/// By so many bytes most places of a text are told from all beginnings.
const GRAM: usize = 4;
/// Of so many places in a row one is enough to look at: whatever begins at any of them has its bytes.
const STRIDE: usize = SHORTEST - GRAM + 1;

/// What follows a form that is only the beginning of what is looked for: all that is written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// It is there as a whole.
    Nothing,
    Base64,
    Percent,
    Hex,
}

impl Tail {
    fn holds(self, byte: u8) -> bool {
        match self {
            Self::Nothing => false,
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'='),
            Self::Percent => byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'+' | b'-' | b'_' | b'.' | b'~'),
            Self::Hex => byte.is_ascii_hexdigit(),
        }
    }
}

/// Whether what is only begun is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    Always,
    /// Where it ends as if it were cut off, and not where it goes on as another word: many an ID begins like its neighbour.
    IfCutOff,
}

/// A text to find.
pub(super) struct Form {
    pub(super) text: Box<str>,
    /// So much of it has to be there.
    pub(super) telling: usize,
    pub(super) tail: Tail,
    /// What it is a form of.
    pub(super) of: u32,
}

impl Form {
    /// How much of what begins here is this; `None` if too little.
    fn reach(&self, rest: &[u8], counts: Counts) -> Option<usize> {
        let same = rest.iter().zip(self.text.as_bytes()).take_while(|(one, other)| one == other).count();
        if same == self.text.len() {
            return Some(same + rest[same..].iter().take_while(|byte| self.tail.holds(**byte)).count());
        }
        let goes_on = || counts == Counts::IfCutOff && rest.get(same).is_some_and(u8::is_ascii_alphanumeric);
        (same >= self.telling && !goes_on()).then_some(same)
    }
}

/// Forms, by how they begin.
#[derive(Default)]
pub(super) struct Finder {
    forms: HashMap<[u8; SHORTEST], Vec<Form>, foldhash::fast::RandomState>,
    many: usize,
    /// A bit for each [`GRAM`] bytes in a row of a beginning, at a place that hangs on them. Of a power of two bits.
    bits: Vec<u64>,
}

/// Something that was found: where, how much of it, and what it is a form of.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) many: usize,
    pub(super) of: u32,
}

impl Finder {
    pub(super) fn add(&mut self, form: Form) {
        let Some(beginning) = form.text.as_bytes().first_chunk().copied() else { return };
        self.forms.entry(beginning).or_default().push(form);
        self.many += 1;
        if self.many * BITS > self.bits.len() * 64 {
            self.bits = vec![0; (self.many * BITS / 64).next_power_of_two() * 2];
            let all: Vec<_> = self.forms.keys().copied().collect();
            for beginning in all {
                self.mark(beginning);
            }
        } else {
            self.mark(beginning);
        }
    }

    fn mark(&mut self, beginning: [u8; SHORTEST]) {
        for gram in beginning.windows(GRAM) {
            let (at, bit) = self.place(gram);
            if let Some(bits) = self.bits.get_mut(at) {
                *bits |= bit;
            }
        }
    }

    /// Which bit is whose.
    fn place(&self, gram: &[u8]) -> (usize, u64) {
        let gram = gram.first_chunk().map_or(0, |gram| u64::from(u32::from_le_bytes(*gram)));
        let hash = gram.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The high bits hang on all others.
        let at = (hash >> 40) as usize & (self.bits.len().wrapping_sub(1));
        (at, 1 << (hash >> 34 & 63))
    }

    /// The first form in `text` from some place on, of what counts.
    pub(super) fn find(&self, text: &str, from: usize, counts: impl Fn(u32) -> Option<Counts>) -> Option<Found> {
        if self.many == 0 {
            return None;
        }
        let bytes = text.as_bytes();
        let grams = bytes.get(from + STRIDE - 1..)?.windows(GRAM).step_by(STRIDE);
        for (at, gram) in grams.enumerate() {
            let (place, bit) = self.place(gram);
            if self.bits.get(place).is_none_or(|bits| bits & bit == 0) {
                continue;
            }
            let first = from + at * STRIDE;
            for at in first..first + STRIDE {
                if let Some((mut many, of)) = self.best(&bytes[at..], &counts) {
                    while !text.is_char_boundary(at + many) {
                        many -= 1;
                    }
                    return Some(Found { at, many, of });
                }
            }
        }
        None
    }

    /// Of the forms that begin so, the one of which most is there.
    fn best(&self, rest: &[u8], counts: impl Fn(u32) -> Option<Counts>) -> Option<(usize, u32)> {
        let forms = self.forms.get(rest.first_chunk::<SHORTEST>()?)?.iter();
        let there = forms.filter_map(|form| Some((form.reach(rest, counts(form.of)?)?, form.of)));
        there.max_by_key(|(many, _)| *many)
    }
}
