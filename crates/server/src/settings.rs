//! Settings of the server: plain data, from a TOML file or built in code.
//!
//! - A missing setting has its default; an unknown one is an error.
//! - Only [`Settings::read`] opens a file here; [`Server::bind`](crate::Server::bind) reads the files that `[auth]`
//!   and `[tls]` name.

mod audit;
mod oidc;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use splay_capture::line::LineSettings;

pub use self::audit::{Audit, AuditLevel, WhenFull};
pub(crate) use self::oidc::is_safe;
pub use self::oidc::{OIDC_SESSION_SECONDS, Oidc};
use crate::error::{Error, Result};
use crate::ingest::AckClass;
use crate::machine::half_of_memory;

/// The default address for HTTP and WebSocket.
pub const HTTP_ADDRESS: &str = "127.0.0.1:7750";
/// The default address for Flight and Flight SQL.
pub const FLIGHT_ADDRESS: &str = "127.0.0.1:7751";
/// The default address for line protocol over TCP: QuestDB's port, so that its clients need no setting.
pub const LINE_ADDRESS: &str = "127.0.0.1:9009";

/// Milliseconds from which a statement counts as slow.
pub const SLOW_STATEMENT_MILLISECONDS: u64 = 1000;

/// Seconds between refreshes of materialized views.
pub const REFRESH_SECONDS: u64 = 60;

/// Settings of the server.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// HTTP and WebSocket.
    pub http: Http,
    /// Flight and Flight SQL.
    pub flight: Flight,
    /// PostgreSQL's wire protocol.
    pub postgres: Postgres,
    /// Line protocol over TCP.
    pub line: Line,
    /// Bounds on everything that a client can ask for.
    pub limits: Limits,
    /// Authentication.
    pub auth: Auth,
    /// Certificate and key.
    pub tls: Option<Tls>,
    /// The log.
    pub log: Log,
    /// The audit log.
    pub audit: Audit,
    /// When materialized views are refreshed.
    pub views: Views,
    /// Settings of capture, which are not the server's: see there.
    pub capture: toml::Table,
}

/// When materialized views are refreshed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Views {
    /// Seconds between refreshes of the materialized views whose tables have changed. 0: only `REFRESH MATERIALIZED VIEW` refreshes them.
    /// Default [`REFRESH_SECONDS`].
    pub refresh_seconds: u64,
}

impl Default for Views {
    fn default() -> Views {
        Views { refresh_seconds: REFRESH_SECONDS }
    }
}

impl Views {
    /// The time between refreshes, if there are any.
    pub(crate) fn every(&self) -> Option<std::time::Duration> {
        (self.refresh_seconds > 0).then(|| std::time::Duration::from_secs(self.refresh_seconds))
    }
}

/// The settings of the log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Milliseconds from which a statement counts as slow and is logged with what it cost. 0 logs all. Default
    /// [`SLOW_STATEMENT_MILLISECONDS`].
    pub slow_statement_milliseconds: u64,
    /// Whether the text of slow statements is logged. It may contain values that not every reader of the log may see. Default true.
    pub slow_statement_text: bool,
}

impl Default for Log {
    fn default() -> Log {
        Log { slow_statement_milliseconds: SLOW_STATEMENT_MILLISECONDS, slow_statement_text: true }
    }
}

/// An address to listen on, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Address {
    /// Don't listen: `"off"`.
    Off,
    /// Listen here. Port 0 takes a free one.
    At(SocketAddr),
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        text.parse()
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Address::Off);
        }
        text.parse()
            .map(Address::At)
            .map_err(|_| format!("{text:?} is neither an address like 127.0.0.1:7750 nor \"off\""))
    }
}

impl Address {
    /// One of the constants of this module.
    fn preset(text: &str) -> Address {
        text.parse().unwrap_or(Address::Off)
    }
}

/// Settings of HTTP and WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// The address to listen on. Default [`HTTP_ADDRESS`].
    pub address: Address,
}

impl Default for Http {
    fn default() -> Http {
        Http { address: Address::preset(HTTP_ADDRESS) }
    }
}

/// Settings of Flight and Flight SQL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flight {
    /// The address to listen on. Default [`FLIGHT_ADDRESS`].
    pub address: Address,
}

impl Default for Flight {
    fn default() -> Flight {
        Flight { address: Address::preset(FLIGHT_ADDRESS) }
    }
}

/// Settings of PostgreSQL's wire protocol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Postgres {
    /// The address to listen on. Default off.
    pub address: Address,
}

impl Default for Postgres {
    fn default() -> Postgres {
        Postgres { address: Address::Off }
    }
}

