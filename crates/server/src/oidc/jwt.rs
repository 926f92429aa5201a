//! JSON Web Tokens: their parts, signatures and claims (RFC 7515, 7518, 7519, 8037, 8725).
//!
//! - A token is verified only with a key of the algorithm that it names; neither `none` nor an algorithm with a
//!   shared secret is supported.
//! - Keys come from the provider. Keys within a token (`jwk`, `jku`, `x5c`) are ignored.
//! - Bytes are untrusted until the signature is verified: sizes are bounded, and none of their content is returned or
//!   logged.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// Bytes of the longest token.
pub(crate) const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Seconds by which the provider's clock may differ from this one.
const SKEW_SECONDS: i64 = 60;

/// Bytes of a modulus of RSA: 8192 bits.
const MODULUS_BYTES_MAX: usize = 1024;

/// Why a token isn't accepted. Says nothing of what is in it.
pub(crate) type TokenRefusal = &'static str;

/// The algorithms of a token's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    fn of(name: &str) -> Option<Algorithm> {
        Some(match name {
            "RS256" => Algorithm::Rs256,
            "RS384" => Algorithm::Rs384,
            "RS512" => Algorithm::Rs512,
            "PS256" => Algorithm::Ps256,
            "PS384" => Algorithm::Ps384,
            "PS512" => Algorithm::Ps512,
            "ES256" => Algorithm::Es256,
            "ES384" => Algorithm::Es384,
            "EdDSA" | "Ed25519" => Algorithm::EdDsa,
            _ => return None,
        })
    }

    fn is_rsa(self) -> bool {
        !matches!(self, Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa)
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of a curve, as its algorithm takes it.
    Point(Algorithm, Vec<u8>),
}

/// A key of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, if it says one.
    only: Option<Algorithm>,
    material: PublicKey,
}

#[derive(Deserialize)]
struct KeyText {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// A key of a key set; none for one that signs no token here.
    pub(super) fn of(value: &Value) -> Option<Key> {
        let text = KeyText::deserialize(value).ok()?;
        let signs = text.usage.as_deref().is_none_or(|usage| usage == "sig")
            && text.key_ops.as_ref().is_none_or(|acts| acts.iter().any(|act| act == "verify"));
        let only = match &text.alg {
            Some(name) => Some(Algorithm::of(name)?),
            None => None,
        };
        let bytes = |text: &Option<String>, max: usize| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.as_ref().filter(|text| text.len() <= 2 * max)?).ok()?;
            (bytes.len() <= max).then_some(bytes)
        };
        let point = |algorithm: Algorithm, length: usize| {
            let (x, y) = (bytes(&text.x, length)?, bytes(&text.y, length)?);
            (x.len() == length && y.len() == length).then(|| PublicKey::Point(algorithm, [&[4], &x[..], &y].concat()))
        };
        let material = match (text.kty.as_str(), text.crv.as_deref()) {
            ("RSA", _) => {
                let modulus =
                    bytes(&text.n, MODULUS_BYTES_MAX + 1)?.into_iter().skip_while(|byte| *byte == 0).collect();
                PublicKey::Rsa { modulus, exponent: bytes(&text.e, 8)? }
            }
            ("EC", Some("P-256")) => point(Algorithm::Es256, 32)?,
            ("EC", Some("P-384")) => point(Algorithm::Es384, 48)?,
            ("OKP", Some("Ed25519")) => PublicKey::Point(Algorithm::EdDsa, bytes(&text.x, 32)?),
            _ => return None,
        };
        signs.then_some(Key { id: text.kid, only, material })
    }

    /// Whether a token of this header may be signed with it.
    pub(super) fn is_for(&self, header: &Header) -> bool {
        let is_of_kind = match &self.material {
            PublicKey::Rsa { .. } => header.algorithm.is_rsa(),
            PublicKey::Point(algorithm, _) => *algorithm == header.algorithm,
        };
        let is_named = header.key.as_ref().is_none_or(|name| self.id.as_ref() == Some(name));
        is_of_kind && is_named && self.only.is_none_or(|only| only == header.algorithm)
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        let (modulus, exponent) = match &self.material {
            PublicKey::Rsa { modulus, exponent } => (modulus, exponent),
            PublicKey::Point(_, point) => {
                let by: &dyn signature::VerificationAlgorithm = match algorithm {
                    Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDsa => &signature::ED25519,
                    _ => return false,
                };
                return UnparsedPublicKey::new(by, point).verify(message, signed).is_ok();
            }
        };
        let by = match algorithm {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return false,
        };
        RsaPublicKeyComponents { n: modulus, e: exponent }.verify(by, message, signed).is_ok()
    }
}

