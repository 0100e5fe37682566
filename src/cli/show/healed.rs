//! What became of a bad file that was to be made whole, in words for a message and for a report.

use crate::cli::show::compared::cut;
use crate::cli::show::rows::size;
use crate::path::Shown;
use crate::verify::{Damage, Mend};

/// What a file was made whole with: "2 MiB from B and C".
pub fn taken(mend: &Mend) -> String {
    let names: Vec<String> = mend.from.iter().map(|root| cut(Shown::path(root))).collect();
    let bytes = size(mend.bytes);
    match names.split_last() {
        // It was longer than it is listed, or is good when it is read once more.
        None => "from what was good of it".into(),
        Some((last, [])) => format!("{bytes} from {last}"),
        Some((last, rest)) => format!("{bytes} from {} and {last}", rest.join(", ")),
    }
}

/// Why a file was not made whole.
pub fn not_healed(why: &str, lost: Option<&Damage>) -> String {
    match lost {
        None => why.to_owned(),
        Some(lost) => format!("{why}: {lost}"),
    }
}
