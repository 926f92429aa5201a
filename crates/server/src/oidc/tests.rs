//! Tests of the tokens that are accepted. python/tests/test_oidc.py plays a whole provider.

#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::jwt::{Claims, ExpectedClaims, Key, UnverifiedToken, has_form};
use super::{IdentityProvider, find};
use crate::settings::Settings;

const ISSUER: &str = "https://login.example.com";
const NOW: i64 = 1_800_000_000;

enum Pair {
    Point(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

/// A key of a provider, both halves of it.
pub(super) struct Signer {
    name: &'static str,
    algorithm: &'static str,
    pair: Pair,
    pub(super) public: Value,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn sign(&self, message: &str) -> String {
        match &self.pair {
            Pair::Point(pair) => encode(pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap()),
            Pair::Edwards(pair) => encode(pair.sign(message.as_bytes())),
        }
    }

    fn with_header(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        format!("{message}.{}", self.sign(&message))
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        self.with_header(&json!({ "alg": self.algorithm, "kid": self.name, "typ": "JWT" }), claims)
    }
}

pub(super) fn signers() -> [Signer; 2] {
    let random = SystemRandom::new();
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let bytes = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
    let point = EcdsaKeyPair::from_pkcs8(kind, bytes.as_ref(), &random).unwrap();
    let public = point.public_key().as_ref().to_vec();
    let (x, y) = (encode(&public[1..33]), encode(&public[33..]));
    let of_point = json!({ "kty": "EC", "crv": "P-256", "kid": "point", "x": x, "y": y, "use": "sig" });
    let bytes = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let edwards = Ed25519KeyPair::from_pkcs8(bytes.as_ref()).unwrap();
    let x = encode(edwards.public_key());
    let of_edwards = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "edwards", "x": x, "alg": "EdDSA" });
    [
        Signer { name: "point", algorithm: "ES256", pair: Pair::Point(point), public: of_point },
        Signer { name: "edwards", algorithm: "EdDSA", pair: Pair::Edwards(edwards), public: of_edwards },
    ]
}

pub(super) fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "1", "aud": "splay", "exp": NOW + 300, "iat": NOW, "nonce": "n", "email": "ann@example.com",
        "email_verified": true, "groups": ["traders", "x"], "realm_access": { "roles": ["traders"] },
    })
}

fn with(name: &str, value: Value) -> Claims {
    let mut claims = claims();
    claims[name] = value;
    claims.as_object().unwrap().clone()
}

fn verified(token: &str, keys: &[Key]) -> Result<Claims, &'static str> {
    let unverified = UnverifiedToken::parse(token)?;
    unverified.verify(keys.iter().filter(|key| key.is_for(&unverified.header)))
}

#[test]
fn a_token_is_of_the_key_that_it_names() {
    let signers = signers();
    let keys: Vec<Key> = signers.iter().map(|signer| Key::of(&signer.public).unwrap()).collect();
    for signer in &signers {
        let token = signer.token(&claims());
        assert!(has_form(&token) && verified(&token, &keys).is_ok(), "{}", signer.name);
        let mut header = json!({ "alg": signer.algorithm });
        assert!(verified(&signer.with_header(&header, &claims()), &keys).is_ok());
        header["kid"] = json!("another");
        assert!(verified(&signer.with_header(&header, &claims()), &keys).is_err());
        // Each other byte of it.
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert!(verified(std::str::from_utf8(&bytes).unwrap(), &keys).is_err(), "{at}");
        }
    }
    // The key of one beside the algorithm of the other.
    let crossed = signers[0].with_header(&json!({ "alg": "EdDSA", "kid": "point" }), &claims());
    assert!(verified(&crossed, &keys).is_err());
}

#[test]
fn algorithms_without_a_key_pair_and_what_is_not_known_are_refused() {
    let signer = &signers()[0];
    let keys = [Key::of(&signer.public).unwrap()];
    for algorithm in ["none", "None", "HS256", "HS512", "RS1", "ES256K", "", "es256"] {
        let token = signer.with_header(&json!({ "alg": algorithm, "kid": "point" }), &claims());
        assert!(verified(&token, &keys).is_err(), "{algorithm}");
        let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
        assert!(verified(&unsigned, &keys).is_err(), "{algorithm}");
    }
    let mut own = signers()[0].public.clone();
    own["kid"] = json!("point");
    for header in [
        json!({ "alg": "ES256", "kid": "point", "crit": ["b64"], "b64": false }),
        json!({ "alg": "ES256", "kid": 1 }),
        json!({ "kid": "point" }),
        json!(["ES256"]),
    ] {
        assert!(verified(&signer.with_header(&header, &claims()), &keys).is_err(), "{header}");
    }
    // A key that the token brings itself isn't looked at.
    let other = &signers()[0];
    let header = json!({ "alg": "ES256", "kid": "point", "jwk": other.public, "jku": "https://evil.example.com" });
    assert!(verified(&other.with_header(&header, &claims()), &keys).is_err());
    for text in ["", ".", "..", "...", "eyJ.eyJ.eyJ", "a.b", &format!("{}.e30.x", encode("{")), &"x".repeat(20_000)] {
        assert!(verified(text, &keys).is_err());
    }
}

