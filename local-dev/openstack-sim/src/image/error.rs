//! Glance's errors: WebOb's own body, as HTML unless the client accepts JSON.

use crate::wire::{Reply, status_line, webob};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub status: u16,
    pub message: String,
}

pub(crate) type Result<T = Reply> = std::result::Result<T, Error>;

impl Error {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub fn not_found(id: &str) -> Self {
        Self::new(404, format!("No image found with ID {id}"))
    }

    pub fn no_route() -> Self {
        Self::new(404, "The resource could not be found.")
    }

    pub fn policy(action: &str) -> Self {
        Self::new(403, format!("You are not authorized to complete {action} action."))
    }

    pub fn reply(&self, url: &str, json: bool) -> Reply {
        let message = match self.status {
            401 => {
                "This server could not verify that you are authorized to access the document you requested. Either you \
                 supplied the wrong credentials (e.g., bad password), or your browser does not understand how to supply \
                 the credentials required."
            }
            _ => &self.message,
        };
        let reply = if json {
            Reply::json(self.status, webob(self.status, message))
        } else {
            let line = status_line(self.status);
            let page = format!(
                "<html>\n <head>\n  <title>{line}</title>\n </head>\n <body>\n  <h1>{line}</h1>\n  {message}<br /><br />\n\n\n\n \
                 </body>\n</html>"
            );
            Reply::text(self.status, "text/html; charset=UTF-8", page)
        };
        match self.status {
            401 => reply.with("WWW-Authenticate", format!("Keystone uri=\"{url}/identity\"")),
            _ => reply,
        }
    }
}
