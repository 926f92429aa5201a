//! The audit log: a record of each way in, no secret in any of them, and nothing changed without one.

use std::io::Write;

use arrow::array::AsArray;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::TryStreamExt;
use serde_json::{Value, json};
use splay_server::Server;
use splay_server::settings::Settings;
use splay_sql::{IntoFiles, Parameters, Session, SessionSettings, Stop};
use splay_store::Database;
use splay_store::audit::{self, AuditFilter};
use splay_store::storage::LocalStorage;
use tonic::Request;

use crate::flight::{messages, with_channel};
use crate::postgres::{self, Client};
use crate::subscribe::Socket;
use crate::support::{Answer, Served, connect, eventually, request, trades};
use crate::users::with_token;

/// Runs a statement on the folder, and gives the last value of its row.
fn on_folder(served: &Served, statement: &str) -> String {
    let database = Database::open(served.folder.path()).unwrap();
    let session = Session::new(database, SessionSettings::default()).unwrap();
    let insert = IntoFiles(session.database());
    let answer = session.change(statement, Parameters::None, Stop::NEVER, &insert);
    let batches = answer.unwrap_or_else(|error| panic!("{statement}: {error}")).batches().unwrap();
    let last = batches[0].columns().last().unwrap();
    last.as_string_opt::<i32>().map(|texts| texts.value(0).to_owned()).unwrap_or_default()
}

/// What the log of a server has so far, as lines and records.
fn so_far(served: &Served) -> (Vec<String>, Vec<Value>) {
    let storage = LocalStorage::new(audit::folder_of(served.folder.path()));
    let (mut lines, mut records) = (Vec::new(), Vec::new());
    audit::read::<splay_store::Error>(&storage, &AuditFilter::default(), &mut |line, record| {
        lines.push(line.to_owned());
        records.push(record.clone());
        Ok(())
    })
    .unwrap();
    (lines, records)
}

/// The same once the server has stopped; the chain is whole then.
fn all(served: &mut Served) -> (Vec<String>, Vec<Value>) {
    served.stop();
    let storage = LocalStorage::new(audit::folder_of(served.folder.path()));
    let verification = audit::verify(&storage, None, None).unwrap();
    assert!(verification.is_sound(), "{verification:?}");
    so_far(served)
}

/// The records with these values.
fn with<'a>(records: &'a [Value], values: &[(&str, &str)]) -> Vec<&'a Value> {
    let has = |record: &&Value| values.iter().all(|(name, value)| record[*name] == **value);
    records.iter().filter(has).collect()
}

fn post(served: &Served, path: &str, authorization: &str, body: &str) -> Answer {
    let headers = [("authorization", authorization), ("content-type", "text/plain")];
    request(served.http(), "POST", path, &headers, body.as_bytes())
}

