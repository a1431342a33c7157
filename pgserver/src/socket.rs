//! A client's socket, plain or under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connected client.
pub(crate) enum Socket {
    /// Without encryption.
    Plain(TcpStream),
    /// Under TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// Given away to a handshake.
    Taken,
}

impl Socket {
    /// Takes over a stream that another thread had.
    pub(crate) fn resume(stream: std::net::TcpStream) -> io::Result<Socket> {
        Ok(Socket::Plain(TcpStream::from_std(stream)?))
    }

    /// Takes over an accepted stream: no delay, and probes for hosts that vanish silently.
    pub(crate) fn adopt(stream: std::net::TcpStream) -> io::Result<Socket> {
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

    /// The version of TLS, if it is encrypted.
    pub(crate) fn tls_protocol(&self) -> Option<&'static str> {
        let Socket::Tls(stream) = self else {
            return None;
        };
        Some(match stream.get_ref().1.protocol_version() {
            Some(tokio_rustls::rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        })
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Plain(stream) => Some(stream),
            Socket::Tls(stream) => Some(stream.get_ref().0),
            Socket::Taken => None,
        }
    }

    /// The processor where the client's last packet came in, of a connection that can be given to another thread.
    pub(crate) fn comes_in_at(&self) -> Option<usize> {
        match self {
            Socket::Plain(stream) => SockRef::from(stream).cpu_affinity().ok(),
            Socket::Tls(_) | Socket::Taken => None,
        }
    }

    /// A socket without encryption.
    #[inline]
    pub(crate) fn plain(&self) -> Option<&TcpStream> {
        match self {
            Socket::Plain(stream) => Some(stream),
            Socket::Tls(_) | Socket::Taken => None,
        }
    }

    /// The connection, to be given to another thread ([`Socket::comes_in_at`]).
    pub(crate) fn release(self) -> Option<std::net::TcpStream> {
        match self {
            Socket::Plain(stream) => stream.into_std().ok(),
            Socket::Tls(_) | Socket::Taken => None,
        }
    }

    /// Whether the peer has closed its side, even behind bytes that were not read yet.
    pub(crate) async fn is_closed(&self) -> bool {
        match self.tcp() {
            Some(tcp) => tcp
                .ready(Interest::READABLE)
                .await
                .is_ok_and(|r| r.is_read_closed()),
            None => true,
        }
    }

    /// Reads into `into`; 0 bytes is the end.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        let read = match self {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
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
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, from),
            Socket::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Sends what TLS holds back.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Plain(_) | Socket::Taken => Poll::Ready(Ok(())),
        }
    }

    /// Says good-bye to the peer.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Taken => Poll::Ready(Ok(())),
        }
    }
}
