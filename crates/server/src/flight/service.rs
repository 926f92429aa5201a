//! Flight's methods: Flight SQL's, as its crate dispatches them, and the schema of a descriptor, which the crate
//! doesn't offer.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo, SchemaResult, Ticket,
};
use tonic::{Request, Response, Status, Streaming};

use super::FlightFront;

/// All methods.
#[derive(Debug, Clone)]
pub(super) struct Flights(pub(super) FlightFront);

#[tonic::async_trait]
impl FlightService for Flights {
    type HandshakeStream = <FlightFront as FlightService>::HandshakeStream;
    type ListFlightsStream = <FlightFront as FlightService>::ListFlightsStream;
    type DoGetStream = <FlightFront as FlightService>::DoGetStream;
    type DoPutStream = <FlightFront as FlightService>::DoPutStream;
    type DoActionStream = <FlightFront as FlightService>::DoActionStream;
    type ListActionsStream = <FlightFront as FlightService>::ListActionsStream;
    type DoExchangeStream = <FlightFront as FlightService>::DoExchangeStream;

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        self.0.schema(request).await
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.0.list_flights(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        self.0.get_flight_info(request).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        self.0.poll_flight_info(request).await
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        self.0.do_get(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        self.0.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.0.do_exchange(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        self.0.do_action(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        self.0.list_actions(request).await
    }
}
