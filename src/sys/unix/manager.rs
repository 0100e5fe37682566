//! The service manager that started the program, if one did and wants to hear how it goes
//! (sd_notify(3)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// The one that the environment names.
    pub fn find() -> Option<Self> {
        let address = address_of(&std::env::var_os("NOTIFY_SOCKET")?)?;
        let socket = UnixDatagram::unbound().ok()?;
        // A manager that does not listen must not hold up a copy.
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, address })
    }

    /// Tells it something: lines of `NAME=VALUE`.
    pub fn tell(&self, text: &str) {
        // Nothing depends on its being heard.
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

/// A path, or a name in the abstract namespace of Linux, which is written with an `@` before it.
fn address_of(name: &OsString) -> Option<SocketAddr> {
    match name.as_bytes().split_first()? {
        (b'/', _) => SocketAddr::from_pathname(name).ok(),
        #[cfg(target_os = "linux")]
        (b'@', name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name).ok()
        }
        _ => None,
    }
}