/// The header of a token, which describes its signature.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    algorithm: Algorithm,
    key: Option<String>,
}

#[derive(Deserialize)]
struct HeaderText {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A token whose signature hasn't been checked.
#[derive(Debug)]
pub(super) struct UnverifiedToken<'a> {
    pub(super) header: Header,
    message: &'a [u8],
    payload: &'a str,
    signature: Vec<u8>,
}

/// Claims of a token whose signature is right.
pub(super) type Claims = Map<String, Value>;

/// Whether a text has the form of a token, three parts whose first is an object of JSON in base64. Tokens of ours have no dots.
pub(crate) fn has_form(text: &str) -> bool {
    text.starts_with("eyJ") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'a> UnverifiedToken<'a> {
    /// The parts of a token.
    pub(super) fn parse(text: &'a str) -> Result<UnverifiedToken<'a>, TokenRefusal> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err("it is too long");
        }
        let malformed = "it is malformed";
        let (message, signature) = text.rsplit_once('.').ok_or(malformed)?;
        let (header, payload) = message.split_once('.').filter(|(_, rest)| !rest.contains('.')).ok_or(malformed)?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed);
        let header: HeaderText = serde_json::from_slice(&decode(header)?).map_err(|_| malformed)?;
        if header.crit.is_some() {
            return Err("it asks for an extension that isn't known");
        }
        let algorithm = Algorithm::of(&header.alg).ok_or("it is signed by an algorithm that isn't accepted")?;
        let header = Header { algorithm, key: header.kid };
        Ok(UnverifiedToken { header, message: message.as_bytes(), payload, signature: decode(signature)? })
    }

    /// Its claims, if one of the keys has signed it.
    pub(super) fn verify<'k>(&self, mut keys: impl Iterator<Item = &'k Key>) -> Result<Claims, TokenRefusal> {
        let verifies = |key: &Key| key.verifies(self.header.algorithm, self.message, &self.signature);
        if !keys.any(verifies) {
            return Err("its signature is wrong");
        }
        let payload = BASE64_URL_SAFE_NO_PAD.decode(self.payload).map_err(|_| "it is malformed")?;
        serde_json::from_slice(&payload).map_err(|_| "it is malformed")
    }
}

/// The values that claims must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedClaims<'a> {
    pub(super) issuer: &'a str,
    /// One of them has to be among the token's.
    pub(super) audiences: &'a [String],
    /// For a token that answers a sign-in: the client, and the nonce with which the sign-in was begun.
    pub(super) sign_in: Option<(&'a str, &'a str)>,
    /// Seconds since the epoch.
    pub(super) now: i64,
}

impl ExpectedClaims<'_> {
    /// Until when the claims count, in seconds since the epoch.
    pub(super) fn check(&self, claims: &Claims) -> Result<i64, TokenRefusal> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer) {
            return Err("it is of another issuer");
        }
        let audiences = texts(claims.get("aud"));
        if !audiences.iter().any(|audience| self.audiences.iter().any(|ours| ours == audience)) {
            return Err("it is for another audience");
        }
        let until = seconds(claims, "exp")?.ok_or("it has no end")?;
        if until.saturating_add(SKEW_SECONDS) <= self.now {
            return Err("it has expired");
        }
        let latest = self.now.saturating_add(SKEW_SECONDS);
        if seconds(claims, "nbf")?.is_some_and(|from| from > latest) {
            return Err("it isn't valid yet");
        }
        if seconds(claims, "iat")?.is_some_and(|at| at > latest) {
            return Err("it was issued in the future");
        }
        if let Some((client, nonce)) = self.sign_in {
            let party = claims.get("azp").map(|party| party.as_str() == Some(client));
            if !party.unwrap_or(audiences.len() == 1) {
                return Err("it was issued to another client");
            }
            if claims.get("nonce").and_then(Value::as_str) != Some(nonce) {
                return Err("it doesn't answer this sign-in");
            }
        }
        Ok(until.saturating_add(SKEW_SECONDS))
    }
}

/// A claim that is a time, in seconds since the epoch. Some providers send fractions.
fn seconds(claims: &Claims, name: &str) -> Result<Option<i64>, TokenRefusal> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked")]
    let whole = value.as_f64().filter(|seconds| (0.0..1e12).contains(seconds)).map(|seconds| seconds as i64);
    whole.map(Some).ok_or("its exp, nbf or iat isn't a time")
}

/// The texts of a claim: one, or a list.
pub(super) fn texts(claim: Option<&Value>) -> Vec<&str> {
    match claim {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
