//! Signatures of receipts: made and judged by the system's `ssh-keygen`, in time and with bounded answers. There is no
//! cryptography of our own.

use std::{
    ffi::OsStr, fs::File, io, io::Read, io::Seek, path::Path, path::PathBuf, process::Command,
    time::Duration,
};

use crate::{
    cli::record::files::Destination, cli::record::files::RecordKind, cli::record::files::SIGNATURE,
    cli::record::files::signature_of, cli::session::Waited, cli::session::wait, error::Deed,
    error::Error, error::Result, path::Shown, sys, sys::Helper, sys::PlainUse, sys::Uninterrupted,
};

/// What signatures are for: one that was made for something else is none of a receipt.
const NAMESPACE: &str = "dircopy";

/// What the trial before a run signs for.
const TRIAL: &str = "dircopy-trial";

/// Time for an answer. A key on a token may have to be touched.
const LIMIT: Duration = Duration::from_secs(30);

/// More is not read of an answer, in bytes. A signature of the longest RSA key has 4 KiB.
const MOST_ANSWER: u64 = 64 << 10;

/// So many names that may have signed are tried.
const MOST_NAMES: usize = 16;

/// Signs receipts with a key.
pub struct Signer(PathBuf);

impl Signer {
    /// Tries the key.
    ///
    /// # Errors
    /// It cannot sign, or `ssh-keygen` is not there.
    pub fn new(key: &Path) -> Result<Self> {
        let signer = Self(key.to_path_buf());
        let text = tempfile::tempfile().deed("sign with", key)?;
        signer.signature(TRIAL, text).map_err(|why| Error::finding("sign with", key, why))?;
        Ok(signer)
    }

    /// Signs the receipt at `path`; the path of the signature beside it.
    ///
    /// # Errors
    /// It could not be made or written: there is none.
    pub fn sign(&self, path: &Path) -> Result<PathBuf> {
        const DEED: &str = "sign the receipt";
        let file = sys::open_plain(path, PlainUse::Read).deed(DEED, path)?;
        let permissions = file.metadata().deed(DEED, path)?.permissions();
        let text = self.signature(NAMESPACE, file);
        let text = text.map_err(|why| Error::finding(DEED, path, why))?;
        let signature = signature_of(path);
        Destination::new(RecordKind::Signature, &signature, &|_| false)?.write(|file| {
            // Who may read the receipt may check it.
            file.set_permissions(permissions)?;
            sys::write_all(file, &text)
        })?;
        Ok(signature)
    }

    fn signature(&self, namespace: &str, text: File) -> std::result::Result<Vec<u8>, String> {
        let words = ["-Y", "sign", "-n", namespace, "-f"].map(OsStr::new);
        let answer = ask(&[&words[..], &[self.0.as_os_str()]].concat(), text)?;
        match answer.starts_with(SIGNATURE.as_bytes()) {
            true => Ok(answer),
            false => Err("ssh-keygen gave no signature".into()),
        }
    }
}

/// Who of `signers` signed the receipt at `path`, which has these bytes; or why nobody did.
pub fn signer_of(
    path: &Path,
    bytes: &[u8],
    signers: &Path,
    identity: Option<&str>,
) -> std::result::Result<String, String> {
    let (signature, said) = (signature_of(path), |error: io::Error| error.to_string());
    if !signature.is_file() {
        return Err("it has no signature".into());
    }
    let (signers, signature) = (signers.as_os_str(), signature.as_os_str());
    let names = match identity {
        Some(name) => name.to_owned(),
        None => {
            let [y, find, s, f] = ["-Y", "find-principals", "-s", "-f"].map(OsStr::new);
            let found =
                ask(&[y, find, s, signature, f, signers], tempfile::tempfile().map_err(said)?);
            let found = found.map_err(|why| format!("nobody who is allowed signed it ({why})"))?;
            String::from_utf8(found).map_err(|_| "the name of who signed it is no text")?
        }
    };
    let [y, verify, n, space, f, i, s] =
        ["-Y", "verify", "-n", NAMESPACE, "-f", "-I", "-s"].map(OsStr::new);
    let mut refused = "nobody who is allowed signed it".to_owned();
    for name in names.lines().filter(|name| !name.is_empty()).take(MOST_NAMES) {
        let mut text = tempfile::tempfile().map_err(said)?;
        sys::write_all(&text, bytes).and_then(|()| text.rewind()).map_err(said)?;
        let words = [y, verify, n, space, f, signers, i, OsStr::new(name), s, signature];
        match ask(&words, text) {
            Ok(_) => return Ok(name.to_owned()),
            Err(why) => refused = format!("its signature is not good ({why})"),
        }
    }
    Err(refused)
}

/// The answer of `ssh-keygen` with these arguments, which reads `input`; or what it said was wrong.
fn ask(arguments: &[&OsStr], input: File) -> std::result::Result<Vec<u8>, String> {
    let run = || {
        let (answer, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new("ssh-keygen");
        command
            .args(arguments)
            .stdin(input)
            .stdout(answer.try_clone()?)
            .stderr(errors.try_clone()?);
        // It asks nobody for a passphrase: nobody may be there.
        command.env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "false").env("LC_ALL", "C");
        let mut helper = Helper::start(&mut command)?;
        let status = match wait(&mut helper, LIMIT, || false) {
            Ok(Waited::Ended(status)) => status,
            ended => {
                helper.kill();
                ended?;
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
        };
        Ok((status.success(), read(answer)?, read(errors)?))
    };
    match run() {
        Ok((true, answer, _)) => Ok(answer),
        Ok((false, _, errors)) => {
            let line = errors.split(|byte| *byte == b'\n').find(|line| !line.is_empty());
            let said = Shown::bytes(line.unwrap_or(b"it failed").trim_ascii()).to_string();
            Err(format!("ssh-keygen: {said}"))
        }
        Err(error) => Err(format!("ssh-keygen: {error}")),
    }
}

fn read(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    Uninterrupted(file).take(MOST_ANSWER).read_to_end(&mut bytes)?;
    Ok(bytes)
}
