//! Kubernetes quantities, such as `1.5Gi` or `100m`, exact to the billionth.

/// An amount, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

const SCALE: i128 = 1_000_000_000;

impl Quantity {
    pub(crate) fn parse(text: &str) -> Option<Quantity> {
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 40 {
            return None;
        }
        let (numerator, denominator) = multiplier(suffix)?;
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let places = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let scaled = digits.checked_mul(numerator)?.checked_mul(SCALE)?;
        let divisor = places.checked_mul(denominator)?;
        // Rounded up, as the real type does with what is below a billionth.
        let amount = scaled / divisor + i128::from(scaled % divisor != 0);
        Some(Quantity(if negative { -amount } else { amount }))
    }

    pub(crate) fn from_int(value: i64) -> Quantity {
        Quantity(i128::from(value) * SCALE)
    }

    pub(crate) fn as_int(self) -> Option<i64> {
        (self.0 % SCALE == 0).then(|| i64::try_from(self.0 / SCALE).ok()).flatten()
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn as_float(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }

    pub(crate) fn sign(self) -> i64 {
        self.0.signum() as i64
    }

    pub(crate) fn add(self, other: Quantity) -> Option<Quantity> {
        self.0.checked_add(other.0).map(Quantity)
    }

    pub(crate) fn sub(self, other: Quantity) -> Option<Quantity> {
        self.0.checked_sub(other.0).map(Quantity)
    }
}

/// What a suffix multiplies by, as a fraction.
fn multiplier(suffix: &str) -> Option<(i128, i128)> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(at) = BINARY.iter().position(|s| *s == suffix) {
        return Some((1_i128 << (10 * (at + 1)), 1));
    }
    if let Some(at) = DECIMAL.iter().position(|s| *s == suffix) {
        let exponent = 3 * u32::try_from(at).ok()?;
        return Some(if exponent >= 9 { (10_i128.pow(exponent - 9), 1) } else { (1, 10_i128.pow(9 - exponent)) });
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|e: &i32| e.abs() <= 18)?;
    let power = 10_i128.pow(exponent.unsigned_abs());
    Some(if exponent >= 0 { (power, 1) } else { (1, power) })
}