#[test]
fn keys_that_sign_no_token_are_left_out() {
    let public = |changes: &[(&str, Value)]| {
        let mut public = signers()[0].public.clone();
        changes.iter().for_each(|(name, value)| public[*name] = value.clone());
        Key::of(&public)
    };
    assert!(public(&[]).is_some() && public(&[("alg", json!("ES256")), ("key_ops", json!(["verify"]))]).is_some());
    for (name, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
        ("alg", json!("HS256")),
        ("kty", json!("oct")),
        ("crv", json!("P-521")),
        ("x", json!("AA")),
        ("y", json!(1)),
        ("y", Value::Null),
    ] {
        assert!(public(&[(name, value.clone())]).is_none(), "{name} {value}");
    }
    assert!(Key::of(&json!({ "kty": "RSA", "n": "A".repeat(5000), "e": "AQAB" })).is_none());
}

#[test]
fn claims_are_of_the_issuer_the_audience_and_the_time() {
    let ours = ["splay".to_owned(), "ticks".to_owned()];
    let expected = ExpectedClaims { issuer: ISSUER, audiences: &ours, sign_in: None, now: NOW };
    let check = |name: &str, value: Value| expected.check(&with(name, value));
    assert_eq!(check("sub", json!("1")), Ok(NOW + 360));
    for (name, value) in [
        ("aud", json!(["x", "ticks"])),
        ("exp", json!(NOW - 59)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("nbf", json!(NOW + 60)),
        ("iat", json!(NOW + 60)),
        ("nonce", json!("another")),
    ] {
        assert!(check(name, value.clone()).is_ok(), "{name} {value}");
    }
    for (name, value) in [
        ("iss", json!("https://login.example.com/")),
        ("iss", Value::Null),
        ("aud", json!("splay2")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("exp", json!(NOW - 60)),
        ("exp", Value::Null),
        ("exp", json!("1900000000")),
        ("exp", json!(-1)),
        ("exp", json!(1e300)),
        ("nbf", json!(NOW + 61)),
        ("iat", json!(NOW + 61)),
    ] {
        assert!(check(name, value.clone()).is_err(), "{name} {value}");
    }
}

#[test]
fn an_id_token_answers_its_sign_in_and_is_for_this_client() {
    let ours = ["splay".to_owned()];
    let expected = ExpectedClaims { issuer: ISSUER, audiences: &ours, sign_in: Some(("splay", "n")), now: NOW };
    let check = |name: &str, value: Value| expected.check(&with(name, value));
    assert!(check("azp", json!("splay")).is_ok());
    for (name, value) in [
        ("nonce", json!("m")),
        ("nonce", Value::Null),
        ("azp", json!("another")),
        ("aud", json!(["splay", "another"])),
        ("aud", json!("another")),
    ] {
        assert!(check(name, value.clone()).is_err(), "{name} {value}");
    }
    let mut several = with("aud", json!(["splay", "another"]));
    several.insert("azp".to_owned(), json!("splay"));
    assert!(expected.check(&several).is_ok());
}

#[test]
fn a_person_is_named_by_one_claim_and_has_the_roles_of_his_groups() {
    let vouching = |claims: &str, extra: &str| {
        let text = format!("[auth.oidc]\nissuer = \"http://127.0.0.1:1\"\nclient_id = \"splay\"\n{claims}{extra}");
        IdentityProvider::new(&Settings::parse(&text).unwrap().auth.oidc.unwrap(), 7750, false).unwrap()
    };
    let groups = "roles_claim = \"groups\"\nroles = { traders = \"desk\", all = \"public\" }\n";
    let by_email = vouching("user_claim = \"email\"\n", groups);
    let person = by_email.person(&with("x", Value::Null)).unwrap();
    assert_eq!((&*person.name, &*person.roles), ("ann@example.com", &["desk".to_owned()][..]));
    assert!(vouching("", "").person(&with("x", Value::Null)).unwrap().roles.is_empty());
    for (name, value) in [
        ("email", json!("")),
        ("email", json!(["ann"])),
        ("email", json!("a\nb")),
        ("email", json!("x".repeat(300))),
        ("email_verified", json!(false)),
        ("email_verified", json!("true")),
        ("email_verified", Value::Null),
    ] {
        assert!(by_email.person(&with(name, value.clone())).is_err(), "{name} {value}");
    }
    let claims = claims().as_object().unwrap().clone();
    assert_eq!(find(&claims, "realm_access.roles"), Some(&json!(["traders"])));
    assert!(find(&claims, "realm_access.x").is_none() && find(&claims, "email.x").is_none());
}
