"""SQLAlchemy: its types and its ORM over psycopg, psycopg2 and asyncpg, and what its inspector reads of a schema."""

import asyncio
import datetime as dt
import decimal
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import create_async_engine

from checks import URL, check, fails, run, same

PSYCOPG = URL.replace("postgresql://", "postgresql+psycopg://")
PSYCOPG2 = URL.replace("postgresql://", "postgresql+psycopg2://")
ASYNCPG = URL.replace("postgresql://", "postgresql+asyncpg://")

engine = sa.create_engine(PSYCOPG)


class Base(orm.DeclarativeBase):
    """What the ORM maps."""


tags = sa.Table(
    "author_tag",
    Base.metadata,
    sa.Column("author_id", sa.ForeignKey("author.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag_id", sa.ForeignKey("tag.id"), primary_key=True),
)


class Author(Base):
    """One side of everything."""

    __tablename__ = "author"
    __table_args__ = (
        sa.CheckConstraint("length(name) > 0", name="author_has_name"),
        sa.Index("author_born", sa.text("born DESC"), "name"),
        {"comment": "who writes"},
    )
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True, comment="as printed")
    born: orm.Mapped[dt.date | None]
    made: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    document: orm.Mapped[dict] = orm.mapped_column(pg.JSONB, default=dict)
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")
    tags: orm.Mapped[list["Tag"]] = orm.relationship(secondary=tags)


class Tag(Base):
    """Many to many."""

    __tablename__ = "tag"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]


class Book(Base):
    """One to many."""

    __tablename__ = "book"
    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(start=100), primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("author.id"), index=True)
    title: orm.Mapped[str]
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(8, 2))
    with_tax: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(8, 2), sa.Computed("price * 1.1", persisted=True))
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


@check
def connecting():
    for url in (PSYCOPG, PSYCOPG2):
        with sa.create_engine(url).connect() as c:
            same(c.dialect.server_version_info[0], 15)
            same(c.dialect.default_schema_name, "public")
            same(c.get_isolation_level() in ("READ COMMITTED", "SERIALIZABLE"), True)


@check
def tables_are_made_and_found():
    Base.metadata.create_all(engine)
    # A second time nothing is done.
    Base.metadata.create_all(engine)
    same(sa.inspect(engine).has_table("author"), True)
    same(sa.inspect(engine).has_table("nobody"), False)


@check
def objects_are_kept_and_found():
    for url in (PSYCOPG, PSYCOPG2):
        with orm.Session(sa.create_engine(url), expire_on_commit=False) as session:
            ada = Author(name=f"Ada {url}"[:40], born=dt.date(1815, 12, 10), document={"a": [1]})
            ada.books = [Book(title=f"book {k}", price=decimal.Decimal("10.00") * k) for k in range(1, 4)]
            ada.tags = [Tag(name="x"), Tag(name="y")]
            session.add(ada)
            session.commit()
            session.expire_all()
            found = session.scalars(
                sa.select(Author).options(orm.selectinload(Author.books), orm.joinedload(Author.tags)).where(Author.id == ada.id)
            ).unique().one()
            same([book.with_tax for book in sorted(found.books, key=lambda b: b.id)],
                 [decimal.Decimal("11.00"), decimal.Decimal("22.00"), decimal.Decimal("33.00")])
            same(sorted(tag.name for tag in found.tags), ["x", "y"])
            found.books.pop()
            found.document = {"a": [1, 2]}
            session.commit()
            count = sa.select(sa.func.count()).select_from(Book).where(Book.author_id == found.id)
            same(session.scalar(count), 2)
            same(session.scalar(sa.select(Author.document["a"][1].as_integer()).where(Author.id == found.id)), 2)
            with session.begin_nested() as nested:
                session.add(Author(name="never"))
                session.flush()
                nested.rollback()
            same(session.scalar(sa.select(Author).where(Author.name == "never")), None)


@check
def many_objects_at_once():
    with orm.Session(engine) as session:
        author = Author(name="many")
        session.add(author)
        session.flush()
        session.add_all([Book(author_id=author.id, title=f"t{k}", price=k) for k in range(1500)])
        session.commit()
        ids = session.scalars(
            sa.insert(Book).returning(Book.id, sort_by_parameter_order=True),
            [{"author_id": author.id, "title": "r", "price": k} for k in range(50)],
        ).all()
        same(ids, sorted(ids))
        done = session.execute(sa.update(Book).where(Book.title == "r").values(price=Book.price + 1))
        same(done.rowcount, 50)
        session.execute(sa.delete(Book).where(Book.author_id == author.id))
        session.commit()


