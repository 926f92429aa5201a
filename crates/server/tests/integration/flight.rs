//! Flight SQL, rows by DoPut, subscriptions by DoExchange.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightData, FlightDescriptor, FlightInfo, Ticket};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use serde_json::{Value, json};
use splay_store::Secret;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::support::{Served, TRADES, trades};

pub fn with_channel<F: Future>(served: &Served, run: impl FnOnce(Channel) -> F) -> F::Output {
    let address = format!("http://{}", served.flight());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { run(Endpoint::from_shared(address).unwrap().connect().await.unwrap()).await })
}

pub async fn rows(client: &mut FlightSqlServiceClient<Channel>, info: FlightInfo) -> Vec<RecordBatch> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    client.do_get(ticket).await.unwrap().try_collect().await.unwrap()
}

#[test]
fn statements_give_rows() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel);
        let info = client.execute("select sym, count(*) as n from trade group by sym order by sym".to_owned(), None);
        let info = info.await.unwrap();
        let batches = rows(&mut client, info).await;
        assert_eq!(batches[0].column(1).as_primitive::<Int64Type>().value(1), TRADES / 2);
        let info = client.execute("select * from trade;".to_owned(), None).await.unwrap();
        let total: usize = rows(&mut client, info).await.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(total as i64, TRADES);
    });
}

#[test]
fn failures_have_a_code_and_ours_in_the_details() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel);
        for (sql, code, ours) in [
            ("selec 1", Code::InvalidArgument, "statement"),
            ("select * from quote", Code::NotFound, "not_found"),
            ("drop table quote", Code::NotFound, "not_found"),
        ] {
            let info = client.execute(sql.to_owned(), None).await.unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let status = client.inner_mut().do_get(ticket).await.unwrap_err();
            assert_eq!(status.code(), code, "{sql}");
            let details: Value = serde_json::from_slice(status.details()).unwrap();
            assert_eq!(details["code"], ours);
        }
        let error = client.execute_update("select 1".to_owned(), None).await.unwrap_err();
        assert!(error.to_string().contains("send it as a query"), "{error}");
        let error = client.execute_update("drop table quote".to_owned(), None).await.unwrap_err();
        assert!(error.to_string().contains("quote"), "{error}");
    });
}

#[test]
fn statements_that_change_something_run_once_for_a_ticket() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel);
        let info = client.execute("create table note (time timestamp, n bigint)".to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let rows: Vec<_> = client.do_get(ticket.clone()).await.unwrap().try_collect().await.unwrap();
        assert_eq!(rows[0].num_rows(), 1);
        let again = client.inner_mut().do_get(ticket).await.unwrap_err();
        assert_eq!((again.code(), again.message().contains("counts once")), (Code::InvalidArgument, true), "{again}");
        // A ticket that a client made itself has no name.
        let made = TicketStatementQuery { statement_handle: "drop table note".into() };
        let ticket = Ticket { ticket: made.as_any().encode_to_vec().into() };
        let refused = client.inner_mut().do_get(ticket).await.unwrap_err();
        assert!(refused.message().contains("GetFlightInfo"), "{refused}");
        assert_eq!(client.execute_update("drop table note;".to_owned(), None).await.unwrap(), 0);
        let gone = client.execute_update("drop table note".to_owned(), None).await.unwrap_err();
        assert!(gone.to_string().contains("note"), "{gone}");
    });
}

#[test]
fn prepared_statements_take_values() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel);
        let sql = "select count(*) as n from trade where sym = $1 and price < $2";
        let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
        assert_eq!(prepared.parameter_schema().unwrap().fields().len(), 2);
        assert_eq!(prepared.dataset_schema().unwrap().field(0).name(), "n");
        for (most, expected) in [(10.0, 5), (100.0, 50)] {
            let columns: [(_, ArrayRef); 2] =
                [("1", Arc::new(StringArray::from(vec!["IBM"]))), ("2", Arc::new(Float64Array::from(vec![most])))];
            prepared.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
            let info = prepared.execute().await.unwrap();
            let batches = rows(&mut client, info).await;
            assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), expected);
        }
        prepared.close().await.unwrap();
        assert!(client.prepare("delete from quote where sym = $1".to_owned(), None).await.is_err());
        // A change gives the number of rows.
        let mut delete = client.prepare("delete from trade where sym = $1".to_owned(), None).await.unwrap();
        assert!(delete.dataset_schema().unwrap().fields().is_empty());
        let symbols: ArrayRef = Arc::new(StringArray::from(vec!["IBM"]));
        delete.set_parameters(RecordBatch::try_from_iter([("1", symbols)]).unwrap()).unwrap();
        let deleted = delete.execute_update().await.unwrap();
        assert!(deleted > 0);
        assert_eq!(delete.execute_update().await.unwrap(), 0);
    });
}

