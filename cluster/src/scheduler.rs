//! A scheduler: an Arrow Flight server whose tickets are statements.
//!
//! `DoGet` with the text of a statement as its ticket returns the rows; all other calls are refused. A statement uses the executors that
//! answer when it begins. If one dies later, the statement fails, and the next one runs without it.

use std::pin::Pin;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{Stream, StreamExt, TryStreamExt};
use splay_sql::{Answer, RunLeaves, Session, SliceSettings};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::error::{Error, Result};
use crate::executors::{Executors, StatementExecutors};
use crate::remote::RemoteLeafRunner;
use crate::token::Token;

/// Batches that wait for a client.
const BATCHES_WAITING: usize = 4;

/// A scheduler, which answers statements.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// The database.
    pub session: Session,
    /// The executors, which run leaves.
    pub executors: Executors,
    /// Slices for each executor. More of them even out their costs; each costs the planning of its part.
    pub slices_per_executor: usize,
    /// Rows of the tables below which another slice costs more than it saves.
    pub slice_rows_min: u64,
    /// Places of statements that run at a time. Others wait for one.
    pub places: Arc<Semaphore>,
}

impl Scheduler {
    /// Serves until the process ends.
    ///
    /// # Errors
    /// [`Error::Server`] if it can't listen any more.
    pub async fn serve(self, listener: TcpListener, token: Token) -> Result<()> {
        let guarded = InterceptedService::new(FlightServiceServer::new(self), move |request| token.check(request));
        Server::builder()
            .tcp_nodelay(true)
            .add_service(guarded)
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await
            .map_err(|error| Error::Server { server: "the scheduler".to_owned(), reason: error.to_string() })
    }

    /// Starts a statement at its place, which it holds while it is planned, also if the client gives up meanwhile.
    ///
    /// # Errors
    /// A status with the reason.
    async fn start(
        &self,
        text: String,
        place: OwnedSemaphorePermit,
    ) -> std::result::Result<(Answer, OwnedSemaphorePermit), Status> {
        let urls = self.executors.alive().await.map_err(|error| Status::failed_precondition(error.to_string()))?;
        let slicing = SliceSettings {
            slices: urls.len().saturating_mul(self.slices_per_executor.max(1)),
            slice_rows_min: self.slice_rows_min,
        };
        let executors = self.executors.clone();
        let run: Arc<dyn RunLeaves> = Arc::new(RemoteLeafRunner {
            executors,
            statement_executors: StatementExecutors(urls.into()),
            network: Handle::current(),
        });
        let session = self.session.clone();
        let start = move || session.sql_in_slices(&text, slicing, &run).map(|answer| (answer, place));
        let started = tokio::task::spawn_blocking(start).await;
        started.map_err(|error| Status::internal(error.to_string()))?.map_err(|error| status_of(&error))
    }
}

fn status_of(error: &splay_sql::Error) -> Status {
    match error {
        splay_sql::Error::Internal { message } => Status::internal(message.clone()),
        other => Status::invalid_argument(other.to_string()),
    }
}

type BoxedStream<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send + 'static>>;

fn refused<T>() -> std::result::Result<Response<T>, Status> {
    Err(Status::unimplemented("a scheduler answers DoGet alone, with the text of a statement as the ticket"))
}

#[tonic::async_trait]
impl FlightService for Scheduler {
    type HandshakeStream = BoxedStream<HandshakeResponse>;
    type ListFlightsStream = BoxedStream<FlightInfo>;
    type DoGetStream = BoxedStream<FlightData>;
    type DoPutStream = BoxedStream<PutResult>;
    type DoActionStream = BoxedStream<arrow_flight::Result>;
    type ListActionsStream = BoxedStream<ActionType>;
    type DoExchangeStream = BoxedStream<FlightData>;

    async fn do_get(&self, request: Request<Ticket>) -> std::result::Result<Response<Self::DoGetStream>, Status> {
        let text = String::from_utf8(request.into_inner().ticket.to_vec())
            .map_err(|_| Status::invalid_argument("the statement isn't UTF-8"))?;
        let place =
            Arc::clone(&self.places).acquire_owned().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let (answer, place) = self.start(text, place).await?;
        let schema = answer.schema();
        let (sender, receiver) = mpsc::channel::<std::result::Result<RecordBatch, FlightError>>(BATCHES_WAITING);
        tokio::task::spawn_blocking(move || {
            let _place = place;
            for batch in answer {
                let batch = batch.map_err(|error| FlightError::Tonic(Box::new(status_of(&error))));
                let is_last = batch.is_err();
                if sender.blocking_send(batch).is_err() || is_last {
                    return;
                }
            }
        });
        let encoded = FlightDataEncoderBuilder::new().with_schema(schema).build(ReceiverStream::new(receiver));
        Ok(Response::new(encoded.map_err(Status::from).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> std::result::Result<Response<Self::HandshakeStream>, Status> {
        refused()
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> std::result::Result<Response<Self::ListFlightsStream>, Status> {
        refused()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> std::result::Result<Response<FlightInfo>, Status> {
        refused()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> std::result::Result<Response<PollInfo>, Status> {
        refused()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> std::result::Result<Response<SchemaResult>, Status> {
        refused()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> std::result::Result<Response<Self::DoPutStream>, Status> {
        refused()
    }

    async fn do_action(&self, _: Request<Action>) -> std::result::Result<Response<Self::DoActionStream>, Status> {
        refused()
    }

    async fn list_actions(&self, _: Request<Empty>) -> std::result::Result<Response<Self::ListActionsStream>, Status> {
        refused()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> std::result::Result<Response<Self::DoExchangeStream>, Status> {
        refused()
    }
}