@check
def queries():
    with orm.Session(engine) as session:
        one = Author(name="Q1", books=[Book(title="a", price=1), Book(title="b", price=5)])
        two = Author(name="Q2", books=[Book(title="c", price=3)])
        session.add_all([one, two])
        session.flush()
        rank = sa.func.rank().over(partition_by=Book.author_id, order_by=Book.price.desc())
        best = sa.select(Book.title, Book.author_id, rank.label("r")).subquery()
        rows = session.execute(
            sa.select(Author.name, best.c.title).join(best, best.c.author_id == Author.id)
            .where(best.c.r == 1, Author.name.like("Q%")).order_by(Author.name)
        ).all()
        same(rows, [("Q1", "b"), ("Q2", "c")])
        below = sa.select(sa.literal(1).label("n")).cte("below", recursive=True)
        below = below.union_all(sa.select(below.c.n + 1).where(below.c.n < 5))
        same(session.scalar(sa.select(sa.func.sum(below.c.n))), 15)
        cheap = sa.select(Book.title).where(Book.author_id == Author.id, Book.price < 4).lateral()
        rows = session.execute(sa.select(Author.name, cheap.c.title).join(cheap, sa.true())
                               .where(Author.name.in_(["Q1", "Q2"])).order_by(Author.name)).all()
        same(rows, [("Q1", "a"), ("Q2", "c")])
        upsert = pg.insert(Author).values(name="Q1", document={}).on_conflict_do_update(
            index_elements=["name"], set_={"born": dt.date(2000, 1, 1)}).returning(Author.born)
        same(session.scalar(upsert), dt.date(2000, 1, 1))
        locked = session.scalars(sa.select(Author).where(Author.name == "Q2").with_for_update()).one()
        same(locked.name, "Q2")
        same(session.scalar(sa.select(sa.exists().where(Author.name.ilike("q1")))), True)
        ordered = sa.func.string_agg(Book.title, pg.aggregate_order_by(sa.literal(","), Book.title.desc()))
        same(session.scalar(sa.select(ordered).where(Book.author_id == one.id)), "b,a")
        session.rollback()


@check
def types_of_columns():
    metadata = sa.MetaData()
    values = {
        "a": (sa.BigInteger, 2**40), "b": (sa.Boolean, True), "c": (sa.Double, 0.1), "d": (sa.Interval, dt.timedelta(days=2, seconds=5)),
        "e": (sa.LargeBinary, b"\x00\xff"), "f": (sa.SmallInteger, 3), "g": (sa.Text, "žluť"), "h": (sa.Time, dt.time(1, 2, 3)),
        "i": (sa.Uuid, uuid.UUID(int=5)), "j": (sa.JSON, {"x": None}), "k": (pg.ARRAY(sa.Integer), [1, 2]),
        "l": (sa.Unicode(5), "abc"), "m": (sa.DateTime, dt.datetime(2024, 2, 29, 1, 2, 3)), "n": (sa.Numeric(20, 5), decimal.Decimal("1.50000")),
        "o": (pg.ARRAY(sa.Text, dimensions=2), [["a"], ["b"]]), "p": (sa.CHAR(3), "abc"), "q": (sa.Float(24), 0.5),
    }
    kept = sa.Table("types_of_columns", metadata, *[sa.Column(name, kind) for name, (kind, _) in values.items()])
    for url in (PSYCOPG, PSYCOPG2):
        with sa.create_engine(url).begin() as c:
            metadata.create_all(c)
            c.execute(kept.insert().values({name: value for name, (_, value) in values.items()}))
            same(dict(c.execute(sa.select(kept)).one()._mapping), {name: value for name, (_, value) in values.items()})
            c.execute(kept.delete().where(kept.c.k.contains([1]), kept.c.j["x"].as_string().is_(None)))
            metadata.drop_all(c)


@check
def constraints_that_are_broken():
    with engine.connect() as c:
        error = fails(sa.exc.IntegrityError, c.execute, sa.text("INSERT INTO book (author_id, title, price) VALUES (-1, 'x', 1)"))
        same(error.orig.diag.constraint_name, "book_author_id_fkey")


