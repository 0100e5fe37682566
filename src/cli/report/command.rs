//! `dircopy report`, from its arguments to its exit code.

use std::path::Path;

use crate::cli::args::report::ReportArgs;
use crate::cli::exit::Exit;
use crate::cli::record::files::destination::{Destination, RecordKind};
use crate::cli::report::render::{PageBuilder, is_page};
use crate::cli::show::console::Console;
use crate::error::{Error, Result};
use crate::path::Shown;
use crate::sys;

/// Makes a page of receipts.
pub fn report(args: &ReportArgs, console: &Console) -> Exit {
    let destination = match open(&args.output) {
        Ok(destination) => destination,
        Err(error) => {
            console.refused(&error);
            return Exit::Refused;
        }
    };
    let (mut builder, mut unread) = (PageBuilder::default(), 0);
    for receipt in &args.receipts {
        if let Err(error) = builder.add(receipt) {
            console.err(&format!("dircopy: {error}"));
            unread += 1;
        }
    }
    let Some(page) = builder.page(unread) else { return Exit::Refused };
    if let Err(error) = destination.write(|file| sys::write_all(file, page.as_bytes())) {
        console.refused(&error);
        return Exit::Refused;
    }
    console.out(&format!("the report is {}", Shown::path(&args.output)));
    match unread == 0 && console.all_written() {
        true => Exit::Complete,
        false => Exit::Incomplete,
    }
}

/// The place of the page, if that may be one.
fn open(path: &Path) -> Result<Destination> {
    if !is_page(path) {
        let finding = "a page has a name that ends in .html";
        return Err(Error::finding("write the report", path, finding));
    }
    Destination::new(RecordKind::Page, path)
}
