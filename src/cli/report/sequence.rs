//! `dircopy report --check`: whether all receipts of an output are there, as they were written.
//!
//! A receipt is data: it is known by its bytes, and what it says of the others counts only where they agree. The
//! receipt after it shows that one was changed. That the last one is there, and is what was written, only the output
//! itself or a signature shows.

use std::{
    cell::Cell, collections::BTreeMap, collections::BTreeSet, collections::HashMap, path::Path,
    path::PathBuf,
};

use crate::{
    cli::args::values::ReportArgs, cli::exit::Exit, cli::record::sign::signer_of,
    cli::report::moment, cli::report::receipt_read::Receipt,
    cli::report::receipt_read::ReceiptOutput, cli::report::receipt_read::ReceiptSequencePlace,
    cli::show::Console, error::Deed, error::Error, hash::Sha256, path::Shown, path::count,
    state::KnownReceipt, sys, sys::PlainUse,
};

/// A receipt that was given, as far as it is checked.
struct GivenReceipt {
    path: PathBuf,
    /// The SHA-256 of its bytes.
    digest: String,
    started: String,
    /// True if it says that something may have been written.
    is_of_copy: bool,
    /// Its run did everything that it was asked for.
    is_complete: bool,
    /// Number of the newest receipts that its run left in their directory.
    keep: Option<u64>,
    /// Its places in the sequences of outputs, each with the output's path as it says.
    places: Vec<(String, ReceiptSequencePlace)>,
}

impl GivenReceipt {
    fn new(path: &Path, digest: String, receipt: &Receipt) -> Self {
        let outputs = &receipt.outputs.kept;
        let place =
            |output: &ReceiptOutput| Some((output.path.0.clone(), output.sequence.clone()?));
        Self {
            path: path.to_path_buf(),
            digest,
            started: receipt.started.0.clone(),
            is_of_copy: receipt.kind.0 == "copy"
                && !receipt.dry_run
                && outputs.iter().any(|output| output.counts.is_some()),
            is_complete: receipt.exit_code == 0,
            keep: receipt.keep_reports,
            places: outputs.iter().filter_map(place).collect(),
        }
    }

    fn place(&self, output: &str) -> Option<&ReceiptSequencePlace> {
        self.places.iter().map(|(_, place)| place).find(|place| place.output.0 == output)
    }

    fn shown(&self) -> String {
        Shown::path(&self.path).to_string()
    }
}

/// The check, and how much was found amiss.
struct SequenceCheck<'a> {
    args: &'a ReportArgs,
    console: &'a Console,
    amiss: Cell<u64>,
    /// There are fewer receipts than runs left, as `--keep-reports` has it.
    is_thinned: Cell<bool>,
}

/// Checks the receipts that are given.
pub fn check(args: &ReportArgs, console: &Console) -> Exit {
    let known = args.at.as_deref().map(|path| KnownReceipt::of(path, args.state.as_deref()));
    let signers = args.signers.as_deref().map(|path| {
        sys::open_plain(path, PlainUse::Read).map(drop).deed("read the allowed signers in", path)
    });
    let known = known.transpose().and_then(|known| signers.unwrap_or(Ok(())).map(|()| known));
    let known = match (known, &args.at) {
        (Ok(Some(None)), Some(path)) => {
            let finding = "no receipts of runs of yours are known there";
            Err(Error::finding("find the last receipt of", path, finding))
        }
        (known, _) => known.map(Option::flatten),
    };
    match known {
        Ok(known) => {
            SequenceCheck { args, console, amiss: Cell::default(), is_thinned: Cell::default() }
                .run(known.as_ref())
        }
        Err(error) => {
            console.refused(&error);
            Exit::Refused
        }
    }
}

