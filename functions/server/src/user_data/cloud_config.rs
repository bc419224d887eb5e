//! The managed cloud-config by which a server trusts an SSH certificate authority (SSH-2).

use super::Managed;
use crate::authority::PublicKey;

/// The managed part's file name.
pub const FILENAME: &str = "unikorn-ssh-certificate-authority";
/// Where the authority's key goes.
const KEYS: &str = "/etc/ssh/trusted-user-ca-keys.pub";
/// The configuration that makes sshd trust it.
const CONFIG: &str = "/etc/ssh/sshd_config.d/90-unikorn-trusted-user-ca.conf";

/// Makes sshd read its configuration again: under either name of the service, by systemd or without; and where a reload
/// is not possible, by a restart. One that works is enough.
const RELOAD: &str = "systemctl reload sshd || systemctl reload ssh || service sshd reload || service ssh reload || \
                      systemctl restart sshd || systemctl restart ssh || service sshd restart || service ssh restart";

/// The managed part for an authority's key.
///
/// cloud-init lets a later part replace a key such as `runcmd` of an earlier one. This part comes last, so it says that
/// its lists are to be appended: the user's own commands and files stay.
pub fn trusting(key: &PublicKey) -> Managed {
    // A public key is one line of printable ASCII, which needs no quoting in a block.
    let cloud_config = format!(
        "#cloud-config\n\
         merge_how: 'list(append)+dict(no_replace,recurse_list)+str()'\n\
         write_files:\n\
         - path: {KEYS}\n  \
           owner: root:root\n  \
           permissions: '0644'\n  \
           content: |\n    \
             {key}\n\
         - path: {CONFIG}\n  \
           owner: root:root\n  \
           permissions: '0644'\n  \
           content: |\n    \
             TrustedUserCAKeys {KEYS}\n\
         runcmd:\n\
         - [sh, -c, '{RELOAD}']\n"
    );
    Managed { filename: FILENAME, cloud_config }
}
