//! Decides which certificates are trusted: the system's authorities, and the files that the user names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

use crate::bounded;

/// Installs `ring` as the process's cryptography, once; an installed one stays.
pub fn install_crypto() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // The error says that a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Reads the certificates of a file in PEM form; a file without any gives none.
///
/// Errors with the reason alone.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = bounded::named(file, bounded::CONFIG).map_err(|error| error.to_string())?;
    CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Returns a configuration that trusts the system's authorities and these certificates, as authorities or as a
/// server's own.
///
/// Fails if the system has no certificates and no file was given, or if a certificate cannot be parsed.
pub fn trust(named: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    install_crypto();
    let provider = CryptoProvider::get_default().expect("installed above");
    let system = match named.is_empty() {
        true => Verifier::new(Arc::clone(provider))?,
        false => Verifier::new_with_extra_roots(named.iter().cloned(), Arc::clone(provider))?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions()?;
    let verifier = Arc::new(SystemOrNamed { system, named });
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[derive(Debug)]
struct SystemOrNamed {
    system: Verifier,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for SystemOrNamed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.system.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // `openssl req -x509` marks what it makes as an authority's, which a server may not show. Its dates have
            // been checked by then, its name has not.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if other.to_string().contains("CaUsedAsEndEntity") && self.named.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.system.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.system.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.system.supported_verify_schemes()
    }
}
