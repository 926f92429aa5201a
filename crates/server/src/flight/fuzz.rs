//! A target for fuzzing: any messages to any method of Flight, from the bytes of the protocol on.
//!
//! The first byte names the method; then come messages, each with its length in front as a short.

use arrow::array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int32Type;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{CommandGetDbSchemas as GetSchemas, CommandGetTables as GetTables};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, StatusCode};
use futures::TryStreamExt;
use splay_mutate::{Bytes as Input, Run};
use tower::ServiceExt;

use super::*;
use crate::fuzz;

/// Methods of Flight.
const METHODS: [&str; 10] = [
    "DoPut",
    "DoExchange",
    "DoGet",
    "GetFlightInfo",
    "DoAction",
    "GetSchema",
    "PollFlightInfo",
    "ListFlights",
    "ListActions",
    "Handshake",
];

/// The prepared statement that there is.
const HANDLE: &[u8] = b"prepared";

/// Flight, with one prepared statement of which nothing is bound yet.
fn front() -> Router {
    let shared = fuzz::shared();
    let prepared = Arc::new(PreparedStatements::new(8));
    let statement = FlightStatement { text: "select $a".to_owned(), parameters: vec!["a".to_owned()], bound: None };
    assert!(prepared.put(Bytes::from_static(HANDLE), statement).is_ok());
    router_of(FlightFront { shared, prepared, running: super::RunningStatements::default(), spent: Arc::default() })
}

/// A request as HTTP/2 brings it.
fn request(bytes: &[u8]) -> Request<Body> {
    let mut bytes = Input::new(bytes);
    let path = format!("/arrow.flight.protocol.FlightService/{}", bytes.pick(&METHODS));
    let mut body = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(bytes.short());
        let message = bytes.take(length);
        body.push(0);
        body.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.extend_from_slice(message);
    }
    let request = Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let request = request.header("splay-producer", "feed").body(Body::from(body));
    request.unwrap_or_else(|error| panic!("{error}"))
}

/// An input of a method and its messages.
fn input(method: &str, messages: &[Vec<u8>]) -> Vec<u8> {
    let method = METHODS.iter().position(|other| *other == method).unwrap_or(0);
    let mut input = vec![u8::try_from(method).unwrap_or(0)];
    for message in messages {
        input.extend(u16::try_from(message.len()).unwrap_or(u16::MAX).to_le_bytes());
        input.extend_from_slice(message);
    }
    input
}

/// Messages of a stream of rows, behind a descriptor.
fn rows(descriptor: FlightDescriptor) -> Vec<Vec<u8>> {
    let symbols: DictionaryArray<Int32Type> = ["A", "B", "A"].into_iter().collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("time", Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3]).with_timezone("UTC"))),
        ("sym", Arc::new(symbols)),
        ("price", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap_or_else(|error| panic!("{error}"));
    let encoded = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor))
        .with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend)
        .build(futures::stream::iter([Ok(batch)]));
    let messages: Result<Vec<FlightData>, _> = fuzz::runtime().block_on(encoded.try_collect());
    let messages = messages.unwrap_or_else(|error| panic!("{error}"));
    let numbered = messages.into_iter().enumerate().map(|(number, mut message)| {
        if number > 0 {
            message.app_metadata = Bytes::from(format!("{{\"sequence\": {number}}}"));
        }
        message.encode_to_vec()
    });
    numbered.collect()
}

fn samples() -> Vec<Vec<u8>> {
    let command = |any: Any| FlightDescriptor::new_cmd(any.encode_to_vec());
    let ticket = |any: Any| Ticket::new(any.encode_to_vec()).encode_to_vec();
    let handle = || Bytes::from_static(HANDLE);
    let ask =
        r#"{"table": "trade", "symbols": ["A"], "columns": ["price"], "after": 7, "slow": "catch_up", "credit": 2}"#;
    let exchange = FlightData { flight_descriptor: Some(FlightDescriptor::new_cmd(ask)), ..FlightData::default() };
    let more = FlightData {
        app_metadata: Bytes::from_static(br#"{"credit": 18446744073709551615}"#),
        ..FlightData::default()
    };
    let action =
        |name: &str, any: Any| Action { r#type: name.to_owned(), body: any.encode_to_vec().into() }.encode_to_vec();
    let create = ActionCreatePreparedStatementRequest { query: "select 1".to_owned(), transaction_id: None };
    let close = ActionClosePreparedStatementRequest { prepared_statement_handle: Bytes::from_static(b"other") };
    let prepared = CommandPreparedStatementQuery { prepared_statement_handle: handle() };
    let ingest = CommandStatementIngest { table: "trade".to_owned(), ..CommandStatementIngest::default() };
    let tables =
        GetTables { table_name_filter_pattern: Some("tr%_".to_owned()), include_schema: true, ..GetTables::default() };
    let query = CommandStatementQuery { query: "select 1".to_owned(), transaction_id: None };
    let info = CommandGetSqlInfo { info: vec![0, 1, 8] };
    vec![
        input("DoPut", &rows(FlightDescriptor::new_path(vec!["trade".to_owned()]))),
        input("DoPut", &rows(command(ingest.as_any()))),
        input("DoPut", &rows(command(prepared.as_any()))),
        input("DoExchange", &[exchange.encode_to_vec(), more.encode_to_vec(), more.encode_to_vec()]),
        input("DoGet", &[ticket(TicketStatementQuery { statement_handle: "select 1".into() }.as_any())]),
        input("DoGet", &[ticket(prepared.as_any())]),
        input("DoGet", &[ticket(tables.as_any())]),
        input("DoGet", &[ticket(info.as_any())]),
        input("DoGet", &[ticket(GetSchemas { catalog: Some("splay".to_owned()), ..GetSchemas::default() }.as_any())]),
        input("GetFlightInfo", &[command(query.as_any()).encode_to_vec()]),
        input("GetFlightInfo", &[command(tables.as_any()).encode_to_vec()]),
        input("GetFlightInfo", &[FlightDescriptor::new_path(vec!["trade".to_owned()]).encode_to_vec()]),
        input("GetSchema", &[command(query.as_any()).encode_to_vec()]),
        input("DoAction", &[action("CreatePreparedStatement", create.as_any())]),
        input("DoAction", &[action("ClosePreparedStatement", close.as_any())]),
        input("Handshake", &[HandshakeRequest { protocol_version: 0, payload: Bytes::new() }.encode_to_vec()]),
    ]
}

#[test]
fn any_messages_are_answered() {
    let (router, runtime) = (front(), fuzz::runtime());
    let target = |bytes: &[u8]| {
        runtime.block_on(async {
            let answered = router.clone().oneshot(request(bytes)).await;
            let response = answered.unwrap_or_else(|never| match never {});
            // Errors are in the trailers; a panic would end the body or the request without them.
            assert_eq!(response.status(), StatusCode::OK);
            let mut status = response.headers().contains_key("grpc-status");
            let mut body = response.into_body();
            while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                status |= frame.is_ok_and(|frame| frame.is_trailers());
            }
            assert!(status, "no last word");
        });
    };
    Run { inputs: 5_000, bytes_max: 1 << 14, memory: fuzz::MEMORY, ..Run::default() }.feed(&samples(), target);
}
