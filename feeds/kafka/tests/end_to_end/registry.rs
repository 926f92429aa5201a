//! A stub of a schema registry: answers `/schemas/ids/N` and versions of subjects, over HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

pub struct Registry {
    pub url: String,
}

impl Registry {
    /// Answers of paths; any other path has the registry's 404.
    pub fn start(answers: BTreeMap<String, Value>) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &answers);
            }
        });
        Registry { url }
    }
}

fn answer(mut stream: TcpStream, answers: &BTreeMap<String, Value>) {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&buffer[..read]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let path = text.split(' ').nth(1).unwrap_or_default();
    let none = serde_json::json!({ "error_code": 40403, "message": "Schema not found" });
    let (status, body) = answers.get(path).map_or(("404 Not Found", &none), |body| ("200 OK", body));
    let body = body.to_string();
    write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok();
}
