"""How the command line programs of PostgreSQL, and others, are called at the server of the checks."""

import subprocess
from urllib.parse import urlsplit

from checks import URL

WHERE = urlsplit(URL)


class Broken(Exception):
    """A program ended with a failure, or took too long."""


def called(program, *arguments, stdin="", url=URL, seconds=120, status=0):
    """What a program says on its standard output."""
    done = subprocess.run(
        [program, *arguments, *([url] if url else [])], input=stdin, capture_output=True, text=True, timeout=seconds
    )
    if done.returncode != status:
        raise Broken(f"{program} {' '.join(arguments)} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return done.stdout


def psql(script, *arguments, **options):
    """What psql says of a script: rows without headers and aligning, unless `arguments` say otherwise."""
    return called("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *arguments, "-f", "-", stdin=script, **options)


def psql_says(script, *arguments):
    """All that psql says, errors and notices included, as it is read by people."""
    done = subprocess.run(
        ["psql", "-X", *arguments, "-f", "-", URL], input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    return done.stdout
