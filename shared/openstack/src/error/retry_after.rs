//! `Retry-After`: seconds or an HTTP date (OSC-8).

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;

/// A cloud that asks for more than this is not believed.
const MOST: Duration = Duration::from_secs(3600);

/// The delay the cloud asked for, measured from `now`; a date that has passed asks for none. Nonsense counts as absent.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than fit is more than is believed.
        return Some(text.parse().map_or(MOST, Duration::from_secs).min(MOST));
    }
    let at = date(text)?;
    let delay = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
    Some(delay.min(MOST))
}

/// An HTTP date in the form senders must use (`Sun, 06 Nov 1994 08:49:37 GMT`), read leniently.
fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> Option<u64> {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, HeaderValue::from_str(value).unwrap())]);
        retry_after(&headers, now).map(|delay| delay.as_secs())
    }

    /// Proves: OSC-8
    #[test]
    fn seconds_and_dates_are_understood_and_nonsense_is_not() {
        let rows = [
            ("0", Some(0)),
            ("17", Some(17)),
            (" 5 ", Some(5)),
            ("999999999999999999999999", Some(3600)),
            ("86400", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sun, 06 Nov 1994 08:48:00 GMT", Some(0)),
            ("-3", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (value, seconds) in rows {
            assert_eq!(read(value), seconds, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::now()), None);
    }

    proptest! {
        #[test]
        fn no_value_makes_the_reader_fail(value in "[ -~]{0,40}") {
            let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, HeaderValue::from_str(&value).unwrap())]);
            if let Some(delay) = retry_after(&headers, Timestamp::now()) {
                prop_assert!(delay <= MOST);
            }
        }
    }
}
