//! A client's socket, plain or with TLS.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::log::Peer;

/// An accepted stream that belongs to no runtime yet.
pub(crate) enum AcceptedStream {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl AcceptedStream {
    /// Returns the processor where its packets arrive; `None` for a Unix socket.
    pub(crate) fn comes_in_at(&self) -> Option<usize> {
        match self {
            AcceptedStream::Tcp(stream) => SockRef::from(stream).cpu_affinity().ok(),
            AcceptedStream::Unix(_) => None,
        }
    }

    /// Returns the address of the client.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        match self {
            AcceptedStream::Tcp(stream) => stream.peer_addr().map(Peer::Tcp),
            AcceptedStream::Unix(_) => Ok(Peer::Local),
        }
    }
}

/// A connected client.
pub(crate) enum Socket {
    /// TCP without encryption.
    Plain(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TCP with TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// No socket: a handshake or another worker has it.
    Taken,
}

impl Socket {
    /// Adopts a stream of another thread.
    pub(crate) fn resume(stream: std::net::TcpStream) -> io::Result<Socket> {
        Ok(Socket::Plain(TcpStream::from_std(stream)?))
    }

    /// Adopts an accepted stream. For TCP, sets no-delay, and keep-alive probes that detect lost
    /// hosts.
    pub(crate) fn adopt(accepted: AcceptedStream) -> io::Result<Socket> {
        let stream = match accepted {
            AcceptedStream::Tcp(stream) => stream,
            AcceptedStream::Unix(stream) => {
                stream.set_nonblocking(true)?;
                return Ok(Socket::Unix(UnixStream::from_std(stream)?));
            }
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let probes = TcpKeepalive::new()
            .with_time(Duration::from_secs(60))
            .with_interval(Duration::from_secs(10));
        SockRef::from(&stream).set_tcp_keepalive(&probes)?;
        Ok(Socket::Plain(TcpStream::from_std(stream)?))
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// Returns the certificate that the client has sent, in DER.
    pub(crate) fn client_certificate(&self) -> Option<&[u8]> {
        let Socket::Tls(stream) = self else {
            return None;
        };
        let chain = stream.get_ref().1.peer_certificates()?;
        chain.first().map(AsRef::as_ref)
    }

    /// Returns the version of TLS, if the connection is encrypted.
    pub(crate) fn tls_protocol(&self) -> Option<&'static str> {
        let Socket::Tls(stream) = self else {
            return None;
        };
        Some(match stream.get_ref().1.protocol_version() {
            Some(tokio_rustls::rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        })
    }

    /// Returns the processor where the client's last packet arrived, for a connection that can move
    /// to another thread.
    pub(crate) fn comes_in_at(&self) -> Option<usize> {
        match self {
            Socket::Plain(stream) => SockRef::from(stream).cpu_affinity().ok(),
            Socket::Unix(_) | Socket::Tls(_) | Socket::Taken => None,
        }
    }

    /// Returns the socket if it is not encrypted.
    #[inline]
    pub(crate) fn plain(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Socket::Plain(stream) => Some(stream.as_fd()),
            Socket::Unix(stream) => Some(stream.as_fd()),
            Socket::Tls(_) | Socket::Taken => None,
        }
    }

    /// Returns the connection, for another thread ([`Socket::comes_in_at`]).
    pub(crate) fn release(self) -> Option<std::net::TcpStream> {
        match self {
            Socket::Plain(stream) => stream.into_std().ok(),
            Socket::Unix(_) | Socket::Tls(_) | Socket::Taken => None,
        }
    }

    /// Returns whether the peer has closed its side, even if there are unread bytes.
    pub(crate) async fn is_closed(&self) -> bool {
        let readable = match self {
            Socket::Plain(stream) => stream.ready(Interest::READABLE).await,
            Socket::Unix(stream) => stream.ready(Interest::READABLE).await,
            Socket::Tls(stream) => stream.get_ref().0.ready(Interest::READABLE).await,
            Socket::Taken => return true,
        };
        readable.is_ok_and(|readable| readable.is_read_closed())
    }

    /// Reads into `into`; 0 bytes means the end of the stream.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        let read = match self {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Socket::Taken => Poll::Ready(Ok(())),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    /// Writes the start of `from`.
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, from),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, from),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, from),
            Socket::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Sends the data that TLS has buffered.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Plain(_) | Socket::Unix(_) | Socket::Taken => Poll::Ready(Ok(())),
        }
    }

    /// Shuts the sending side down.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Taken => Poll::Ready(Ok(())),
        }
    }
}
