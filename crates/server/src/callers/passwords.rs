//! A cache of verified passwords, as keyed digests.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use splay_store::{Access, Secret};
use tokio::sync::Semaphore;

use crate::blocking::on_thread;
use crate::error::{Error, Result};
use crate::problem::{Code, Outcome, Problem};

/// Passwords that are hashed at a time, each with 19 MiB.
const HASHED_MAX: usize = 4;

/// Passwords and logins that are known again.
const CACHED_MAX: usize = 4096;

/// How long a login counts.
const LOGIN_TIME: Duration = Duration::from_secs(24 * 3600);

/// Digests of passwords that were verified, without any password itself.
pub(super) struct Passwords {
    /// A random key of this process. The digests are useless without it.
    key: [u8; 32],
    right: Mutex<LruCache<[u8; 32], ()>>,
    logins: Mutex<LruCache<[u8; 32], Login>>,
    hashing: Arc<Semaphore>,
}

/// A user who has logged in, and the mark of his password at that time.
#[derive(Clone)]
struct Login {
    user: Arc<str>,
    mark: Arc<str>,
    begun: Instant,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passwords")
    }
}

fn cache<T>() -> Mutex<LruCache<[u8; 32], T>> {
    Mutex::new(LruCache::new(NonZeroUsize::new(CACHED_MAX).unwrap_or(NonZeroUsize::MIN)))
}

impl Passwords {
    /// # Errors
    /// [`Error::Random`].
    pub(super) fn new() -> Result<Passwords> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| Error::Random { reason: error.to_string() })?;
        Ok(Passwords { key, right: cache(), logins: cache(), hashing: Arc::new(Semaphore::new(HASHED_MAX)) })
    }

    /// Whether this is the user's password, and he may log in.
    pub(super) async fn is_right(&self, access: &Arc<Access>, user: &str, password: &str, now: i64) -> Outcome<bool> {
        let role = access.role(user).filter(|role| role.may_log_in(now));
        let mark = role.and_then(|role| role.password.as_ref()).map_or_else(String::new, |stored| stored.mark());
        let digest = self.digest(&[&user.to_lowercase(), &mark, password]);
        let is_known =
            !mark.is_empty() && self.right.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).is_some();
        if is_known {
            return Ok(true);
        }
        let closed = |_| Problem::new(Code::Closed, "the server is stopping");
        let place = Arc::clone(&self.hashing).acquire_owned().await.map_err(closed)?;
        let (access, user, password) = (Arc::clone(access), user.to_owned(), password.to_owned());
        let is_right = on_thread(move || {
            let _place = place;
            access.user_of_password(&user, &password, now).is_some()
        });
        let is_right = is_right.await?;
        if is_right {
            self.right.lock().unwrap_or_else(PoisonError::into_inner).put(digest, ());
        }
        Ok(is_right)
    }

    /// What the verifiers of users that don't exist are derived from.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    fn digest(&self, parts: &[&str]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// A token for a user who has shown his password.
    pub(super) fn begin_login(&self, user: &Arc<str>, mark: &Arc<str>) -> Outcome<String> {
        let no_random = |_| Problem::new(Code::Internal, "the system gives no random bytes");
        let token = Secret::generate().map_err(no_random)?.token;
        let login = Login { user: Arc::clone(user), mark: Arc::clone(mark), begun: Instant::now() };
        self.logins.lock().unwrap_or_else(PoisonError::into_inner).put(self.digest(&[&token]), login);
        Ok(token)
    }

    /// The user that has such a token, and the mark of his password at that time.
    pub(super) fn login(&self, token: &str) -> Option<(Arc<str>, Arc<str>)> {
        let digest = self.digest(&[token]);
        let login = self.logins.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()?;
        (login.begun.elapsed() < LOGIN_TIME).then_some((login.user, login.mark))
    }
}
