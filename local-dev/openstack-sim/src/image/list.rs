//! `GET /v2/images`: filters and pages.

use serde_json::{Value, json};

use super::{Error, Image, Result, view};
use crate::{
    identity::Caller,
    wire::{Reply, Request, form},
    world::World,
};

const KEYS: [&str; 9] =
    ["name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at", "min_disk"];

/// Glance's page when nobody asks for another.
const PAGE: usize = 25;

pub(super) fn list(world: &World, caller: &Caller, request: &Request) -> Result {
    let visibility = request.param("visibility");
    if let Some(other) = visibility.filter(|v| !matches!(*v, "public" | "private" | "shared" | "community" | "all")) {
        return Err(Error::bad(format!("Invalid visibility value: {other}")));
    }
    let hidden = request.param("os_hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if let Some(other) =
        request.param("member_status").filter(|v| !matches!(*v, "accepted" | "pending" | "rejected" | "all"))
    {
        return Err(Error::bad(format!("Invalid status: {other}")));
    }
    let member_status = request.param("member_status").unwrap_or("accepted");
    let listed = |image: &&Image| match visibility {
        None => image.is_listed_for(caller),
        Some("all") => image.is_visible_to(caller),
        Some("shared") => {
            let status = caller.project().and_then(|project| image.members.get(project));
            image.visibility == "shared"
                && (caller.is_admin()
                    || caller.project() == Some(&image.owner)
                    || status.is_some_and(|status| member_status == "all" || status == member_status))
        }
        Some(wanted) => image.visibility == wanted && image.is_visible_to(caller),
    };
    let matches = |image: &Image, row: &Value| {
        request.query.iter().all(|(key, wanted)| match key.as_str() {
            "limit" | "marker" | "sort" | "sort_key" | "sort_dir" | "visibility" | "os_hidden" | "member_status" => {
                true
            }
            "tag" => image.tags.contains(wanted),
            "size_min" => wanted.parse::<u64>().is_ok_and(|least| image.size.is_some_and(|size| size >= least)),
            "size_max" => wanted.parse::<u64>().is_ok_and(|most| image.size.is_some_and(|size| size <= most)),
            // Anything else is taken as a property, so that an unknown parameter gives an empty list.
            key => value_matches(world, key, &row[key], wanted),
        })
    };
    let mut rows: Vec<Value> = world
        .data
        .image
        .images
        .iter()
        .rev()
        .filter(|image| image.hidden == hidden && listed(image))
        .map(|image| (image, view(image)))
        .filter(|(image, row)| matches(image, row))
        .map(|(_, row)| row)
        .collect();
    sort(request, &mut rows)?;
    page(world, request, rows)
}

fn value_matches(world: &World, key: &str, have: &Value, wanted: &str) -> bool {
    let text = match have {
        Value::String(text) => text.to_lowercase(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        _ => return false,
    };
    if world.config.fuzzy_filters && key == "name" {
        return text.starts_with(&wanted.to_lowercase());
    }
    match wanted.strip_prefix("in:") {
        Some(list) => list.split(',').any(|one| text == one.trim_matches('"').to_lowercase()),
        None => text == wanted.to_lowercase(),
    }
}

fn sort(request: &Request, rows: &mut [Value]) -> Result<()> {
    let asked = request.param("sort").and_then(|sort| sort.split(',').next());
    let (key, direction) = match asked {
        Some(sort) => sort.split_once(':').unwrap_or((sort, "desc")),
        None => (request.param("sort_key").unwrap_or("created_at"), request.param("sort_dir").unwrap_or("desc")),
    };
    if !KEYS.contains(&key) {
        return Err(Error::bad(format!(
            "Invalid sort key: {key}. It must be one of the following: {}.",
            KEYS.join(", ")
        )));
    }
    if key == "created_at" {
        // They come newest first already, and many are made in one second.
        if direction == "asc" {
            rows.reverse();
        }
        return Ok(());
    }
    rows.sort_by(|a, b| match (&a[key], &b[key]) {
        (Value::Number(a), Value::Number(b)) => a.as_u64().cmp(&b.as_u64()),
        (a, b) => a.as_str().cmp(&b.as_str()),
    });
    if direction == "desc" {
        rows.reverse();
    }
    Ok(())
}

fn page(world: &World, request: &Request, mut rows: Vec<Value>) -> Result {
    let limit = match request.param("limit") {
        None => PAGE.min(world.config.page),
        Some(text) => {
            text.parse::<usize>().map_err(|_| Error::bad("limit param must be an integer"))?.min(world.config.page)
        }
    };
    if let Some(marker) = request.param("marker") {
        let at = rows
            .iter()
            .position(|row| row["id"] == marker)
            .ok_or_else(|| Error::bad(format!("No image found with ID {marker}")))?;
        rows.drain(..=at);
    }
    let more = rows.len() > limit;
    rows.truncate(limit);
    let kept =
        || request.query.iter().filter(|(key, _)| key != "marker").map(|(key, value)| (key.as_str(), value.as_str()));
    let query = form(kept());
    let mut body = json!({
        "images": rows,
        "first": if query.is_empty() { "/v2/images".to_owned() } else { format!("/v2/images?{query}") },
        "schema": "/v2/schemas/images",
    });
    if let Some(last) = rows.last().and_then(|row| row["id"].as_str()).filter(|_| more) {
        body["next"] = json!(format!("/v2/images?{}", form(kept().chain([("marker", last)]))));
    }
    Ok(Reply::json(200, body))
}
