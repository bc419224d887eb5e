//! A function that does nothing but be called: what is left is the cost of calling it.

use weir_api::{Problem, crd};
use weir_function_runtime::{Function, Scope};

/// Finds every server to be as it should be. The object itself is read by whoever calls.
pub struct Reader;

impl Function for Reader {
    type Object = crd::Server;

    const FINALIZER: bool = false;

    async fn reconcile(&self, _: &Scope, _: &crd::Server, _: &mut crd::ServerStatus) -> Result<(), Problem> {
        Ok(())
    }

    async fn finalize(&self, _: &Scope, _: &crd::Server, _: &mut crd::ServerStatus) -> Result<(), Problem> {
        Ok(())
    }
}
