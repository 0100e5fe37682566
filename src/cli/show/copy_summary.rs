//! The closing summary of a copy: what happened at each output, and a line for each. The verdict over all is beside it.

use std::{ffi::OsStr, path::Path, path::PathBuf, time::Duration};

use crate::{
    cli::args::copy::CopyArgs, cli::copy::ProtectedTree, cli::copy::begin_of_named,
    cli::exit::Exit, cli::record::proof::Proof, cli::show::Console, cli::show::rows::Counted,
    cli::show::rows::Rows, cli::show::rows::brief, cli::show::rows::contents,
    cli::show::rows::files, cli::show::rows::per_second, cli::show::rows::proven,
    cli::show::rows::size, cli::show::rows::span, cli::show::rows::typed,
    cli::show::stream_summary::busy, cli::show::stream_summary::limit,
    cli::show::stream_summary::waiting, cli::show::verify_messages::tell_parity, copy::Counts,
    copy::Ending, copy::Report, error::Error, error::Result, io::HashedFrom,
    manifest::ManifestName, manifest::archive::bag::DECLARATION, part::Tally,
    part::content::Method, path::Shown, path::count, state::DatedName, sys::Dir,
    sys::ResidentBytes, tree::Policy, verify::lists_by_name,
};

/// Below this, the shares of the stages say nothing.
const TOO_SHORT: Duration = Duration::from_millis(100);

/// The summary at the end of a copy.
pub struct CopySummary<'a> {
    pub args: &'a CopyArgs,
    pub outputs: &'a [PathBuf],
    /// What messages call each of them.
    pub called: &'a [String],
    /// For each its report, or why it was refused.
    pub reports: &'a [Result<Report>],
    /// The outputs that got parity, or were to.
    pub protected: &'a [ProtectedTree],
    /// True if no output is written to without its disk.
    pub requires_mounts: bool,
    /// The tree that is brought back, if it is that.
    pub restored: Option<&'a Path>,
    /// The disk of a span that is wanted next, in words.
    pub next: Option<&'a str>,
    /// True if a disk of a span was not here at first.
    pub is_any_absent: bool,
    /// For each disk of a span whether it was not here at all.
    pub away: &'a [bool],
}

/// True if it is called as a generation: which of several trees was taken is not in the command.
fn is_generation(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).and_then(DatedName::parse).is_some()
}

