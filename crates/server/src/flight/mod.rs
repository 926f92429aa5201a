//! Flight SQL for statements, plain Flight for rows in and subscriptions out. Described in docs/reference/flight.md.
//!
//! - A ticket holds the statement itself: nothing is kept between `GetFlightInfo` and `DoGet`.
//! - Prepared statements are kept on the server, bounded ([`prepared`]).

mod encode;
mod exchange;
#[cfg(test)]
mod fuzz;
mod metadata;
mod prepared;
mod put;
mod service;
mod texts;
mod types;
mod update;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, SchemaAsIpc, SchemaResult, Ticket,
};
use axum::Router;
use axum::middleware;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use splay_sql::{Parameters, ScalarValue};
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use self::encode::Messages;
use self::prepared::{FlightStatement, PreparedStatements};
use self::service::Flights;
use self::update::{SpentTickets, ingest_of};
use crate::auth::{Credentials, credentials};
use crate::blocking::on_thread;
use crate::callers::Caller;
use crate::cancellation::{self, RunningStatements};
use crate::http::{HttpState, refuse_other_sites};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;
use crate::statements::{Statements, or_broke_off};

/// The action that cancels a statement by its flight.
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";

/// The result of the older cancel action.
const CANCEL_RESULT_CANCELLED: i32 = 1;

type Rows = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;
type Handshakes = Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>;

/// Flight on top of what HTTP shares.
#[derive(Debug, Clone)]
struct FlightFront {
    shared: Arc<HttpState>,
    prepared: Arc<PreparedStatements>,
    running: RunningStatements,
    spent: Arc<SpentTickets>,
}

/// All methods of Flight.
pub(crate) fn router(shared: Arc<HttpState>) -> Router {
    let prepared = Arc::new(PreparedStatements::new(shared.limits.prepared_max));
    router_of(FlightFront { shared, prepared, running: RunningStatements::default(), spent: Arc::default() })
}

fn router_of(front: FlightFront) -> Router {
    let bytes_max = front.shared.limits.message_bytes_max;
    let service = FlightServiceServer::new(Flights(front)).max_decoding_message_size(bytes_max);
    Routes::new(service).into_axum_router().layer(middleware::from_fn(refuse_other_sites))
}

impl FlightFront {
    /// The caller, if he has `role`; counts those who are refused.
    async fn caller(&self, headers: &MetadataMap, role: Role) -> Outcome<Caller> {
        let value = headers.get("authorization").map(|value| value.to_str().unwrap_or_default());
        self.shared.callers.of(value, role).await.inspect_err(|problem| {
            self.shared.metrics.request("flight", problem.code.as_str());
        })
    }

    /// The session of who calls, if he may.
    async fn statements(&self, headers: &MetadataMap) -> Outcome<Statements> {
        let caller = self.caller(headers, Role::Read).await?;
        self.shared.statements(&caller).await
    }

    /// Runs a statement and sends its rows, with symbols as texts or not, until it is cancelled by its name.
    async fn run(
        &self,
        caller: &Caller,
        name: Bytes,
        text: &str,
        parameters: Parameters,
        as_texts: bool,
    ) -> Result<Response<Rows>, Status> {
        let text = text.trim().trim_end_matches(';').to_owned();
        let ingest = ingest_of(&self.shared, caller, &text)?;
        let statements = self.shared.statements(caller).await?;
        let mut cancelled = self.running.begin(name);
        let begin = async {
            let mut pieces =
                statements.run_for("flight", text, parameters, Messages::for_caller(as_texts), ingest).await?;
            or_broke_off(pieces.next().await).map(|first| (first, pieces))
        };
        let answered = tokio::select! {
            answered = begin => answered,
            () = cancelled.wait() => Err(cancellation::problem()),
        };
        let outcome = answered.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok");
        self.shared.metrics.request("flight", outcome);
        let (first, rest) = answered?;
        let first = futures::stream::iter([Ok(first)]);
        let rest = futures::stream::unfold(Some((rest, cancelled)), |state| async move {
            let (mut pieces, mut cancelled) = state?;
            tokio::select! {
                piece = pieces.next() => match piece? {
                    Ok(piece) => Some((Ok(piece), Some((pieces, cancelled)))),
                    Err(problem) => Some((Err(problem.into()), None)),
                },
                () = cancelled.wait() => Some((Err(cancellation::problem().into()), None)),
            }
        });
        Ok(Response::new(Box::pin(first.chain(rest))))
    }

