//! What clients may take: connections, time and memory.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;

/// What clients may take, all together and each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. One that waits for its client gives way to a new one.
    pub connections: usize,
    /// Bytes that all requests may take beside the model: bodies, prompts, and texts until they are sent. A request may
    /// take a quarter of it.
    pub memory: usize,
    /// Until the headers of a request are there, also after the one before it.
    pub header_timeout: Duration,
    /// Until the body of a request is there.
    pub body_timeout: Duration,
    /// As long a client may read nothing of what is sent to it.
    pub write_timeout: Duration,
}

impl Default for Limits {
    /// 256 connections, 128 MiB, 10 s for headers, 30 s for bodies, 30 s for clients that do not read.
    fn default() -> Self {
        Limits {
            connections: 256,
            memory: 128 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
        }
    }
}

/// Bytes of a unit in which memory is counted.
const UNIT: usize = 1 << 10;

/// The memory of all requests.
#[derive(Debug)]
pub(crate) struct Memory {
    units: Arc<Semaphore>,
    most: usize,
}

/// Memory that a request holds until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    permit: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(1, u32::MAX as usize >> 1);
        Memory { units: Arc::new(Semaphore::new(units)), most: units * UNIT / 4 }
    }

    /// Bytes that one request may take.
    pub(crate) fn of_request(&self) -> usize {
        self.most
    }

    /// Takes `bytes` more for a request.
    pub(crate) fn claim(&self, claim: &mut Claim, bytes: usize) -> Result<(), Failure> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.units).try_acquire_many_owned(units).map_err(|_| {
            let message = "the requests that are being served hold all memory for requests; try again later";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).code("out_of_memory")
        })?;
        match &mut claim.permit {
            Some(held) => held.merge(permit),
            None => claim.permit = Some(permit),
        }
        Ok(())
    }
}
