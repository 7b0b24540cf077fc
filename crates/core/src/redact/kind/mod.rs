//! The secrets that are known by a name or a mark of their own: a file a family, data only.

mod account;
mod cloud;
mod cluster;
mod header;
mod key;
mod login;
pub(super) mod pair;
mod password;
mod registry;
mod secret;
mod token;

use super::shape::Shape;

pub(super) fn all() -> impl Iterator<Item = &'static Shape> {
    let families: [&[Shape]; 11] = [
        cluster::SHAPES,
        password::SHAPES,
        login::SHAPES,
        pair::SHAPES,
        secret::SHAPES,
        token::SHAPES,
        key::SHAPES,
        header::SHAPES,
        registry::SHAPES,
        cloud::SHAPES,
        account::SHAPES,
    ];
    families.into_iter().flatten()
}
