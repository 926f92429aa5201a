//! The messages of SCRAM-SHA-256 (RFC 5802), as PostgreSQL's protocol carries them. Channel binding isn't offered.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use splay_store::ScramVerifier;

use super::refusal::Refusal;

/// Random bytes of the server's part of the nonce.
const NONCE_BYTES: usize = 18;

/// Bytes of a message of the client: longer ones belong to no client.
pub(super) const MESSAGE_BYTES_MAX: usize = 4_096;

/// An exchange whose last message of the client is awaited.
pub(super) struct ScramExchange {
    verifier: ScramVerifier,
    /// The client's header, its first message without it, and the server's answer.
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
}

fn malformed() -> Refusal {
    Refusal::fatal("08P01", "malformed SCRAM message")
}

/// An attribute of a message: `r=…`.
fn attribute<'a>(part: Option<&'a str>, name: &str) -> Result<&'a str, Refusal> {
    part.and_then(|part| part.strip_prefix(name)?.strip_prefix('=')).ok_or_else(malformed)
}

impl ScramExchange {
    /// Begins with the client's first message, and gives the server's answer.
    ///
    /// # Errors
    /// For what isn't a first message, for channel binding, which no server without it is asked for, and without random bytes.
    pub(super) fn begin(verifier: ScramVerifier, message: &str) -> Result<(ScramExchange, String), Refusal> {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).map_err(|_| Refusal::fatal("XX000", "the system gives no random bytes"))?;
        ScramExchange::begin_with(verifier, message, &BASE64_STANDARD.encode(random))
    }

    fn begin_with(verifier: ScramVerifier, message: &str, own: &str) -> Result<(ScramExchange, String), Refusal> {
        let mut parts = message.splitn(3, ',');
        let (binding, _authorization, bare) = (parts.next(), parts.next(), parts.next().ok_or_else(malformed)?);
        match binding {
            Some("n" | "y") => {}
            Some(binding) if binding.starts_with("p=") => {
                return Err(Refusal::fatal("0A000", "channel binding is not supported"));
            }
            _ => return Err(malformed()),
        }
        let header = message[..message.len() - bare.len()].to_owned();
        // The user's name is that of the first packet, as in PostgreSQL.
        let mut attributes = bare.split(',');
        attribute(attributes.next(), "n")?;
        let theirs = attribute(attributes.next(), "r")?;
        if theirs.is_empty() {
            return Err(malformed());
        }
        let nonce = format!("{theirs}{own}");
        let (salt, iterations) = (BASE64_STANDARD.encode(verifier.salt()), verifier.iterations());
        let server_first = format!("r={nonce},s={salt},i={iterations}");
        let client_first = bare.to_owned();
        Ok((ScramExchange { verifier, header, client_first, server_first: server_first.clone(), nonce }, server_first))
    }

    /// Ends with the client's last message: the server's last one, or `None` if the password was wrong.
    ///
    /// # Errors
    /// For what isn't a last message of this exchange.
    pub(super) fn end(self, message: &str) -> Result<Option<String>, Refusal> {
        let (unproved, proof) = message.rsplit_once(",p=").ok_or_else(malformed)?;
        let mut attributes = unproved.split(',');
        let header = attribute(attributes.next(), "c")?;
        let nonce = attribute(attributes.next(), "r")?;
        if header != BASE64_STANDARD.encode(&self.header) || nonce != self.nonce {
            return Err(malformed());
        }
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| malformed())?;
        let messages = format!("{},{},{unproved}", self.client_first, self.server_first);
        let is_proved = self.verifier.proves(&messages, &proof);
        Ok(is_proved.then(|| format!("v={}", BASE64_STANDARD.encode(self.verifier.signature(&messages)))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Server's part of the nonce, and messages of RFC 7677, section 3.
    const OWN: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const LAST: &str =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn verifier() -> ScramVerifier {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        ScramVerifier::of("pencil", &salt, 4096.try_into().unwrap())
    }

    #[test]
    fn the_exchange_of_the_rfc_ends_with_the_servers_signature() {
        let (exchange, answer) = ScramExchange::begin_with(verifier(), FIRST, OWN).unwrap();
        assert_eq!(answer, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let last = exchange.end(LAST).unwrap();
        assert_eq!(last.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    #[test]
    fn other_messages_are_refused() {
        for first in ["", "n", "n,,", "n,,n=user", "n,,r=abc", "n,,n=user,r=", "x,,n=u,r=a", "n,,m=ext,n=u,r=a"] {
            assert!(ScramExchange::begin_with(verifier(), first, OWN).is_err(), "{first}");
        }
        let bound =
            ScramExchange::begin_with(verifier(), "p=tls-server-end-point,,n=u,r=a", OWN).map(|_| ()).unwrap_err();
        assert!(bound.message.contains("channel binding"));
        let end = |last: &str| ScramExchange::begin_with(verifier(), FIRST, OWN).unwrap().0.end(last);
        for last in ["", "c=biws", "c=biws,r=x,p=AAAA", &LAST.replace("biws", "eSws"), &LAST.replace("p=", "q=")] {
            assert!(end(last).is_err(), "{last}");
        }
        assert_eq!(end(&LAST.replace("p=dH", "p=eH")).unwrap(), None);
        // Another nonce, as of an exchange that somebody has recorded.
        assert!(ScramExchange::begin_with(verifier(), FIRST, "other").unwrap().0.end(LAST).is_err());
    }
}
