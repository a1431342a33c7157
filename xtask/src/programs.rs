//! Programs and folders outside the repository.

use std::path::{Path, PathBuf};

/// The folder of PostgreSQL's programs on Debian, by version.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Returns the path of a program on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    find_in(std::env::split_paths(&path), name)
}

fn find_in(mut folders: impl Iterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

/// Returns the folder of the newest PostgreSQL that has all named programs.
///
/// The programs of a version come before those on PATH, which on Debian read the configuration of
/// the user to choose a version. For programs on PATH the folder is that of the first one.
pub fn postgres_folder(names: &[&str]) -> Option<PathBuf> {
    newest(Path::new(POSTGRES), names).or_else(|| {
        let found: Option<Vec<_>> = names.iter().map(|name| find(name)).collect();
        Some(found?.first()?.parent()?.to_owned())
    })
}

/// Returns the path of a program of PostgreSQL, of the newest version that has it.
pub fn postgres_program(name: &str) -> Option<PathBuf> {
    Some(postgres_folder(&[name])?.join(name))
}

fn newest(versions: &Path, names: &[&str]) -> Option<PathBuf> {
    let entries = std::fs::read_dir(versions).ok()?;
    let folders = entries.filter_map(|entry| {
        let folder = entry.ok()?.path();
        let version: u32 = folder.file_name()?.to_str()?.parse().ok()?;
        let bin = folder.join("bin");
        let has_all = names.iter().all(|name| bin.join(name).is_file());
        has_all.then_some((version, bin))
    });
    Some(folders.max()?.1)
}

/// Returns the target folder of cargo, as the environment names it.
pub fn target_folder(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, path: &str) {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }

    #[test]
    fn newest_version_with_all_programs_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [
            "9/bin/psql",
            "9/bin/pgbench",
            "15/bin/psql",
            "15/bin/pgbench",
        ];
        for path in paths.iter().chain(&["16/bin/psql", "x/bin/psql"]) {
            write(folder.path(), path);
        }
        let found = newest(folder.path(), &["psql", "pgbench"]);
        assert_eq!(found, Some(folder.path().join("15/bin")));
        assert_eq!(
            newest(folder.path(), &["psql"]),
            Some(folder.path().join("16/bin"))
        );
        assert_eq!(newest(folder.path(), &["initdb"]), None);
        assert_eq!(newest(&folder.path().join("none"), &["psql"]), None);
    }

    #[test]
    fn program_is_found_in_the_first_folder_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "b/ip");
        write(folder.path(), "c/ip");
        let folders = || ["a", "b", "c"].map(|name| folder.path().join(name));
        let found = find_in(folders().into_iter(), "ip");
        assert_eq!(found, Some(folder.path().join("b/ip")));
        assert_eq!(find_in(folders().into_iter(), "psql"), None);
    }
}
