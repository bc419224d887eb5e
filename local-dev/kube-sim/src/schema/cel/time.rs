//! Points in time and durations in CEL.

use super::value::{Error, Val, failed};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A duration as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || number.len() > 30 || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        total = total
            .checked_add(digits.checked_mul(*nanos)? / 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
        rest = tail;
    }
    let nanos = i64::try_from(if negative { -total } else { total }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// A duration as CEL writes it: seconds.
pub(crate) fn format(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let (sign, nanos) = if nanos < 0 { ("-", -nanos) } else { ("", nanos) };
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    format!("{sign}{seconds}.{}s", format!("{fraction:09}").trim_end_matches('0'))
}

fn zone(name: &str) -> Result<TimeZone, Error> {
    if name.is_empty() || name == "UTC" || name == "Z" {
        return Ok(TimeZone::UTC);
    }
    if let Some((hours, minutes)) = name.split_once(':')
        && let (Ok(hours), Ok(minutes)) = (hours.parse::<i32>(), minutes.parse::<i32>())
        && hours.abs() < 24
        && (0..60).contains(&minutes)
    {
        let sign = if name.starts_with('-') { -1 } else { 1 };
        let seconds = hours * 3600 + sign * minutes * 60;
        return jiff::tz::Offset::from_seconds(seconds)
            .map_or_else(|e| failed(e.to_string()), |o| Ok(o.to_time_zone()));
    }
    TimeZone::get(name).or_else(|_| failed(format!("unknown time zone {name}")))
}

/// Accessors of points in time and durations; `None` when `name` is not one of them.
pub(crate) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Result<Val<'a>, Error>> {
    let number = match args {
        [Val::Timestamp(at)] => part(name, *at, TimeZone::UTC)?,
        [Val::Timestamp(at), Val::String(name_of_zone)] => match zone(name_of_zone) {
            Ok(zone) => part(name, *at, zone)?,
            Err(error) => return Some(Err(error)),
        },
        [Val::Duration(duration)] => match name {
            "getHours" => duration.as_secs() / 3600,
            "getMinutes" => duration.as_secs() / 60,
            "getSeconds" => duration.as_secs(),
            "getMilliseconds" => i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
            _ => return None,
        },
        _ => return None,
    };
    Some(Ok(Val::Int(number)))
}

fn part(name: &str, at: Timestamp, zone: TimeZone) -> Option<i64> {
    let local = at.to_zoned(zone);
    Some(match name {
        "getFullYear" => local.year().into(),
        "getMonth" => i64::from(local.month()) - 1,
        "getDate" => local.day().into(),
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDayOfWeek" => local.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getHours" => local.hour().into(),
        "getMinutes" => local.minute().into(),
        "getSeconds" => local.second().into(),
        "getMilliseconds" => local.millisecond().into(),
        _ => return None,
    })
}
