//! Runs of small documents on the host and in namespaces.

use std::time::Duration;

use super::*;

/// A shell in a temporary folder; `false` stands for the program.
struct Fixture {
    _folder: tempfile::TempDir,
    shell: Shell,
}

impl Fixture {
    fn new(sandbox: Sandbox) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let clients = Path::new("/usr/bin");
        let shell = Shell::new(folder.path(), Path::new("/bin/false"), clients, sandbox);
        Fixture {
            shell: shell.unwrap().with_limit(Duration::from_secs(20)),
            _folder: folder,
        }
    }

    fn on_host() -> Fixture {
        let reason = "a test".to_owned();
        Fixture::new(Sandbox::Host { reason })
    }

    fn with_limit(mut self, seconds: u64) -> Fixture {
        self.shell = self.shell.with_limit(Duration::from_secs(seconds));
        self
    }

    fn run(&self, texts: &[&str]) -> Vec<(String, CommandEnd)> {
        let command = |text: &&str| ConsoleCommand {
            line: 1,
            text: (*text).to_owned(),
            expected: Vec::new(),
        };
        let commands: Vec<_> = texts.iter().map(command).collect();
        let commands: Vec<_> = commands.iter().collect();
        let run = self.shell.run("a.md", &commands).unwrap();
        let pair = |result: CommandResult| (result.output, result.end);
        run.results.into_iter().map(pair).collect()
    }
}

fn exit(output: &str, exit_code: i32) -> (String, CommandEnd) {
    (output.to_owned(), CommandEnd::Exit(exit_code))
}

/// Waits until a process has ended; fails after ten seconds.
fn await_end(pid: &str) {
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    let is_running = || fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_running() {
        assert!(Instant::now() < deadline, "process {pid} runs");
        std::thread::sleep(POLL);
    }
}

#[test]
fn commands_share_one_shell_and_an_empty_folder() {
    let results = Fixture::on_host().run(&["a=7; ls -A", "echo $a; (exit 3)", "cat <<E\n$a\nE"]);
    assert_eq!(results, [exit("", 0), exit("7\n", 3), exit("7\n", 0)]);
}

#[test]
fn environment_is_clean() {
    let names = "env | cut -d= -f1 | sort | tr '\\n' ' '";
    let results = Fixture::on_host().run(&[names, "fencepost"]);
    assert_eq!(results[0].0, "HOME LC_ALL PATH PWD SHLVL TZ _ ");
    assert_eq!(results[1], exit("", 1));
}

#[test]
fn late_output_belongs_to_the_command_that_started_the_process() {
    let late = "(sleep 0.2; echo late) & job=$!";
    let results = Fixture::on_host().run(&[late, "echo early", "wait $job"]);
    assert_eq!(
        results,
        [exit("late\n", 0), exit("early\n", 0), exit("", 0)]
    );
}

#[test]
fn broken_command_does_not_reach_the_next_one() {
    let results = Fixture::on_host().run(&["echo 'a", "echo b"]);
    assert!(results[0].0.contains("unexpected EOF"), "{results:?}");
    assert_eq!(results[1], exit("b\n", 0));
}

#[test]
fn end_of_the_shell_is_reported() {
    let results = Fixture::on_host().run(&["echo a; exit 0", "echo b"]);
    assert_eq!(results[0], ("a\n".to_owned(), CommandEnd::ShellEnded));
    assert_eq!(results[1], (String::new(), CommandEnd::NotRun));
}

#[test]
fn hanging_command_is_stopped_with_its_processes() {
    let fixture = Fixture::on_host().with_limit(1);
    let results = fixture.run(&["sleep 300 & echo $!", "sleep 301", "echo b"]);
    assert_eq!(results[1].1, CommandEnd::Stopped);
    assert_eq!(results[2].1, CommandEnd::NotRun);
    await_end(results[0].0.trim());
}

#[test]
fn background_process_ends_with_the_document() {
    let results = Fixture::on_host().run(&["sleep 300 & echo $!"]);
    await_end(results[0].0.trim());
}

#[test]
fn namespaces_have_their_own_ports_processes_and_memory() {
    let sandbox = Sandbox::detect();
    if let Sandbox::Host { reason } = sandbox {
        eprintln!("skipped: no namespaces: {reason}");
        return;
    }
    let fixture = Fixture::new(sandbox).with_limit(5);
    let results = fixture.run(&["echo $$", "ls -A /dev/shm", "sleep 300 &", "sleep 301"]);
    assert_eq!(results[..2], [exit("1\n", 0), exit("", 0)]);
    assert_eq!(results[3].1, CommandEnd::Stopped);
}