@check
def the_inspector_reads_what_was_made():
    with engine.connect() as c:
        c.execute(sa.text("CREATE VIEW cheap_book AS SELECT id, title FROM book WHERE price < 10"))
        c.execute(sa.text("CREATE SCHEMA elsewhere"))
        c.execute(sa.text("CREATE TABLE elsewhere.t (id serial PRIMARY KEY, book int REFERENCES public.book ON UPDATE CASCADE)"))
        c.execute(sa.text("CREATE INDEX book_some ON book (title) INCLUDE (price) WHERE price > 5"))
        c.execute(sa.text("CREATE SEQUENCE free_one"))
        inspector = sa.inspect(c)
        same(set(inspector.get_schema_names()) >= {"public", "elsewhere", "information_schema"}, True)
        same({"author", "book", "tag", "author_tag"} <= set(inspector.get_table_names()), True)
        same(inspector.get_view_names(), ["cheap_book"])
        same("free_one" in inspector.get_sequence_names(), True)
        columns = {column["name"]: column for column in inspector.get_columns("book")}
        same(list(columns), ["id", "author_id", "title", "price", "with_tax"])
        same(columns["id"]["identity"]["start"], 100)
        same(columns["with_tax"]["computed"], {"sqltext": "(price * 1.1)", "persisted": True})
        same((columns["price"]["type"].precision, columns["price"]["type"].scale, columns["title"]["nullable"]), (8, 2, False))
        columns = {column["name"]: column for column in inspector.get_columns("author")}
        same(columns["id"]["default"], "nextval('author_id_seq'::regclass)")
        same((columns["name"]["type"].length, columns["name"]["comment"], columns["made"]["default"]), (40, "as printed", "now()"))
        same(columns["made"]["type"].timezone, True)
        same(inspector.get_pk_constraint("author_tag")["constrained_columns"], ["author_id", "tag_id"])
        same({key["name"]: (key["referred_table"], key["options"]) for key in inspector.get_foreign_keys("author_tag")},
             {"author_tag_author_id_fkey": ("author", {"ondelete": "CASCADE"}), "author_tag_tag_id_fkey": ("tag", {})})
        [key] = inspector.get_foreign_keys("t", schema="elsewhere")
        same((key["referred_schema"], key["referred_table"], key["options"]), (None, "book", {"onupdate": "CASCADE"}))
        same([unique["name"] for unique in inspector.get_unique_constraints("author")], ["author_name_key"])
        same([one["name"] for one in inspector.get_check_constraints("author")], ["author_has_name"])
        same(inspector.get_table_comment("author"), {"text": "who writes"})
        indexes = {index["name"]: index for index in inspector.get_indexes("author")}
        same((indexes["author_born"]["column_names"], indexes["author_born"]["column_sorting"]), (["born", "name"], {"born": ("desc",)}))
        indexes = {index["name"]: index for index in inspector.get_indexes("book")}
        same(indexes["book_some"]["dialect_options"]["postgresql_include"], ["price"])
        assert "price > " in str(indexes["book_some"]["dialect_options"]["postgresql_where"])
        same(inspector.get_indexes("t", schema="elsewhere"), [])
        reflected = sa.MetaData()
        reflected.reflect(c)
        reflected.reflect(c, schema="elsewhere")
        same(str(reflected.tables["book"].c.author_id.type), "INTEGER")
        same(reflected.tables["elsewhere.t"].c.book.references(reflected.tables["book"].c.id), True)


@check
def definitions_of_checks():
    same(sa.inspect(engine).get_check_constraints("author")[0]["sqltext"], "length(name::text) > 0")


@check
def definitions_of_views():
    with engine.connect() as c:
        c.execute(sa.text("CREATE VIEW dear AS SELECT b.id, title FROM book AS b WHERE price > 10"))
        same(sa.inspect(c).get_view_definition("dear"),
             " SELECT b.id,\n    b.title\n   FROM book b\n  WHERE (b.price > (10)::numeric);")


@check
def enums_are_made_and_reflected():
    metadata = sa.MetaData()
    table = sa.Table("with_mood", metadata, sa.Column("m", sa.Enum("sad", "happy", name="mood")))
    metadata.create_all(engine)
    with engine.begin() as c:
        c.execute(table.insert().values(m="happy"))
        same(c.scalar(sa.select(table.c.m)), "happy")
    same([(e["name"], e["labels"]) for e in sa.inspect(engine).get_enums()], [("mood", ["sad", "happy"])])
    metadata.drop_all(engine)


@check
def indexes_on_expressions_are_reflected():
    with engine.begin() as c:
        c.execute(sa.text("CREATE INDEX tag_lower ON tag (lower(name))"))
    [index] = sa.inspect(engine).get_indexes("tag")
    same((index["column_names"], index["expressions"]), ([None], ["lower(name::text)"]))
    with engine.begin() as c:
        c.execute(sa.text("DROP INDEX tag_lower"))


@check
def materialized_views_and_temporary_tables():
    with engine.connect() as c:
        c.execute(sa.text("CREATE MATERIALIZED VIEW all_books AS SELECT id, title FROM book"))
        c.execute(sa.text("CREATE TEMPORARY TABLE soon_gone (x int)"))
        inspector = sa.inspect(c)
        same((inspector.get_materialized_view_names(), inspector.get_temp_table_names()), (["all_books"], ["soon_gone"]))
        c.rollback()


@check
def asynchronous_engines():
    async def use():
        asynchronous = create_async_engine(ASYNCPG)
        async with asynchronous.begin() as c:
            same((await c.execute(sa.select(sa.literal(1), sa.literal("x"), sa.literal(dt.date(2024, 1, 1))))).one(), (1, "x", dt.date(2024, 1, 1)))
            same(set(await c.run_sync(lambda s: sa.inspect(s).get_table_names())) >= {"author", "book"}, True)
            rows = await c.stream(sa.text("SELECT generate_series(1, 500) AS x"))
            same(sum([row.x async for row in rows]), 500 * 501 // 2)
        await asynchronous.dispose()

    asyncio.run(use())


@check
def rows_are_streamed_from_the_server():
    with engine.connect().execution_options(stream_results=True, max_row_buffer=100) as c:
        same(sum(row.x for row in c.execute(sa.text("SELECT generate_series(1, 1000) AS x"))), 1000 * 1001 // 2)


@check
def tables_are_dropped():
    Base.metadata.drop_all(engine)
    same(sa.inspect(engine).has_table("author"), False)


run()
