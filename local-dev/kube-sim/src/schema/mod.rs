//! Structural schemas of custom resources: what apiextensions v1 does with `openAPIV3Schema`.
//!
//! [`Schema::compile`] checks that a schema is structural and compiles its patterns and CEL rules. A compiled schema then does three
//! things to an object, in the order in which the API server does them:
//!
//! 1. [`Schema::prune`] removes the fields that the schema does not declare and says which,
//! 2. [`Schema::default`] fills in defaults and drops nulls which are not allowed to be there,
//! 3. [`Schema::validate_after`] says what is wrong, as causes of a 422.
//!
//! Invariants: pruning and defaulting are idempotent; causes come in a fixed order (own checks of a value, then its children by name),
//! which the real server does not promise; validation of any object takes time bounded by the object's size and the CEL budget.
//!
//! Caveats: metadata is not validated here (names, labels, finalizers are the server's); CEL cost is metered while rules run and only
//! estimated roughly at compile time, so some rules a real server refuses as too expensive are accepted here.

mod cause;
mod cel;
mod compile;
mod defaults;
mod formats;
mod node;
mod rules;
mod structural;
mod validate;

pub use cause::Cause;
pub(crate) use node::{ListType, Node, Type};

use serde_json::Value;
use std::sync::Arc;

/// A compiled structural schema of one version of a kind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Arc<Node>,
    has_rules: bool,
}

impl Schema {
    /// Compiles `openAPIV3Schema` of one version.
    ///
    /// Errors: every way in which it is not structural, whose CEL rules do not compile or whose defaults are invalid; paths begin with
    /// `spec.validation.openAPIV3Schema`, as the real server's do.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Schema, Vec<Cause>> {
        compile::compile(open_api_v3_schema)
    }

    /// A schema that accepts everything: for built-in kinds, whose structure the server checks otherwise.
    pub fn anything() -> Schema {
        Schema { root: Arc::new(Node { identity: true, ..Node::anything() }), has_rules: false }
    }

    /// Fills in defaults, and drops nulls of fields that are not nullable.
    pub fn default(&self, object: &mut Value) {
        defaults::default(&self.root, object);
    }

    /// Removes undeclared fields and says which, as `spec.ports[0].zz`, sorted. `apiVersion`, `kind` and `metadata` are left alone.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        defaults::prune(&self.root, object)
    }

    /// Everything that is wrong with `object`, after other checks (of metadata) have found `causes`; `old` is the stored object of an
    /// update.
    ///
    /// On an update, values which have not changed are not held against the writer (ratcheting), and transition rules see `oldSelf`.
    /// Causes that leave the structure in doubt, earlier ones included, keep the CEL rules from being evaluated.
    pub fn validate_after(&self, object: &Value, old: Option<&Value>, mut causes: Vec<Cause>) -> Vec<Cause> {
        validate::validate(&self.root, object, old, &mut causes);
        if self.has_rules {
            if causes.iter().any(Cause::is_blocking) {
                causes.push(Cause::rules_not_checked());
            } else {
                rules::check(&self.root, object, old, &mut causes);
            }
        }
        causes
    }

    /// Whether this is [`Schema::anything`].
    pub(crate) fn is_anything(&self) -> bool {
        self.root.preserve_unknown && self.root.kind.is_none() && self.root.properties.is_empty()
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}

#[cfg(test)]
mod tests;