impl SequenceCheck<'_> {
    fn run(&self, known: Option<&KnownReceipt>) -> Exit {
        let (mut given, mut unread, mut by) = (Vec::new(), 0, BTreeSet::new());
        for path in &self.args.receipts {
            match Receipt::open_whole(path) {
                Ok((receipt, bytes)) => {
                    self.judge_signature(path, &bytes, &mut by);
                    let digest = Sha256::of(&[&bytes]).to_string();
                    given.push(GivenReceipt::new(path, digest, &receipt));
                }
                Err(error) => {
                    self.console.err(&format!("dircopy: {error}"));
                    unread += 1;
                }
            }
        }
        let given = self.without_doubles(given);
        let main = outputs_of(&given, known.map(|known| &*known.output));
        self.name_others(&given, &main);
        // Of receipts that cannot be read nobody knows which they are: the last may be one of them.
        let is_any_read = !given.is_empty() || unread == 0;
        for output in main.iter().filter(|_| is_any_read) {
            self.walk(output, &given, known.filter(|known| known.output == *output));
        }
        for name in by {
            self.console.out_sentence(&format!("signed by {}", Shown::bytes(name.as_bytes())));
        }
        let (amiss, is_any) = (self.amiss.get(), !main.is_empty());
        let (exit, verdict) = match () {
            () if amiss > 0 => {
                (Exit::Untrue, format!("NOT WHOLE (exit 4): {} amiss", count(amiss, "thing")))
            }
            () if unread > 0 => {
                let text = count(unread, "receipt");
                (Exit::Unusable, format!("NOT CHECKED (exit 5): {text} could not be read"))
            }
            () if !is_any => {
                (Exit::Unusable, "NOTHING CHECKED (exit 5): no receipt is in a sequence".into())
            }
            () => {
                let is_main = |it: &&GivenReceipt| main.iter().any(|one| it.place(one).is_some());
                let text = count(given.iter().filter(is_main).count() as u64, "receipt");
                let missing = match self.is_thinned.get() {
                    true => {
                        "none changed, and none missing in between but those that --keep-reports removes"
                    }
                    false => "none missing in between or changed",
                };
                (Exit::Complete, format!("WHOLE: {text}, {missing}"))
            }
        };
        self.console.out_sentence(&verdict);
        if exit == Exit::Complete && !self.console.all_written() { Exit::Incomplete } else { exit }
    }

    /// Tells that something is amiss with a receipt.
    fn tell(&self, path: &Path, finding: &str) {
        self.amiss.set(self.amiss.get() + 1);
        self.console.err(&format!("dircopy: {}: {finding}", Shown::path(path)));
    }

    fn judge_signature(&self, path: &Path, bytes: &[u8], by: &mut BTreeSet<String>) {
        let Some(signers) = &self.args.signers else { return };
        match signer_of(path, bytes, signers, self.args.identity.as_deref()) {
            Ok(name) => drop(by.insert(name)),
            Err(why) => self.tell(path, &why),
        }
    }

    /// Each once. The same bytes under two names may hide that one is missing.
    fn without_doubles(&self, given: Vec<GivenReceipt>) -> Vec<GivenReceipt> {
        let mut met: HashMap<String, String> = HashMap::new();
        given
            .into_iter()
            .filter(|receipt| match met.get(&receipt.digest) {
                Some(first) => {
                    self.tell(&receipt.path, &format!("it is the same receipt as {first}"));
                    false
                }
                None => {
                    met.insert(receipt.digest.clone(), receipt.shown());
                    true
                }
            })
            .collect()
    }

    /// Names the receipts that are in none of these sequences.
    fn name_others(&self, given: &[GivenReceipt], main: &BTreeSet<String>) {
        let mut others = 0;
        for receipt in given {
            match receipt.places.first() {
                None if receipt.is_of_copy => {
                    self.tell(&receipt.path, "it is in no sequence: nothing shows what it was");
                }
                None => others += 1,
                Some((output, _))
                    if receipt.places.iter().all(|(_, it)| !main.contains(&it.output.0)) =>
                {
                    let output = Shown::bytes(output.as_bytes());
                    self.tell(&receipt.path, &format!("it belongs to another output, {output}"));
                }
                Some(_) => {}
            }
        }
        if others > 0 {
            let text = count(others, "receipt");
            self.console.out_sentence(&format!(
                "{text} of checks, dry runs and refused runs: they are in no sequence, and nothing shows whether they \
                 were changed"
            ));
        }
    }

    /// Goes through the receipts of an output by their numbers.
    fn walk(&self, output: &str, given: &[GivenReceipt], known: Option<&KnownReceipt>) {
        let mut numbers: BTreeMap<u64, Vec<&GivenReceipt>> = BTreeMap::new();
        for receipt in given {
            if let Some(place) = receipt.place(output) {
                numbers.entry(place.number).or_default().push(receipt);
            }
        }
        // From the last to the first: each shows which of several with the number before it was there.
        let mut chain: Vec<&GivenReceipt> = Vec::new();
        for receipts in numbers.values().rev() {
            let named = match chain.last().and_then(|after| after.place(output)) {
                Some(after) => named_by(after),
                None => known.map(all_last).unwrap_or_default(),
            };
            let genuine = receipts.iter().find(|it| named.contains(&it.digest));
            let chosen = genuine.or(receipts.first()).copied();
            for other in receipts.iter().filter(|it| chosen.is_some_and(|one| one.path != it.path))
            {
                let one = chosen.map_or_else(String::new, GivenReceipt::shown);
                let finding = match genuine {
                    Some(_) => format!("it was changed or made up: {one} is the one of its number"),
                    None => {
                        format!("it has the number of {one}: one of both was changed or made up")
                    }
                };
                self.tell(&other.path, &finding);
            }
            chain.extend(chosen);
        }
        chain.reverse();
        let thinned = kept_after_thinning(&chain);
        for (at, pair) in chain.windows(2).enumerate() {
            if let [one, next] = pair {
                self.judge_link(output, [one, next], thinned.filter(|_| at == 0));
            }
        }
        let (Some(first), Some(last)) = (chain.first(), chain.last()) else {
            return self.judge_end(None, 0, known);
        };
        let number = |it: &GivenReceipt| it.place(output).map_or(0, |place| place.number);
        if first.place(output).is_some_and(|it| (it.number <= 1) != it.before.is_none()) {
            self.tell(&first.path, "its number and the receipt that it names before it contradict");
        }
        let path = first.places.iter().find(|(_, it)| it.output.0 == output);
        let path =
            path.map_or_else(String::new, |(path, _)| Shown::bytes(path.as_bytes()).to_string());
        let earlier = match number(first).saturating_sub(1) {
            0 => String::new(),
            earlier => format!("; {} before are not among them", count(earlier, "receipt")),
        };
        self.console.out_sentence(&format!(
            "{path}: receipts {} to {}, of {} to {}{earlier}",
            number(first),
            number(last),
            moment(&first.started),
            moment(&last.started)
        ));
        self.judge_end(Some(*last), number(last), known);
    }

    /// Judges two receipts with no other between them. Between those that are `thinned` others may have been removed,
    /// as so many of the newest were kept.
    fn judge_link(&self, output: &str, [one, next]: [&GivenReceipt; 2], thinned: Option<u64>) {
        let (Some(before), Some(after)) = (one.place(output), next.place(output)) else { return };
        let (step, shown) = (after.number.saturating_sub(before.number), next.shown());
        let is_named = named_by(after).contains(&one.digest);
        let may_skip = step > 0 && step <= after.perhaps.all + 1;
        match () {
            () if is_named && may_skip => {}
            () if step == 1 => self.tell(
                &one.path,
                &format!(
                    "it is not the receipt that {shown} names before it: one of both was changed"
                ),
            ),
            () if may_skip => self.tell(
                &next.path,
                &format!("it does not name {}, which should be before it", one.shown()),
            ),
            () => {
                let missing = match step {
                    2 => format!("receipt {}", before.number + 1),
                    _ => format!("receipts {} to {}", before.number + 1, after.number - 1),
                };
                match thinned {
                    Some(keep) => {
                        self.is_thinned.set(true);
                        self.console.out(&format!(
                            "{missing}: not among these, of runs that were not complete, or missing: --keep-reports {keep} \
                             leaves the newest and {}, the last of a complete run",
                            one.shown()
                        ));
                    }
                    None => {
                        let text = format!("missing between {} and it: {missing}", one.shown());
                        self.tell(&next.path, &text);
                    }
                }
            }
        }
        let runs = after.run.saturating_sub(before.run).saturating_sub(step.max(1));
        if runs > 0 {
            let text = count(runs, "run");
            self.console
                .out(&format!("{text} without a receipt between {} and {shown}", one.shown()));
        }
    }

    /// Holds the last receipt against what the output knows.
    fn judge_end(&self, last: Option<&GivenReceipt>, number: u64, known: Option<&KnownReceipt>) {
        let (Some(known), Some(at)) = (known, &self.args.at) else { return };
        let is_last = last.is_some_and(|last| all_last(known).contains(&last.digest));
        match last {
            _ if is_last => {}
            Some(last) if number >= known.number => {
                self.tell(
                    &last.path,
                    "it is not the last receipt that the output knows: it was changed or made up",
                );
            }
            _ => self.tell(at, &format!("its last receipt, {}, is not among these", known.number)),
        }
    }
}

