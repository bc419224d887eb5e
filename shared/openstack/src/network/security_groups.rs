use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Client, request};
use crate::{ProjectId, Result, SecurityGroupId, SecurityGroupRuleId, lenient};

/// A security group.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SecurityGroup {
    /// Its id.
    pub id: SecurityGroupId,
    /// Its name, which Neutron does not keep unique.
    #[serde(default, deserialize_with = "lenient::field")]
    pub name: String,
    /// The project it is in.
    #[serde(default, deserialize_with = "lenient::field")]
    pub project_id: Option<ProjectId>,
    /// Its rules.
    #[serde(default, rename = "security_group_rules", deserialize_with = "lenient::list")]
    pub rules: Vec<SecurityGroupRule>,
}

/// A rule of a security group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SecurityGroupRule {
    /// Its id.
    pub id: SecurityGroupRuleId,
    /// `ingress` or `egress`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub direction: String,
    /// `IPv4` or `IPv6`.
    #[serde(default, deserialize_with = "lenient::field")]
    pub ethertype: String,
    /// `tcp`, `udp`, a number …; none: any.
    #[serde(default, deserialize_with = "protocol")]
    pub protocol: Option<String>,
    /// The first port; for ICMP the type.
    #[serde(default, deserialize_with = "lenient::field")]
    pub port_range_min: Option<u16>,
    /// The last port; for ICMP the code.
    #[serde(default, deserialize_with = "lenient::field")]
    pub port_range_max: Option<u16>,
    /// Who may be at the other end; none: anybody.
    #[serde(default, deserialize_with = "lenient::field")]
    pub remote_ip_prefix: Option<String>,
    /// The group whose members may be at the other end.
    #[serde(default, deserialize_with = "lenient::field")]
    pub remote_group_id: Option<SecurityGroupId>,
    /// For people.
    #[serde(default, deserialize_with = "lenient::field")]
    pub description: String,
}

/// Some releases answer a protocol that was given as a number with a number.
fn protocol<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<String>, D::Error> {
    let value: serde_json::Value = Deserialize::deserialize(deserializer)?;
    Ok(match value {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// A security group to be made. Neutron adds two rules: egress to anybody, by IPv4 and by IPv6.
#[derive(Debug, Clone, Serialize)]
pub struct NewSecurityGroup<'a> {
    /// Its name.
    pub name: &'a str,
    /// For people.
    pub description: &'a str,
}

/// A rule to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewSecurityGroupRule<'a> {
    /// The group it is of.
    pub security_group_id: &'a SecurityGroupId,
    /// `ingress` or `egress`.
    pub direction: &'a str,
    /// `IPv4` or `IPv6`.
    pub ethertype: &'a str,
    /// `tcp`, `udp` …; none: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'a str>,
    /// The first port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range_min: Option<u16>,
    /// The last port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range_max: Option<u16>,
    /// Who may be at the other end; none: anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_ip_prefix: Option<&'a str>,
    /// For people.
    pub description: &'a str,
}

impl Client<'_> {
    /// Makes a security group.
    pub async fn create_security_group(&self, group: &NewSecurityGroup<'_>) -> Result<SecurityGroup> {
        let request =
            request(Method::POST, "security-groups", &["security-groups"]).body(json!({ "security_group": group }));
        self.send_one(request, "security_group").await
    }

    /// A security group by id, with its rules.
    pub async fn security_group(&self, id: &SecurityGroupId) -> Result<SecurityGroup> {
        let request = request(Method::GET, "security-groups", &["security-groups", id.as_str()]);
        self.send_one(request, "security_group").await
    }

    /// The project's security groups, with their rules.
    pub async fn security_groups(&self) -> Result<Vec<SecurityGroup>> {
        self.list(request(Method::GET, "security-groups", &["security-groups"]), "security_groups").await
    }

    /// The project's security group of exactly this name, with its rules.
    pub async fn find_security_group_by_name(&self, name: &str) -> Result<Option<SecurityGroup>> {
        self.find("security-groups", "security_groups", name).await
    }

    /// Deletes a security group; [`crate::Class::Conflict`] with kind `SecurityGroupInUse` while a port has it.
    pub async fn delete_security_group(&self, id: &SecurityGroupId) -> Result<()> {
        self.delete("security-groups", id.as_str()).await
    }

    /// Makes a rule; [`crate::Class::Conflict`] with kind `SecurityGroupRuleExists` if there is one like it.
    pub async fn create_security_group_rule(&self, rule: &NewSecurityGroupRule<'_>) -> Result<SecurityGroupRule> {
        let request = request(Method::POST, "security-group-rules", &["security-group-rules"])
            .body(json!({ "security_group_rule": rule }));
        self.send_one(request, "security_group_rule").await
    }

    /// Deletes a rule.
    pub async fn delete_security_group_rule(&self, id: &SecurityGroupRuleId) -> Result<()> {
        self.delete("security-group-rules", id.as_str()).await
    }
}