/// Settings of line protocol over TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// The address to listen on; one that other machines reach needs `keys` and `tls`. Default [`LINE_ADDRESS`], or off if tokens are set.
    pub address: Option<Address>,
    /// A file of public keys, as QuestDB's `auth.txt`: a client proves that it has one of them, and writes as the user of its name. It is read
    /// for each connection. Default: no client has to.
    pub keys: Option<PathBuf>,
    /// Whether clients speak TLS, with the certificate of `[tls]`. Default false.
    pub tls: bool,
    /// The ack that a connection waits for before it has more than [`Limits::appends_waiting_max`] appends under way. The sender notices only the
    /// slower pace. Default disk.
    pub ack: AckClass,
}

/// Bounds on everything that a client can ask for. None can be turned off.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of one message: a request's body, also once unpacked, or a Flight message. Default 64 MiB.
    pub message_bytes_max: usize,
    /// Bytes of one line: of line protocol, and of CSV and JSON lines over HTTP. Default 64 KiB.
    pub line_bytes_max: usize,
    /// Columns that rows may give a table, its time among them. A line or batch that would add more is refused. Default 4,096, which is
    /// the most that any table can have.
    pub columns_max: usize,
    /// Bytes that the rows of one message of line protocol may take in all columns of their tables, nulls counted as values: few bytes
    /// may name many columns. A message with more is refused. Default 256 MiB.
    pub rows_bytes_max: usize,
    /// Connections for HTTP and Flight. More are closed at once. Default 1,024.
    pub connections_max: usize,
    /// Most connections from one address. Default 256.
    pub client_connections_max: usize,
    /// Connections for line protocol over TCP, which have places of their own. More are closed at once. Default 256.
    pub line_connections_max: usize,
    /// Most connections from one address. Default 128.
    pub line_client_connections_max: usize,
    /// Connections for PostgreSQL's wire protocol, which clients keep open between statements and which have places of their own. More are
    /// refused. Default 256.
    pub postgres_connections_max: usize,
    /// Most connections from one address. Default 128.
    pub postgres_client_connections_max: usize,
    /// Seconds that a connection of PostgreSQL's wire protocol may wait for its next statement. Default 3,600.
    pub postgres_idle_seconds_max: u64,
    /// Seconds in which a client must have sent the head of a request, or a TLS handshake. Also how long an HTTP connection may
    /// wait for its next request. Default 30.
    pub head_seconds_max: u64,
    /// Seconds in which a client must have sent the body of a request. Default 60.
    pub body_seconds_max: u64,
    /// Seconds that a connection for line protocol may be silent. Where its first line looks like a request's, the rest of that has to
    /// come within [`Limits::head_seconds_max`]. Default 600.
    pub idle_seconds_max: u64,
    /// Bytes that a statement's sorts, joins and groups may hold. Default 1 GiB.
    pub statement_bytes_max: usize,
    /// Bytes that all statements together may hold, answers of tick plans that are being sent among them. One that asks for more than is left
    /// is refused, to be tried again. Default: half of the machine's memory, or of the container's, at least
    /// [`Limits::statement_bytes_max`].
    pub statements_bytes_max: Option<usize>,
    /// Bytes of answers of tick plans that are cached for equal statements over unchanged tables. Default 0: none.
    pub result_cache_bytes: usize,
    /// Seconds from a statement's arrival to the last row sent. Default 60.
    pub statement_seconds_max: u64,
    /// Most rows of an answer. A statement with more fails; its answer isn't truncated. Default 100 million.
    pub statement_rows_max: u64,
    /// Slots for long-running statements, each of which has a thread of its own. There are as many slots again for
    /// short statements. Default 16.
    pub statements_max: usize,
    /// Most statements that wait for a slot, or for their client to read. Further ones are refused as `busy`, or
    /// stopped if they already run. Default 64.
    pub statements_waiting_max: usize,
    /// Most prepared statements that are kept. The least recently used one is dropped first. Default 1,024.
    pub prepared_max: usize,
    /// Subscriptions at a time, each on a thread of its own. Default 128.
    pub subscriptions_max: usize,
    /// Bytes that wait for a subscriber that reads slowly. Default 16 MiB.
    pub subscription_bytes_max: usize,
    /// Appends of one connection that wait for their ack. Default 64.
    pub appends_waiting_max: usize,
    /// Seconds that running requests may take to end when the server stops. Default 10.
    pub shutdown_seconds_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes_max: 64 << 20,
            line_bytes_max: 64 << 10,
            columns_max: splay_store::COLUMNS_MAX,
            rows_bytes_max: 256 << 20,
            connections_max: 1024,
            client_connections_max: 256,
            line_connections_max: 256,
            line_client_connections_max: 128,
            postgres_connections_max: 256,
            postgres_client_connections_max: 128,
            postgres_idle_seconds_max: 3600,
            head_seconds_max: 30,
            body_seconds_max: 60,
            idle_seconds_max: 600,
            statement_bytes_max: 1 << 30,
            statements_bytes_max: None,
            result_cache_bytes: 0,
            statement_seconds_max: 60,
            statement_rows_max: 100_000_000,
            statements_max: 16,
            statements_waiting_max: 64,
            prepared_max: 1024,
            subscriptions_max: 128,
            subscription_bytes_max: 16 << 20,
            appends_waiting_max: 64,
            shutdown_seconds_max: 10,
        }
    }
}

