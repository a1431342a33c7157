//! The step that installs programs for the tests, where root may run `apt-get`.
//!
//! Nothing here fails the run: tests that miss a program say so and pass.

use std::path::Path;
use std::process::{Command, Stdio};

use super::context::{self, Context};
use super::error::StepResult;
use crate::programs;

/// The library of ZooKeeper's package on Debian.
const ZOOKEEPER: &str = "/usr/share/java/zookeeper.jar";

/// Installs the programs that are missing, and prints those that still are.
pub fn install(context: &mut Context) -> StepResult {
    if !has_clients() {
        install_packages(context, &["postgresql", "postgresql-client"]);
    }
    if has_clients() {
        println!("psql and pgbench are there");
    } else {
        println!("no psql or pgbench: tests that want them will be skipped");
    }
    let has_zookeeper = || Path::new(ZOOKEEPER).is_file();
    if !has_zookeeper() {
        install_packages(context, &["zookeeper", "default-jre-headless"]);
    }
    if !has_zookeeper() {
        println!("no ZooKeeper: tests that want it will be skipped");
    }
    for (program, package) in [
        ("ip", "iproute2"),
        ("pgrep", "procps"),
        ("openssl", "openssl"),
    ] {
        if programs::find(program).is_none() {
            install_packages(context, &[package]);
        }
    }
    Ok(())
}

fn has_clients() -> bool {
    let names = ["psql", "pgbench"];
    names
        .iter()
        .all(|name| programs::postgres_program(name).is_some())
}

/// Installs packages; on failure updates the lists of packages and tries once more.
fn install_packages(context: &Context, packages: &[&str]) {
    if !rustix::process::geteuid().is_root() || programs::find("apt-get").is_none() {
        return;
    }
    let install = ["install", "-y", "-q", "--no-install-recommends"];
    let install = [&install[..], packages].concat();
    let run = |arguments: &[&str]| context::run(&mut silent(context, arguments)).is_ok();
    let _ = run(&install) || (run(&["update", "-q"]) && run(&install));
}

fn silent(context: &Context, arguments: &[&str]) -> Command {
    let mut command = context.command("apt-get", arguments);
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
