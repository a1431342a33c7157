"""Alembic: migrations up and down, one that fails half way, and what differs between a schema and what is declared."""

import tempfile
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations

from checks import URL, check, fails, run, same

PSYCOPG = URL.replace("postgresql://", "postgresql+psycopg://")

engine = sa.create_engine(PSYCOPG)

FIRST = '''
"""The first one."""
import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade():
    op.create_table("account", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(10), nullable=False),
                    sa.Column("old", sa.Integer, server_default="5"))
    op.create_index("account_name", "account", ["name"], unique=True)
    op.bulk_insert(sa.table("account", sa.column("name")), [{"name": "a"}, {"name": "b"}])


def downgrade():
    op.drop_table("account")
'''

SECOND = '''
"""The second one."""
import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade():
    op.add_column("account", sa.Column("cents", sa.BigInteger, nullable=False, server_default="0"))
    op.alter_column("account", "name", type_=sa.Text, existing_type=sa.String(10))
    op.alter_column("account", "old", new_column_name="count", nullable=False, server_default=None)
    op.create_check_constraint("account_cents", "account", "cents >= 0")
    op.create_table("entry", sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True), sa.Column("account_id", sa.Integer))
    op.create_foreign_key("entry_account", "entry", "account", ["account_id"], ["id"], ondelete="CASCADE", deferrable=True,
                          initially="DEFERRED")
    op.create_unique_constraint("entry_once", "entry", ["id", "account_id"])
    op.execute("UPDATE account SET cents = 100 WHERE name = 'a'")
    op.rename_table("entry", "booking")
    op.create_table_comment("booking", "what was booked")
    with op.batch_alter_table("booking") as batch:
        batch.add_column(sa.Column("note", sa.Text))


def downgrade():
    op.drop_table("booking")
    op.drop_constraint("account_cents", "account")
    op.drop_column("account", "cents")
    op.alter_column("account", "count", new_column_name="old")
'''

ENVIRONMENT = '''
from alembic import context
from sqlalchemy import create_engine

engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
'''

THIRD = '''
"""One that fails when it has done something already."""
from alembic import op

revision = "3"
down_revision = "2"


def upgrade():
    op.execute("CREATE TABLE half (x int)")
    op.execute("ALTER TABLE account DROP COLUMN cents")
    op.execute("SELECT 1/0")


def downgrade():
    pass
'''


@check
def migrations_go_up_and_down():
    with tempfile.TemporaryDirectory() as folder:
        versions = Path(folder) / "versions"
        versions.mkdir()
        (Path(folder) / "env.py").write_text(ENVIRONMENT)
        for number, text in enumerate((FIRST, SECOND, THIRD), 1):
            (versions / f"{number}_.py").write_text(text)
        config = Config(stdout=open("/dev/null", "w"))
        config.set_main_option("script_location", folder)
        config.set_main_option("path_separator", "os")
        config.set_main_option("sqlalchemy.url", PSYCOPG)
        command.upgrade(config, "2")
        with engine.connect() as c:
            same(c.execute(sa.text("SELECT name, cents, count FROM account ORDER BY id")).all(), [("a", 100, 5), ("b", 0, 5)])
            same(c.scalar(sa.text("SELECT version_num FROM alembic_version")), "2")
            same(sa.inspect(c).get_foreign_keys("booking")[0]["options"],
                 {"ondelete": "CASCADE", "deferrable": True, "initially": "DEFERRED"})
        # What a migration did before it failed is undone.
        fails(sa.exc.DataError, command.upgrade, config, "head")
        with engine.connect() as c:
            same(sa.inspect(c).has_table("half"), False)
            same(c.scalar(sa.text("SELECT sum(cents) FROM account")), 100)
        command.downgrade(config, "1")
        same([column["name"] for column in sa.inspect(engine).get_columns("account")], ["id", "name", "old"])
        command.downgrade(config, "base")
        same(sa.inspect(engine).has_table("account"), False)


def declared():
    """Two tables with most of what can be declared."""
    metadata = sa.MetaData()
    sa.Table(
        "author", metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), unique=True, nullable=False, comment="as printed"),
        sa.Column("born", sa.Date, server_default=sa.text("'2000-01-01'")),
        sa.Index("author_born", "born", "name"),
        comment="who writes",
    )
    sa.Table(
        "book", metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(start=100), primary_key=True),
        sa.Column("author_id", sa.ForeignKey("author.id", ondelete="CASCADE"), index=True),
        sa.Column("price", sa.Numeric(8, 2), nullable=False),
        sa.Column("made", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.UniqueConstraint("author_id", "price", name="book_once"),
    )
    return metadata


@check
def what_differs_is_found():
    metadata = declared()
    metadata.create_all(engine)
    with engine.connect() as c:
        context = MigrationContext.configure(c, opts={"compare_type": True, "compare_server_default": True})
        same(compare_metadata(context, metadata), [])
        changed = declared()
        changed.tables["book"].append_column(sa.Column("pages", sa.Integer))
        changed.tables["book"].c.price.type = sa.Numeric(12, 2)
        changed.remove(changed.tables["author"])
        sa.Table("author", changed, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text, unique=True))
        script = produce_migrations(context, changed)
        text = render_python_code(script.upgrade_ops)
        for wanted in ("op.add_column('book', sa.Column('pages'", "type_=sa.Numeric(precision=12, scale=2)", "type_=sa.Text()",
                       "op.drop_column('author', 'born')", "op.drop_index(op.f('author_born')"):
            assert wanted in text, (wanted, text)
        operations = Operations(context)
        for operation in script.upgrade_ops.ops:
            for one in operation.ops:
                operations.invoke(one)
        same(compare_metadata(context, changed), [])
        c.rollback()
        same(compare_metadata(context, metadata), [])


run()
