//! Loads the private key with which a client authenticates at a token server (RFC 7523).

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SigningKey;
use serde_json::{Value, json};

use crate::bounded;

/// The largest file of a key that is read.
const LARGEST: u64 = 64 << 10;

/// How long an assertion counts, in seconds: it is used at once.
const LASTS: i64 = 300;

/// What a key can sign: the scheme, its name in a token, and the bytes of one of two numbers where it signs with two.
const SCHEMES: [(SignatureScheme, &str, Option<usize>); 4] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, "ES256", Some(32)),
    (SignatureScheme::ECDSA_NISTP384_SHA384, "ES384", Some(48)),
    (SignatureScheme::ED25519, "EdDSA", None),
    (SignatureScheme::RSA_PKCS1_SHA256, "RS256", None),
];

/// A private key. What it is made of is never shown.
pub(super) struct ClientKey {
    key: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    algorithm: &'static str,
    number: Option<usize>,
}

impl ClientKey {
    /// Reads a key from a PEM file: PKCS#8, or the older kinds for RSA and for curves.
    pub(super) fn read(file: &Path) -> Result<ClientKey, String> {
        let said = |why: &str| format!("the private key {}: {why}", file.display());
        let text = bounded::regular(file, LARGEST).map_err(|error| said(&error.to_string()))?;
        ClientKey::parse(&text).map_err(|why| said(&why))
    }