    /// Runs a statement that changes something, and gives the number of rows.
    async fn update(&self, caller: &Caller, text: &str, parameters: Parameters) -> Outcome<i64> {
        let text = text.trim().trim_end_matches(';');
        let updated = update::run(&self.shared, caller, text, parameters).await;
        self.shared.metrics.request("flight", updated.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok"));
        updated
    }

    /// Cancels the statements whose tickets a flight has.
    ///
    /// # Errors
    /// [`Code::NotFound`] if none of them runs.
    fn cancel(&self, info: &FlightInfo) -> Outcome<()> {
        let mut any_cancelled = false;
        for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
            let command = Any::decode(&*ticket.ticket).ok().and_then(|any| Command::try_from(any).ok());
            let name = match command {
                Some(Command::TicketStatementQuery(query)) => cancellation::statement(&query.statement_handle)?.0,
                Some(Command::CommandPreparedStatementQuery(query)) => query.prepared_statement_handle,
                _ => return Err(Problem::new(Code::Request, "this flight is no statement's")),
            };
            any_cancelled |= self.running.cancel(&name);
        }
        let none = || Problem::new(Code::NotFound, "no such statement runs; it may have ended");
        any_cancelled.then_some(()).ok_or_else(none)
    }

    /// The columns of what a descriptor names.
    async fn schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let statements = self.statements(request.metadata()).await?;
        let as_texts = texts::are_wanted(request.metadata());
        let descriptor = request.into_inner();
        let schema = match descriptor.path.as_slice() {
            [table] => {
                let schema = columns_of(&statements, table).await?;
                Schema::clone(&schema)
            }
            _ => self.schema_of(&statements, &descriptor.cmd).await?,
        };
        let schema = if as_texts { texts::schema(&schema) } else { schema };
        let options = IpcWriteOptions::default();
        let cant_write = |error| Problem::new(Code::Internal, format!("a schema can't be written: {error}"));
        let result = SchemaResult::try_from(SchemaAsIpc::new(&schema, &options)).map_err(cant_write)?;
        Ok(Response::new(result))
    }

    async fn schema_of(&self, statements: &Statements, command: &[u8]) -> Outcome<Schema> {
        let unknown = || Problem::new(Code::Unsupported, "this command is not known");
        let any = Any::decode(command).map_err(|_| unknown())?;
        Ok(match Command::try_from(any).map_err(|_| unknown())? {
            Command::CommandStatementQuery(query) => describe(statements, query.query).await?,
            Command::CommandPreparedStatementQuery(query) => {
                describe(statements, self.prepared.get(&query.prepared_statement_handle)?.text.clone()).await?
            }
            Command::CommandGetCatalogs(query) => Schema::clone(&query.into_builder().schema()),
            Command::CommandGetDbSchemas(query) => Schema::clone(&query.into_builder().schema()),
            Command::CommandGetTables(query) => Schema::clone(&query.into_builder().schema()),
            Command::CommandGetTableTypes(query) => Schema::clone(&query.into_builder().schema()),
            Command::CommandGetSqlInfo(query) => Schema::clone(&metadata::info(query.info)?.schema()),
            Command::CommandGetXdbcTypeInfo(query) => Schema::clone(&types::types(query)?.schema()),
            Command::CommandGetPrimaryKeys(_) => Schema::clone(&metadata::no_primary_keys().schema()),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => Schema::clone(&metadata::no_foreign_keys().schema()),
            _ => return Err(unknown()),
        })
    }
}

async fn describe(statements: &Statements, text: String) -> Outcome<Schema> {
    let text = text.trim().trim_end_matches(';').to_owned();
    Ok(Schema::clone(&statements.describe(text).await?.schema))
}

/// The columns of a table that the caller may see.
async fn columns_of(statements: &Statements, table: &str) -> Outcome<SchemaRef> {
    let (session, table) = (statements.session().clone(), table.to_owned());
    let describe = move || -> Outcome<SchemaRef> {
        let snapshot = session.table(&table)?.snapshot()?;
        Ok(SchemaRef::new(session.known_columns(&table, &snapshot.spec().arrow())))
    };
    on_thread(describe).await?
}

/// A flight of one endpoint: here.
fn flight(
    ticket: Bytes,
    schema: Option<&Schema>,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true);
    let info = match schema {
        Some(schema) => info.try_with_schema(schema).map_err(|error| Status::internal(error.to_string()))?,
        None => info,
    };
    Ok(Response::new(info))
}