impl CopySummary<'_> {
    /// Prints why outputs were refused or stopped, and, unless quiet, the rows of each and a line for each.
    pub fn print(&self, console: &Console) {
        let mut told = Vec::new();
        for ((output, called), report) in self.outputs.iter().zip(self.called).zip(self.reports) {
            // An error at the output itself names it.
            let begin = |error: &Error| match self.is_single() || error.path().starts_with(output) {
                true => begin_of_named(output, called),
                false => format!("{called}: "),
            };
            match report {
                Err(refused) => console.error("refused", &begin(refused), refused),
                Ok(Report {
                    ending: Ending::Stopped(error) | Ending::Miscomputed(error), ..
                }) => {
                    // What ends the run for all outputs, as a source that is gone, is said once.
                    let is_of_one = error.path().starts_with(output);
                    let is_told = !is_of_one && told.contains(&error.to_string());
                    told.push(error.to_string());
                    if !is_told {
                        let begin = if is_of_one { begin(error) } else { String::new() };
                        console.error("stopped", &format!("{begin}stopped early: "), error);
                    }
                }
                // It is the same at all outputs, and the verdict says it unless that is quiet.
                Ok(Report { ending: Ending::Nothing(error), .. }) if self.args.verbosity.quiet => {
                    console.error("failed", "", error);
                }
                Ok(_) => {}
            }
        }
        let refused = self.protected.iter().filter_map(|(_, ran)| ran.as_ref().err());
        refused.for_each(|error| console.error("failed", "", error));
        match (self.args.verbosity.quiet, self.no_generation().strip_prefix("; ")) {
            (false, _) => console.out_rows(self.rows()),
            (true, Some(text)) => console.err(&format!("dircopy: {text}")),
            (true, None) => {}
        }
    }

    /// The exit of what was done for parity.
    pub fn of_parity(&self) -> Exit {
        let exit = |(_, ran): &ProtectedTree| {
            match ran.as_ref().map_or(Exit::Incomplete, |report| Exit::of_check(report, true)) {
                // A list that cannot be used is one that this run could not finish.
                Exit::Unusable => Exit::Incomplete,
                exit => exit,
            }
        };
        self.protected.iter().map(exit).fold(Exit::Complete, Exit::or_worse)
    }

    fn is_single(&self) -> bool {
        self.outputs.len() == 1
    }

    fn rows(&self) -> Rows {
        let mut rows = match self.reports {
            [Ok(report)] => self.output_rows(report),
            _ => self.rows_of_several(),
        };
        let generation = self.restored.filter(|tree| is_generation(tree));
        generation.iter().for_each(|tree| rows.row("from", Shown::path(tree)));
        let lists = self.reports.iter().flatten().filter_map(|report| report.media_list.as_ref());
        lists.for_each(|path| rows.row("media list", Shown::path(path)));
        for report in self.protected.iter().filter_map(|(_, ran)| ran.as_ref().ok()) {
            report.parity.iter().for_each(|parity| tell_parity(parity, &mut rows));
        }
        if let Some(command) = self.check() {
            rows.row("to check", command);
            self.proof_in_source().iter().for_each(|text| rows.row("also here", text));
        }
        if !self.args.dry_run {
            let names = self.called;
            let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(40);
            for (name, report) in names.iter().zip(self.reports) {
                rows.row("output", format!("{name:<width$}  {}", self.output_line(report)));
            }
        }
        rows
    }

    /// The rows that are the same at all outputs once, and the rest of each below its name.
    fn rows_of_several(&self) -> Rows {
        let outputs = self.called.iter().zip(self.reports);
        let outputs = outputs.filter_map(|(called, report)| Some((called, report.as_ref().ok()?)));
        let each: Vec<_> =
            outputs.map(|(called, report)| (called, self.output_rows(report))).collect();
        // Each disk of a span has files of its own, also where it has as many as the others.
        let may_be_common = |line: &str| !self.args.span || line.starts_with("proof ");
        let is_common = |line: &&str| {
            may_be_common(line)
                && each.iter().all(|(_, rows)| rows.lines().any(|other| other == *line))
        };
        let mut all = Rows::default();
        if let Some((_, first)) = each.first() {
            all.add(first.lines().filter(is_common));
        }
        for (called, rows) in &each {
            let own = rows.lines().filter(|line| !is_common(line));
            own.for_each(|line| all.add_at(line, called));
        }
        let mut manifests: Vec<_> = self.reports.iter().flatten().filter_map(manifest).collect();
        manifests.dedup_by_key(|path| path.file_name());
        let has_one =
            |report: &Result<Report>| report.as_ref().ok().is_some_and(|it| it.manifest.is_some());
        match *manifests {
            [only] if self.reports.iter().all(has_one) => {
                let name = Shown::path(Path::new(only.file_name().unwrap_or_default())).to_string();
                all.row("manifest", format!("{name} at each output"));
            }
            _ => {
                let manifests = self.reports.iter().flatten().filter_map(manifest);
                manifests.for_each(|path| all.row("manifest", Shown::path(path)));
            }
        }
        all
    }

    /// The rows of an output. Of several, the row of the output itself says how much was copied.
    fn output_rows(&self, report: &Report) -> Rows {
        let mut rows = Rows::default();
        let counts = &report.counts;
        let copied = files(counts.copied + counts.replaced, counts.bytes);
        let is_told = !self.is_single() && !self.args.dry_run && counts.replaced == 0;
        if !is_told {
            rows.row(
                if self.args.dry_run { "to copy" } else { "copied" },
                match counts.replaced {
                    0 => copied,
                    replaced
                        if self.args.overwrite_policy == Policy::Default && counts.anew == 0 =>
                    {
                        format!("{copied} ({replaced} in place of shorter ones; -v names each)")
                    }
                    replaced => format!("{copied} ({replaced} in place of others)"),
                },
            );
        }
        self.method_rows(&mut rows, report);
        if counts.unchanged > 0 {
            let (links, specials) = (counts.unchanged_links, counts.unchanged_specials);
            let number = counts.unchanged.saturating_sub(links + specials);
            let kept = contents(number, links, specials, counts.unchanged_bytes);
            rows.row(
                "unchanged",
                match self.args.dry_run {
                    true => format!("{kept}, by size and time: a dry run reads no file"),
                    false => kept,
                },
            );
        }
        count_rows(&mut rows, counts, if self.args.expect_all { "differ" } else { "rotten" });
        self.unreached_row(&mut rows, report);
        if report.expected {
            let unlisted = counts.files().saturating_sub(counts.as_expected + counts.edited);
            let text = "not listed there, held against nothing (-v names each)";
            rows.counted(&[Counted("unproven", unlisted, "file", text)]);
            expected_rows(&mut rows, counts, self.args.expect_all);
        }
        if counts.from_device + counts.from_cache > 0 {
            let device = files(counts.from_device, counts.from_device_bytes);
            let cache = files(counts.from_cache, counts.from_cache_bytes);
            let text = match counts.from_cache {
                0 => format!("{device}, from the device"),
                _ => format!("{device}, from the device; {cache}, only through a cache"),
            };
            rows.row("read back", text);
        }
        if counts.read_twice > 0 {
            let files = count(counts.read_twice, "file");
            let text = match counts.read_twice_from_cache {
                0 => format!("{files} of the source, from the device"),
                cache => format!("{files} of the source, {cache} of them only through a cache"),
            };
            rows.row("read twice", text);
        }
        if !self.args.dry_run && report.ending.given_up().is_none() {
            let proof = Proof::of(report).words(counts.is_any_proven());
            proof.iter().for_each(|words| rows.row("proof", words));
        }
        if counts.believed_bytes > 0 {
            rows.row("believed", format!("{} of holes, not read", size(counts.believed_bytes)));
        }
        self.machine_rows(&mut rows, report);
        if counts.departed > 0 {
            let moved =
                format!("{}, {}", count(counts.departed, "entry"), size(counts.departed_bytes));
            let to = report.trash.as_ref().map(|trash| format!(", in {}", Shown::path(trash)));
            let text = format!("{moved}{}", to.unwrap_or_default());
            rows.row(if self.args.dry_run { "to remove" } else { "removed" }, text);
        }
        if let (Some(manifest), true) = (&report.manifest, self.is_single()) {
            rows.row("manifest", Shown::path(manifest));
        }
        rows
    }

    /// The row for what a run that was cut short did not come to.
    fn unreached_row(&self, rows: &mut Rows, report: &Report) {
        if !is_cut_short(report) {
            return;
        }
        let seen = report.counts.seen;
        let all = self.total().map(|total| total.max(seen));
        let of = all.map_or("of those found so far".into(), |all| format!("of {all}"));
        let left = all.unwrap_or(seen).saturating_sub(report.counts.settled());
        rows.counted(&[Counted("not reached", left, "entry", &of)]);
    }

    /// The rows for copy methods, unless all bytes were read and written.
    fn method_rows(&self, rows: &mut Rows, report: &Report) {
        let is_usual = |(method, _): &(Method, Tally)| *method == Method::ReadWrite;
        if !self.args.verbosity.verbose && report.methods.iter().all(is_usual) {
            return;
        }
        for (method, tally) in &report.methods {
            let how = match method {
                Method::Clone => "cloned: they share their data with the source",
                Method::Renamed => "renamed: they share their data with the file of the old name",
                Method::Range => "moved by the kernel (copy_file_range)",
                Method::Send => "moved by the kernel (sendfile)",
                Method::ReadWrite => "read and written",
            };
            rows.row("", format!("{} {how}", files(tally.files, tally.bytes)));
        }
    }

    /// The rows for data that stayed in memory, and for the stages: which worked, waited and limited the run.
    fn machine_rows(&self, rows: &mut Rows, report: &Report) {
        let (read, written) = (report.source_stayed, report.output_stayed);
        let verbose = self.args.verbosity.verbose;
        if verbose && read.of + written.of > 0 {
            let of =
                |stayed: ResidentBytes| format!("{} of {}", size(stayed.bytes), size(stayed.of));
            let text = format!("{} read and {} written stayed in memory", of(read), of(written));
            rows.row("cache", text);
        }
        if self.args.dry_run || report.counts.bytes == 0 {
            return;
        }
        if verbose && report.elapsed >= TOO_SHORT {
            rows.row("busy", busy(report));
            rows.row("waiting", waiting(report));
        }
        if let Some(limit) = limit(report, self.args.unattended.limit_rate, self.is_single()) {
            rows.row("slowest", limit);
        }
    }

    /// Files, bytes, time, rate, and what is known of the copy.
    fn output_line(&self, report: &Result<Report>) -> String {
        let Ok(report) = report else { return "refused: nothing was copied".into() };
        let counts = &report.counts;
        let copied = counts.copied + counts.replaced;
        let new_bytes = counts.bytes.saturating_sub(counts.resumed_bytes);
        let copy = format!("{}, {}", count(copied, "file"), brief(counts.bytes));
        // What is known of a disk that is gone, or was read from one, is neither a rate nor a proof of all.
        if report.ending.given_up().is_some() {
            return format!("{copy} in {}; stopped early", span(report.elapsed));
        }
        let rate = match per_second(new_bytes, report.elapsed) {
            0 => String::new(),
            rate => format!(", {}/s", brief(rate)),
        };
        format!("{copy} in {}{rate}; {}", span(report.elapsed), self.proof(counts))
    }

    fn proof(&self, counts: &Counts) -> String {
        // What was read back may be all that was there.
        let kept = |files| match counts.copied + counts.replaced {
            0 => format!("{} that was there ", count(files, "file"))
                .replace("files that was", "files that were"),
            _ => String::new(),
        };
        match (counts.from_device, counts.from_cache) {
            (0, 0) if counts.copied + counts.replaced == 0 => match counts.suspended_bytes {
                0 if counts.unchanged == 0 && counts.seen > 0 => "no file finished".into(),
                0 => "nothing written".into(),
                bytes => format!("no file finished, {} kept for the next run", size(bytes)),
            },
            (0, 0) if self.args.no_sync => "written, not synced, not read back".into(),
            (0, 0) => proven(None).into(),
            (device, 0) => kept(device) + proven(Some(HashedFrom::Device)),
            (0, cached) => kept(cached) + proven(Some(HashedFrom::Cache)),
            (_, cache) => {
                format!("read back from the device, {} only through a cache", count(cache, "file"))
            }
        }
    }
}