impl Limits {
    pub(crate) fn head(&self) -> Duration {
        Duration::from_secs(self.head_seconds_max)
    }

    pub(crate) fn body(&self) -> Duration {
        Duration::from_secs(self.body_seconds_max)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds_max)
    }

    pub(crate) fn postgres_idle(&self) -> Duration {
        Duration::from_secs(self.postgres_idle_seconds_max)
    }

    pub(crate) fn statement(&self) -> Duration {
        Duration::from_secs(self.statement_seconds_max)
    }

    /// Memory of all statements.
    pub(crate) fn statements_bytes(&self) -> usize {
        self.statements_bytes_max.unwrap_or_else(|| half_of_memory().max(self.statement_bytes_max))
    }

    pub(crate) fn shutdown(&self) -> Duration {
        Duration::from_secs(self.shutdown_seconds_max)
    }

    /// The limits for a decoder of line protocol.
    pub(crate) fn lines(&self) -> LineSettings {
        LineSettings { line_bytes_max: self.line_bytes_max, columns_max: self.columns_max, ..LineSettings::default() }
    }

    fn validate(&self) -> Result<()> {
        let at_least_one = [
            ("limits.connections_max", self.connections_max),
            ("limits.client_connections_max", self.client_connections_max),
            ("limits.line_connections_max", self.line_connections_max),
            ("limits.line_client_connections_max", self.line_client_connections_max),
            ("limits.postgres_connections_max", self.postgres_connections_max),
            ("limits.postgres_client_connections_max", self.postgres_client_connections_max),
            ("limits.rows_bytes_max", self.rows_bytes_max),
            ("limits.statements_max", self.statements_max),
            ("limits.prepared_max", self.prepared_max),
            ("limits.appends_waiting_max", self.appends_waiting_max),
            ("limits.line_bytes_max", self.line_bytes_max),
        ];
        for (setting, value) in at_least_one {
            if value == 0 {
                return Err(Error::Setting { setting: setting.to_owned(), reason: "must be at least 1".to_owned() });
            }
        }
        let seconds = [
            ("limits.head_seconds_max", self.head_seconds_max),
            ("limits.body_seconds_max", self.body_seconds_max),
            ("limits.idle_seconds_max", self.idle_seconds_max),
            ("limits.statement_seconds_max", self.statement_seconds_max),
            ("limits.postgres_idle_seconds_max", self.postgres_idle_seconds_max),
        ];
        for (setting, value) in seconds {
            if value == 0 || value > 86_400 {
                let reason = format!("{value} is not between 1 and 86,400 seconds");
                return Err(Error::Setting { setting: setting.to_owned(), reason });
            }
        }
        if !(2..=splay_store::COLUMNS_MAX).contains(&self.columns_max) {
            let reason = format!("{} is not between 2 and {}", self.columns_max, splay_store::COLUMNS_MAX);
            return Err(Error::Setting { setting: "limits.columns_max".to_owned(), reason });
        }
        // Larger sizes are most likely a mistake, and Flight counts in 32 bits.
        if !(1024..=2 << 30).contains(&self.message_bytes_max) {
            let reason = format!("{} is not between 1 KiB and 2 GiB", self.message_bytes_max);
            return Err(Error::Setting { setting: "limits.message_bytes_max".to_owned(), reason });
        }
        Ok(())
    }
}

/// Authentication besides the users of the database. Without tokens and users everybody on this machine may do everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Tokens, one table each: `[[auth.tokens]]`.
    pub tokens: Vec<Token>,
    /// A TOML file of more `[[tokens]]`, so that the settings can be shown and the tokens not.
    pub token_file: Option<PathBuf>,
    /// The role whose rights requests have that show neither token nor password, once the database has users. Default none: they are refused.
    pub anonymous: Option<String>,
    /// An OpenID Connect provider whose users are let in. Default none.
    pub oidc: Option<Oidc>,
}

/// One token, which is not stored: only its digest is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The name of the token's owner; shown in logs.
    pub name: String,
    /// BLAKE3 digest of the token, 64 hexadecimal digits. `splay token` makes a token and its digest.
    pub blake3: String,
    /// The roles of the token. Default: read and write.
    #[serde(default = "Role::all")]
    pub roles: Vec<Role>,
}

