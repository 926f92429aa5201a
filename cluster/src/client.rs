//! A statement for a scheduler.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow_flight::Ticket;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::flight_service_client::FlightServiceClient;
use futures::{StreamExt, TryStreamExt};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::error::{Error, Result};
use crate::token::Token;

/// Asks a scheduler, and gives each batch of the answer to `take` when it arrives. If an error follows, the answer is incomplete. An answer
/// without rows is one batch without rows.
///
/// # Errors
/// [`Error::Statement`] with the scheduler's message; [`Error::Server`] if it can't be reached or breaks off.
pub async fn ask(url: &str, text: &str, token: &Token, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let server = |reason: String| Error::Server { server: url.to_owned(), reason };
    let endpoint = Channel::from_shared(url.to_owned()).map_err(|error| server(error.to_string()))?;
    let channel =
        endpoint.tcp_nodelay(true).connect().await.map_err(|error| server(format!("can't be reached: {error}")))?;
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX);
    let mut request = Request::new(Ticket { ticket: text.as_bytes().to_vec().into() });
    if let Some(value) = token.header() {
        request.metadata_mut().insert("authorization", value.clone());
    }
    let error_of = |status: Status| match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::Unauthenticated => {
            Error::Statement { reason: status.message().to_owned() }
        }
        _ => Error::Server { server: url.to_owned(), reason: status.message().to_owned() },
    };
    let answer = client.do_get(request).await.map_err(error_of)?.into_inner();
    let mut batches = FlightRecordBatchStream::new_from_flight_data(answer.map_err(Into::into));
    let mut is_empty = true;
    while let Some(batch) = batches.next().await {
        match batch {
            Ok(batch) => {
                is_empty = false;
                take(batch)?;
            }
            Err(arrow_flight::error::FlightError::Tonic(status)) => return Err(error_of(*status)),
            Err(error) => return Err(server(error.to_string())),
        }
    }
    match batches.schema() {
        Some(schema) if is_empty => take(RecordBatch::new_empty(Arc::clone(schema))),
        Some(_) => Ok(()),
        None => Err(server("the answer has no columns".to_owned())),
    }
}
