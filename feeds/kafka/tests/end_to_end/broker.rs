//! A Kafka broker of Apache on loopback, of which a test has its own.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::processes::free_port;

/// The broker's jars, which Maven brings once.
fn jars() -> Result<PathBuf, String> {
    static JARS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let fetch = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka-4.2.1");
        if folder.join("complete").exists() {
            return Ok(folder);
        }
        let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker/pom.xml");
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(pom).arg("dependency:copy-dependencies");
        maven.arg(format!("-DoutputDirectory={}", folder.display()));
        let fetched = maven.output().map_err(|error| format!("Maven (mvn) can't be run: {error}"))?;
        if !fetched.status.success() {
            return Err(format!("Maven can't fetch Kafka: {}", String::from_utf8_lossy(&fetched.stdout)));
        }
        File::create(folder.join("complete")).map_err(|error| error.to_string())?;
        Ok(folder)
    };
    JARS.get_or_init(fetch).clone()
}

/// A broker at work; it ends with the value.
pub struct Broker {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Broker {
    /// Starts one, whose topics are made by their first record, with three partitions.
    pub fn start() -> Result<Broker, String> {
        let jars = jars()?;
        let folder = tempfile::tempdir().unwrap();
        let (port, controller) = (free_port(), free_port());
        let settings = folder.path().join("server.properties");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             log.dirs={}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\nnum.partitions=3\nauto.create.topics.enable=true\n",
            folder.path().join("data").display()
        );
        std::fs::write(&settings, text).unwrap();
        let java = |class: &str| {
            let mut java = Command::new("java");
            java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*")).arg(class);
            java.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            java
        };
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "-t", "c3BsYXlkYi10ZXN0cy0wMQ", "-c"]).arg(&settings);
        let formatted = format.status().map_err(|error| format!("Java can't be run: {error}"))?;
        if !formatted.success() {
            return Err("the broker's folder can't be made".to_owned());
        }
        let process = java("kafka.Kafka").arg(&settings).spawn().map_err(|error| error.to_string())?;
        let mut broker = Broker { process, address: format!("127.0.0.1:{port}"), _folder: folder };
        let until = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(&broker.address).is_err() {
            assert!(Instant::now() < until, "the broker doesn't listen");
            assert!(broker.process.try_wait().unwrap().is_none(), "the broker has ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(broker)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn producer(&self) -> ThreadedProducer<DefaultProducerContext> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("enable.idempotence", "true").set("linger.ms", "5");
        config.set("queue.buffering.max.messages", "1000000").create().unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Sends records, and waits until the broker has them. `partition` chooses of a record's place.
pub fn produce<'a>(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    records: impl Iterator<Item = (i32, &'a [u8])>,
) {
    for (partition, payload) in records {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition).payload(payload);
        while let Err((error, again)) = producer.send(record) {
            assert_eq!(error.rdkafka_error_code(), Some(rdkafka::types::RDKafkaErrorCode::QueueFull), "{error}");
            std::thread::sleep(Duration::from_millis(5));
            record = again;
        }
    }
    producer.flush(Duration::from_secs(60)).unwrap();
}