impl CopySummary<'_> {
    /// The commands that check the outputs, where nothing was before that had been copied: who has seen them once
    /// knows them.
    fn check(&self) -> Option<String> {
        let is_first = |report: &&Report| {
            let Report { counts, resumed, manifest, .. } = report;
            let earlier = counts.unchanged + counts.replaced + counts.reused_lines;
            manifest.is_some() && earlier == 0 && !resumed && counts.files() > 0
        };
        // Of a span, a disk may have got nothing, or have had its turn in an earlier run.
        let is_idle = |report: &&Report| {
            self.args.span && report.manifest.is_none() && report.counts.seen == 0
        };
        let is_done = |report: &&Report| matches!(report, Report { ending: Ending::Complete, .. });
        let reports = || self.reports.iter().flatten();
        let all = reports().filter(|it| is_done(it) && (is_first(it) || is_idle(it))).count();
        let is_any = reports().any(|report| is_first(&report));
        if all < self.reports.len() || !is_any || self.next.is_some() {
            return None;
        }
        // Where a disk was mounted another one may be by now.
        let name = |(output, called): (&PathBuf, &String)| match self.args.span
            && !begin_of_named(output, called).is_empty()
        {
            true => typed(Path::new(called)),
            false => typed(output),
        };
        let names: Vec<String> = self.outputs.iter().zip(self.called).map(name).collect();
        let span = if self.args.span { "--span " } else { "" };
        let verify = format!("dircopy verify {span}{}", names.join(" "));
        let manifest = match (self.outputs, self.reports) {
            ([output], [Ok(report)]) => {
                report.manifest.as_deref().filter(|path| path.parent() == Some(output))
            }
            _ => None,
        };
        let sum = |extension: &str| OF_SYSTEM.contains(&extension).then(|| extension.to_owned());
        let program = manifest.and_then(Path::extension).and_then(|it| sum(it.to_str()?));
        Some(match (manifest.and_then(Path::file_name), program) {
            (Some(name), Some(program)) => {
                format!("{verify}; or in it {program} -c {}", typed(Path::new(name)))
            }
            _ => verify,
        })
    }
}

