//! The one table of error classes (OSC-7). The first row that fits decides.

use super::{Class, Fault};
use crate::Service;

/// A row: which services, which statuses, what the fault must say, and the class that follows.
struct Row {
    services: &'static [Service],
    status: std::ops::RangeInclusive<u16>,
    when: When,
    class: Class,
}

enum When {
    Always,
    /// The service's own name for the fault is this.
    Kind(&'static str),
    /// The message holds this, in lower case.
    Says(&'static str),
}

use Service::{BareMetal, BlockStorage, Compute, Identity, LoadBalancer, Network, Placement};
use When::{Always, Kind, Says};

const ANY: &[Service] = &Service::ALL;

const fn row(services: &'static [Service], status: std::ops::RangeInclusive<u16>, when: When, class: Class) -> Row {
    Row { services, status, when, class }
}

const TABLE: &[Row] = &[
    row(ANY, 401..=401, Always, Class::Unauthorized),
    row(ANY, 404..=404, Always, Class::NotFound),
    row(ANY, 410..=410, Always, Class::NotFound),
    row(ANY, 429..=429, Always, Class::RateLimited),
    // --- quota: three statuses, and words in a fourth
    row(&[Compute], 413..=413, Says("rate-limited"), Class::RateLimited), // before Nova learnt 429
    row(ANY, 413..=413, Says("request is too large"), Class::BadRequest), // the body, not the tenant, is over the limit
    row(ANY, 413..=413, Always, Class::QuotaExceeded),
    row(&[Network], 409..=409, Kind("OverQuota"), Class::QuotaExceeded),
    row(&[Compute], 403..=403, Says("quota exceeded"), Class::QuotaExceeded),
    row(&[Compute], 403..=403, Says("maximum number of"), Class::QuotaExceeded), // ports, fixed IPs, key pairs
    row(&[LoadBalancer], 403..=403, Says("quota has been met"), Class::QuotaExceeded),
    row(&[Identity], 403..=403, Says("maximum of"), Class::QuotaExceeded), // application credentials per user
    row(ANY, 403..=403, Always, Class::Forbidden),
    // --- conflicts which pass by themselves
    row(&[Compute], 409..=409, Says("while it is in task_state"), Class::NotNow),
    row(&[Compute], 409..=409, Says("while it is in vm_state building"), Class::NotNow),
    row(&[LoadBalancer], 409..=409, Says("immutable"), Class::NotNow),
    row(&[LoadBalancer], 409..=409, Says("invalid state pending"), Class::NotNow),
    row(&[Placement], 409..=409, Kind("placement.concurrent_update"), Class::NotNow),
    row(&[BareMetal], 409..=409, Says("is locked by host"), Class::NotNow),
    row(ANY, 423..=423, Always, Class::NotNow),
    // --- and which do not
    row(ANY, 409..=409, Always, Class::Conflict),
    row(ANY, 412..=412, Always, Class::Conflict),
    // --- the request
    row(&[BlockStorage], 400..=400, Says("quota exceeded"), Class::QuotaExceeded),
    row(ANY, 406..=406, Always, Class::Unsupported),
    row(ANY, 501..=501, Always, Class::Unsupported),
    row(ANY, 408..=408, Always, Class::Unavailable),
    row(ANY, 400..=499, Always, Class::BadRequest),
    row(ANY, 500..=599, Always, Class::Unavailable),
];

/// The class of an answer that is not a success. What no row knows (a redirect, an invented status) is not understood.
pub(crate) fn classify(service: Service, status: u16, fault: &Fault) -> Class {
    let message = fault.message.to_lowercase();
    TABLE
        .iter()
        .find(|row| {
            row.services.contains(&service)
                && row.status.contains(&status)
                && match row.when {
                    Always => true,
                    Kind(kind) => fault.kind.as_deref() == Some(kind),
                    Says(words) => message.contains(words),
                }
        })
        .map_or(Class::NotUnderstood, |row| row.class)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;
    use Service::Image;

    /// The words below are those real services answered with, except where only old releases say them.
    ///
    /// Proves: OSC-7
    #[test]
    fn each_answer_has_its_class() {
        let rows: &[(Service, u16, &str, Class)] = &[
            (
                Compute,
                401,
                r#"{"error": {"code": 401, "title": "Unauthorized", "message": "requires authentication."}}"#,
                Class::Unauthorized,
            ),
            (Image, 401, "<html><title>401 Unauthorized</title></html>", Class::Unauthorized),
            (
                Compute,
                404,
                r#"{"itemNotFound": {"code": 404, "message": "Instance x could not be found."}}"#,
                Class::NotFound,
            ),
            (Identity, 404, "<!doctype html> <title>404 Not Found</title>", Class::NotFound),
            (Network, 404, "", Class::NotFound),
            (Image, 410, "", Class::NotFound),
            (Network, 429, "<html>slow down</html>", Class::RateLimited),
            (
                Compute,
                413,
                r#"{"overLimit": {"code": 413, "message": "This request was rate-limited."}}"#,
                Class::RateLimited,
            ),
            (
                Compute,
                413,
                r#"{"message": "Request is too large. Larger than max_request_body_size", "code": "413"}"#,
                Class::BadRequest,
            ),
            (
                BlockStorage,
                413,
                r#"{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number"}}"#,
                Class::QuotaExceeded,
            ),
            (
                Compute,
                403,
                r#"{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 1"}}"#,
                Class::QuotaExceeded,
            ),
            (
                Compute,
                403,
                r#"{"forbidden": {"code": 403, "message": "Maximum number of ports exceeded"}}"#,
                Class::QuotaExceeded,
            ),
            (
                Compute,
                403,
                r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:create to be performed."}}"#,
                Class::Forbidden,
            ),
            (
                LoadBalancer,
                403,
                r#"{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer"}"#,
                Class::QuotaExceeded,
            ),
            (
                LoadBalancer,
                403,
                r#"{"faultcode": "Client", "faultstring": "Policy does not allow this request to be performed."}"#,
                Class::Forbidden,
            ),
            (
                Identity,
                403,
                r#"{"error": {"code": 403, "message": "Unable to create additional application credentials, maximum of 3 already exceeded for user."}}"#,
                Class::QuotaExceeded,
            ),
            (
                Identity,
                403,
                r#"{"error": {"code": 403, "message": "You are not authorized to perform the requested action: identity:list_users."}}"#,
                Class::Forbidden,
            ),
            (
                Network,
                403,
                r#"{"NeutronError": {"type": "PolicyNotAuthorized", "message": "rule:create_network is disallowed by policy"}}"#,
                Class::Forbidden,
            ),
            (
                Network,
                409,
                r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['network']."}}"#,
                Class::QuotaExceeded,
            ),
            (
                Network,
                409,
                r#"{"NeutronError": {"type": "NetworkInUse", "message": "Unable to complete operation"}}"#,
                Class::Conflict,
            ),
            (
                Compute,
                409,
                r#"{"conflictingRequest": {"code": 409, "message": "Cannot 'rebuild' instance x while it is in task_state rebuilding"}}"#,
                Class::NotNow,
            ),
            (
                Compute,
                409,
                r#"{"conflictingRequest": {"code": 409, "message": "Cannot 'rebuild' instance x while it is in vm_state building"}}"#,
                Class::NotNow,
            ),
            (
                Compute,
                409,
                r#"{"conflictingRequest": {"code": 409, "message": "Cannot 'start' instance x while it is in vm_state active"}}"#,
                Class::Conflict,
            ),
            (
                Compute,
                409,
                r#"{"conflictingRequest": {"code": 409, "message": "Key pair 'k' already exists."}}"#,
                Class::Conflict,
            ),
            (
                LoadBalancer,
                409,
                r#"{"faultcode": "Client", "faultstring": "Load Balancer x is immutable and cannot be updated."}"#,
                Class::NotNow,
            ),
            (
                LoadBalancer,
                409,
                r#"{"faultcode": "Client", "faultstring": "Invalid state PENDING_CREATE of loadbalancer resource x"}"#,
                Class::NotNow,
            ),
            (
                LoadBalancer,
                409,
                r#"{"faultcode": "Client", "faultstring": "Another Listener on this Load Balancer is already using protocol_port"}"#,
                Class::Conflict,
            ),
            (
                Placement,
                409,
                r#"{"errors": [{"status": 409, "title": "Conflict", "detail": "d", "code": "placement.concurrent_update"}]}"#,
                Class::NotNow,
            ),
            (
                BareMetal,
                409,
                r#"{"error_message": "{\"faultstring\": \"Node x is locked by host y\"}"}"#,
                Class::NotNow,
            ),
            (Image, 423, "", Class::NotNow),
            (
                Identity,
                409,
                r#"{"error": {"code": 409, "message": "Duplicate entry", "title": "Conflict"}}"#,
                Class::Conflict,
            ),
            (
                Network,
                412,
                r#"{"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "m"}}"#,
                Class::Conflict,
            ),
            (
                Compute,
                400,
                r#"{"badRequest": {"code": 400, "message": "'server' is a required property"}}"#,
                Class::BadRequest,
            ),
            (
                BlockStorage,
                400,
                r#"{"badRequest": {"code": 400, "message": "Quota exceeded for volumes"}}"#,
                Class::QuotaExceeded,
            ),
            (Compute, 405, "", Class::BadRequest),
            (Network, 415, "", Class::BadRequest),
            (
                Compute,
                406,
                r#"{"computeFault": {"code": 406, "message": "Version 9.99 is not supported by the API."}}"#,
                Class::Unsupported,
            ),
            (Network, 501, "", Class::Unsupported),
            (Network, 408, "", Class::Unavailable),
            (
                Compute,
                500,
                r#"{"computeFault": {"code": 500, "message": "Unexpected API Error."}}"#,
                Class::Unavailable,
            ),
            (Image, 502, "<html><h1>Bad Gateway</h1></html>", Class::Unavailable),
            (Compute, 503, "", Class::Unavailable),
            (Network, 504, "", Class::Unavailable),
            (Image, 300, r#"{"versions": []}"#, Class::NotUnderstood),
            (Compute, 302, "", Class::NotUnderstood),
            (Compute, 666, "", Class::NotUnderstood),
        ];
        for (service, status, body, class) in rows {
            assert_eq!(classify(*service, *status, &Fault::read(body.as_bytes())), *class, "{service} {status} {body}");
        }
    }

    /// Each row of the table decides one of the answers above; a row that decides none is dead and is found here.
    #[test]
    fn no_row_is_shadowed_by_an_earlier_one() {
        for (i, row) in TABLE.iter().enumerate() {
            let fault = match row.when {
                Always => Fault::default(),
                Kind(kind) => Fault { kind: Some(kind.into()), message: String::new() },
                Says(words) => Fault { kind: None, message: words.into() },
            };
            let deciding = row.services.iter().any(|service| {
                row.status.clone().any(|status| {
                    let first = TABLE.iter().position(|earlier| {
                        earlier.services.contains(service)
                            && earlier.status.contains(&status)
                            && match earlier.when {
                                Always => true,
                                Kind(kind) => fault.kind.as_deref() == Some(kind),
                                Says(words) => fault.message.contains(words),
                            }
                    });
                    first == Some(i)
                })
            });
            assert!(deciding, "row {i} never decides");
        }
    }

    proptest! {
        /// Proves: OSC-7
        #[test]
        fn every_status_has_a_class_and_success_never_hides_in_it(status in 100u16..1000, body in ".{0,80}") {
            let fault = Fault::read(body.as_bytes());
            for service in Service::ALL {
                let class = classify(service, status, &fault);
                prop_assert_eq!((500..600).contains(&status) && status != 501, class == Class::Unavailable && status != 408);
            }
        }
    }
}
