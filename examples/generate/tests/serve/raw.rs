//! A connection of a client that does not keep to HTTP.

use std::{
    io::{Error, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use tokio::{net::TcpStream, time::timeout};

pub(crate) struct Raw(TcpStream);

impl Raw {
    /// A connection that has sent something.
    pub(crate) async fn open(address: SocketAddr, said: &[u8]) -> Self {
        let raw = Raw(TcpStream::connect(address).await.expect("a connection"));
        // the server may have closed it already
        let _ = raw.say(said).await;
        raw
    }

    pub(crate) async fn say(&self, mut said: &[u8]) -> Result<(), Error> {
        while !said.is_empty() {
            self.0.writable().await?;
            match self.0.try_write(said) {
                Ok(len) => said = &said[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What the server says until it closes the connection, which it does within ten seconds.
    pub(crate) async fn all(self) -> String {
        let (mut all, mut part) = (Vec::new(), vec![0; 1 << 16]);
        let reads = async {
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut part) {
                    Ok(0) => return Ok::<(), Error>(()),
                    Ok(len) => all.extend_from_slice(&part[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        };
        // a connection that is reset has said what it has said
        let _ = timeout(Duration::from_secs(10), reads).await.expect("the server closes it");
        String::from_utf8_lossy(&all).into_owned()
    }
}
