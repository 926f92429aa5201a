//! Subscriptions over DoExchange.
//!
//! The descriptor of the client's first message is the request, as JSON; metadata of later messages gives credit. The
//! server sends the schema, then rows whose metadata describes the update.

use std::pin::Pin;

use arrow_flight::FlightData;
use futures::{Stream, StreamExt};
use tonic::{Status, Streaming};

use super::encode::Messages;
use crate::callers::Caller;
use crate::http::HttpState;
use crate::problem::{Code, Outcome, Problem};
use crate::subscription_requests::{CreditMessage, Format, SubscriptionRequest};

/// A stream of updates.
pub(super) type UpdateStream = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Starts what the client's first message asks for.
pub(super) async fn exchange(
    shared: &HttpState,
    caller: Caller,
    mut requests: Streaming<FlightData>,
) -> Outcome<UpdateStream> {
    let place = shared.subscriptions.place(&caller)?;
    let first = tokio::time::timeout(shared.limits.head(), requests.message()).await;
    let first = first.map_err(|_| Problem::new(Code::TooSlow, "no subscription request arrived"))?;
    let broken = |status: Status| Problem::new(Code::Request, status.message());
    let first = first.map_err(broken)?.ok_or_else(|| Problem::new(Code::Request, "no subscription request arrived"))?;
    let command = first.flight_descriptor.map(|descriptor| descriptor.cmd).unwrap_or_default();
    let ask = SubscriptionRequest::parse(&command)?;
    if ask.format != Format::Arrow {
        return Err(Problem::new(Code::Request, "Flight sends Arrow"));
    }
    if ask.tables().len() > 1 {
        let text = "a Flight stream has one schema: one table for each; their updates' numbers count together";
        return Err(Problem::new(Code::Request, text));
    }
    let follower = shared.follower(caller, &ask);
    let updates = shared.subscriptions.open((place, follower), &ask, Messages::new()).await?;
    let state = (updates, requests, true);
    let stream = futures::stream::unfold(Some(state), |state| async move {
        let (mut updates, mut requests, mut listens) = state?;
        loop {
            tokio::select! {
                message = updates.messages.recv() => return match message {
                    Some(Ok(message)) => Some((Ok(message), Some((updates, requests, listens)))),
                    Some(Err(problem)) => Some((Err(problem.into()), None)),
                    None if updates.is_over() => None,
                    None => Some((Err(Problem::new(Code::Closed, "the subscription ended").into()), None)),
                },
                more = requests.next(), if listens => match more {
                    Some(Ok(message)) => match more_credit(&message) {
                        Ok(credit) => updates.credit.give(credit),
                        Err(problem) => return Some((Err(problem.into()), None)),
                    },
                    // Whoever said all he wants to say may still listen, unless his credit is bounded.
                    None => listens = false,
                    Some(Err(_)) => return None,
                },
            }
        }
    });
    Ok(Box::pin(stream))
}

/// Credit that a message gives; none for one that says nothing, as some clients send.
fn more_credit(message: &FlightData) -> Outcome<u64> {
    if message.app_metadata.is_empty() {
        return Ok(0);
    }
    Ok(CreditMessage::parse(&message.app_metadata)?.credit)
}
