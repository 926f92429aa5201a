//! Connections to executors, and the check that they answer and run the scheduler's version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest, WorkerChannel, WorkerResolver};
use tonic::transport::Channel;
use tower::ServiceExt;
use url::Url;

use crate::VERSION;
use crate::error::{Error, Result};
use crate::token::{OTHER_TOKEN, Token};

/// The longest that connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// The longest wait for an executor's version.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Time between two pings of an executor that sends nothing.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The longest wait for the answer to a ping. After it the statements on the executor fail.
const PING_ANSWER_MAX: Duration = Duration::from_secs(10);

/// The executors of a scheduler.
#[derive(Clone, Debug)]
pub struct Executors {
    urls: Arc<[Url]>,
    token: Token,
    channels: Arc<Mutex<HashMap<Url, Channel>>>,
}

impl Executors {
    /// The executors at these URLs.
    ///
    /// # Errors
    /// [`Error::Settings`] if there are none, or one is no URL.
    pub fn new(urls: &[String], token: Token) -> Result<Executors> {
        let urls: Vec<Url> = urls
            .iter()
            .map(|url| {
                let parsed = Url::parse(url).ok().filter(|url| url.scheme() == "http" && url.host_str().is_some());
                parsed.ok_or_else(|| Error::settings(format!("{url} isn't the URL of an executor: http://HOST:PORT")))
            })
            .collect::<Result<_>>()?;
        match urls.is_empty() {
            true => Err(Error::settings("a scheduler has one executor or more")),
            false => Ok(Executors { urls: urls.into(), token, channels: Arc::default() }),
        }
    }

    /// The number of executors.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.urls.len()
    }

    fn channel(&self, url: &Url) -> std::result::Result<BoxCloneSyncChannel, DataFusionError> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = match channels.get(url) {
            Some(channel) => channel.clone(),
            None => {
                let endpoint = Channel::from_shared(url.to_string())
                    .map_err(|error| DataFusionError::Configuration(format!("{url}: {error}")))?
                    .connect_timeout(CONNECT_MAX)
                    .tcp_nodelay(true)
                    .http2_keep_alive_interval(PING_INTERVAL)
                    .keep_alive_timeout(PING_ANSWER_MAX)
                    .keep_alive_while_idle(false);
                let channel = endpoint.connect_lazy();
                channels.insert(url.clone(), channel.clone());
                channel
            }
        };
        let header = self.token.header().cloned();
        let shown = channel.map_request(move |mut request: http::Request<tonic::body::Body>| {
            if let Some(value) = header.as_ref().and_then(|value| http::HeaderValue::from_bytes(value.as_bytes()).ok())
            {
                request.headers_mut().insert(http::header::AUTHORIZATION, value);
            }
            request
        });
        Ok(BoxCloneSyncChannel::new(shown))
    }

    /// The executors that answer. One that runs another version, or has another token, is an error: otherwise the error would come in the middle
    /// of a statement.
    ///
    /// # Errors
    /// [`Error::Server`] for such an executor, or if none answers.
    pub async fn alive(&self) -> Result<Vec<Url>> {
        let answers =
            futures::future::join_all(self.urls.iter().map(|url| async move { (url, self.version(url).await) })).await;
        let (mut alive, mut silent) = (Vec::new(), Vec::new());
        for (url, answer) in answers {
            match answer {
                Ok(version) if version == VERSION => alive.push(url.clone()),
                Ok(version) => {
                    let reason = format!("it runs version {version}, the scheduler {VERSION}");
                    return Err(Error::Server { server: url.to_string(), reason });
                }
                Err(reason) if reason.contains(OTHER_TOKEN) => {
                    return Err(Error::Server { server: url.to_string(), reason });
                }
                Err(reason) => silent.push(format!("{url}: {reason}")),
            }
        }
        match alive.is_empty() {
            true => Err(Error::Server { server: "no executor answers".to_owned(), reason: silent.join("; ") }),
            false => Ok(alive),
        }
    }

    async fn version(&self, url: &Url) -> std::result::Result<String, String> {
        let mut client = create_worker_client(self.channel(url).map_err(|error| error.to_string())?);
        let answer = tokio::time::timeout(ANSWER_MAX, client.get_worker_info(GetWorkerInfoRequest {})).await;
        match answer {
            Ok(Ok(info)) => Ok(info.version),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer in {ANSWER_MAX:?}")),
        }
    }
}

#[async_trait]
impl ChannelResolver for Executors {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> std::result::Result<Box<dyn WorkerChannel>, DataFusionError> {
        Ok(create_worker_client(self.channel(url)?))
    }
}

/// The executors of one statement.
#[derive(Clone, Debug)]
pub struct StatementExecutors(pub Arc<[Url]>);

impl WorkerResolver for StatementExecutors {
    fn get_urls(&self) -> std::result::Result<Vec<Url>, DataFusionError> {
        Ok(self.0.to_vec())
    }
}
