//! A TCP connection that can be made to end in a reset.
//!
//! Hyper owns the stream while it serves, so the wish to abort is left in a flag, and acted on when the stream is
//! dropped: with a linger time of zero the kernel sends RST instead of FIN.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

pub(crate) struct Connection {
    stream: TcpStream,
    abort: Arc<AtomicBool>,
}

impl Connection {
    /// The connection, and the flag that makes its end a reset.
    pub fn new(stream: TcpStream) -> (Self, Arc<AtomicBool>) {
        let abort = Arc::new(AtomicBool::new(false));
        (Self { stream, abort: Arc::clone(&abort) }, abort)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.abort.load(Ordering::SeqCst) {
            // If this fails the client sees FIN, which is a broken connection too.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An orderly shutdown would send FIN before the reset.
        if self.abort.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
