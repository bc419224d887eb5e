//! What the rebuild protocol rests on (RBD-23): that Nova reports the new image together with a task from the moment it
//! accepts until it is done, to the credential in use, and when it says that a server has booted.

use weir_openstack::compute::{Attach, ImageRef, NewServer, Observed, Server, ServerStatus};
use weir_openstack::{Class, ImageId, NovaServerId, OrAbsent};
use weir_provider::server::{Activity, Booted, View};

use crate::cloud::{eventually, on_each_cloud};
use crate::tenant::{Tenant, refused, with_tenant};

/// How often the image is changed: often enough to catch a gap that is there now and then.
const REBUILDS: usize = 12;

async fn look(tenant: &Tenant<'_>, id: &NovaServerId) -> Server {
    tenant.member.compute().server(id).await.unwrap()
}

async fn at_rest(tenant: &Tenant<'_>, id: &NovaServerId, status: &ServerStatus) -> Server {
    eventually("server at rest", async || {
        let server = look(tenant, id).await;
        (server.status == *status && server.task_state.is_nothing()).then_some(server)
    })
    .await
}

/// Has the server rebuilt, and looks at it as fast as it can until it is at rest. Returns how often it was seen at work.
async fn rebuild(tenant: &Tenant<'_>, id: &NovaServerId, image: &ImageId, rest: &ServerStatus) -> usize {
    let nova = tenant.member.compute();
    nova.rebuild_server(id, image).await.unwrap();
    let target = weir_api::crd::ImageId::from(image.as_str());
    let mut at_work = 0;
    loop {
        let server = look(tenant, id).await;
        let view = View::of(&server);
        assert_eq!(server.image, ImageRef::Image(image.clone()), "the image is the new one from the first look on");
        assert_ne!(view.activity, Activity::Untold, "this credential is told the task");
        assert_eq!(view.booted, Booted::Yes, "a rebuild does not make it a server that has never booted");
        if view.activity == Activity::Busy {
            if at_work == 0 {
                refused(nova.rebuild_server(id, image).await, Class::NotNow);
            }
            at_work += 1;
            continue;
        }
        assert!(view.is_converged(&target), "{:?} without a task is the end", server.status);
        // A server that was stopped is stopped again after its rebuild, and may be seen ACTIVE and idle in between. Its
        // image is the new one by then, so that it is settled a moment early does no harm.
        if *rest == ServerStatus::Active {
            assert_eq!(server.status, *rest);
        } else {
            at_rest(tenant, id, rest).await;
        }
        // The end is the end: nothing of the rebuild comes after it.
        for _ in 0..5 {
            assert_eq!(View::of(&look(tenant, id).await).activity, Activity::Quiet);
        }
        return at_work;
    }
}

/// Proves: RBD-6, RBD-7, RBD-14, RBD-18, RBD-23
#[tokio::test]
async fn a_rebuild_shows_its_image_and_its_task_together_until_it_is_done() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let nova = tenant.member.compute();
            let network = tenant.network("network-a").await;
            tenant.subnet(&network, "10.31.0.0/24").await;
            let networks = [Attach::Port(tenant.port("server-a", &network).await.id)];
            let (flavor, images) = (cloud.flavor(), [cloud.image(0), cloud.image(1)]);
            let id = nova.create_server(&NewServer::new("rebuilt", &flavor, &images[0], &networks)).await.unwrap();
            let first = eventually("first boot", async || {
                let server = look(tenant, &id).await;
                let is_up = server.status == ServerStatus::Active && server.task_state.is_nothing();
                if server.status == ServerStatus::Build {
                    assert!(
                        server.launched_at.is_nothing(),
                        "before the first boot there is no time of it, and that is told"
                    );
                }
                is_up.then_some(server)
            })
            .await;
            assert!(matches!(first.launched_at, Observed::Value(_)));
            let mut at_work = 0;
            for change in 1..=REBUILDS {
                at_work += rebuild(tenant, &id, &images[change % 2], &ServerStatus::Active).await;
            }
            assert!(at_work >= REBUILDS, "rebuilds are seen at work: {at_work}");
            nova.stop_server(&id).await.unwrap();
            at_rest(tenant, &id, &ServerStatus::Shutoff).await;
            rebuild(tenant, &id, &images[(REBUILDS + 1) % 2], &ServerStatus::Shutoff).await;
            let last = look(tenant, &id).await;
            assert_eq!(last.id, first.id);
            assert_eq!((&last.metadata, &last.addresses), (&first.metadata, &first.addresses));
            assert_eq!(last.flavor.original_name, first.flavor.original_name);
            nova.delete_server(&id).await.unwrap();
            eventually("end of the server", async || {
                nova.server(&id).await.or_absent().unwrap().is_none().then_some(())
            })
            .await;
        })
        .await;
    })
    .await;
}
