//! Parses statements about users and roles: `CREATE USER`, `GRANT`, `CREATE POLICY`, `CREATE TOKEN` and related ones.
//!
//! The keywords are PostgreSQL's wherever it has them. No message shows the text after `PASSWORD`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::tokenizer::Token;
use splay_store::{PUBLIC, Policy, Privilege, Quota, ScramVerifier};

use crate::error::{Error, Result, fault};
use crate::syntax::is_word;
use crate::table_options;
use crate::times::instant;
use crate::token_reader::TokenReader;

/// A statement about users and roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessStatement {
    CreateRole { name: String, options: RoleOptions },
    AlterRole { name: String, options: RoleOptions },
    DropRoles { names: Vec<String>, if_exists: bool },
    GrantRoles { roles: Vec<String>, to: Vec<String> },
    RevokeRoles { roles: Vec<String>, from: Vec<String> },
    Grant(GrantClause),
    Revoke(GrantClause),
    CreatePolicy(Policy),
    DropPolicy { name: String, table: String, if_exists: bool },
    CreateToken { name: String, user: String, expires: Option<i64> },
    RotateToken { name: String, expires: Option<i64> },
    DropToken { name: String, if_exists: bool },
}

/// The options of `CREATE ROLE` and `ALTER ROLE`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct RoleOptions {
    pub(crate) login: Option<bool>,
    pub(crate) superuser: Option<bool>,
    pub(crate) bypasses_policies: Option<bool>,
    /// `Some(None)` removes the end of validity.
    pub(crate) valid_until: Option<Option<i64>>,
    /// `Some(None)` removes the password.
    pub(crate) password: Option<Option<String>>,
    pub(crate) in_roles: Vec<String>,
    /// New quotas; `None` removes a quota.
    pub(crate) quotas: BTreeMap<Quota, Option<u64>>,
}

impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoleOptions")
    }
}

/// Rights that are granted or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantClause {
    /// The privileges, each with its columns; no columns means all of them. Empty for `ALL`.
    pub(crate) privileges: Vec<(Privilege, Vec<String>)>,
    /// Tables and views; `None` for the database.
    pub(crate) tables: Option<Vec<String>>,
    pub(crate) roles: Vec<String>,
}

impl AccessStatement {
    /// Parses such a statement, and then reads all words; `None` for any other.
    ///
    /// # Errors
    /// [`Error::Statement`] for incomplete statements, and for unsupported parts by name.
    pub(crate) fn of(words: &mut TokenReader<'_>) -> Result<Option<AccessStatement>> {
        let statement = if words.take(&["create", "user"]) {
            create_role(words, true)?
        } else if words.take(&["create", "role"]) || words.take(&["create", "group"]) {
            create_role(words, false)?
        } else if words.take(&["alter", "user"]) || words.take(&["alter", "role"]) {
            let name = words.name("a role")?;
            let options = options(words)?;
            if !options.in_roles.is_empty() {
                return fault("ALTER ROLE has no IN ROLE: GRANT a role to it");
            }
            AccessStatement::AlterRole { name, options }
        } else if ["user", "role", "group"].iter().any(|kind| words.take(&["drop", kind])) {
            let if_exists = words.take(&["if", "exists"]);
            AccessStatement::DropRoles { names: role_names(words)?, if_exists }
        } else if words.take(&["create", "policy"]) {
            AccessStatement::CreatePolicy(policy(words)?)
        } else if words.take(&["drop", "policy"]) {
            let if_exists = words.take(&["if", "exists"]);
            let name = words.name("a policy")?;
            expect_word(words, "on", "DROP POLICY needs ON and a table")?;
            let table = words.table()?;
            AccessStatement::DropPolicy { name, table, if_exists }
        } else if words.take(&["alter", "policy"]) {
            return fault("ALTER POLICY is not supported: drop the policy and create it");
        } else if words.take(&["create", "token"]) {
            let name = words.name("a token")?;
            expect_word(words, "for", "CREATE TOKEN needs FOR and a user")?;
            let user = words.name("a user")?;
            AccessStatement::CreateToken { name, user, expires: valid_until(words)? }
        } else if words.take(&["alter", "token"]) {
            let name = words.name("a token")?;
            expect_word(words, "rotate", "ALTER TOKEN has ROTATE, which puts another token in its place")?;
            AccessStatement::RotateToken { name, expires: valid_until(words)? }
        } else if words.take(&["drop", "token"]) {
            let if_exists = words.take(&["if", "exists"]);
            AccessStatement::DropToken { name: words.name("a token")?, if_exists }
        } else if words.take(&["grant"]) {
            grant(words)?
        } else if words.take(&["revoke"]) {
            revoke(words)?
        } else {
            return Ok(None);
        };
        words.end()?;
        Ok(Some(statement))
    }

