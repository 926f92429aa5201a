//! An executor: a server that runs leaves.

use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use splay_sql::Session;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use crate::VERSION;
use crate::error::{Error, Result};
use crate::leaf::LeafCodec;
use crate::token::Token;

/// Serves until the process ends.
///
/// # Errors
/// [`Error::Io`] if it can't listen any more.
pub async fn serve(listener: TcpListener, session: Session, token: Token) -> Result<()> {
    let worker = Worker::from_session_builder(move |context: WorkerQueryContext| {
        let session = session.clone();
        async move { Ok(context.builder.with_distributed_user_codec(LeafCodec { session: Some(session) }).build()) }
    });
    let worker = worker.with_version(VERSION).into_worker_server();
    let guarded = InterceptedService::new(worker, move |request| token.check(request));
    Server::builder()
        .tcp_nodelay(true)
        .add_service(guarded)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
        .map_err(|error| Error::Server { server: "the executor".to_owned(), reason: error.to_string() })
}
