//! Encryption: as libpq does it, `verify-full` checks whom we talk to and `require` does not.

use std::sync::Arc;

use ff_core::backend::StoreError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Makes encrypted connections; checks certificates against the file `roots`, or against those
/// that the system trusts, if it is to `verify`.
pub fn connector(verify: bool, roots: Option<&str>) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let config = if verify {
        builder.with_root_certificates(trusted(roots)?).with_no_client_auth()
    } else {
        let blind = Arc::new(Unverified(provider));
        builder.dangerous().with_custom_certificate_verifier(blind).with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn trusted(roots: Option<&str>) -> Result<RootCertStore, StoreError> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(path) => {
            let unreadable = |why: &dyn std::fmt::Display| unusable(format!("{path}: {why}"));
            let all = CertificateDer::pem_file_iter(path).map_err(|why| unreadable(&why))?;
            for certificate in all {
                let certificate = certificate.map_err(|why| unreadable(&why))?;
                store.add(certificate).map_err(|why| unreadable(&why))?;
            }
        }
        None => {
            // Some of what a system trusts may be unreadable; the rest still counts.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err(unusable("there are no certificates to trust; name some with sslrootcert"));
    }
    Ok(store)
}

fn unusable(why: impl std::fmt::Display) -> StoreError {
    StoreError::Transport { cause: format!("cannot set up TLS: {why}") }
}

/// Encrypts without asking who is at the other end, as `sslmode=require` means.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
