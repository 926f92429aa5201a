//! Users of the database: whom each way in lets in, and what their rights leave of it.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use arrow::array::AsArray;
use arrow_flight::sql::CommandGetTables;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightInfo, Ticket};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use splay_server::http_routes;
use splay_sql::{IntoFiles, Parameters, Session, SessionSettings, Stop};
use splay_store::{Database, Secret};
use tonic::Code;
use tonic::transport::Channel;

use crate::flight::with_channel;
use crate::postgres::{Client, code, rows};
use crate::subscribe::{Frame, Socket, upgrade_status};
use crate::support::{Answer, Served, TRADES, connect, eventually, request};

/// A server whose database has users, and their tokens.
pub struct Desk {
    pub served: Served,
    /// By the command on the database's folder, as an operator would.
    session: Session,
    pub admin: String,
    pub reader: String,
    pub writer: String,
}

const USERS: [&str; 8] = [
    "create table secret (time timestamp, sym symbol, price double) with (symbol = 'sym')",
    "insert into secret values ('2024-03-04 09:30:00', 'AAPL', 1)",
    "create user admin superuser password 'open sesame'",
    "create user reader password 'a word'",
    "create user writer",
    "create role desk",
    "grant select on trade to desk",
    "grant desk to reader",
];

impl Desk {
    pub fn new() -> Desk {
        Desk::with("")
    }

    pub fn with(settings: &str) -> Desk {
        let served = Served::with(settings);
        let database = Database::open(served.folder.path()).unwrap();
        let session = Session::new(database, SessionSettings::default()).unwrap();
        let mut desk = Desk { served, session, admin: String::new(), reader: String::new(), writer: String::new() };
        USERS.iter().for_each(|statement| drop(desk.run(statement)));
        desk.run("grant insert on trade to writer");
        let token = |user: &str| desk.run(&format!("create token {user}s for {user}"));
        (desk.admin, desk.reader, desk.writer) = (token("admin"), token("reader"), token("writer"));
        // What was sent before is known to capture.
        let line = desk.post("/write", &desk.admin, b"trade,sym=IBM price=1 1\n");
        assert_eq!(line.status, 204, "{}", line.text());
        desk
    }

    /// Runs a statement, and gives the last value of its row.
    pub fn run(&self, statement: &str) -> String {
        let insert = IntoFiles(self.session.database());
        let answer = self.session.change(statement, Parameters::None, Stop::NEVER, &insert);
        let batches = answer.unwrap_or_else(|error| panic!("{statement}: {error}")).batches().unwrap();
        let last = batches[0].columns().last().unwrap();
        last.as_string_opt::<i32>().map(|texts| texts.value(0).to_owned()).unwrap_or_default()
    }

