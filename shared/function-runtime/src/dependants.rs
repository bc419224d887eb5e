//! Who still needs an object that is to go (IDN-7, NET-12).
//!
//! An object goes after all that name it, however far they have come: one that has been applied and not looked at yet counts
//! like one that is settled, and no status is asked. They are listed afresh, after the deletion was asked for, so that
//! whoever has found the object fit for use is among them (`weir_provider`, room `dependency`).

use crate::function::Scope;
use crate::kubernetes;
use kube::ResourceExt;
use kube::api::ListParams;
use weir_api::conditions::Reason;
use weir_api::{Kind, Problem, labels};

/// How many dependants of a kind are counted.
const COUNTED: u32 = 100;
/// How many are read at once where all are looked through.
const PAGE: u32 = 500;

/// Waits while objects of `kinds` name the object `name` by `label`, one of [`labels::ANCHORS`], and says how many. The event
/// of each that goes wakes whoever waits (W-5).
///
/// # Errors
/// There are some, or they could not be listed.
pub async fn none_left(scope: &Scope, label: &str, name: &str, kinds: &[Kind]) -> Result<(), Problem> {
    let mut told = Vec::new();
    for kind in kinds {
        told.extend(counted(*kind, count(scope, label, name, *kind).await?));
    }
    if !told.is_empty() {
        let message = format!("still in use; waiting for these to be deleted: {}", told.join(", "));
        return Err(Problem::waiting(Reason::Deprovisioning, message));
    }
    for kind in kinds {
        if let Some(stray) = stray(scope, label, name, *kind).await? {
            let message = format!(
                "still in use by {} {stray}, whose label {label} was changed; delete it, or set its label back",
                kind.kubernetes()
            );
            return Err(Problem::waiting(Reason::Deprovisioning, message));
        }
    }
    Ok(())
}

async fn count(scope: &Scope, label: &str, name: &str, kind: Kind) -> Result<usize, Problem> {
    let params = ListParams::default().labels(&format!("{label}={name}")).limit(COUNTED);
    let list = scope.api_of(kind).list_metadata(&params).await;
    list.map(|list| list.items.len()).map_err(|error| unlisted(&error, kind))
}

/// An object whose label somebody has changed, and whose things are still where they were made. All are looked through, which
/// is why this is the last look and not the first.
async fn stray(scope: &Scope, label: &str, name: &str, kind: Kind) -> Result<Option<String>, Problem> {
    let api = scope.api_of(kind);
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list_metadata(&params).await.map_err(|error| unlisted(&error, kind))?;
        if let Some(item) = page.items.iter().find(|item| labels::anchor(*item, label) == Some(name)) {
            return Ok(Some(item.name_any()));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(None),
        }
    }
}

fn unlisted(error: &kube::Error, kind: Kind) -> Problem {
    kubernetes::problem(error, &format!("looking for {} that depend on the object", kind.plural()))
}

fn counted(kind: Kind, count: usize) -> Option<String> {
    let one = kind.token().replace('-', " ");
    let more = one.strip_suffix('y').map_or_else(|| format!("{one}s"), |stem| format!("{stem}ies"));
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        n if n >= COUNTED as usize => Some(format!("{COUNTED} or more {more}")),
        n => Some(format!("{n} {more}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependants_are_counted_in_words() {
        assert_eq!(counted(Kind::Server, 0), None);
        assert_eq!(counted(Kind::SecurityGroup, 1).as_deref(), Some("1 security group"));
        assert_eq!(counted(Kind::Identity, 2).as_deref(), Some("2 identities"));
        assert_eq!(counted(Kind::LoadBalancer, 100).as_deref(), Some("100 or more load balancers"));
    }
}
