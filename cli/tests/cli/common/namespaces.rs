//! Network namespaces of this host, one for each machine, between which connections can be cut.
//!
//! ```text
//!   machine 1: 10.77.0.1 ─┐                  ┌─ 10.78.0.1
//!   machine 2: 10.77.0.2 ─┼─ bridge  clients ┼─ 10.78.0.2     the clients are 10.78.0.100
//!   machine 3: 10.77.0.3 ─┘                  └─ 10.78.0.3
//! ```
//! Only connections between machines can be cut: clients always reach all machines. A thread that
//! has entered the clients' namespace, and the threads and processes that it starts, are clients.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespaces; dropping it removes them.
pub struct Namespaces {
    name: String,
    count: usize,
}

/// The number of namespaces that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Runs `ip`; returns its output if it fails.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("there is no ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(format!("ip {arguments}: {}", why.trim()))
        }
    }
}

impl Namespaces {
    /// Creates namespaces for this number of machines.
    ///
    /// # Errors
    /// The reason why this host does not permit it.
    pub fn make(count: usize) -> Result<Namespaces, String> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("fencepost-{}-{number}", std::process::id());
        // From here on dropping the value removes the namespaces, whatever fails.
        let made = Namespaces { name, count };
        let hub = made.hub();
        ip(&format!("netns add {hub}"))?;
        for (bridge, own) in [("bridge", None), ("clients", Some("10.78.0.100/24"))] {
            ip(&format!("-n {hub} link add {bridge} type bridge"))?;
            ip(&format!("-n {hub} link set {bridge} up"))?;
            if let Some(own) = own {
                ip(&format!("-n {hub} address add {own} dev {bridge}"))?;
            }
        }
        for at in 0..count {
            let own = made.of(at);
            ip(&format!("netns add {own}"))?;
            ip(&format!("-n {own} link set lo up"))?;
            for (bridge, device, address) in [
                ("bridge", "eth0", made.address(at)),
                ("clients", "eth1", made.address_for_clients(at)),
            ] {
                let end = format!("{bridge}{at}");
                ip(&format!(
                    "-n {hub} link add {end} type veth peer name {device} netns {own}"
                ))?;
                ip(&format!("-n {hub} link set {end} master {bridge} up"))?;
                ip(&format!("-n {own} address add {address}/24 dev {device}"))?;
                ip(&format!("-n {own} link set {device} up"))?;
            }
        }
        Ok(made)
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    fn of(&self, machine: usize) -> String {
        format!("{}-{machine}", self.name)
    }

    /// Returns the number of machines.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the address at which a machine listens for the others.
    pub fn address(&self, machine: usize) -> String {
        format!("10.77.0.{}", machine + 1)
    }

    /// Returns the address at which a machine listens for clients.
    pub fn address_for_clients(&self, machine: usize) -> String {
        format!("10.78.0.{}", machine + 1)
    }

    /// Returns the words before a command that runs in a machine's namespace; `ip` executes the
    /// command in its own process.
    pub fn prefix(&self, machine: usize) -> Vec<String> {
        let words = ["ip", "netns", "exec", &self.of(machine)].map(str::to_string);
        words.to_vec()
    }

    /// Moves this thread to the namespace of the clients.
    pub fn enter(&self) {
        let file = File::open(format!("/run/netns/{}", self.hub())).expect("a namespace");
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(file.as_fd(), network).expect("it can be entered");
    }

    /// Drops all packets from some machines to others.
    pub fn cut(&self, from: &[usize], to: &[usize]) {
        self.route("add", from, to);
    }

    /// Undoes [`Self::cut`].
    pub fn heal(&self, from: &[usize], to: &[usize]) {
        self.route("del", from, to);
    }

    fn route(&self, change: &str, from: &[usize], to: &[usize]) {
        for from in from {
            for to in to {
                let (own, other) = (self.of(*from), self.address(*to));
                let done = ip(&format!("-n {own} route {change} blackhole {other}/32"));
                done.expect("a route");
            }
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in (0..self.count).map(|at| self.of(at)).chain([self.hub()]) {
            // The namespace may not exist.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