#[test]
fn what_there_is_can_be_asked() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel);
        let info = client.get_catalogs().await.unwrap();
        assert_eq!(rows(&mut client, info).await[0].column(0).as_string::<i32>().value(0), "splay");
        let info = client.get_db_schemas(CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: None });
        let info = info.await.unwrap();
        assert_eq!(rows(&mut client, info).await[0].column(1).as_string::<i32>().value(0), "public");
        let tables = CommandGetTables {
            catalog: None,
            db_schema_filter_pattern: None,
            table_name_filter_pattern: Some("tr%".to_owned()),
            table_types: Vec::new(),
            include_schema: true,
        };
        let info = client.get_tables(tables).await.unwrap();
        assert_eq!(rows(&mut client, info).await[0].column(2).as_string::<i32>().value(0), "trade");
        let info = client.get_table_types().await.unwrap();
        assert_eq!(rows(&mut client, info).await[0].num_rows(), 2);
        let info = client.get_sql_info(Vec::new()).await.unwrap();
        assert!(rows(&mut client, info).await[0].num_rows() >= 8);
    });
}

/// Batches for a table, each with metadata.
pub fn messages(batches: Vec<(RecordBatch, Value)>) -> Vec<FlightData> {
    let descriptor = FlightDescriptor::new_path(vec!["trade".to_owned()]);
    let schema = batches[0].0.schema();
    let metadata: Vec<_> = batches.iter().map(|(_, metadata)| metadata.clone()).collect();
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema).with_flight_descriptor(Some(descriptor));
    let encoder = encoder.build(futures::stream::iter(batches.into_iter().map(|(batch, _)| Ok(batch))));
    let mut messages: Vec<FlightData> = futures::executor::block_on(encoder.try_collect()).unwrap();
    let mut metadata = metadata.into_iter();
    for message in messages.iter_mut().skip(1) {
        if let Some(metadata) = metadata.next() {
            message.app_metadata = metadata.to_string().into();
        }
    }
    messages
}

#[test]
fn batches_are_stored_and_acknowledged_one_by_one() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightServiceClient::new(channel);
        let batches = vec![
            (trades(0, 10), json!({ "sequence": 1 })),
            (trades(10, 5), json!({ "sequence": 2 })),
            (trades(10, 5), json!({ "sequence": 2 })),
        ];
        let mut request = Request::new(futures::stream::iter(messages(batches)));
        request.metadata_mut().insert("splay-ack", "process".parse().unwrap());
        request.metadata_mut().insert("splay-producer", "feed".parse().unwrap());
        let acks: Vec<_> = client.do_put(request).await.unwrap().into_inner().try_collect().await.unwrap();
        let acks: Vec<Value> = acks.iter().map(|ack| serde_json::from_slice(&ack.app_metadata).unwrap()).collect();
        let seen: Vec<_> = acks.iter().map(|ack| (&ack["sequence"], &ack["rows"], &ack["duplicate"])).collect();
        assert_eq!(
            seen,
            [
                (&json!(1), &json!(10), &json!(false)),
                (&json!(2), &json!(5), &json!(false)),
                (&json!(2), &json!(5), &json!(true)),
            ]
        );
        assert_eq!(acks[0]["class"], "process");
    });
    assert_eq!(served.ingest.rows("trade"), 15);
}

