//! Glance.

use weir_openstack::Class;
use weir_openstack::image::ImageFilter;

use crate::cloud::on_each_cloud;
use crate::tenant::{refused, with_tenant};

/// Proves: IMG-1, OSC-6
#[tokio::test]
async fn public_images_are_listed_to_the_end_from_any_project() {
    on_each_cloud(async |cloud| {
        with_tenant(cloud, async |tenant| {
            let public = ImageFilter { visibility: Some("public"), ..Default::default() };
            let all = tenant.member.image().images(&public).await.unwrap();
            for wanted in &cloud.facts.images {
                let image = all.iter().find(|image| image.id.as_str() == wanted.id).expect("a public image");
                assert_eq!((image.visibility.as_str(), image.status.as_str()), ("public", "active"));
                assert!(image.created_at.is_some() && image.size.is_some());
            }
            let paged = tenant.member.clone().with_page_size(1);
            assert_eq!(paged.image().images(&public).await.unwrap().len(), all.len());
            let none = ImageFilter { owner: Some(&tenant.project), ..Default::default() };
            assert!(tenant.member.image().images(&none).await.unwrap().is_empty());
        })
        .await;
    })
    .await;
}

/// Proves: OSC-7
#[tokio::test]
async fn an_image_is_read_by_id_and_a_missing_one_is_not_found() {
    on_each_cloud(async |cloud| {
        let inventory = cloud.inventory();
        let image = inventory.image().image(&cloud.image(0)).await.unwrap();
        assert_eq!(image.id, cloud.image(0));
        assert!(!image.name.is_empty());
        let missing = "00000000-0000-4000-8000-00000000dead".into();
        refused(inventory.image().image(&missing).await, Class::NotFound);
    })
    .await;
}
