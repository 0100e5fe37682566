//! The page around the sections: its head, its style, and the note at its end.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style; the only thing that comes with the page.
const STYLE: &str = include_str!("style.css");

/// What every page begins with, by which it is known again.
pub const MARK: &str = "<!DOCTYPE html><html lang=\"en\" data-made-by=\"dircopy report\">";

/// What no page does: load, run or send anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page with this title and these sections.
pub fn page(title: &str, sections: &Markup) -> String {
    let version = env!("CARGO_PKG_VERSION");
    html! {
        (DOCTYPE)
        html lang="en" data-made-by="dircopy report" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } }
                main { (sections) }
                footer {
                    "Made by dircopy " (version) " from what its runs recorded. Receipts are not signed: the manifest \
                     and its digest are what can be checked."
                }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_again() {
        let page = page("<b>", &html! {});
        assert!(page.starts_with(MARK), "{page}");
        assert!(page.contains("<title>&lt;b&gt;</title>"));
        // The style cannot end its element.
        assert!(!STYLE.contains('<') && !STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