#[test]
fn each_way_in_leaves_its_records_and_none_has_a_secret() {
    let mut served = postgres::served("audit.log = \"statements\"\n");
    on_folder(&served, "create user admin superuser password 'open sesame'");
    let token = on_folder(&served, "create token one for admin");
    let bearer = format!("Bearer {token}");

    // HTTP.
    assert_eq!(post(&served, "/query", &bearer, "select 'http' as way").status, 200);
    let secret = "create user bob password 'hush hush'";
    assert_eq!(post(&served, "/query", &bearer, secret).status, 200);
    let made = post(&served, "/query", &bearer, "create token two for bob");
    assert_eq!(made.status, 200);
    let insert = "insert into trade values ('2024-03-04 09:30:00', 'IBM', 1), ('2024-03-04 09:30:01', 'IBM', 2)";
    assert_eq!(post(&served, "/query", &bearer, insert).status, 200);
    assert_eq!(post(&served, "/write", &bearer, "trade,sym=IBM price=1 1\ntrade,sym=IBM price=1 2\n").status, 204);
    assert_eq!(post(&served, "/query", "Bearer a-token-of-nobody", "select 1").status, 401);
    let basic = |user: &str, password: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    assert_eq!(post(&served, "/query", &basic("admin", "guessed word"), "select 1").status, 401);
    assert_eq!(post(&served, "/query", &basic("password-as-name", ""), "select 1").status, 401);
    assert_eq!(post(&served, "/query", &bearer, "select nothing from nowhere").status, 404);

    // WebSocket.
    let header = format!("authorization: {bearer}\r\n");
    let mut socket = Socket::open_with(&served, &header, &json!({ "table": "trade", "format": "json" }));
    assert_eq!(socket.text()["subscribed"], "trade");
    drop(socket);

    // PostgreSQL's wire.
    let open = |password: &str| {
        let mut client = Client::open(&served, "user\0admin\0");
        assert_eq!(client.read().unwrap().0, 'R');
        client.send(b'p', &[password.as_bytes(), b"\0"].concat());
        client
    };
    assert_eq!(open("guessed word").end().as_deref(), Some("28P01"));
    let mut client = open("open sesame");
    client.set_up();
    client.query("select 'postgres' as way");
    assert_eq!(postgres::code(&client.query("alter user bob password 'hush again'")), None);
    client.send(b'Q', b"copy trade from stdin\0");
    assert_eq!(client.read().unwrap().0, 'G');
    client.send(b'd', b"2024-03-04 09:30:00\tIBM\t1\n");
    client.send(b'c', b"");
    assert_eq!(postgres::code(&client.until_ready()), None);
    drop(client);

    // Flight, rows among it.
    let shown = bearer.as_str();
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel.clone());
        client.handshake("admin", "open sesame").await.unwrap();
        let info = client.execute("select 'flight' as way".to_owned(), None).await.unwrap();
        let ticket = with_token(&client, &info);
        let rows = client.inner_mut().do_get(ticket).await.unwrap().into_inner();
        let _: Vec<_> = rows.try_collect().await.unwrap();
        let mut request = Request::new(futures::stream::iter(messages(vec![(trades(0, 10), json!({}))])));
        request.metadata_mut().insert("authorization", shown.parse().unwrap());
        let mut client = FlightServiceClient::new(channel);
        let acks: Vec<_> = client.do_put(request).await.unwrap().into_inner().try_collect().await.unwrap();
        assert!(!acks.is_empty());
    });

    let (lines, records) = all(&mut served);
    for wire in ["http", "postgres", "flight"] {
        let signed_in = with(&records, &[("kind", "sign_in"), ("wire", wire), ("user", "admin"), ("outcome", "ok")]);
        assert!(!signed_in.is_empty() && signed_in[0]["role"] == "superuser", "{wire}");
        let text = format!("select '{wire}' as way");
        let ran = with(&records, &[("kind", "statement"), ("wire", wire), ("statement", &text)]);
        assert_eq!(ran.len(), 1, "{wire}");
        assert_eq!((&ran[0]["rows"], &ran[0]["outcome"], &ran[0]["user"]), (&json!(1), &json!("ok"), &json!("admin")));
        assert!(ran[0]["from"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
    // Before and behind.
    let ended = |begun: &Value| records.iter().find(|record| record["of"] == begun["n"]).unwrap();
    let inserted = with(&records, &[("kind", "change"), ("object", "trade"), ("wire", "http"), ("outcome", "begun")]);
    assert_eq!((inserted.len(), &inserted[0]["statement"]), (1, &json!(insert)));
    assert_eq!((&ended(inserted[0])["rows"], &ended(inserted[0])["outcome"]), (&json!(2), &json!("ok")));
    let copied = with(&records, &[("kind", "change"), ("object", "trade"), ("wire", "postgres"), ("outcome", "begun")]);
    assert_eq!((&copied[0]["statement"], &ended(copied[0])["rows"]), (&json!("COPY trade FROM STDIN"), &json!(1)));
    for (wire, text) in [("http", "create user bob PASSWORD …"), ("postgres", "alter user bob PASSWORD …")] {
        let users = with(&records, &[("kind", "users"), ("object", "bob"), ("wire", wire), ("outcome", "begun")]);
        assert_eq!(users[0]["statement"], text);
        assert_eq!(ended(users[0])["outcome"], "ok");
    }
    for (wire, rows) in [("http", 2), ("flight", 10)] {
        let begun = with(&records, &[("kind", "rows"), ("object", "trade"), ("wire", wire), ("outcome", "begun")]);
        assert_eq!(begun.len(), 1, "{wire}");
        let ended = ended(begun[0]);
        assert_eq!((&ended["rows"], &ended["messages"]), (&json!(rows), &json!(1)), "{wire}");
    }
    let subscribed = with(&records, &[("kind", "subscribe"), ("wire", "websocket"), ("object", "trade")]);
    assert_eq!((subscribed.len(), &subscribed[0]["outcome"]), (2, &json!("begun")));
    let failed = with(&records, &[("kind", "statement"), ("outcome", "not_found")]);
    assert_eq!(failed[0]["statement"], "select nothing from nowhere");
    // Who wasn't let in: by the name that there is, and by none that could be a secret.
    let refused = with(&records, &[("kind", "sign_in"), ("outcome", "unauthorized")]);
    let names: Vec<_> = refused.iter().map(|record| record["user"].as_str().unwrap_or("")).collect();
    assert_eq!(names, ["", "admin", "", "admin"]);
    assert_eq!(with(&records, &[("kind", "start")]).len() + with(&records, &[("kind", "stop")]).len(), 2);
    let made = made.json().to_string();
    let secrets = [
        "sesame",
        "hush",
        "guessed",
        "a-token-of-nobody",
        "password-as-name",
        token.as_str(),
        &BASE64_STANDARD.encode("admin:guessed word"),
    ];
    for line in &lines {
        assert!(!secrets.iter().any(|secret| line.contains(secret)), "{line}");
        // Nor the token that was made: no long word of that answer stands in the log.
        let mut words = made.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
        assert!(!words.any(|word| word.len() > 30 && line.contains(word)), "{line}");
    }
}

#[test]
fn a_line_protocol_connection_has_two_records() {
    let mut served = Served::with("audit.log = \"changes\"\n");
    let mut stream = connect(served.line());
    stream.write_all(&b"trade,sym=IBM price=3 3\n".repeat(5000)).unwrap();
    drop(stream);
    eventually("all lines", || served.ingest.rows("trade") == 5000);
    assert_eq!(served.query("select 1").status, 200);
    let (_, records) = all(&mut served);
    let rows = with(&records, &[("kind", "rows"), ("wire", "line"), ("object", "trade"), ("role", "open")]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((&rows[0]["outcome"], &rows[1]["of"], &rows[1]["rows"]), (&json!("begun"), &rows[0]["n"], &json!(5000)));
    assert!(with(&records, &[("kind", "statement")]).is_empty(), "they are for another level");
}

#[test]
fn a_change_has_a_record_before_it_begins() {
    let served = Served::with("audit.log = \"changes\"\n");
    let insert = "insert into trade values ('2024-03-04 09:30:00', 'IBM', 1)";
    assert_eq!(served.query(insert).status, 200);
    // Whatever becomes of the server from now on.
    let (_, records) = so_far(&served);
    assert_eq!(with(&records, &[("kind", "change"), ("statement", insert)]).len(), 1);
    let status = served.get("/status").json();
    assert!(status["audit"]["records"].as_u64().unwrap() >= 2, "{status}");
    assert_eq!(status["audit"]["lost"], 0);
    let metrics = served.get("/metrics");
    assert!(metrics.text().contains("splay_audit_records_total"), "{}", metrics.text());
}

#[test]
fn without_a_setting_there_is_no_log() {
    let mut served = Served::new();
    assert_eq!(served.query("select 1").status, 200);
    assert!(served.get("/status").json()["audit"].is_null());
    served.stop();
    assert!(!served.folder.path().join(audit::FOLDER).exists());
}

/// Two processes would break the chain of one another.
#[test]
fn a_log_that_cannot_be_written_keeps_a_server_from_starting() {
    let served = Served::with("audit.log = \"changes\"\n");
    let ports = "http.address = \"127.0.0.1:0\"\nflight.address = \"off\"\nline.address = \"off\"\n";
    let settings = Settings::parse(&format!("{ports}audit.log = \"changes\"\n")).unwrap();
    let database = Database::open(served.folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bound = runtime.block_on(Server::bind(settings, database, None));
    assert!(bound.unwrap_err().to_string().contains("audit"), "another server writes there");
}

#[test]
fn what_is_forbidden_is_recorded_with_who_asked() {
    let mut served = Served::with("audit.log = \"changes\"\n");
    on_folder(&served, "create user admin superuser password 'open sesame'");
    on_folder(&served, "create user ann");
    on_folder(&served, "grant select (time) on trade to ann");
    let token = on_folder(&served, "create token one for ann");
    let bearer = format!("Bearer {token}");
    assert_eq!(post(&served, "/query", &bearer, "delete from trade").status, 403);
    let metrics = request(served.http(), "GET", "/metrics", &[("authorization", &bearer)], b"");
    assert_eq!(metrics.status, 403);
    let (_, records) = all(&mut served);
    let forbidden = with(&records, &[("user", "ann"), ("outcome", "forbidden")]);
    assert!(forbidden.iter().any(|record| record["kind"] == "change"), "{forbidden:?}");
    let begun = with(&records, &[("kind", "change"), ("outcome", "begun"), ("statement", "delete from trade")]);
    assert_eq!(begun.len(), 1);
}

#[test]
fn messages_that_are_refused_are_counted() {
    let mut served = Served::with("audit.log = \"changes\"\n");
    served.ingest.be_full(1);
    assert_eq!(served.post("/write", &[], b"trade,sym=IBM price=1 1\n").status, 503);
    let (_, records) = all(&mut served);
    let rows = with(&records, &[("kind", "rows"), ("object", "trade"), ("outcome", "ok")]);
    assert_eq!((&rows[0]["messages"], &rows[0]["refused"], &rows[0]["rows"]), (&json!(1), &json!(1), &json!(0)));
}

/// Regression: a password whose keyword was mistyped was in the log.
#[test]
fn mistyped_passwords_are_not_recorded() {
    let mut served = Served::with("audit.log = \"statements\"\n");
    let texts = [
        "create user ann pasword 'hunter21'",
        "create user ann identified by 'hunter21'",
        "alter usr ann password 'hunter21'",
        "alter user ann pass word 'hunter21'",
        "select password for user ann 'hunter21'",
    ];
    for text in texts {
        let answer = served.query(text);
        assert!(answer.status >= 400, "{text}: {}", answer.text());
    }
    let logged = all(&mut served).0.join("\n");
    assert!(!logged.contains("hunter21") && logged.contains("pasword '…'"), "{logged}");
}