/// A role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Statements, tables, subscriptions, metrics.
    Read,
    /// Rows.
    Write,
    /// All that the database holds, users and roles among it, for a follower; and a follower's promotion.
    Replicate,
}

impl Role {
    fn all() -> Vec<Role> {
        vec![Role::Read, Role::Write]
    }
}

/// Certificate and key for HTTP, Flight and PostgreSQL's wire protocol, PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate, then those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificates that vouch for those of clients. With them a client without such a certificate gets no connection.
    pub client_authority: Option<PathBuf>,
}

impl Settings {
    /// Reads a settings file. Relative paths in it are taken from its folder.
    ///
    /// # Errors
    /// [`Error::Io`] if it can't be read, [`Error::Setting`] for what can't be understood.
    pub fn read(path: impl AsRef<Path>) -> Result<Settings> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        let mut settings = Settings::parse(&text).map_err(|error| match error {
            Error::Setting { setting, reason } => {
                Error::Setting { setting: format!("{}: {setting}", path.display()), reason }
            }
            other => other,
        })?;
        if let Some(folder) = path.parent() {
            let from_folder = |file: &mut PathBuf| *file = folder.join(&*file);
            settings.auth.token_file.iter_mut().chain(settings.audit.paths()).for_each(from_folder);
            settings.auth.oidc.iter_mut().flat_map(Oidc::paths).for_each(from_folder);
            settings.line.keys.iter_mut().for_each(from_folder);
            if let Some(tls) = &mut settings.tls {
                [&mut tls.certificate, &mut tls.key].into_iter().chain(&mut tls.client_authority).for_each(from_folder);
            }
        }
        Ok(settings)
    }

    /// Settings from the text of a settings file.
    ///
    /// # Errors
    /// [`Error::Setting`] for what can't be understood.
    pub fn parse(text: &str) -> Result<Settings> {
        let settings: Settings = toml::from_str(text)
            .map_err(|error| Error::Setting { setting: "settings file".to_owned(), reason: error.to_string() })?;
        settings.validate()?;
        Ok(settings)
    }

    /// Checks what the types can't say.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn validate(&self) -> Result<()> {
        self.limits.validate()?;
        self.auth.oidc.iter().try_for_each(Oidc::validate)?;
        if self.line.tls && self.tls.is_none() {
            let reason = "lines by TLS need the certificate and the key of [tls]".to_owned();
            return Err(Error::Setting { setting: "line.tls".to_owned(), reason });
        }
        self.audit.validate()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        assert_eq!(Settings::default().http.address, Address::At("127.0.0.1:7750".parse().unwrap()));
        assert_eq!(Settings::default().flight.address, Address::At("127.0.0.1:7751".parse().unwrap()));
    }

    #[test]
    fn every_section_is_understood() {
        let text = r#"
            [http]
            address = "127.0.0.1:0"
            [flight]
            address = "off"
            [postgres]
            address = "127.0.0.1:8812"
            [line]
            address = "127.0.0.1:9109"
            [limits]
            message_bytes_max = 1048576
            statements_max = 2
            [auth]
            token_file = "tokens.toml"
            anonymous = "guest"
            [[auth.tokens]]
            name = "feed"
            blake3 = "00"
            roles = ["write"]
            [tls]
            certificate = "cert.pem"
            key = "key.pem"
            [audit]
            log = "changes"
            when_full = "go_on"
            folder = "/var/log/market"
            keep_days = 0
            [capture]
            live_rows_max = 1000
        "#;
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.flight.address, Address::Off);
        assert_eq!(settings.limits.statements_max, 2);
        assert_eq!(settings.auth.tokens[0].roles, [Role::Write]);
        assert_eq!(settings.auth.anonymous.as_deref(), Some("guest"));
        assert!(settings.capture.contains_key("live_rows_max"));
        assert!(settings.audit.log == AuditLevel::Changes && settings.audit.log < AuditLevel::Statements);
        assert_eq!((settings.audit.when_full, settings.audit.keep_days), (WhenFull::GoOn, 0));
    }

    #[test]
    fn what_is_not_known_or_out_of_bounds_is_refused() {
        for text in [
            "[htp]\naddress = \"off\"",
            "[limits]\nstatements = 3",
            "[limits]\nstatements_max = 0",
            "[limits]\nmessage_bytes_max = 10",
            "[limits]\ncolumns_max = 1",
            "[limits]\ncolumns_max = 4097",
            "[limits]\nstatement_seconds_max = 0",
            "[http]\naddress = \"everywhere\"",
            "[[auth.tokens]]\nname = \"a\"",
            "[audit]\nlog = \"some\"",
            "[audit]\nfile_bytes_max = 10",
            "[audit]\nkey = \"secret\"",
        ] {
            assert!(Settings::parse(text).is_err(), "{text}");
        }
    }
}