    /// The command tag that PostgreSQL answers such a statement with.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            AccessStatement::CreateRole { .. } => "CREATE ROLE",
            AccessStatement::AlterRole { .. } => "ALTER ROLE",
            AccessStatement::DropRoles { .. } => "DROP ROLE",
            AccessStatement::GrantRoles { .. } => "GRANT ROLE",
            AccessStatement::RevokeRoles { .. } => "REVOKE ROLE",
            AccessStatement::Grant(_) => "GRANT",
            AccessStatement::Revoke(_) => "REVOKE",
            AccessStatement::CreatePolicy(_) => "CREATE POLICY",
            AccessStatement::DropPolicy { .. } => "DROP POLICY",
            AccessStatement::CreateToken { .. } => "CREATE TOKEN",
            AccessStatement::RotateToken { .. } => "ALTER TOKEN",
            AccessStatement::DropToken { .. } => "DROP TOKEN",
        }
    }
}

fn expect_word(words: &mut TokenReader<'_>, word: &str, message: &str) -> Result<()> {
    if words.take(&[word]) { Ok(()) } else { fault(message) }
}

fn role_names(words: &mut TokenReader<'_>) -> Result<Vec<String>> {
    words.list(|words| words.name("a role"))
}

fn create_role(words: &mut TokenReader<'_>, login: bool) -> Result<AccessStatement> {
    let name = words.name("a role")?;
    let mut options = options(words)?;
    if options.quotas.values().any(Option::is_none) {
        return fault("RESET is of ALTER ROLE: a role that is created has no quotas");
    }
    options.login.get_or_insert(login);
    Ok(AccessStatement::CreateRole { name, options })
}

/// The options of a role, up to the end.
fn options(words: &mut TokenReader<'_>) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    words.take(&["with"]);
    while words.peek().is_some() {
        option(words, &mut options)?;
    }
    Ok(options)
}

fn option(words: &mut TokenReader<'_>, options: &mut RoleOptions) -> Result<()> {
    for (word, field) in [
        ("login", &mut options.login),
        ("superuser", &mut options.superuser),
        ("bypassrls", &mut options.bypasses_policies),
    ] {
        if words.take(&[word]) {
            *field = Some(true);
            return Ok(());
        }
        if words.take(&[&format!("no{word}")]) {
            *field = Some(false);
            return Ok(());
        }
    }
    // Every role here already has these options.
    if ["inherit", "nocreatedb", "nocreaterole", "noreplication"].iter().any(|word| words.take(&[word])) {
        return Ok(());
    }
    words.take(&["encrypted"]);
    if words.take(&["password"]) {
        let password = match words.peek() {
            Some(Token::SingleQuotedString(text)) => Some(text.replace("''", "'")),
            Some(token) if is_word(token, "null") => None,
            _ => return fault("PASSWORD needs a text in single quotes, or NULL"),
        };
        words.step();
        if password.as_deref().is_some_and(is_hash) {
            return fault(
                "PASSWORD takes the password itself, or a SCRAM-SHA-256 verifier of 4,096 iterations or more, as psql's \\password makes it",
            );
        }
        options.password = Some(password);
        return Ok(());
    }
    if let Some(until) = valid_until_or_never(words)? {
        options.valid_until = Some(until);
        return Ok(());
    }
    if words.take(&["in", "role"]) || words.take(&["in", "group"]) {
        options.in_roles.extend(role_names(words)?);
        return Ok(());
    }
    if let Some(quotas) = quotas(words)? {
        match quotas.keys().find(|quota| options.quotas.contains_key(quota)) {
            Some(twice) => return fault(format!("the quota {} is given twice", twice.as_str())),
            None => options.quotas.extend(quotas),
        }
        return Ok(());
    }
    // A word behind a password may be a part of it.
    let shown = match words.peek() {
        Some(Token::Word(word)) if options.password.is_none() => word.value.to_uppercase(),
        _ => "this".to_owned(),
    };
    fault(format!(
        "{shown} is no option of a role; there are LOGIN, SUPERUSER, BYPASSRLS, PASSWORD 'text', VALID UNTIL 'time', IN ROLE and SET (quota = value)"
    ))
}