/// One batch as an answer.
fn one(batch: RecordBatch) -> Response<Rows> {
    let schema = batch.schema();
    let stream = FlightDataEncoderBuilder::new().with_schema(schema).build(futures::stream::iter([Ok(batch)]));
    Response::new(Box::pin(stream.map_err(|error| Status::internal(error.to_string()))))
}

fn as_ipc(schema: &Schema) -> Outcome<Bytes> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    let cant_write = |error| Problem::new(Code::Internal, format!("a schema can't be written: {error}"));
    Ok(message.map_err(cant_write)?.0)
}

/// Values for a statement's placeholders, of a row: by position if they are numbered, otherwise by name.
fn parameters(prepared: &FlightStatement, row: usize) -> Outcome<Parameters> {
    let Some(bound) = &prepared.bound else { return Ok(Parameters::None) };
    let value = |column: usize| {
        ScalarValue::try_from_array(bound.column(column), row)
            .map_err(|error| Problem::new(Code::Request, format!("a value can't be taken: {error}")))
    };
    let is_numbered = prepared.parameters.iter().all(|name| name.parse::<u32>().is_ok());
    if is_numbered {
        return Ok(Parameters::Positional((0..bound.num_columns()).map(value).collect::<Outcome<_>>()?));
    }
    let names = bound.schema_ref().fields().iter().map(|field| field.name().trim_start_matches('$').to_owned());
    // Columns that a driver has only numbered stand in the order of the names.
    let names: Vec<String> = names.collect();
    let is_known =
        names.iter().any(|name| prepared.parameters.iter().any(|parameter| parameter.eq_ignore_ascii_case(name)));
    let names = if is_known { names } else { prepared.parameters.clone() };
    let named = names.into_iter().zip(0..bound.num_columns()).map(|(name, column)| Ok((name, value(column)?)));
    Ok(Parameters::Named(named.collect::<Outcome<HashMap<_, _>>>()?))
}

#[tonic::async_trait]
impl FlightSqlService for FlightFront {
    type FlightService = FlightFront;