    fn parse(pem: &[u8]) -> Result<ClientKey, String> {
        if pem.windows(9).any(|word| word == b"ENCRYPTED") {
            return Err("it is encrypted, and an unattended run cannot ask for the password".to_owned());
        }
        // Why it cannot be read may show parts of it.
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| "it contains no private key in PEM (`-----BEGIN PRIVATE KEY-----`)".to_owned())?;
        let kinds = "supported are RSA with 2048 bits or more, P-256, P-384 and Ed25519";
        let key = any_supported_type(&der).map_err(|_| format!("its type is not supported; {kinds}"))?;
        let known = SCHEMES.into_iter().find(|(scheme, ..)| key.choose_scheme(&[*scheme]).is_some());
        let (scheme, algorithm, number) = known.ok_or_else(|| format!("its type is not supported; {kinds}"))?;
        Ok(ClientKey { key, scheme, algorithm, number })
    }

    /// Returns the name of what it signs with, as servers for tokens list it.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// Creates the assertion that the client is `client_id`, for `audience` only, at a time in seconds; `id` is used
    /// once.
    pub(super) fn assertion(&self, client_id: &str, audience: &str, now: i64, id: &str) -> Result<String, String> {
        let head = json!({"alg": self.algorithm, "typ": "client-authentication+jwt"});
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": audience,
            "jti": id, "iat": now, "exp": now.saturating_add(LASTS),
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let failed = || "the private key cannot sign".to_owned();
        let signer = self.key.choose_scheme(&[self.scheme]).ok_or_else(failed)?;
        let mut signature = signer.sign(signed.as_bytes()).map_err(|_| failed())?;
        if let Some(number) = self.number {
            signature = two_numbers(&signature, number).ok_or_else(failed)?;
        }
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Writes a signature of two numbers, a DER sequence, as tokens have it: one after the other, each of `size` bytes.
fn two_numbers(der: &[u8], size: usize) -> Option<Vec<u8>> {
    // Both together are short enough for lengths of one byte.
    let [0x30, length, rest @ ..] = der else { return None };
    let mut rest = rest.get(..usize::from(*length))?;
    let mut fixed = Vec::with_capacity(2 * size);
    for _ in 0..2 {
        let [0x02, length, after @ ..] = rest else { return None };
        let (number, next) = after.split_at_checked(usize::from(*length))?;
        let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
        let number = &number[first..];
        fixed.resize(fixed.len() + size.checked_sub(number.len())?, 0);
        fixed.extend_from_slice(number);
        rest = next;
    }
    rest.is_empty().then_some(fixed)
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::default_provider;

    use super::*;

    /// Keys that were made for these tests and open nothing; the PEM headers are added here.
    const P256: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgL2joMOaFBu9G/mGnw3bgulRS8jMY8bJcctn/nosy0j+hRANCAAQLLtTdLayCejgq6pxANjMsX0ONzf6JWwXSM8qVPYH5IpwSCSgwrygYPEjRRfEoCxCMXbxSkNmU5K4S/sLDwlCf";
    const RSA: &str = include_str!("../../../fixtures/mcp/rsa-for-tests.txt");

    fn pem(kind: &str, base64: &str) -> Vec<u8> {
        format!("-----BEGIN {kind}PRIVATE KEY-----\n{}\n-----END {kind}PRIVATE KEY-----\n", base64.trim()).into_bytes()
    }

    fn ed25519() -> Vec<u8> {
        let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        der.extend([7; 32]);
        pem("", &base64::engine::general_purpose::STANDARD.encode(der))
    }

    fn parts(token: &str) -> (String, Vec<Value>, Vec<u8>) {
        let words: Vec<&str> = token.split('.').collect();
        let read = |word: &str| URL_SAFE_NO_PAD.decode(word).unwrap();
        let values = words[..2].iter().map(|word| serde_json::from_slice(&read(word)).unwrap()).collect();
        (format!("{}.{}", words[0], words[1]), values, read(words[2]))
    }

    #[test]
    fn every_kind_of_key_signs_what_its_public_half_accepts() {
        for (text, algorithm, length) in
            [(pem("", P256), "ES256", 64), (ed25519(), "EdDSA", 64), (pem("", RSA), "RS256", 256)]
        {
            let key = ClientKey::parse(&text).unwrap();
            assert_eq!(key.algorithm(), algorithm);
            let (signed, values, signature) = parts(&key.assertion("me", "https://t.example", 100, "x").unwrap());
            assert_eq!(values[0], json!({"alg": algorithm, "typ": "client-authentication+jwt"}));
            assert_eq!(
                values[1],
                json!({"iss": "me", "sub": "me", "aud": "https://t.example", "jti": "x", "iat": 100, "exp": 400})
            );
            assert_eq!(signature.len(), length);
            let der = if algorithm == "ES256" { as_der(&signature) } else { signature };
            let provider = default_provider();
            let mapping = provider.signature_verification_algorithms.mapping;
            let (_, known) = mapping.iter().find(|(scheme, _)| *scheme == key.scheme).unwrap();
            let public = key.key.public_key().unwrap();
            // The key itself is the end of the structure around it, but for RSA's, which has a length of its own.
            let bytes = public.as_ref();
            let own = match algorithm {
                "ES256" => &bytes[bytes.len() - 65..],
                "EdDSA" => &bytes[bytes.len() - 32..],
                _ => &bytes[24..],
            };
            assert!(known.iter().any(|by| by.verify_signature(own, signed.as_bytes(), &der).is_ok()), "{algorithm}");
            let other = format!("{signed}x");
            assert!(known.iter().all(|by| by.verify_signature(own, other.as_bytes(), &der).is_err()));
        }
    }

    fn as_der(fixed: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for number in fixed.chunks(fixed.len() / 2) {
            let first = number.iter().position(|byte| *byte != 0).unwrap();
            let mut number = number[first..].to_vec();
            if number[0] >= 0x80 {
                number.insert(0, 0);
            }
            body.extend([2, u8::try_from(number.len()).unwrap()]);
            body.extend(number);
        }
        [vec![0x30, u8::try_from(body.len()).unwrap()], body].concat()
    }

    #[test]
    fn a_short_number_is_filled_up_and_a_broken_sequence_is_none() {
        assert_eq!(two_numbers(&[0x30, 7, 2, 1, 5, 2, 2, 0, 0x81], 2).unwrap(), [0, 5, 0, 0x81]);
        for broken in [&[][..], &[0x30, 9, 2, 1, 5], &[0x30, 3, 2, 9, 5], &[0x30, 7, 2, 1, 5, 2, 1, 6, 1]] {
            assert_eq!(two_numbers(broken, 2), None);
        }
        assert_eq!(two_numbers(&[0x30, 8, 2, 3, 1, 2, 3, 2, 1, 1], 2), None);
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_of_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let said = |text: &[u8]| {
            crate::base::private_file::replace(&file, text, None).unwrap();
            ClientKey::read(&file).err().unwrap()
        };
        assert!(said(b"c2VjcmV0").ends_with("it contains no private key in PEM (`-----BEGIN PRIVATE KEY-----`)"));
        assert!(said(&pem("ENCRYPTED ", "AAAA")).contains("it is encrypted"));
        let broken = said(&pem("", "c2VjcmV0"));
        assert!(broken.contains("its type is not supported") && !broken.contains("c2Vj"), "{broken}");
        assert!(said(&vec![b'x'; 70_000]).contains("larger than 64 KiB"));
        assert!(ClientKey::read(folder.path()).err().unwrap().contains("a directory, not a file"));
        assert!(ClientKey::read(Path::new("/no/such")).err().unwrap().contains("the private key /no/such"));
    }
}
