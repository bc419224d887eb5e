//! Where the numbers go (OSC-11).

use std::time::Duration;

use crate::{Class, Service};

/// One HTTP request that was answered or failed.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The service asked.
    pub service: Service,
    /// The HTTP method.
    pub method: &'a str,
    /// The kind of resource, of a small fixed set (`servers`, `tokens` …): safe as a metric's label.
    pub resource: &'static str,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The class of the failure, if it was one.
    pub class: Option<Class>,
    /// From before sending to the whole answer.
    pub elapsed: Duration,
}

/// Receives a [`Sample`] per HTTP request. Must return at once.
pub trait Meter: Send + Sync {
    /// Called when a request has ended.
    fn record(&self, sample: &Sample<'_>);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn record(&self, _: &Sample<'_>) {}
}