/// How many of the newest stay by what the last of them says, if these are what `--keep-reports` leaves where no newer
/// run was complete: so many of the newest, and before them the one of the last complete run.
fn kept_after_thinning(chain: &[&GivenReceipt]) -> Option<u64> {
    let (first, newest) = chain.split_first()?;
    let is_thinned = first.is_complete && !newest.iter().any(|it| it.is_complete);
    newest.last()?.keep.filter(|keep| is_thinned && *keep == newest.len() as u64)
}

/// The digests of the receipts that may be the last of an output.
fn all_last(known: &KnownReceipt) -> BTreeSet<String> {
    known.digest.iter().chain(&known.begun).cloned().collect()
}

/// The digests of the receipts that may be before the one of this place.
fn named_by(place: &ReceiptSequencePlace) -> BTreeSet<String> {
    place.before.iter().chain(&place.perhaps.kept).map(|digest| digest.0.clone()).collect()
}

/// The outputs that the receipts are of: the `known` one, or those of most of them, with all that have receipts in
/// common with them, also over others.
fn outputs_of(given: &[GivenReceipt], known: Option<&str>) -> BTreeSet<String> {
    let mut groups: Vec<(BTreeSet<String>, usize)> = Vec::new();
    let known_alone = known.map(|output| (BTreeSet::from([output.to_owned()]), 0));
    let of_receipt = given.iter().filter(|receipt| !receipt.places.is_empty()).map(|receipt| {
        (receipt.places.iter().map(|(_, place)| place.output.0.clone()).collect(), 1)
    });
    for mut joined in known_alone.into_iter().chain(of_receipt) {
        groups.retain(|(outputs, number)| {
            let is_other = outputs.is_disjoint(&joined.0);
            if !is_other {
                joined = (&joined.0 | outputs, joined.1 + number);
            }
            is_other
        });
        groups.push(joined);
    }
    let is_known = |outputs: &BTreeSet<String>| known.is_some_and(|one| outputs.contains(one));
    let most = groups.into_iter().max_by_key(|(outputs, number)| (is_known(outputs), *number));
    most.map(|(outputs, _)| outputs).unwrap_or_default()
}