impl CopySummary<'_> {
    /// What to add to hold the copy against what came with the source, if that was not done.
    fn proof_in_source(&self) -> Option<String> {
        let was_held = self.reports.iter().flatten().any(|report| report.expected);
        let source = self.args.input.first().filter(|_| !was_held)?;
        if source.join(DECLARATION).is_file() {
            let command = format!("--expect {}", typed(source));
            return Some(format!("the source is a bag; to hold the copy against it: {command}"));
        }
        let lists = lists_by_name(&Dir::open(source).ok()?);
        let first = lists.iter().find(|name| ManifestName::of_any(name.as_ref()).is_none())?;
        let command = format!("--expect {} --expect-all", typed(&source.join(first)));
        let first = Shown::path(Path::new(first));
        Some(format!("{first} came along; to hold the copy against it: {command}"))
    }
}

/// The programs of most systems that check a list, which are the endings of its name.
const OF_SYSTEM: [&str; 5] = ["sha256sum", "sha512sum", "sha1sum", "md5sum", "b2sum"];

fn manifest(report: &Report) -> Option<&PathBuf> {
    report.manifest.as_ref()
}

/// True if the run did not come to its end, so that it did not find everything, or not account for all it found.
fn is_cut_short(report: &Report) -> bool {
    report.ending.given_up().is_some() || matches!(report.ending, Ending::Interrupted(_))
}

