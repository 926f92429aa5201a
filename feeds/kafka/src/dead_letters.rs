//! Dead letters as records of a topic, with their origin and the reason in headers.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use splay_records::dead_letters::{DeadLetter, DeadLetters};

/// The longest wait for a delivery.
const DELIVERY: Duration = Duration::from_secs(30);

/// A topic of dead letters. After a restart a record may be in it twice; its headers tell which record it is.
pub struct DeadLetterTopic {
    topic: String,
    producer: ThreadedProducer<Deliveries>,
}

impl std::fmt::Debug for DeadLetterTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetterTopic").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// Tells the waiting thread the outcome of its delivery.
struct Deliveries;

impl rdkafka::ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<std::sync::mpsc::Sender<Result<(), String>>>;

    fn delivery(&self, result: &DeliveryResult<'_>, waiting: Self::DeliveryOpaque) {
        let outcome = result.as_ref().map(|_| ()).map_err(|(error, _)| error.to_string());
        // The waiting thread may have ended.
        waiting.send(outcome).ok();
    }
}

impl DeadLetterTopic {
    /// A producer with the properties of the consumer.
    ///
    /// # Errors
    /// Properties that librdkafka doesn't take.
    pub fn new(topic: &str, mut properties: ClientConfig) -> Result<DeadLetterTopic, String> {
        properties.set("enable.idempotence", "true").set("message.timeout.ms", "20000");
        let producer = properties.create_with_context(Deliveries).map_err(|error| error.to_string())?;
        Ok(DeadLetterTopic { topic: topic.to_owned(), producer })
    }
}

impl DeadLetters for DeadLetterTopic {
    fn write(&self, letter: &DeadLetter<'_>) -> Result<(), String> {
        let (partition, offset) = (letter.partition.unwrap_or(0).to_string(), letter.offset.to_string());
        let header = |key, value| Header { key, value: Some(value) };
        let headers = OwnedHeaders::new()
            .insert(header("splay.topic", letter.topic))
            .insert(header("splay.partition", &partition))
            .insert(header("splay.offset", &offset))
            .insert(header("splay.reason", letter.reason));
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut record: BaseRecord<'_, [u8], [u8], _> =
            BaseRecord::with_opaque_to(&self.topic, Box::new(sender)).payload(letter.payload).headers(headers);
        if let Some(key) = letter.key {
            record = record.key(key);
        }
        self.producer.send(record).map_err(|(error, _)| error.to_string())?;
        receiver.recv_timeout(DELIVERY).map_err(|_| "no word of its delivery".to_owned())?
    }
}

impl Drop for DeadLetterTopic {
    fn drop(&mut self) {
        self.producer.flush(Duration::from_secs(5)).ok();
    }
}
