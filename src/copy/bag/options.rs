//! What is asked of a bag, and what a run that copies its payload is given.

use std::path::PathBuf;
use std::sync::Arc;

use crate::hash::{Algorithm, Algorithms};
use crate::manifest::archive::bag_info::InfoTag;
use crate::state::private_dir::PrivateDir;
use crate::sys::Dir;
use crate::sys::stat::Identity;

/// How an output is made a bag.
#[derive(Clone, Debug, Default)]
pub struct BagOptions {
    /// What `bag-info.txt` says besides the date, the program and the size.
    pub tags: Vec<InfoTag>,
}

/// The algorithms whose manifests every reader of bags knows.
const OF_BAGS: [Algorithm; 4] =
    [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha1, Algorithm::Md5];

/// The first of these algorithms that manifests of bags are not of.
pub fn no_algorithm_of_bags(algorithms: Algorithms) -> Option<Algorithm> {
    algorithms.iter().find(|algorithm| !OF_BAGS.contains(algorithm))
}

/// What makes a run one that copies the payload of a bag: what it records lies outside of its output.
#[derive(Clone, Debug)]
pub struct PayloadRole {
    /// Which directory the payload's is.
    pub id: Identity,
    /// The private directory of the bag, in which that of the payload is; there may be none.
    pub private: Option<Arc<PrivateDir>>,
    /// The directory that the manifest and the lists go to.
    pub lists: Arc<Dir>,
    /// Where that is.
    pub lists_path: PathBuf,
}