#[test]
fn a_refused_batch_ends_the_stream_after_the_acks_of_those_before() {
    let served = Served::new();
    let put = |messages: Vec<FlightData>| {
        with_channel(&served, |channel| async move {
            let mut client = FlightServiceClient::new(channel);
            match client.do_put(Request::new(futures::stream::iter(messages))).await {
                Ok(response) => response.into_inner().collect::<Vec<_>>().await,
                Err(status) => vec![Err(status)],
            }
        })
    };
    let answers = put(messages(vec![(trades(0, 10), json!({})), (trades(0, 10), json!({ "sequnce": 1 }))]));
    assert_eq!(answers.len(), 2);
    assert!(answers[0].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().code(), Code::InvalidArgument);
    let answers = put(messages(vec![(trades(0, 10).project(&[1, 2]).unwrap(), json!({}))]));
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::InvalidArgument);
    served.ingest.be_full(1);
    let answers = put(messages(vec![(trades(0, 10), json!({}))]));
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::Unavailable);
    // A message that says it is larger than it is.
    let mut broken = messages(vec![(trades(0, 10), json!({}))]);
    for message in broken.iter_mut().skip(1) {
        message.data_body.truncate(8);
    }
    assert_eq!(put(broken)[0].as_ref().unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(served.ingest.rows("trade"), 10);
    // A full disk is nobody's fault.
    let noted = served.ingest.rejected();
    assert_eq!(noted.len(), 3, "{noted:?}");
    assert!(noted.iter().all(|reason| reason.starts_with("flight: ")), "{noted:?}");
}