/// The changes of quotas by `SET (…)`, `RESET (…)` or `RESET ALL`, if one of them comes next. A quota without a value is reset.
fn quotas(words: &mut TokenReader<'_>) -> Result<Option<BTreeMap<Quota, Option<u64>>>> {
    if words.take(&["reset", "all"]) {
        return Ok(Some(Quota::ALL.map(|quota| (quota, None)).into()));
    }
    let (is_set, Some(options)) =
        (words.peek().is_some_and(|token| is_word(token, "set")), table_options::of_change(words)?)
    else {
        return Ok(None);
    };
    let mut quotas = BTreeMap::new();
    for (name, value) in options {
        let Some(quota) = Quota::of(&name) else {
            return fault(format!("{name} is no quota of a role; there are {}", Quota::names()));
        };
        let value = match is_set {
            true => Some(quota.value(&value).map_err(|message| Error::Statement { message })?),
            false => None,
        };
        quotas.insert(quota, value);
    }
    Ok(Some(quotas))
}

/// Whether a text is a hash as PostgreSQL's clients send it in place of a password, and not one that can be stored.
fn is_hash(password: &str) -> bool {
    let is_md5 = password.len() == 35
        && password.strip_prefix("md5").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_md5 || password.starts_with("SCRAM-SHA-256$") && ScramVerifier::parse(password).is_none()
}

/// `VALID UNTIL`; no time means `infinity`.
fn valid_until(words: &mut TokenReader<'_>) -> Result<Option<i64>> {
    Ok(valid_until_or_never(words)?.flatten())
}

fn valid_until_or_never(words: &mut TokenReader<'_>) -> Result<Option<Option<i64>>> {
    if !words.take(&["valid"]) {
        return Ok(None);
    }
    expect_word(words, "until", "VALID needs UNTIL and a time")?;
    let text = match words.peek() {
        Some(Token::SingleQuotedString(text)) => text.clone(),
        _ => return fault("VALID UNTIL needs a time in single quotes, or 'infinity'"),
    };
    words.step();
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(Some(None));
    }
    let wrong = || Error::Statement { message: "VALID UNTIL: this is no time such as '2030-01-01'".to_owned() };
    Ok(Some(Some(instant(&text).ok_or_else(wrong)?)))
}

fn policy(words: &mut TokenReader<'_>) -> Result<Policy> {
    let name = words.name("a policy")?;
    expect_word(words, "on", "CREATE POLICY needs ON and a table")?;
    let table = words.table()?;
    let mut restrictive = false;
    if words.take(&["as"]) {
        restrictive = words.take(&["restrictive"]);
        if !restrictive && !words.take(&["permissive"]) {
            return fault("AS is followed by PERMISSIVE or RESTRICTIVE");
        }
    }
    if words.take(&["for"]) && !words.take(&["all"]) && !words.take(&["select"]) {
        return fault(
            "a policy is FOR ALL or FOR SELECT: whoever doesn't see all rows of a table changes none of them",
        );
    }
    let roles = if words.take(&["to"]) { role_names(words)? } else { vec![PUBLIC.to_owned()] };
    expect_word(words, "using", "CREATE POLICY needs USING and a condition in brackets")?;
    let condition = words.within_brackets()?.trim().to_owned();
    if condition.is_empty() {
        return fault("USING needs a condition");
    }
    if words.take(&["with", "check"]) {
        return fault("WITH CHECK is not supported: whoever doesn't see all rows of a table changes none of them");
    }
    Ok(Policy { name, table, restrictive, roles, condition })
}

