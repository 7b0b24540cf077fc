//! An image the runtime shall have.

use std::time::Duration;

use carrick_core::fact::Why;
use tokio::time::timeout;

use super::message::{ImageSpec, PullImageRequest, PullImageResponse};
use super::{call, reach, why};
use crate::probe::Probe;

/// Has the first runtime that is there pull an image, by its own configuration of registries: as it would for a pod.
/// `Why::Broken` holds its own words.
pub async fn pull(probe: &dyn Probe, endpoints: &[&str], image: &str, limit: Duration) -> Result<(), Why> {
    let pulled = async {
        let (_, channel) = reach(probe, endpoints, limit).await?;
        let request = PullImageRequest { image: Some(ImageSpec { image: image.to_owned() }) };
        let pulled = call::<_, PullImageResponse>(channel, "Image", "PullImage", request).await;
        pulled.map(drop).map_err(|status| why(&status))
    };
    timeout(limit, pulled).await.unwrap_or(Err(Why::TimedOut))
}
