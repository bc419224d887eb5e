//! The `paths` of version 3 documents: enough for clients to find the kind of a resource, the forms of patch it takes and the query
//! parameters it knows.

use serde_json::{Map, Value, json};

use super::builtins::{META, V3_PREFIX};

/// What the paths of a resource depend on.
#[derive(Clone, Copy)]
pub(super) struct Endpoint<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    pub has_status: bool,
    /// Built-in kinds take strategic merge patches, too.
    pub builtin: bool,
    /// OpenAPI names of the kind and of its list.
    pub schema: &'a str,
    pub list_schema: &'a str,
}

/// `apis/group/version`, `api/v1`: the document a group version has.
pub(super) fn document(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

pub(super) fn add(paths: &mut Map<String, Value>, endpoint: &Endpoint<'_>) {
    let base = format!("/{}", document(endpoint.group, endpoint.version));
    let collection = if endpoint.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", endpoint.plural)
    } else {
        format!("{base}/{}", endpoint.plural)
    };
    let scope = if endpoint.namespaced { "Namespaced" } else { "" };
    let op = |verb: &str, action: &str, suffix: &str| endpoint.operation(verb, action, scope, suffix);
    paths.insert(
        collection.clone(),
        json!({
            "get": op("list", "list", ""),
            "post": op("create", "post", ""),
            "delete": op("deleteCollection", "deletecollection", ""),
            "parameters": endpoint.place(false),
        }),
    );
    paths.insert(
        format!("{collection}/{{name}}"),
        json!({
            "get": op("read", "get", ""),
            "put": op("replace", "put", ""),
            "delete": op("delete", "delete", ""),
            "patch": op("patch", "patch", ""),
            "parameters": endpoint.place(true),
        }),
    );
    if endpoint.has_status {
        paths.insert(
            format!("{collection}/{{name}}/status"),
            json!({
                "get": op("read", "get", "Status"),
                "put": op("replace", "put", "Status"),
                "patch": op("patch", "patch", "Status"),
                "parameters": endpoint.place(true),
            }),
        );
    }
    if endpoint.namespaced {
        let list = endpoint.operation("list", "list", "", "ForAllNamespaces");
        paths.insert(format!("{base}/{}", endpoint.plural), json!({"get": list, "parameters": []}));
    }
}

fn parameter(place: &str, name: &str, kind: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": {"type": kind, "uniqueItems": true}})
}

impl Endpoint<'_> {
    fn place(&self, named: bool) -> Vec<Value> {
        let name = named.then(|| parameter("path", "name", "string"));
        let namespace = self.namespaced.then(|| parameter("path", "namespace", "string"));
        name.into_iter().chain(namespace).collect()
    }

    fn operation(&self, verb: &str, action: &str, scope: &str, suffix: &str) -> Value {
        let text = |names: &[&str]| names.iter().map(|name| parameter("query", name, "string")).collect::<Vec<_>>();
        let parameters = match action {
            "list" | "deletecollection" => {
                let mut all =
                    text(&["continue", "fieldSelector", "labelSelector", "resourceVersion", "resourceVersionMatch"]);
                all.extend(["limit", "timeoutSeconds"].map(|name| parameter("query", name, "integer")));
                all.extend(
                    ["allowWatchBookmarks", "sendInitialEvents", "watch"]
                        .map(|name| parameter("query", name, "boolean")),
                );
                all
            }
            "post" | "put" => text(&["dryRun", "fieldManager", "fieldValidation"]),
            "patch" => {
                let mut all = text(&["dryRun", "fieldManager", "fieldValidation"]);
                all.push(parameter("query", "force", "boolean"));
                all
            }
            "delete" => text(&["dryRun", "propagationPolicy"]),
            _ => Vec::new(),
        };
        let reference = |name: &str| json!({"schema": {"$ref": format!("{V3_PREFIX}{name}")}});
        let body = match action {
            "post" | "put" => {
                Some(json!({"application/json": reference(self.schema), "application/yaml": reference(self.schema)}))
            }
            "patch" => {
                let patch = reference(&format!("{META}.Patch"));
                let mut forms = json!({"application/apply-patch+yaml": patch, "application/json-patch+json": patch,
                    "application/merge-patch+json": patch});
                if self.builtin {
                    forms["application/strategic-merge-patch+json"] = patch;
                }
                Some(forms)
            }
            "delete" | "deletecollection" => {
                Some(json!({"application/json": reference(&format!("{META}.DeleteOptions"))}))
            }
            _ => None,
        };
        let status = format!("{META}.Status");
        let answer = match action {
            "list" => self.list_schema,
            "delete" | "deletecollection" => &status,
            _ => self.schema,
        };
        let mut operation = json!({
            "description": format!("{verb} {}", self.kind),
            "operationId": format!("{verb}{}{}{scope}{}{suffix}", camel(self.group), capital(self.version), self.kind),
            "parameters": parameters,
            "responses": {
                "200": {"description": "OK", "content": {"application/json": reference(answer), "application/yaml": reference(answer)}},
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": self.group, "version": self.version, "kind": self.kind},
        });
        if let Some(content) = body {
            operation["requestBody"] = json!({"content": content, "required": !action.starts_with("delete")});
        }
        operation
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

fn camel(group: &str) -> String {
    if group.is_empty() { "Core".to_owned() } else { group.split(['.', '-']).map(capital).collect() }
}
