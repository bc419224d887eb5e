//! Figures, and how they are told.

use crate::machine::Machine;
use serde::Serialize;
use std::fmt::{self, Display, Write};

/// What was measured several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// How often.
    pub n: usize,
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Sample {
    /// Of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { n: sorted.len(), median: percentile(&sorted, 0.5), min, max })
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value that `share` of all do not exceed; of sorted values, of which there is at least one.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a length
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The value that `share` of all do not exceed, as a figure measured so often.
pub fn share_of(values: &[f64], share: f64) -> Option<Sample> {
    let all = sorted(values);
    let (min, max) = (*all.first()?, *all.last()?);
    Some(Sample { n: all.len(), median: percentile(&all, share), min, max })
}

/// What a figure has to be.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// In words.
    pub wanted: String,
    /// Whether it is.
    pub reached: bool,
}

/// A row of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The scenario's letter.
    pub scenario: char,
    /// What was measured.
    pub what: String,
    /// In what.
    pub unit: &'static str,
    /// Weir's.
    pub weir: Option<Sample>,
    /// The classic controller's.
    pub classic: Option<Sample>,
    /// Weir's through the classic controller's.
    pub ratio: Option<f64>,
    /// What it has to be, if anything is asked of it.
    pub target: Option<Target>,
}

impl Figure {
    /// A figure of Weir's, and the classic controller's if it has one.
    pub fn new(
        scenario: char,
        what: impl Into<String>,
        unit: &'static str,
        weir: Option<Sample>,
        classic: Option<Sample>,
    ) -> Self {
        let ratio = weir.zip(classic).filter(|(_, classic)| classic.median != 0.0);
        let ratio = ratio.map(|(weir, classic)| weir.median / classic.median);
        Self { scenario, what: what.into(), unit, weir, classic, ratio, target: None }
    }

    /// Which is at most so many times the classic controller's.
    #[must_use]
    pub fn at_most_times(mut self, bound: f64) -> Self {
        let wanted = format!("≤ {bound} × classic");
        self.target = self.ratio.map(|ratio| Target { wanted, reached: ratio <= bound });
        self
    }

    /// Which is at most this, each time.
    #[must_use]
    pub fn at_most(mut self, bound: f64) -> Self {
        let wanted = format!("≤ {} {}", Number(bound), self.unit);
        self.target = self.weir.map(|weir| Target { wanted, reached: weir.max <= bound });
        self
    }

    /// Which is at most this, though its largest value may be more.
    #[must_use]
    pub fn middle_at_most(mut self, bound: f64) -> Self {
        let wanted = format!("≤ {} {}", Number(bound), self.unit);
        self.target = self.weir.map(|weir| Target { wanted, reached: weir.median <= bound });
        self
    }

    /// Which is at least this.
    #[must_use]
    pub fn at_least(mut self, bound: f64) -> Self {
        let wanted = format!("≥ {} {}", Number(bound), self.unit);
        self.target = self.weir.map(|weir| Target { wanted, reached: weir.median >= bound });
        self
    }
}

/// Everything that a run has found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Whether with fewer objects and repetitions.
    pub scale: &'static str,
    /// What.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Whether every target that was looked at is reached.
    pub fn all_reached(&self) -> bool {
        self.figures.iter().filter_map(|figure| figure.target.as_ref()).all(|target| target.reached)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, memory, system, load, commit, weir, rustc, nats, at, optimised } =
            &self.machine;
        writeln!(f, "{processor}, {cores} cores, {memory} MiB, {system}, load {load}; {at} UTC")?;
        writeln!(f, "weir {weir} at {commit}, {rustc}, {nats}; {} scale", self.scale)?;
        if !optimised {
            writeln!(f, "NOT OPTIMISED: for trying out, not for telling")?;
        }
        let heading = ["", "measure", "unit", "Weir", "classic", "ratio", "target", ""].map(str::to_owned);
        let mut rows = vec![heading];
        rows.extend(self.figures.iter().map(row));
        let widths: Vec<usize> =
            (0..8).map(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0)).collect();
        for row in rows {
            let mut line = String::new();
            for (cell, width_of_column) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell}{}  ", " ".repeat(width_of_column - width(cell)));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn row(figure: &Figure) -> [String; 8] {
    let told = |sample: Option<Sample>| sample.map(|sample| Told(sample).to_string()).unwrap_or_default();
    let target = figure.target.as_ref();
    [
        figure.scenario.to_string(),
        figure.what.clone(),
        figure.unit.to_owned(),
        told(figure.weir),
        told(figure.classic),
        figure.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        target.map(|target| target.wanted.clone()).unwrap_or_default(),
        target.map(|target| if target.reached { "reached" } else { "MISSED" }).unwrap_or_default().to_owned(),
    ]
}

/// A sample in a table: the middle, and how far it spreads.
struct Told(Sample);

impl Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { n, median, min, max } = self.0;
        if n == 1 {
            return write!(f, "{}", Number(median));
        }
        write!(f, "{} ({}–{}, n={n})", Number(median), Number(min), Number(max))
    }
}

/// A number with as many digits as it deserves.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let digits = match value.abs() {
            size if size >= 100.0 || value.fract() == 0.0 => 0,
            size if size >= 10.0 => 1,
            size if size >= 1.0 => 2,
            _ => 3,
        };
        write!(f, "{value:.digits$}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(Sample::of(&values), Some(Sample { n: 200, median: 100.0, min: 1.0, max: 200.0 }));
        assert_eq!(share_of(&values, 0.99).unwrap().median, 198.0);
        assert_eq!(share_of(&[7.0], 0.99).unwrap().median, 7.0);
        assert_eq!(Sample::of(&[]), None);
    }

    #[test]
    fn a_target_is_missed_when_there_is_a_figure_and_it_is_too_large() {
        let (one, two) = (Sample::of(&[1.0]), Sample::of(&[2.0, 2.0]));
        assert!(Figure::new('c', "", "s", one, two).at_most_times(0.5).target.unwrap().reached);
        assert!(!Figure::new('c', "", "s", two, one).at_most_times(1.1).target.unwrap().reached);
        assert!(Figure::new('c', "", "s", two, None).at_most_times(1.1).target.is_none(), "nothing to compare with");
        assert!(!Figure::new('e', "", "s", Sample::of(&[1.0, 12.0]), None).at_most(11.0).target.unwrap().reached);
        assert!(!Figure::new('c', "", "×", one, None).at_least(3.0).target.unwrap().reached);
    }
}
