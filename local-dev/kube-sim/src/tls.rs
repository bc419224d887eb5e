//! A certificate authority of one's own, made on the spot.
//!
//! The authority's key is thrown away once it has signed the server's certificate: nothing else can ever be signed in its name. With a
//! data folder, certificate and key are kept, so that kubeconfigs stay valid over a restart.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("making a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
    #[error("reading a certificate: {0}")]
    Read(#[from] rustls::pki_types::pem::Error),
    #[error("keeping the certificate: {0}")]
    Io(#[from] std::io::Error),
}

/// A server's certificate, its key, and the authority that vouches for it; all in PEM.
#[derive(Clone)]
pub struct Identity {
    pub authority: String,
    certificate: String,
    key: String,
}

const FILES: [&str; 4] = ["ca.crt", "tls.crt", "tls.key", "tls.hosts"];

impl Identity {
    /// Makes one for these host names and addresses.
    pub fn generate(hosts: &[String]) -> Result<Identity, Error> {
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.distinguished_name = named("kube-sim");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut server = CertificateParams::new(hosts.to_vec())?;
        server.distinguished_name = named("kube-apiserver");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;
        Ok(Identity {
            authority: authority_certificate.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// The one kept in `dir`, if it is for the same hosts; else a new one, which is then kept.
    pub fn keep(dir: &Path, hosts: &[String]) -> Result<Identity, Error> {
        let wanted = hosts.join("\n");
        let read = |name: &str| std::fs::read_to_string(dir.join(name));
        if let (Ok(authority), Ok(certificate), Ok(key), Ok(found)) =
            (read(FILES[0]), read(FILES[1]), read(FILES[2]), read(FILES[3]))
            && found == wanted
        {
            return Ok(Identity { authority, certificate, key });
        }
        let made = Identity::generate(hosts)?;
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join(FILES[0]), &made.authority)?;
        std::fs::write(dir.join(FILES[1]), &made.certificate)?;
        crate::files::write_secret(&dir.join(FILES[2]), made.key.as_bytes())?;
        std::fs::write(dir.join(FILES[3]), wanted)?;
        Ok(made)
    }

    /// The rustls side, offering HTTP/2 and HTTP/1.1.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, Error> {
        let chain = vec![CertificateDer::from_pem_slice(self.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut out = DistinguishedName::new();
    out.push(DnType::CommonName, name);
    out
}