#[test]
fn refused_batches_are_reported_in_their_place_to_who_asks_for_that() {
    let served = Served::new();
    let put = |messages: Vec<FlightData>, refused: &'static str| {
        with_channel(&served, |channel| async move {
            let mut client = FlightServiceClient::new(channel);
            let mut request = Request::new(futures::stream::iter(messages));
            request.metadata_mut().insert("splay-refused", refused.parse().unwrap());
            match client.do_put(request).await {
                Ok(response) => response.into_inner().collect::<Vec<_>>().await,
                Err(status) => vec![Err(status)],
            }
        })
    };
    let good = || (trades(0, 10), json!({}));
    let bad = || (trades(0, 10), json!({ "sequence": 1 }));
    let answers = put(messages(vec![good(), bad(), good()]), "report");
    let results: Vec<Value> =
        answers.into_iter().map(|answer| serde_json::from_slice(&answer.unwrap().app_metadata).unwrap()).collect();
    assert_eq!((&results[0]["rows"], &results[2]["rows"]), (&json!(10), &json!(10)), "{results:?}");
    assert_eq!((&results[1]["code"], &results[1]["retryable"]), (&json!("bad_request"), &json!(false)), "{results:?}");
    assert_eq!(served.ingest.rejected().len(), 1);
    // Sent again these would be taken, and those behind them must not come before.
    served.ingest.be_full(1);
    let answers = put(messages(vec![good(), good()]), "report");
    assert_eq!((answers.len(), answers[0].as_ref().unwrap_err().code()), (1, Code::Unavailable));
    // Behind what can't be decoded nothing is known.
    let mut broken = messages(vec![good(), good()]);
    broken[1].data_body.truncate(8);
    assert_eq!(put(broken, "report")[0].as_ref().unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(put(messages(vec![good()]), "maybe")[0].as_ref().unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(served.ingest.rows("trade"), 20);
}

#[test]
fn subscriptions_run_by_credit() {
    let served = Served::new();
    for price in 1..=4 {
        served.post("/write", &[], format!("trade,sym=IBM price={price} {price}\n").as_bytes());
    }
    with_channel(&served, |channel| async move {
        let mut client = FlightServiceClient::new(channel);
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let ask = json!({ "table": "trade", "after": 1, "credit": 2 }).to_string();
        let first = FlightData::new().with_descriptor(FlightDescriptor::new_cmd(ask));
        sender.unbounded_send(first).unwrap();
        let answer = client.do_exchange(Request::new(receiver)).await.unwrap().into_inner();
        let mut updates = FlightDataDecoder::new(answer.map_err(Into::into));
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let update = updates.next().await.unwrap().unwrap();
            let metadata = update.app_metadata();
            let DecodedPayload::RecordBatch(batch) = update.payload else { continue };
            let metadata: Value = serde_json::from_slice(&metadata).unwrap();
            seen.push((metadata["sequence"].as_u64().unwrap(), batch.num_rows()));
            if seen.len() == 2 {
                sender.unbounded_send(FlightData::new().with_app_metadata(r#"{"credit": 1}"#)).unwrap();
            }
        }
        assert_eq!(seen, [(2, 1), (3, 1), (4, 1)]);
    });
    with_channel(&served, |channel| async move {
        let mut client = FlightServiceClient::new(channel);
        let ask = FlightData::new().with_descriptor(FlightDescriptor::new_cmd(r#"{"table": "nothing"}"#));
        let status = client.do_exchange(Request::new(futures::stream::iter([ask]))).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
    });
}

#[test]
fn a_replay_ends_its_stream() {
    let served = Served::new();
    with_channel(&served, |channel| async move {
        let mut client = FlightServiceClient::new(channel);
        let ask =
            json!({ "table": "trade", "from": "now", "replay": { "date": "2026-01-01", "speed": 0 } }).to_string();
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        sender.unbounded_send(FlightData::new().with_descriptor(FlightDescriptor::new_cmd(ask))).unwrap();
        let answer = client.do_exchange(Request::new(receiver)).await.unwrap().into_inner();
        let mut updates = FlightDataDecoder::new(answer.map_err(Into::into));
        let mut seen = Vec::new();
        while let Some(update) = updates.next().await {
            let update = update.unwrap();
            let metadata = update.app_metadata();
            let DecodedPayload::RecordBatch(batch) = update.payload else { continue };
            let metadata: Value = serde_json::from_slice(&metadata).unwrap();
            seen.push((metadata["sequence"].as_u64().unwrap(), metadata["kind"].clone(), batch.num_rows()));
        }
        let delta = |number| (number, json!("delta"), 8192);
        assert_eq!(seen, [delta(1), delta(2), delta(3), delta(4), (4, json!("end"), 0)]);
        let several = json!({ "tables": ["trade", "trade"], "replay": { "date": "2026-01-01" } }).to_string();
        let ask = FlightData::new().with_descriptor(FlightDescriptor::new_cmd(several));
        let status = client.do_exchange(Request::new(futures::stream::iter([ask]))).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    });
}

#[test]
fn every_method_asks_for_a_token() {
    let token = Secret::generate().unwrap();
    let served =
        Served::with(&format!("[[auth.tokens]]\nname = \"a\"\nblake3 = \"{}\"\nroles = [\"read\"]\n", token.blake3));
    with_channel(&served, |channel| async move {
        let mut client = FlightSqlServiceClient::new(channel.clone());
        assert!(client.execute("select 1".to_owned(), None).await.is_err());
        assert!(client.prepare("select 1".to_owned(), None).await.is_err());
        assert!(client.get_catalogs().await.is_err());
        assert!(client.get_table_types().await.is_err());
        let descriptor = FlightDescriptor::new_path(vec!["trade".to_owned()]);
        let mut bare = FlightServiceClient::new(channel.clone());
        assert_eq!(bare.get_schema(descriptor).await.unwrap_err().code(), Code::Unauthenticated);
        for action in ["CancelFlightInfo", "CancelQuery"] {
            let action = arrow_flight::Action::new(action, Vec::new());
            assert!(bare.do_action(action).await.is_err());
        }
        client.set_token("wrong".to_owned());
        assert!(client.execute("select 1".to_owned(), None).await.is_err());
        client.clear_token();
        assert!(client.handshake("user", "wrong").await.is_err());
        client.handshake("user", &token.token).await.unwrap();
        assert!(client.execute("select 1".to_owned(), None).await.is_ok());
        // The token reads and doesn't write.
        let mut plain = FlightServiceClient::new(channel);
        let mut request = Request::new(futures::stream::iter(messages(vec![(trades(0, 1), json!({}))])));
        request.metadata_mut().insert("authorization", format!("Bearer {}", token.token).parse().unwrap());
        assert_eq!(plain.do_put(request).await.unwrap_err().code(), Code::PermissionDenied);
        let ask = FlightData::new().with_descriptor(FlightDescriptor::new_cmd(r#"{"table": "trade"}"#));
        let status = plain.do_exchange(Request::new(futures::stream::iter([ask]))).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    });
}