    fn ask(&self, method: &str, path: &str, token: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {token}");
        request(self.served.http(), method, path, &[("authorization", &bearer)], body)
    }

    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.ask("GET", path, token, b"")
    }

    pub fn post(&self, path: &str, token: &str, body: &[u8]) -> Answer {
        self.ask("POST", path, token, body)
    }

    pub fn query(&self, token: &str, sql: &str) -> Answer {
        let headers = [("authorization", format!("Bearer {token}")), ("content-type", "text/plain".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        request(self.served.http(), "POST", "/query", &headers, sql.as_bytes())
    }

    /// The status of a request with a user and his password.
    fn basic(&self, user: &str, password: &str) -> u16 {
        let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        request(self.served.http(), "GET", "/tables", &[("authorization", &value)], b"").status
    }
}

/// What a request of each role is answered with: nobody, a wrong token, who reads one table, who writes one, a superuser.
type Statuses = [u16; 5];

/// Every path of HTTP in each role. A path that isn't here fails the test.
#[test]
fn every_route_holds_its_callers_to_their_rights() {
    const COUNT: &str = "/query?query=select%20count(*)%20from%20trade";
    let line: &[u8] = b"trade,sym=IBM price=1 1\n";
    let (open, empty): (Statuses, Statuses) = ([200; 5], [204; 5]);
    let desk = Desk::new();
    let packed = ("accept-encoding", "gzip");
    // A server may have been built without the web console.
    let licences = request(desk.served.http(), "GET", "/licences.txt", &[packed], b"").status;
    assert!(licences == 200 || licences == 404, "{licences}");
    let matrix: [(&str, &str, &str, &[u8], Statuses); 28] = [
        ("GET", "/", "/", b"", open),
        ("GET", "/assets/{name}", "/assets/none.js", b"", [404; 5]),
        ("GET", "/licences.txt", "/licences.txt", b"", [licences; 5]),
        // Without a provider there is nothing to sign in by.
        ("GET", "/auth", "/auth", b"", open),
        ("GET", "/auth/oidc", "/auth/oidc", b"", [404; 5]),
        ("GET", "/auth/oidc/callback", "/auth/oidc/callback?code=x&state=y", b"", [404; 5]),
        ("POST", "/auth/sign-out", "/auth/sign-out", b"", empty),
        ("GET", "/query", COUNT, b"", [401, 401, 200, 403, 200]),
        ("POST", "/query", COUNT, b"", [401, 401, 200, 403, 200]),
        ("GET", "/tables", "/tables", b"", [401, 401, 200, 200, 200]),
        ("GET", "/tables/{table}", "/tables/secret", b"", [401, 401, 404, 404, 200]),
        ("GET", "/tables/{table}/storage", "/tables/trade/storage", b"", [401, 401, 200, 403, 200]),
        ("GET", "/status", "/status", b"", [401, 401, 403, 403, 200]),
        // What is followed is asked for behind it.
        ("GET", "/subscribe", "/subscribe", b"", [401, 401, 101, 101, 101]),
        ("POST", "/api/v1/write", "/api/v1/write?table=trade", b"", [401, 401, 403, 400, 400]),
        ("GET", "/api/v1/write", "/api/v1/write?producer=feed", b"", [401, 401, 403, 200, 200]),
        ("DELETE", "/api/v1/write", "/api/v1/write?producer=feed&sequence=1", b"", [401, 401, 403, 200, 200]),
        ("POST", "/api/v2/write", "/api/v2/write", line, [401, 401, 403, 204, 204]),
        ("POST", "/write", "/write", line, [401, 401, 403, 204, 204]),
        ("GET", "/ping", "/ping", b"", empty),
        ("HEAD", "/ping", "/ping", b"", empty),
        // This server's rows are in no journal: there is nothing to follow.
        ("POST", "/replica/state", "/replica/state", b"{}", [401, 401, 403, 403, 501]),
        ("POST", "/replica/journal", "/replica/journal", b"{}", [401, 401, 403, 403, 501]),
        ("POST", "/replica/file", "/replica/file", b"{}", [401, 401, 403, 403, 501]),
        ("POST", "/replica/promote", "/replica/promote", b"{}", [401, 401, 403, 403, 501]),
        ("GET", "/health", "/health", b"", open),
        ("GET", "/ready", "/ready", b"", open),
        ("GET", "/metrics", "/metrics", b"", [401, 401, 403, 403, 200]),
    ];
    let listed: BTreeSet<_> = matrix.iter().map(|(method, path, ..)| (*method, *path)).collect();
    assert_eq!(
        listed,
        http_routes().into_iter().collect(),
        "a path of the server is not in this list, or the other way round"
    );
    for (method, path, url, body, expected) in matrix {
        let tokens = [None, Some("wrong"), Some(&*desk.reader), Some(&*desk.writer), Some(&*desk.admin)];
        for (token, expected) in tokens.into_iter().zip(expected) {
            let bearer = token.map(|token| format!("Bearer {token}"));
            let shown = bearer.iter().map(|bearer| ("authorization", bearer.as_str()));
            let headers: Vec<_> = shown.chain((path != "/subscribe").then_some(packed)).collect();
            let status = match path {
                "/subscribe" => upgrade_status(desk.served.http(), &headers),
                _ => request(desk.served.http(), method, url, &headers, body).status,
            };
            let role = ["nobody", "a wrong token", "the reader", "the writer", "the superuser"];
            let role = role[tokens.iter().position(|other| *other == token).unwrap()];
            assert_eq!(status, expected, "{method} {path} for {role}");
        }
    }
}

#[test]
fn users_show_a_token_or_a_password() {
    let desk = Desk::new();
    assert_eq!(desk.basic("admin", "open sesame"), 200);
    // Known again without hashing it.
    assert_eq!(desk.basic("ADMIN", "open sesame"), 200);
    for (user, password) in [("admin", "open"), ("reader", "open sesame"), ("writer", ""), ("nobody", "open sesame")] {
        assert_eq!(desk.basic(user, password), 401, "{user}");
    }
    // A token in a password's place is its user's alone.
    assert_eq!((desk.basic("reader", &desk.reader), desk.basic("", &desk.reader)), (200, 200));
    assert_eq!(desk.basic("admin", &desk.reader), 401);
    // What was right before isn't once the password is another.
    desk.run("alter user admin password 'another'");
    assert_eq!((desk.basic("admin", "open sesame"), desk.basic("admin", "another")), (401, 200));
    desk.run("alter user reader valid until '2001-01-01'");
    assert_eq!(desk.get("/tables", &desk.reader).status, 401);
    desk.run("alter user reader valid until 'infinity'");
    assert_eq!(desk.get("/tables", &desk.reader).status, 200);
    desk.run("alter user reader nologin");
    assert_eq!(desk.get("/tables", &desk.reader).status, 401);
    desk.run("drop token writers");
    assert_eq!(desk.get("/tables", &desk.writer).status, 401);
    desk.run("alter token admins rotate");
    assert_eq!(desk.get("/tables", &desk.admin).status, 401);
}

#[test]
fn what_one_may_not_see_is_nowhere() {
    let desk = Desk::new();
    let tables = desk.get("/tables", &desk.reader).json();
    let names: Vec<_> = tables.as_array().unwrap().iter().map(|table| table["name"].clone()).collect();
    assert_eq!(names, ["trade"]);
    assert_eq!(tables[0]["rows"], TRADES);
    for sql in ["select * from secret", "select count(*) from secret", "describe secret"] {
        let answer = desk.query(&desk.reader, sql);
        assert!(answer.status >= 400 && !answer.text().contains("AAPL"), "{sql}: {}", answer.text());
    }
    // Of a table that is written and not read the numbers aren't told.
    let table = desk.get("/tables/trade", &desk.writer).json();
    assert_eq!((&table["rows"], &table["bytes"]), (&json!(null), &json!(null)));
    assert_eq!(table["columns"].as_array().unwrap().len(), 3);
    desk.run("create policy own on trade to desk using (sym = 'IBM')");
    let table = desk.get("/tables/trade", &desk.reader).json();
    assert_eq!((&table["rows"], &table["first_date"]), (&json!(null), &json!(null)));
    let counted = desk.query(&desk.reader, "select count(*) as n from trade").json();
    assert_eq!(counted["rows"][0][0], TRADES / 2);
    // A column without a right is in no list.
    desk.run("revoke select on trade from desk");
    desk.run("grant select (time, price) on trade to desk");
    let table = desk.get("/tables/trade", &desk.reader).json();
    assert!(table["columns"].as_array().unwrap().len() == 2 && table["symbol"].is_null(), "{table}");
}

#[test]
fn a_change_of_rights_counts_from_the_next_request_on() {
    let desk = Desk::new();
    let ask = json!({ "table": "trade", "format": "json" });
    let bearer = format!("authorization: Bearer {}\r\n", desk.reader);
    let mut socket = Socket::open_with(&desk.served, &bearer, &ask);
    assert_eq!(socket.text(), json!({ "subscribed": "trade" }));
    assert_eq!(socket.text()["kind"], "snapshot");
    assert_eq!(desk.query(&desk.reader, "select 1 from trade limit 1").status, 200);
    desk.run("revoke select on trade from desk");
    assert_eq!(desk.query(&desk.reader, "select 1 from trade limit 1").status, 404);
    // One that runs ends, whatever comes meanwhile.
    let ended = loop {
        match socket.frame() {
            Frame::Text(text) if text["kind"].is_string() => {}
            Frame::Text(text) => break text,
            _ => panic!("no reason was given"),
        }
    };
    assert_eq!(ended["code"], "not_found");
    let mut other = Socket::open_with(&desk.served, &bearer, &ask);
    assert_eq!(other.text()["code"], "not_found");
}

#[test]
fn updates_are_of_what_may_be_read() {
    let desk = Desk::new();
    let ask_for = |ask: serde_json::Value, token: &str| {
        let bearer = format!("authorization: Bearer {token}\r\n");
        Socket::open_with(&desk.served, &bearer, &ask).text()
    };
    let follow = |table: &str, token: &str| ask_for(json!({ "table": table, "format": "json" }), token);
    assert_eq!(follow("trade", &desk.reader), json!({ "subscribed": "trade" }));
    assert_eq!(follow("secret", &desk.reader)["code"], "not_found");
    assert_eq!(follow("trade", &desk.writer)["code"], "forbidden");
    // Some columns have to be named, and the symbol may only be asked for by who may see it.
    desk.run("grant select (time, price) on trade to writer");
    let some = |more: serde_json::Value| {
        let mut ask = json!({ "table": "trade", "format": "json" });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask_for(ask, &desk.writer)
    };
    assert_eq!(some(json!({ "columns": ["price"] })), json!({ "subscribed": "trade" }));
    for more in [
        json!({}),
        json!({ "columns": ["price", "sym"] }),
        json!({ "columns": ["price"], "symbols": ["IBM"] }),
        json!({ "bars": { "every": "1m", "price": "price" } }),
    ] {
        assert_eq!(some(more.clone())["code"], "forbidden", "{more}");
    }
    desk.run("create policy own on trade to desk using (sym = 'IBM')");
    assert_eq!(follow("trade", &desk.reader)["code"], "forbidden");
    assert_eq!(follow("trade", &desk.admin), json!({ "subscribed": "trade" }));
}

#[test]
fn rows_need_the_right_to_their_table() {
    let desk = Desk::new();
    let write = |token: &str, lines: &str| desk.post("/write", token, lines.as_bytes()).status;
    assert_eq!(write(&desk.writer, "trade,sym=IBM price=1 1\n"), 204);
    // All lines of a message or none, and no table is made by the way.
    assert_eq!(write(&desk.writer, "trade,sym=IBM price=1 1\nsecret,sym=IBM price=1 1\n"), 403);
    assert_eq!(write(&desk.writer, "other,sym=IBM price=1 1\n"), 403);
    assert_eq!((desk.served.ingest.rows("trade"), desk.served.ingest.rows("other")), (2, 0));
    desk.run("grant pg_write_all_data to writer");
    assert_eq!(write(&desk.writer, "other,sym=IBM price=1 1\n"), 403);
    desk.run("grant create on database splay to writer");
    assert_eq!(write(&desk.writer, "other,sym=IBM price=1 1\n"), 204);
    let insert = "insert into trade values ('2024-03-04 09:30:00', 'IBM', 1)";
    assert_eq!(desk.query(&desk.writer, insert).status, 200);
    assert_eq!(desk.query(&desk.reader, insert).status, 403);
    // Whoever doesn't see all rows of a table adds none.
    desk.run("create policy own on trade to desk using (sym = 'IBM')");
    assert_eq!((write(&desk.writer, "trade,sym=IBM price=1 1\n"), desk.query(&desk.writer, insert).status), (403, 403));
    desk.run("alter user writer bypassrls");
    assert_eq!(write(&desk.writer, "trade,sym=IBM price=1 1\n"), 204);
}

#[test]
fn superusers_change_users_and_tokens_of_the_settings_do_not() {
    let token = Secret::generate().unwrap();
    let desk = Desk::with(&format!("[[auth.tokens]]\nname = \"all\"\nblake3 = \"{}\"\n", token.blake3));
    let made = desk.query(&desk.admin, "create token more for reader");
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json()["rows"][0][2].as_str().unwrap().to_owned();
    assert_eq!(desk.get("/tables", &made).status, 200);
    assert_eq!(desk.query(&desk.reader, "create user eve").status, 403);
    // They stay what they are: they read and write everything.
    assert_eq!(desk.query(&token.token, "select count(*) from secret").status, 200);
    assert_eq!(desk.query(&token.token, "create user eve").status, 403);
    assert_eq!(desk.query(&token.token, "grant desk to writer").status, 403);
    assert_eq!(desk.query(&desk.admin, "create user eve").status, 200);
    // What changes something is posted.
    assert_eq!(desk.get("/query?query=drop%20user%20eve", &desk.admin).status, 400);
}

#[test]
fn an_open_server_is_closed_by_its_first_user() {
    let served = Served::new();
    assert_eq!(served.query("select count(*) from trade").status, 200);
    let refused = served.query("create user ann password 'open sesame'");
    assert!(refused.status == 422 && refused.text().contains("SUPERUSER"), "{}", refused.text());
    assert!(!refused.text().contains("sesame"));
    let mut waiting = connect(served.line());
    waiting.write_all(b"trade,sym=IBM price=1 1\n").unwrap();
    eventually("the line", || served.ingest.rows("trade") == 1);
    assert_eq!(served.query("create user ann superuser password 'open sesame'").status, 200);
    for path in ["/tables", "/status", "/metrics", "/query?query=select%201"] {
        assert_eq!(served.get(path).status, 401, "{path}");
    }
    // Line protocol has no way to say who sends: nothing is taken on a connection that is open, or a new one.
    let _ = waiting.write_all(b"trade,sym=IBM price=1 2\n");
    let mut other = connect(served.line());
    let _ = other.write_all(b"trade,sym=IBM price=1 2\n");
    assert_eq!(other.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    eventually("the refusal", || served.ingest.rejected().iter().any(|reason| reason.contains("has users")));
    assert_eq!(served.ingest.rows("trade"), 1);
    // The last user can't go: the server would be open to everybody again.
    let value = format!("Basic {}", BASE64_STANDARD.encode("ann:open sesame"));
    let headers = [("authorization", value.as_str()), ("content-type", "text/plain")];
    let refused = request(served.http(), "POST", "/query", &headers, b"drop user ann");
    assert_eq!(refused.status, 422);
    assert!(String::from_utf8_lossy(&refused.body).contains("keep the last one"));
    assert_eq!(served.get("/tables").status, 401);
}

#[test]
fn requests_without_credentials_may_be_somebodys() {
    let desk = Desk::with("auth.anonymous = \"guest\"\n");
    assert_eq!(desk.served.get("/tables").status, 401, "there is no such role yet");
    desk.run("create role guest");
    desk.run("grant select on trade to guest");
    assert_eq!(desk.served.query("select count(*) from trade").status, 200);
    assert_eq!(desk.served.query("select count(*) from secret").status, 404);
    assert_eq!(desk.served.get("/metrics").status, 403);
    // A web page could send such requests, as to an open server.
    let mut stream = connect(desk.served.http());
    stream.write_all(b"GET /tables HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(crate::support::read_answer(stream).status, 403);
    let mut stream = connect(desk.served.http());
    let bearer = format!("authorization: Bearer {}", desk.reader);
    write!(stream, "GET /tables HTTP/1.1\r\nhost: example.com\r\n{bearer}\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(crate::support::read_answer(stream).status, 200);
    desk.run("alter role guest superuser");
    assert_eq!(desk.served.get("/tables").status, 401, "not everything for nobody");
}

#[test]
fn a_damaged_list_of_users_lets_nobody_in() {
    let token = Secret::generate().unwrap();
    let desk = Desk::with(&format!(
        "postgres.address = \"127.0.0.1:0\"\n[[auth.tokens]]\nname = \"all\"\nblake3 = \"{}\"\n",
        token.blake3
    ));
    let path = desk.served.folder.path().join("access.json");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for token in [&desk.admin, &desk.reader, &token.token, "wrong"] {
        let answer = desk.get("/tables", token);
        assert_eq!((answer.status, answer.code().as_str()), (500, "corrupt"));
        assert!(answer.text().contains("nobody is let in") && !answer.text().contains("access.json"));
    }
    assert_eq!(desk.served.get("/tables").status, 500);
    let mut client = Client::open(&desk.served, "user\0admin\0");
    assert_eq!(client.end().as_deref(), Some("XX001"));
}

#[test]
fn postgres_asks_users_for_their_password_and_looks_at_their_rights() {
    let desk = Desk::with("postgres.address = \"127.0.0.1:0\"\n");
    let open = |user: &str, password: &str| {
        let mut client = Client::open(&desk.served, &format!("user\0{user}\0"));
        assert_eq!(client.read().unwrap().0, 'R');
        client.send(b'p', &[password.as_bytes(), b"\0"].concat());
        client
    };
    assert_eq!(open("reader", "wrong").end().as_deref(), Some("28P01"));
    assert_eq!(open("admin", &desk.reader).end().as_deref(), Some("28P01"));
    let mut reader = open("reader", "a word");
    reader.set_up();
    assert_eq!(rows(&reader.query("select count(*) from trade")), [[Some(TRADES.to_string())]]);
    assert_eq!(reader.fails("select * from secret"), "42P01");
    assert_eq!(reader.fails("copy secret to stdout"), "42P01");
    assert_eq!(reader.fails("copy trade from stdin"), "42501");
    assert_eq!(reader.fails("delete from trade"), "42501");
    assert_eq!(reader.fails("create user eve"), "42501");
    let named = "select relname from pg_catalog.pg_class where relkind = 'r' order by 1";
    assert_eq!(rows(&reader.query(named)), [[Some("trade".to_owned())]]);
    let mut writer = open("writer", &desk.writer);
    writer.set_up();
    assert_eq!(writer.fails("select count(*) from trade"), "42501");
    // On the same connection, from the next statement on.
    desk.run("revoke select on trade from desk");
    assert_eq!(reader.fails("select count(*) from trade"), "42P01");
    desk.run("alter user reader password 'another'");
    assert_eq!(reader.fails("select 1"), "28P01");
    let mut admin = open("admin", "open sesame");
    admin.set_up();
    let made = rows(&admin.query("create token more for reader"));
    let token = made[0][2].clone().unwrap();
    assert_eq!(desk.get("/tables", &token).status, 200);
    let users = rows(&admin.query("show users"));
    assert_eq!(users.iter().map(|row| row[0].as_deref().unwrap()).collect::<Vec<_>>(), ["admin", "reader", "writer"]);
    assert!(
        admin.query("create user eve password 'x'").iter().any(|(kind, body)| *kind == 'C' && body == b"CREATE ROLE\0")
    );
}

/// A `COPY` that was open kept the rights of its beginning for as long as the client liked.
#[test]
fn rows_of_copy_are_taken_by_the_rights_at_its_end() {
    let desk = Desk::with("postgres.address = \"127.0.0.1:0\"\n");
    let begin = || {
        let mut writer = Client::open(&desk.served, "user\0writer\0");
        assert_eq!(writer.read().unwrap().0, 'R');
        writer.send(b'p', &[desk.writer.as_bytes(), b"\0"].concat());
        writer.set_up();
        writer.send(b'Q', b"copy trade from stdin\0");
        assert_eq!(writer.read().unwrap().0, 'G');
        writer.send(b'd', b"2024-03-04 09:30:00\tIBM\t1\n");
        writer
    };
    let end = |mut writer: Client| {
        writer.send(b'd', b"2024-03-04 09:30:01\tIBM\t2\n");
        writer.send(b'c', b"");
        code(&writer.until_ready())
    };
    let before = desk.served.ingest.rows("trade");
    assert_eq!(end(begin()), None);
    for (change, undo, failure) in [
        ("revoke insert on trade from writer", "grant insert on trade to writer", "42P01"),
        (
            "revoke insert on trade from writer; grant select on trade to writer",
            "grant insert on trade to writer",
            "42501",
        ),
        ("alter user writer nologin", "alter user writer login", "28P01"),
        ("drop user writer", "", "28P01"),
    ] {
        let writer = begin();
        change.split("; ").for_each(|statement| drop(desk.run(statement)));
        assert_eq!(end(writer).as_deref(), Some(failure), "{change}");
        if !undo.is_empty() {
            desk.run(undo);
        }
    }
    assert_eq!(desk.served.ingest.rows("trade"), before + 2);
}

/// Whoever was dropped between the head and the body of his request was served.
#[test]
fn a_statement_over_http_runs_by_the_rights_at_its_bodys_end() {
    let desk = Desk::new();
    let insert = "insert into trade values ('2024-03-04 09:30:00', 'IBM', 1)";
    let rows = desk.served.ingest.rows("trade");
    let mut stream = connect(desk.served.http());
    let head = format!(
        "POST /query HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        desk.writer,
        insert.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // It is sent once the head was looked at.
    let mut interim = *b"HTTP/1.1 100 Continue\r\n\r\n";
    stream.read_exact(&mut interim).unwrap();
    assert!(interim.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&interim));
    desk.run("drop user writer");
    stream.write_all(insert.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_eq!(desk.served.ingest.rows("trade"), rows);
}

/// The ticket of an answer with the client's token, which its inner client doesn't show by itself.
pub fn with_token(client: &FlightSqlServiceClient<Channel>, info: &FlightInfo) -> tonic::Request<Ticket> {
    let mut request = tonic::Request::new(info.endpoint[0].ticket.clone().unwrap());
    let bearer = format!("Bearer {}", client.token().unwrap());
    request.metadata_mut().insert("authorization", bearer.parse().unwrap());
    request
}

#[test]
fn flight_asks_too() {
    let desk = Desk::new();
    with_channel(&desk.served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel);
        assert!(client.handshake("reader", "wrong").await.is_err());
        // Whoever has shown his password gets a token for what comes behind.
        client.handshake("reader", "a word").await.unwrap();
        let tables = || CommandGetTables {
            catalog: None,
            db_schema_filter_pattern: None,
            table_name_filter_pattern: None,
            table_types: Vec::new(),
            include_schema: true,
        };
        let info = client.get_tables(tables()).await.unwrap();
        let listed = crate::flight::rows(&mut client, info).await;
        assert_eq!((listed[0].num_rows(), listed[0].column(2).as_string::<i32>().value(0)), (1, "trade"));
        for (sql, code) in [
            ("select * from secret", Code::NotFound),
            ("select count(*) from trade", Code::Ok),
            ("create user eve", Code::PermissionDenied),
        ] {
            let info = client.execute(sql.to_owned(), None).await.unwrap();
            let ticket = with_token(&client, &info);
            let got = client.inner_mut().do_get(ticket).await;
            assert_eq!(got.map_or_else(|status| status.code(), |_| Code::Ok), code, "{sql}");
        }
        assert!(client.prepare("select * from secret".to_owned(), None).await.is_err());
        client.set_token(desk.writer.clone());
        let info = client.execute("select count(*) from trade".to_owned(), None).await.unwrap();
        let ticket = with_token(&client, &info);
        let got = client.inner_mut().do_get(ticket).await;
        assert_eq!(got.unwrap_err().code(), Code::PermissionDenied);
        client.clear_token();
        assert!(client.get_tables(tables()).await.is_err());
    });
}