    /// Takes a user and a password, as drivers send them, and gives a bearer token back: the password itself if that is a token.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Handshakes>, Status> {
        let value = request.metadata().get("authorization").map(|value| value.to_str().unwrap_or_default());
        // One whose token only writes is known all the same.
        let caller = self.shared.callers.identify(value).await.inspect_err(|problem| {
            self.shared.metrics.request("flight", problem.code.as_str());
        })?;
        let shown = match value.and_then(credentials) {
            Some(Credentials::Token(token) | Credentials::Basic { password: token, .. }) => token,
            None => String::new(),
        };
        let token = self.shared.callers.bearer(&caller, &shown)?;
        let answer = HandshakeResponse { protocol_version: 0, payload: Bytes::from(token.clone()) };
        let mut response: Response<Handshakes> = Response::new(Box::pin(futures::stream::iter([Ok(answer)])));
        if let Ok(bearer) = format!("Bearer {token}").parse() {
            response.metadata_mut().insert("authorization", bearer);
        }
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = TicketStatementQuery { statement_handle: cancellation::handle(&query.query)? };
        // Without the schema: it comes with the rows, and planning twice would be the price of having it here.
        flight(ticket.as_any().encode_to_vec().into(), None, request.into_inner())
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        self.prepared.get(&query.prepared_statement_handle)?;
        flight(query.as_any().encode_to_vec().into(), None, request.into_inner())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let schema = query.into_builder().schema();
        flight(query.as_any().encode_to_vec().into(), Some(&schema), request.into_inner())
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&query.into_builder().schema()), request.into_inner())
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&query.into_builder().schema()), request.into_inner())
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let schema = query.into_builder().schema();
        flight(query.as_any().encode_to_vec().into(), Some(&schema), request.into_inner())
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&metadata::info(query.info)?.schema()), request.into_inner())
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let schema = metadata::no_primary_keys().schema();
        flight(query.as_any().encode_to_vec().into(), Some(&schema), request.into_inner())
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&types::types(query)?.schema()), request.into_inner())
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&metadata::no_foreign_keys().schema()), request.into_inner())
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&metadata::no_foreign_keys().schema()), request.into_inner())
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let ticket = query.as_any().encode_to_vec().into();
        flight(ticket, Some(&metadata::no_foreign_keys().schema()), request.into_inner())
    }

    /// Plain Flight: the path names a table, and its flight is all its rows.
    async fn get_flight_info_fallback(
        &self,
        _command: Command,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let statements = self.statements(request.metadata()).await?;
        let as_texts = texts::are_wanted(request.metadata());
        let descriptor = request.into_inner();
        let [table] = descriptor.path.as_slice() else {
            return Err(Problem::new(Code::Unsupported, "this command is not known").into());
        };
        let schema = columns_of(&statements, table).await?;
        let schema = if as_texts { SchemaRef::new(texts::schema(&schema)) } else { schema };
        let query = format!("select * from \"{}\"", table.replace('"', "\"\""));
        let ticket = TicketStatementQuery { statement_handle: cancellation::handle(&query)? };
        flight(ticket.as_any().encode_to_vec().into(), Some(&schema), descriptor)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let caller = self.caller(request.metadata(), Role::Read).await?;
        let (name, text) = cancellation::statement(&ticket.statement_handle)?;
        let as_texts = texts::are_wanted(request.metadata());
        if ingest_of(&self.shared, &caller, text)?.is_some() {
            self.spent.spend(&name)?;
        }
        self.run(&caller, name, text, Parameters::None, as_texts).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let caller = self.caller(request.metadata(), Role::Read).await?;
        let prepared = self.prepared.get(&query.prepared_statement_handle)?;
        let (values, as_texts) = (parameters(&prepared, 0)?, texts::are_wanted(request.metadata()));
        self.run(&caller, query.prepared_statement_handle, &prepared.text, values, as_texts).await
    }

    async fn do_get_catalogs(
        &self,
        _query: CommandGetCatalogs,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::catalogs()?))
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::schemas(query)?))
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> Result<Response<Rows>, Status> {
        let session = self.statements(request.metadata()).await?.session().clone();
        let as_texts = texts::are_wanted(request.metadata());
        Ok(one(on_thread(move || metadata::tables(query, &session, as_texts)).await??))
    }

    async fn do_get_table_types(
        &self,
        _query: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::table_types()?))
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::info(query.info)?))
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::no_primary_keys()))
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(types::types(query)?))
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::no_foreign_keys()))
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::no_foreign_keys()))
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        Ok(one(metadata::no_foreign_keys()))
    }

    /// The older action, which newer clients no longer send.
    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let wrong = |_| Problem::new(Code::Request, "the request has no valid FlightInfo");
        self.cancel(&FlightInfo::decode(query.info).map_err(wrong)?)?;
        Ok(ActionCancelQueryResult { result: CANCEL_RESULT_CANCELLED })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Flights as FlightService>::DoActionStream>, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let action = request.into_inner();
        if action.r#type != CANCEL_FLIGHT_INFO {
            let kind: String = action.r#type.chars().take(100).collect();
            return Err(Problem::new(Code::Unsupported, format!("there is no action {kind:?}")).into());
        }
        let wrong = |_| Problem::new(Code::Request, "the request has no valid FlightInfo");
        let request_body = CancelFlightInfoRequest::decode(action.body).map_err(wrong)?;
        self.cancel(&request_body.info.unwrap_or_default())?;
        let body = CancelFlightInfoResult { status: CancelStatus::Cancelled as i32 }.encode_to_vec().into();
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(arrow_flight::Result { body })]))))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let description = "Cancels a statement: CancelFlightInfoRequest, answered by CancelFlightInfoResult".to_owned();
        Some(vec![Ok(ActionType { r#type: CANCEL_FLIGHT_INFO.to_owned(), description })])
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let caller = self.caller(request.metadata(), Role::Read).await?;
        let text = query.query.trim().trim_end_matches(';').to_owned();
        let is_change = ingest_of(&self.shared, &caller, &text)?.is_some();
        let statements = self.shared.statements(&caller).await?;
        let (schema, placeholders) = if is_change {
            let described = statements.describe_change(text.clone()).await?;
            let placeholders = described.parameters.into_iter().map(|(name, kind)| (name, Some(kind)));
            (described.schema.unwrap_or_else(|| SchemaRef::new(Schema::empty())), placeholders.collect())
        } else {
            let described = statements.describe(text.clone()).await?;
            (described.schema, described.parameters)
        };
        let field = |(name, kind): &(String, Option<DataType>)| {
            Field::new(name.trim_start_matches('$'), kind.clone().unwrap_or(DataType::Null), true)
        };
        // Drivers bind texts, not dictionaries of them.
        let values = texts::schema(&Schema::new(placeholders.iter().map(field).collect::<Vec<_>>()));
        let as_texts = texts::are_wanted(request.metadata());
        let dataset = if as_texts { SchemaRef::new(texts::schema(&schema)) } else { schema };
        let names = values.fields().iter().map(|field| field.name().clone()).collect();
        let handle = self.prepared.add(FlightStatement { text, parameters: names, bound: None })?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle,
            dataset_schema: as_ipc(&dataset)?,
            parameter_schema: as_ipc(&values)?,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        self.caller(request.metadata(), Role::Read).await?;
        self.prepared.remove(&query.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        self.caller(request.metadata(), Role::Read).await?;
        let handle = query.prepared_statement_handle;
        let prepared = self.prepared.get(&handle)?;
        let decoder = put::decoder(request.into_inner(), self.shared.limits.message_bytes_max);
        let values = tokio::time::timeout(self.shared.limits.body(), put::values(decoder)).await;
        let too_slow = |_| Problem::new(Code::TooSlow, "the values didn't come in time");
        let bound = values.map_err(too_slow)??;
        self.prepared.put(handle.clone(), FlightStatement { bound, ..FlightStatement::clone(&prepared) })?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = self.caller(request.metadata(), Role::Read).await?;
        let prepared = self.prepared.get(&query.prepared_statement_handle)?;
        let decoder = put::decoder(request.into_inner(), self.shared.limits.message_bytes_max);
        let values = tokio::time::timeout(self.shared.limits.body(), put::rows_of_values(decoder)).await;
        let too_slow = |_| Problem::new(Code::TooSlow, "the values didn't come in time");
        let batches = values.map_err(too_slow)??;
        let Some(batches) = batches else {
            // They came before, or there are none.
            return Ok(self.update(&caller, &prepared.text, parameters(&prepared, 0)?).await?);
        };
        let mut changed = 0;
        for batch in batches {
            let rows = batch.num_rows();
            let prepared = FlightStatement { bound: Some(batch), ..FlightStatement::clone(&prepared) };
            for row in 0..rows {
                changed += self.update(&caller, &prepared.text, parameters(&prepared, row)?).await?;
            }
        }
        Ok(changed)
    }

    async fn do_put_statement_update(
        &self,
        query: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = self.caller(request.metadata(), Role::Read).await?;
        if query.transaction_id.as_ref().is_some_and(|id| !id.is_empty()) {
            return Err(Problem::new(Code::Unsupported, "there are no transactions over Flight SQL").into());
        }
        Ok(self.update(&caller, &query.query, Parameters::None).await?)
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = self.caller(request.metadata(), Role::Write).await?;
        let appends = self.shared.paced_appends(&caller)?.by("flight");
        let target = put::Target::new(&command.table, request.metadata())?;
        // Rights are checked before the answer shows whether there is such a table.
        caller.check_rows(&command.table, true).map_err(Problem::from)?;
        let database = self.shared.statements.session().database().clone();
        let tables = on_thread(move || database.tables()).await?.map_err(Problem::from)?;
        put::check_ingest(&command, tables.iter().any(|table| table.eq_ignore_ascii_case(&command.table)))?;
        let decoder = put::decoder(request.into_inner(), self.shared.limits.message_bytes_max);
        Ok(put::ingest(&appends, &target, decoder).await?)
    }

    /// Plain Flight: the path names a table, the batches are its rows.
    async fn do_put_fallback(
        &self,
        mut request: Request<PeekableFlightDataStream>,
        _message: Any,
    ) -> Result<Response<put::Acks>, Status> {
        let caller = self.caller(request.metadata(), Role::Write).await?;
        let appends = self.shared.paced_appends(&caller)?.by("flight");
        let first = request.get_mut().peek().await.and_then(|first| first.as_ref().ok());
        let path =
            first.and_then(|first| first.flight_descriptor.as_ref()).map(|descriptor| descriptor.path.as_slice());
        let Some([table]) = path else {
            return Err(Problem::new(Code::Request, "the descriptor's path is not the name of a table").into());
        };
        let table = table.clone();
        let target = put::Target::new(&table, request.metadata())?;
        self.shared.metrics.request("flight_put", "ok");
        let decoder = put::decoder(request.into_inner(), self.shared.limits.message_bytes_max);
        Ok(Response::new(put::put(appends, target, decoder, self.shared.limits.appends_waiting_max)))
    }

    async fn do_exchange_fallback(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<exchange::UpdateStream>, Status> {
        let caller = self.caller(request.metadata(), Role::Read).await?;
        let opened = exchange::exchange(&self.shared, caller, request.into_inner()).await;
        let outcome = opened.as_ref().map_or_else(|problem| problem.code.as_str(), |_| "ok");
        self.shared.metrics.request("flight_exchange", outcome);
        Ok(Response::new(opened?))
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
