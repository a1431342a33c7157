"""The clients: what each needs, how that is installed, and how it is called."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
JDBC = Path("/usr/share/java/postgresql.jar")


class Missing(Exception):
    """What a client needs cannot be had here, and why."""


def _run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", **options)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing said").splitlines()
        raise Missing(f"{Path(command[0]).name} {command[1]}: {said[-1]}")


def _needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"there is no {program}")


def _once(tools, name, *sources):
    """A folder for `name`, and the mark in it that says of which `sources` it was made; None where it has been already."""
    folder = tools / name
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    mark = folder / f".made-of-{digest[:16]}"
    if mark.exists():
        return folder, None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder, mark


def _apt(package):
    """Installs a package of the system, where that may be done."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Missing(f"{package} is not installed, and only root could with apt-get")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", package)
    try:
        _run(*install, env=environment)
    except Missing:
        _run("apt-get", "update", "-q", env=environment)
        _run(*install, env=environment)


@dataclass
class Python:
    """A script of python/, in an environment with the packages of requirements.txt."""

    name: str
    title: str
    script: str

    def install(self, tools):
        """Makes the environment, once for all of them."""
        requirements = HERE / "python" / "requirements.txt"
        folder, mark = _once(tools, "python", requirements)
        if mark:
            _run("python3", "-m", "venv", str(folder))
            pip = (folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements)
            _run(*map(str, pip))
            mark.touch()

    def command(self, tools, urls):
        """What is run."""
        return [tools / "python" / "bin" / "python", HERE / "python" / self.script, *urls]

    def environment(self, _tools):
        """What it is told besides."""
        return {"PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Node:
    """A script of node/, with the packages of package-lock.json."""

    name: str
    title: str
    script: str

    def install(self, tools):
        """Installs the packages, once for all of them."""
        _needs("node", "npm")
        listed = [HERE / "node" / "package.json", HERE / "node" / "package-lock.json"]
        folder, mark = _once(tools, "node", *listed)
        if mark:
            for each in listed:
                shutil.copy(each, folder)
            _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
            mark.touch()

    def command(self, _tools, urls):
        """What is run."""
        return ["node", "--no-deprecation", HERE / "node" / self.script, *urls]

    def environment(self, tools):
        """What it is told besides."""
        return {"NODE_PATH": str(tools / "node" / "node_modules")}


@dataclass
class Java:
    """A program of java/, with the driver of the system's package."""

    name: str
    title: str
    source: str

    def install(self, _tools):
        """Installs the driver."""
        _needs("java")
        if not JDBC.exists():
            _apt("libpostgresql-jdbc-java")

    def command(self, _tools, urls):
        """What is run: the source itself, which java compiles in memory."""
        return ["java", "-cp", JDBC, HERE / "java" / self.source, *urls]

    def environment(self, _tools):
        """What it is told besides."""
        return {}


@dataclass
class Tool:
    """A program of the command line, called by a script of python/."""

    name: str
    title: str
    script: str
    program: str
    package: str

    def install(self, _tools):
        """Installs the program."""
        if shutil.which(self.program) is None:
            _apt(self.package)

    def command(self, _tools, urls):
        """What is run."""
        return ["python3", HERE / "python" / self.script, *urls]

    def environment(self, _tools):
        """What it is told besides."""
        return {"PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Rust:
    """A client of the program in rust/, which has a lock file of its own."""

    name: str
    title: str

    def install(self, tools):
        """Builds the program, once for all of them."""
        _needs("cargo")
        manifest = HERE / "rust" / "Cargo.toml"
        _run("cargo", "build", "-q", "--locked", "--manifest-path", str(manifest), "--target-dir", str(tools / "rust"))

    def command(self, tools, urls):
        """What is run."""
        return [tools / "rust" / "debug" / "rust-clients", self.name, *urls]

    def environment(self, _tools):
        """What it is told besides."""
        return {}


CLIENTS = [
    Tool("psql", "psql 15", "with_psql.py", "psql", "postgresql-client"),
    Tool("pg_dump", "pg_dump 15", "with_pg_dump.py", "pg_dump", "postgresql-client"),
    Tool("pgbench", "pgbench 15", "with_pgbench.py", "pgbench", "postgresql"),
    Tool("sysbench", "sysbench 1.0.20", "with_sysbench.py", "sysbench", "sysbench"),
    Python("psycopg", "psycopg 3.3.9: sessions", "with_psycopg.py"),
    Python("psycopg-values", "psycopg 3.3.9: values", "with_psycopg_values.py"),
    Python("psycopg2", "psycopg2 2.9.13", "with_psycopg2.py"),
    Python("asyncpg", "asyncpg 0.32.0", "with_asyncpg.py"),
    Python("sqlalchemy", "SQLAlchemy 2.1.9", "with_sqlalchemy.py"),
    Python("alembic", "Alembic 1.20.1", "with_alembic.py"),
    Python("django", "Django 5.2.19", "with_django.py"),
    Node("node-postgres", "node-postgres 8.23.1", "with_pg.js"),
    Node("postgres.js", "postgres.js 3.4.9", "with_postgres.js"),
    Rust("tokio-postgres", "tokio-postgres 0.7.18"),
    Rust("sqlx", "sqlx 0.8.6"),
    Java("pgjdbc", "pgjdbc 42.5.5", "WithPgjdbc.java"),
]
