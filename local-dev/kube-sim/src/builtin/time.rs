//! `MicroTime`: exactly six digits of fraction, stored in UTC.

use serde_json::Value;

const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Checks and normalises one time in place; absent and null are fine. The error is Go's.
pub fn micro(slot: Option<&mut Value>) -> Result<(), String> {
    let Some(value) = slot else { return Ok(()) };
    match value {
        Value::Null => Ok(()),
        Value::String(text) => {
            *text = normal(text)?;
            Ok(())
        }
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", crate::meta::go_kind(other))),
    }
}

fn normal(text: &str) -> Result<String, String> {
    let problem =
        |rest: &str, wanted: &str| format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {wanted:?}");
    let Some(rest) = text.get(19..) else { return Err(problem(text, "2006")) };
    let fraction = rest.strip_prefix('.').map(|f| f.bytes().take_while(u8::is_ascii_digit).count());
    match fraction {
        None => return Err(problem(rest, ".000000")),
        Some(digits) if digits < 6 => return Err(problem(rest, ".000000")),
        Some(6) => {}
        Some(_) => return Err(problem(rest.get(7..).unwrap_or_default(), "Z07:00")),
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| problem(text, "2006"))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_micro_time_has_exactly_six_digits_and_is_stored_in_utc() {
        assert_eq!(normal("2026-11-29T15:00:00.123456Z").unwrap(), "2026-11-29T15:00:00.123456Z");
        assert_eq!(normal("2026-11-29T17:00:00.123456+02:00").unwrap(), "2026-11-29T15:00:00.123456Z");
        for (text, tail) in [
            ("2026-11-29T15:00:01Z", r#"cannot parse "Z" as ".000000""#),
            ("2026-11-29T15:00:00.123456789Z", r#"cannot parse "789Z" as "Z07:00""#),
            ("2026-11-29T15:00:00.123Z", r#"cannot parse ".123Z" as ".000000""#),
        ] {
            assert!(normal(text).unwrap_err().ends_with(tail), "{text}");
        }
        assert!(normal("x").is_err());
    }
}
