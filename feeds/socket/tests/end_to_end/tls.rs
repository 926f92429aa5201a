//! A venue behind TLS, with a certificate of an authority of its own.

use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tungstenite::Message;

use crate::processes::{Feed, eventually};
use crate::{metric, server, settings, trade};

#[test]
fn venues_are_believed_by_their_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server(folder.path()) else { return };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    std::fs::write(folder.path().join("ca.pem"), made.cert.pem()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let venue = listener.local_addr().unwrap().port();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            // A client that doesn't believe the certificate ends here.
            let Ok(mut socket) = tungstenite::accept(stream) else { continue };
            socket.send(Message::text(trade(1))).unwrap();
            while socket.read().is_ok() {}
        }
    });
    let place = format!("url = \"wss://localhost:{venue}/\"\nretry_seconds_max = 1");
    let (unknown, port) = settings(&server.url(), &place, "");
    let mut feed = Feed::new(folder.path(), &unknown);
    feed.start();
    eventually("the certificate is refused", || metric(port, "refusals") > 0);
    assert!(feed.log().contains("UnknownIssuer") || feed.log().contains("certificate"), "{}", feed.log());
    assert!(feed.stop());
    let (trusted, port) = settings(&server.url(), &place, "ca_file = \"ca.pem\"");
    let mut feed = Feed::new(folder.path(), &trusted);
    feed.start();
    eventually("the row is stored", || metric(port, "rows") == 1);
    assert!(feed.stop());
    assert_eq!(server.number("select count(*) from trade"), 1);
}