fn grant(words: &mut TokenReader<'_>) -> Result<AccessStatement> {
    let statement = match privileges(words)? {
        Subject::Rights(privileges, tables) => {
            expect_word(words, "to", "GRANT needs TO and a role")?;
            AccessStatement::Grant(GrantClause { privileges, tables, roles: role_names(words)? })
        }
        Subject::Roles(roles) => {
            expect_word(words, "to", "GRANT needs ON and a table, or TO and a user")?;
            AccessStatement::GrantRoles { roles, to: role_names(words)? }
        }
    };
    for option in ["grant", "admin"] {
        if words.take(&["with", option, "option"]) {
            let option = option.to_uppercase();
            return fault(format!("WITH {option} OPTION is not supported: only superusers grant rights"));
        }
    }
    Ok(statement)
}

fn revoke(words: &mut TokenReader<'_>) -> Result<AccessStatement> {
    if words.take(&["grant", "option", "for"]) || words.take(&["admin", "option", "for"]) {
        return fault("REVOKE … OPTION FOR is not supported: only superusers grant rights");
    }
    let statement = match privileges(words)? {
        Subject::Rights(privileges, tables) => {
            expect_word(words, "from", "REVOKE needs FROM and a role")?;
            AccessStatement::Revoke(GrantClause { privileges, tables, roles: role_names(words)? })
        }
        Subject::Roles(roles) => {
            expect_word(words, "from", "REVOKE needs ON and a table, or FROM and a user")?;
            AccessStatement::RevokeRoles { roles, from: role_names(words)? }
        }
    };
    // Nothing depends on a right, so both words have the same effect.
    let _ = words.take(&["cascade"]) || words.take(&["restrict"]);
    Ok(statement)
}

/// The object of a `GRANT` or `REVOKE`.
enum Subject {
    Rights(Vec<(Privilege, Vec<String>)>, Option<Vec<String>>),
    Roles(Vec<String>),
}

/// The privileges, or roles, up to `TO` or `FROM`.
fn privileges(words: &mut TokenReader<'_>) -> Result<Subject> {
    if words.find(&["on"]).is_none() {
        return Ok(Subject::Roles(role_names(words)?));
    }
    let mut privileges = Vec::new();
    if words.take(&["all"]) {
        words.take(&["privileges"]);
        if words.peek_bracket() {
            return fault("ALL of some columns is not supported: name the rights");
        }
    } else {
        loop {
            privileges.push(privilege(words)?);
            match words.peek() {
                Some(Token::Comma) => words.step(),
                _ => break,
            }
        }
    }
    expect_word(words, "on", "expected ON behind the rights")?;
    if words.take(&["database"]) {
        words.name("the database")?;
        if privileges.iter().any(|(privilege, columns)| *privilege != Privilege::Create || !columns.is_empty()) {
            return fault("of the database there is the right to CREATE tables and views");
        }
        return Ok(Subject::Rights(vec![(Privilege::Create, Vec::new())], None));
    }
    if words.take(&["all", "tables"]) {
        return fault("ON ALL TABLES is not supported: grant the role pg_read_all_data or pg_write_all_data");
    }
    for kind in ["schema", "sequence", "function"] {
        if words.take(&[kind]) {
            return fault(format!("rights ON {} are not supported", kind.to_uppercase()));
        }
    }
    words.take(&["table"]);
    if privileges.iter().any(|(privilege, _)| *privilege == Privilege::Create) {
        return fault("CREATE is a right ON DATABASE");
    }
    let mut tables = vec![words.table()?];
    while words.peek() == Some(&Token::Comma) {
        words.step();
        tables.push(words.table()?);
    }
    Ok(Subject::Rights(privileges, Some(tables)))
}

fn privilege(words: &mut TokenReader<'_>) -> Result<(Privilege, Vec<String>)> {
    let word = words.name("a right")?;
    let Some(privilege) = Privilege::of(&word) else {
        return fault(format!(
            "{} is no right; there are SELECT, INSERT, UPDATE, DELETE, TRUNCATE, MAINTAIN, ALL and, ON DATABASE, CREATE",
            word.to_uppercase()
        ));
    };
    let columns = if words.peek_bracket() { words.names()? } else { Vec::new() };
    let takes_columns = matches!(privilege, Privilege::Select | Privilege::Insert | Privilege::Update);
    if !columns.is_empty() && !takes_columns {
        return fault(format!("{} is of whole tables", privilege.as_str()));
    }
    Ok((privilege, columns))
}