/// The rows for the fates of the entries.
fn count_rows(rows: &mut Rows, counts: &Counts, rotten: &str) {
    rows.counted(&[Counted(
        "resumed",
        counts.resumed,
        "file",
        &format!("of these, {} not read again", size(counts.resumed_bytes)),
    )]);
    let kept = format!("begun, {} kept for the next run", size(counts.suspended_bytes));
    rows.counted(&[Counted("suspended", counts.suspended, "file", &kept)]);
    rows.counted(&[
        Counted(
            "anew",
            counts.anew,
            "file",
            "of the copied: what was there was not as size and time say",
        ),
        Counted("attributes", counts.attributes, "file", "of these, now as at the source"),
        Counted("linked", counts.linked, "further name", "of the same files"),
        Counted("links", counts.symlinks, "symbolic link", ""),
        Counted("special", counts.specials, "special file", ""),
        Counted("left", counts.left, "entry", "not as in the source"),
        Counted(
            "put off",
            counts.put_off,
            "file",
            "that could not be read, until all others were done",
        ),
        Counted("failed", counts.failed, "entry", ""),
        Counted(
            "damaged",
            counts.damaged,
            "file",
            "of these that the disk does not hold as written",
        ),
        Counted(
            "unconfirmed",
            counts.unconfirmed,
            "file",
            "that a second reading of the source does not confirm",
        ),
        Counted("miscomputed", counts.miscomputed, "file", "of these with two digests"),
        Counted(rotten, counts.rotten, "file", "of these, not what is expected; not copied"),
        Counted(
            "decayed",
            counts.decayed,
            "file",
            "at the output, not what was recorded of them, or what a history has",
        ),
        Counted("skipped", counts.skipped, "entry", "not to be copied"),
        Counted("warnings", counts.warnings, "warning", "about attributes, damage and the like"),
        Counted(
            "fallback",
            counts.fallback,
            "file",
            "of these read from the source for this output alone",
        ),
        Counted(
            "re-read",
            counts.reread,
            "file",
            "that may have been read from the source once more",
        ),
        Counted("dropped", counts.dropped_lines, "line", "for what has left the source"),
        Counted("not moved", counts.not_departed, "piece", "gone from the source"),
        Counted("closed", counts.closed, "directory", "that stays closed to others"),
        Counted("foreign", counts.foreign, "entry", "at the output, not in the source"),
        Counted(
            "also listed",
            counts.reused_lines,
            "file",
            "of earlier runs, not in the source any more or left as is",
        ),
    ]);
}

/// The rows that compare the source with the manifest of `--expect`.
fn expected_rows(rows: &mut Rows, counts: &Counts, is_strict: bool) {
    let Counts { as_expected, edited, gone, unusable_lines, .. } = counts;
    let as_expected = count(*as_expected, "file");
    let text = format!("{as_expected} as listed, {edited} edited since, {gone} gone");
    rows.row("expected", text);
    if !is_strict && counts.edited + counts.gone > counts.lost {
        let text = "what was edited or is gone counts as done so on purpose; --expect-all, for a delivery, does not";
        rows.row("", text);
    }
    rows.counted(&[Counted("unusable", *unusable_lines, "line", "of the expected manifest")]);
}
